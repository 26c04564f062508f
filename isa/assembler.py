"""Text to programs. Every error names file and line, the token, and what was expected there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, get_args

from tilewright.config import Config, ConfigError, load_config
from tilewright.errors import TilewrightError
from tilewright.isa.codec import EncodingError, Instruction, encode, encode_uops
from tilewright.isa.program import Program, Segment, SegmentKind
from tilewright.isa.spec import FORMAT_OF, FORMATS, UOP_FIELDS, Engine, Field, others, token_bit
from tilewright.isa.syntax import INTEGERS, MNEMONICS, POSITIONAL, UOP_DIRECTIVES, words
from tilewright.kinds import instance
from tilewright.schema import read_json

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s;{}=(),"]+|[{}=(),]|(?P<comment>;.*)|(?P<bad>")')
_DIRECTIVES = (".config", ".segment", ".meta")
_DATA = (".hex", ".zero", *INTEGERS, *UOP_DIRECTIVES)
_FIELDS = {fmt.opcode: {f.name: f for f in fmt.fields} for fmt in FORMATS}
_MOST_DATA = 1 << 31  #: bytes of one segment's data


class AssemblyError(TilewrightError):
    """The text is not a program: ``file:line: token: what was expected``."""


def assemble(text: str, source: str = "program.s", config: Config | None = None) -> Program:
    """The program of an assembly text; ``source`` names it in error messages.

    ``config``: the Config of a text without a ``.config`` directive. Raises :class:`AssemblyError`.
    """
    return assemble_places(text, source, config)[0]


def assemble_places(text: str, source: str = "program.s", config: Config | None = None) -> tuple[Program, list[str]]:
    """:func:`assemble`, and of each instruction its place in the text: ``file:line``."""
    instance(f"{source}: text", text, str, "assembly text", error=AssemblyError)
    instance(f"{source}: config", config, (Config, type(None)), "a Config", error=AssemblyError)
    assembler = _Assembler(text, source, config)
    return assembler.run(), assembler.places


class _Line:
    """The tokens of one line, taken from the left."""

    def __init__(self, source: str, number: int, text: str) -> None:
        self.where = f"{source}:{number}"
        self.tokens: list[str] = []
        for match in _TOKEN.finditer(text):
            if match["bad"]:
                self.fail('"', "a closing quotation mark on the same line")
            if not match["comment"]:
                self.tokens.append(match[0])
        self._next = 0

    def fail(self, token: str | None, expected: str) -> NoReturn:
        found = "end of line" if token is None else repr(token)
        raise AssemblyError(f"{self.where}: {found}: expected {expected}")

    def peek(self) -> str | None:
        return self.tokens[self._next] if self._next < len(self.tokens) else None

    def take(self, expected: str) -> str:
        token = self.peek()
        if token is None:
            self.fail(None, expected)
        self._next += 1
        return token

    def symbol(self, symbol: str) -> None:
        token = self.peek()
        if token != symbol:
            self.fail(token, repr(symbol))
        self._next += 1

    def accept(self, symbol: str) -> bool:
        found = self.peek() == symbol
        self._next += found
        return found

    def end(self) -> None:
        if self.peek() is not None:
            self.fail(self.peek(), "end of line")

    def name(self, expected: str) -> str:
        token = self.take(expected)
        if token in "{}=(),":
            self.fail(token, expected)
        if not token.startswith('"'):
            return token
        try:
            return str(json.loads(token))
        except ValueError:
            self.fail(token, f"{expected}, quoted as in JSON")

    def choice(self, known: dict[str, int], what: str) -> int:
        token = self.take(f"{what}: one of {', '.join(known)}")
        if token not in known:
            self.fail(token, f"{what}: one of {', '.join(known)}")
        return known[token]

    def integer(self, low: int, high: int, what: str) -> int:
        expected = f"{what}: an integer from {low} to {high}"
        token = self.take(expected)
        try:
            value = int(token, 0)
        except ValueError:
            self.fail(token, expected)
        if not low <= value <= high:
            self.fail(token, expected)
        return value


@dataclass
class _OpenSegment:
    """A segment whose block is being read."""

    line: _Line
    name: str
    kind: SegmentKind
    size: int
    repeat_stride: int
    data: bytearray = field(default_factory=bytearray)

    def close(self) -> Segment:
        return Segment(self.name, self.kind, self.size, bytes(self.data), self.repeat_stride)


class _Assembler:
    """Reads line by line; ``.config`` comes first, a segment before the instructions that name it."""

    def __init__(self, text: str, source: str, config: Config | None) -> None:
        self._lines = list(enumerate(text.splitlines(), 1))
        self._source = source
        self._config = config
        self._segments: list[Segment] = []
        self._open: _OpenSegment | None = None
        self._meta: dict[str, Any] = {}
        self._instructions: list[Instruction] = []
        self.places: list[str] = []  #: of the instructions

    def run(self) -> Program:
        lines = iter(self._lines)
        for number, text in lines:
            if text.lstrip().startswith(".meta"):
                self._read_meta(number, text)
                continue
            line = _Line(self._source, number, text)
            if line.peek() is None:
                continue
            if self._open is not None:
                self._read_data(line, self._open)
            elif line.peek() == ".config":
                self._read_config(line, lines)
            elif line.peek() == ".segment":
                self._read_segment(line)
            else:
                self._read_instruction(line)
        if self._open is not None:
            raise AssemblyError(
                f"{self._source}: end of file: expected '}}' for the block opened at {self._open.line.where}"
            )
        config = self._needed_config(_Line(self._source, len(self._lines), ""))
        return Program(config, encode(self._instructions, config), tuple(self._segments), self._meta)

    def _needed_config(self, line: _Line) -> Config:
        if self._config is None:
            line.fail(line.peek(), "a .config directive first")
        return self._config

    # -- directives ------------------------------------------------------------------------------------

    def _read_config(self, line: _Line, lines: Iterator[tuple[int, str]]) -> None:
        token = line.take(".config")
        if self._config is not None:
            line.fail(token, "only one .config")
        try:
            if not line.accept("{"):
                self._config = load_config(line.name("a preset, a .toml file or '{'"))
                line.end()
                return
            line.end()
            block: list[str] = []
            for _, text in lines:
                if text.split(";")[0].strip() == "}":
                    self._config = Config.from_toml("\n".join(block), f"{line.where}: .config")
                    return
                block.append(text)
        except ConfigError as error:
            raise AssemblyError(
                str(error) if str(error).startswith(line.where) else f"{line.where}: {error}"
            ) from error
        raise AssemblyError(f"{self._source}: end of file: expected '}}' for the block opened at {line.where}")

    def _read_meta(self, number: int, text: str) -> None:
        where = f"{self._source}:{number}"
        if self._open is not None:
            raise AssemblyError(
                f"{where}: '.meta': expected data or '}}' for the block opened at {self._open.line.where}"
            )
        match = re.fullmatch(r'\s*\.meta\s+("(?:[^"\\]|\\.)*"|[^\s"]+)\s+(.*)', text)
        if not match:
            raise AssemblyError(f"{where}: '.meta': expected a key and a JSON value")
        try:
            key = str(json.loads(match[1])) if match[1].startswith('"') else match[1]
            value = read_json(match[2])
        except (ValueError, RecursionError) as error:
            raise AssemblyError(f"{where}: '.meta': expected a key and a JSON value: {error}") from error
        if key in self._meta:
            raise AssemblyError(f"{where}: {key!r}: expected a key that is not there yet")
        self._meta[key] = value

    def _read_segment(self, line: _Line) -> None:
        token = line.take(".segment")
        config = self._needed_config(line)
        if self._instructions:
            line.fail(token, "instructions only, since they have begun; put segments first")
        if len(self._segments) == config.segments:
            line.fail(token, f"at most {config.segments} segments on {config.name}")
        name = line.name("the segment's name")
        kinds = get_args(SegmentKind)
        kind: SegmentKind = kinds[line.choice({k: n for n, k in enumerate(kinds)}, "the segment's kind")]
        values = {"size": 0, "repeat_stride": 0}
        while line.peek() not in (None, "{"):
            key = line.take("size= or repeat_stride=")
            if key not in values:
                line.fail(key, "size= or repeat_stride=")
            line.symbol("=")
            values[key] = line.integer(0, (1 << 48) - 1, key)
        if line.accept("{"):
            self._open = _OpenSegment(line, name, kind, values["size"], values["repeat_stride"])
            if line.accept("}"):
                self._close(self._open)
        else:
            self._segments.append(Segment(name, kind, values["size"], None, values["repeat_stride"]))
        line.end()

    def _close(self, segment: _OpenSegment) -> None:
        self._segments.append(segment.close())
        self._open = None

    def _read_data(self, line: _Line, segment: _OpenSegment) -> None:
        if line.accept("}"):
            line.end()
            self._close(segment)
            return
        expected = f"{', '.join(_DATA)} or '}}'"
        directive = line.take(expected)
        config = self._needed_config(line)
        if directive == ".hex":
            while (token := line.peek()) is not None:
                try:
                    segment.data += bytes.fromhex(line.take("hex"))
                except ValueError:
                    line.fail(token, "pairs of hex digits")
        elif directive == ".zero":
            segment.data += bytes(line.integer(0, _MOST_DATA, "how many zero bytes"))
            line.end()
        elif directive in INTEGERS:
            size, signed = INTEGERS[directive]
            while line.peek() is not None:
                value = line.integer(-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1, directive)
                segment.data += value.to_bytes(size, "little", signed=signed)
        elif directive in UOP_DIRECTIVES:
            engine = UOP_DIRECTIVES[directive]
            known = {f.name: f for f in UOP_FIELDS[engine]}
            values: dict[str, int] = {}
            while line.peek() is not None:
                _read_field(line, known, values, config, [])
            segment.data += encode_uops([values], engine, config)
        else:
            line.fail(directive, expected)

    # -- instructions ----------------------------------------------------------------------------------

    def _read_instruction(self, line: _Line) -> None:
        mnemonic = line.take("an instruction")
        if mnemonic not in MNEMONICS:
            line.fail(mnemonic, f"an instruction ({', '.join(MNEMONICS)}) or a directive ({', '.join(_DIRECTIVES)})")
        config = self._needed_config(line)
        opcode = MNEMONICS[mnemonic]
        known = _FIELDS[opcode]
        values: dict[str, int] = {}
        positional = POSITIONAL.get(opcode)
        if positional is not None:
            enum = known[positional].enum
            assert enum is not None
            values[positional] = line.choice(words(enum), positional)
        fixed = FORMAT_OF[opcode].engine
        engine = Engine(values["engine"]) if fixed is None else fixed
        names = [s.name for s in self._segments]
        while (token := line.peek()) is not None:
            if token in ("pop", "push"):
                self._read_tokens(line, engine, values)
            elif token == "trace":
                line.take("trace")
                values["trace"] = 1
            else:
                _read_field(line, known, values, config, names)
        instruction = Instruction(opcode, values)
        try:
            encode([instruction], config)
        except EncodingError as error:
            raise AssemblyError(f"{line.where}: {error}") from error
        self._instructions.append(instruction)
        self.places.append(line.where)

    def _read_tokens(self, line: _Line, engine: Engine, values: dict[str, int]) -> None:
        side = line.take("pop or push")
        if side in values:
            line.fail(side, f"one {side}() per instruction")
        known = {other.name.lower(): token_bit(engine, other) for other in others(engine)}
        line.symbol("(")
        values[side] = line.choice(known, f"another engine than {engine.name.lower()}")
        while line.accept(","):
            values[side] |= line.choice(known, f"another engine than {engine.name.lower()}")
        line.symbol(")")


def _read_field(
    line: _Line, known: dict[str, Field], values: dict[str, int], config: Config, segments: list[str]
) -> None:
    """One ``name=value``."""
    expected = f"one of {', '.join(f'{name}=' for name in known)}" + (", pop(), push(), trace" if segments else "")
    name = line.take(expected)
    if name not in known:
        line.fail(name, expected)
    if name in values:
        line.fail(name, "each field once")
    line.symbol("=")
    spec = known[name]
    if spec.enum is not None:
        values[name] = line.choice(words(spec.enum), name)
        return
    token = line.peek()
    if name == "segment" and token is not None and not token.isdigit():
        chosen = line.name("a segment")
        if segments.count(chosen) != 1:
            line.fail(chosen, f"a segment defined above: {', '.join(segments) or 'there is none'}")
        values[name] = segments.index(chosen)
        return
    values[name] = line.integer(*spec.bounds(config), name)
