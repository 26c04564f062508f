"""Config: every parameter of one accelerator, frozen and validated.

The single source of the hardware's shape: the ISA's field widths, the simulator, the RTL, the compiler and
the explorer all read it from here. A field says what its parameter means and may be; checks and ``docs/config.md``
follow from that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.files import FileError, read_text
from tilewright.kinds import instance, path_of, shown
from tilewright.parameters import Parameter, declared
from tilewright.schema import read_toml

KIB = 1024
LONGEST_INSTRUCTION = 40  #: bytes of an instruction on the Config with the widest fields
AXI_BURST_BEATS = {3: 16, 4: 256}  #: longest incrementing burst by version of AXI (IHI 0022: AxLEN of 4 and 8 bits)
#: entries of each data buffer of a memory port of Zynq-7000 (UG585) and UltraScale+ (UG1085)
PORT_BUFFER_BEATS = 128
DEFAULT_CONFIG = "pynq-z2"
CUSTOM = "custom"  #: the name of a Config that was given none


class ConfigError(TilewrightError):
    """A parameter is missing, unknown, or outside its allowed range; the message names all three."""


@dataclass(frozen=True)
class Config:
    """Parameters of one accelerator. Raises :class:`ConfigError` on construction if any is out of range."""

    name: str = declared(CUSTOM, "what people call it", cosmetic=True)
    board: str = declared("pynq-z2", "board whose resource limits apply; empty for none", cosmetic=True)
    batch: int = declared(1, "images that a GEMM takes at once (BATCH)", "images", 1, 16)
    block_in: int = declared(16, "input channels of an act vector (BLOCK_IN)", "channels", 4, 64)
    block_out: int = declared(16, "output channels of an acc vector (BLOCK_OUT)", "channels", 4, 64)
    weight_bits: int = declared(8, "width of a weight", "bits", 2, 8)
    act_bytes: int = declared(64 * KIB, "size of the activation memory `act`", "bytes", KIB, 4096 * KIB)
    act_banks: int = declared(4, "banks of `act`, each with one reader and one writer", "banks", 2, 32)
    wgt_bytes: int = declared(256 * KIB, "size of the weight memory `wgt`", "bytes", KIB, 8192 * KIB)
    acc_bytes: int = declared(128 * KIB, "size of the accumulator memory `acc`", "bytes", KIB, 4096 * KIB)
    acc_banks: int = declared(4, "banks of `acc`, each with one reader and one writer", "banks", 2, 16)
    prm_entries: int = declared(64, "size of `prm`: constants of BLOCK_OUT channels each", "entries", 4, 1024)
    uop_gemm_bytes: int = declared(16 * KIB, "size of GEMM's micro-op memory", "bytes", 512, 256 * KIB)
    uop_alu_bytes: int = declared(16 * KIB, "size of ALU's micro-op memory", "bytes", 512, 256 * KIB)
    axi_bits: int = declared(64, "width of a memory port", "bits", 32, 512)
    axi_ports: int = declared(
        1, "memory ports of a core; two move as much in a cycle as one of twice `axi_bits` would", "ports", 1, 2,
        power_of_two=False,
    )  # fmt: skip
    # It changes the ports and bounds burst_beats, which is a parameter of its own.
    axi_version: int = declared(
        3, "version of AXI at the memory port: 3 for the HP ports of Zynq-7000, 4 for those of Zynq UltraScale+",
        low=min(AXI_BURST_BEATS), high=max(AXI_BURST_BEATS), power_of_two=False, cosmetic=True,
    )  # fmt: skip
    burst_beats: int = declared(16, "longest burst; at most 16 with axi_version = 3", "beats", 1, 256)
    outstanding: int = declared(8, "most bursts in flight, per direction", "bursts", 1, 64)
    dram_latency: int = declared(
        32, "time from an accepted address to its first beat, in simulation", "cycles", 1, 1024, power_of_two=False
    )
    # A program is one core's, and the limit is never one core's alone: neither changes programs or a core's own timing.
    cores: int = declared(
        1, "accelerators in one design, each with its own control and memory port", "cores", 1, 8, power_of_two=False,
        cosmetic=True,
    )  # fmt: skip
    dram_bandwidth: int = declared(
        0, "most that the DRAM moves over the ports of all cores, read and written, in simulation; 0: no limit",
        "bytes/cycle", 0, 4096, power_of_two=False, cosmetic=True,
    )  # fmt: skip
    # A clock that synthesis finds must not change the hardware it was found for: neither cycles nor Verilog hold it.
    clock_mhz: int = declared(
        100, "clock of the accelerator and its memory port", "MHz", 1, 1000, power_of_two=False, cosmetic=True
    )
    queue_depth: int = declared(32, "length of an engine's command queue", "instructions", 2, 256)
    token_depth: int = declared(
        63, "most that a token queue may hold in program order; 2^n - 1 fills its counter", "tokens", 1, 1023,
        power_of_two=False,
    )  # fmt: skip
    fetch_beats: int = declared(64, "length of the FIFO of fetched instructions", "beats", 2, 512)
    segments: int = declared(8, "DRAM segments that a program may name", "segments", 4, 16)
    dsp_packing: bool = declared(True, "two int8 multiplies per DSP48E1; window emits then take two cycles")
    float32_scaling: bool = declared(True, "the rounding mode FLOAT32, which gives ONNX Runtime's integers")

    def __post_init__(self) -> None:
        for name, parameter in PARAMETERS.items():
            value = getattr(self, name)
            if type(value) is not bool and isinstance(value, Integral):  # NumPy's own among them
                object.__setattr__(self, name, value := int(value))
            if not parameter.allows(value):
                raise ConfigError(f"{name} = {shown(value)}: must be {parameter.allowed}")
        self._check_relations()

    # -- derived shapes --------------------------------------------------------------------------------

    @cached_property
    def lanes(self) -> int:
        """Channels of one *unit*, the addressing granule of act and acc: min(BLOCK_IN, BLOCK_OUT)."""
        return min(self.block_in, self.block_out)

    @cached_property
    def widest_block(self) -> int:
        """Channels that are whole vectors of both BLOCK_IN and BLOCK_OUT: max(BLOCK_IN, BLOCK_OUT)."""
        return max(self.block_in, self.block_out)

    @cached_property
    def act_unit_bytes(self) -> int:
        """Bytes of one act unit: BATCH x lanes int8."""
        return self.batch * self.lanes

    @cached_property
    def acc_unit_bytes(self) -> int:
        """Bytes of one acc unit: BATCH x lanes int32."""
        return 4 * self.batch * self.lanes

    @cached_property
    def in_units(self) -> int:
        """Units one dense GEMM operand spans (BLOCK_IN / lanes)."""
        return self.block_in // self.lanes

    @cached_property
    def out_units(self) -> int:
        """Units one ALU vector or dense GEMM result spans (BLOCK_OUT / lanes)."""
        return self.block_out // self.lanes

    @cached_property
    def act_row_units(self) -> int:
        """Units that one read of act brings: a vector, and with packed multipliers the two that a push may take."""
        return max(self.in_units, self.out_units, 2 if self.dsp_packing else 1)

    @cached_property
    def act_units(self) -> int:
        """Depth of act in units."""
        return self.act_bytes // self.act_unit_bytes

    @cached_property
    def acc_units(self) -> int:
        """Depth of acc in units."""
        return self.acc_bytes // self.acc_unit_bytes

    @cached_property
    def act_bank_units(self) -> int:
        """Units per act bank; the bank is ``address // act_bank_units``."""
        return self.act_units // self.act_banks

    @cached_property
    def acc_bank_units(self) -> int:
        """Units per acc bank; the bank is ``address // acc_bank_units``."""
        return self.acc_units // self.acc_banks

    @cached_property
    def wgt_entry_bytes(self) -> int:
        """Bytes of one weight block: BLOCK_OUT x BLOCK_IN weights."""
        return self.block_out * self.block_in * self.weight_bits // 8

    @cached_property
    def wgt_entries(self) -> int:
        """Depth of wgt in blocks."""
        return self.wgt_bytes // self.wgt_entry_bytes

    @cached_property
    def prm_entry_bytes(self) -> int:
        """Bytes of one prm entry: BLOCK_OUT channels of 16 bytes (bias, multiplier, offset, shift as int32)."""
        return 16 * self.block_out

    @cached_property
    def bus_bits(self) -> int:
        """Width of a core's bus to DRAM: that of its memory ports together."""
        return self.axi_bits * self.axi_ports

    @cached_property
    def beat_bytes(self) -> int:
        """Bytes of one beat of that bus: of one AXI beat on each of its ports."""
        return self.bus_bits // 8

    @property
    def memory_ports(self) -> int:
        """Memory ports of the whole design, each of ``axi_bits``."""
        return self.cores * self.axi_ports

    @property
    def array_macs(self) -> int:
        """Multiply-accumulates that the array does in a cycle."""
        return self.batch * self.block_in * self.block_out

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits over every parameter that changes programs or timing (all but :data:`COSMETIC`)."""
        shape = {k: v for k, v in dataclasses.asdict(self).items() if k not in COSMETIC}
        if self.axi_ports == 1:
            del shape["axi_ports"]  # as before there were others: what was built and compiled then stays valid
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def hardware(self) -> str:
        """What tells one design's Verilog from another's; programs depend on the fingerprint alone."""
        return f"{self.fingerprint}-axi{self.axi_version}-cores{self.cores}"

    def check_one_core(self, who: str) -> None:
        """Raise :class:`ConfigError` unless the design has one core; ``who`` knows no others."""
        if self.cores > 1:
            raise ConfigError(f"cores = {self.cores}: {who} has one core; set cores = 1")

    # -- conversions -----------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Config:
        """A copy with some parameters changed; validated like any other.

        A preset's name stays with the preset: without a ``name`` among the changes, the copy is called ``custom``.
        """
        unknown = changes.keys() - PARAMETERS.keys()
        if unknown:
            raise ConfigError(_unknown(sorted(unknown)[0]))
        changed = dataclasses.replace(self, **changes)
        return changed if "name" in changes else changed._named(CUSTOM)

    def _named(self, otherwise: str) -> Config:
        """With another name if this one is that of a preset which differs."""
        return self if PRESETS.get(self.name, self) == self else dataclasses.replace(self, name=otherwise)

    def differences(self, other: Config) -> list[str]:
        """One line per parameter of the fingerprint in which two configs differ, e.g. ``block_in: 16 != 8``."""
        instance("config", other, Config, "a Config", error=ConfigError)
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        return [f"{k}: {mine[k]} != {theirs[k]}" for k in mine if k not in COSMETIC and mine[k] != theirs[k]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as TOML and the program container hold them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The Config of a mapping; a missing parameter keeps its default, an unknown one is an error."""
        instance("parameters", values, Mapping, "a mapping of names to values", error=ConfigError)
        for key in values:
            if key not in PARAMETERS:
                raise ConfigError(_unknown(key))
        return cls(**values)

    def to_toml(self) -> str:
        """TOML text; :meth:`from_toml` gives an equal Config back."""
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in self.to_dict().items())

    @classmethod
    def from_toml(cls, text: str, source: str = "config") -> Config:
        """Parse TOML text: parameters that differ from those of the preset ``base`` (the default preset's).

        ``source`` names the file in error messages. A Config without a name, or with that of a preset from which it
        differs, is called ``custom``.
        """
        instance(f"{source}: text", text, str, "TOML text", error=ConfigError)
        try:
            values = read_toml(text)
        except ModuleNotFoundError as error:
            raise ConfigError(f"{source}: TOML on Python 3.10 needs tomli: pip install tomli") from error
        except ValueError as error:
            raise ConfigError(f"{source}: not valid TOML: {error}") from error
        try:
            base = preset(values.pop("base", DEFAULT_CONFIG))
            return base.replace(**{"name": base.name, **values})._named(CUSTOM)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from error

    def _check_relations(self) -> None:
        beat, two = self.beat_bytes, f" with axi_ports = {self.axi_ports}" if self.axi_ports > 1 else ""
        rules: list[tuple[bool, str]] = [
            (
                self.act_unit_bytes >= beat,
                f"axi_bits = {self.axi_bits}{two}: must be at most {8 * self.act_unit_bytes // self.axi_ports}, the "
                f"bits of an act unit (8 x batch x min(block_in, block_out)){two and ' by port'}; lower axi_bits"
                f"{two and ', set axi_ports = 1'} or raise batch or the blocks",
            ),
            (
                self.axi_ports == 1 or self.bus_bits <= PARAMETERS["axi_bits"].high,
                f"axi_bits = {self.axi_bits}{two}: a beat of both has {self.bus_bits} bits, at most "
                f"{PARAMETERS['axi_bits'].high} are allowed; lower axi_bits",
            ),
            (
                self.axi_ports == 1 or self.outstanding * self.burst_beats <= PORT_BUFFER_BEATS,
                f"outstanding = {self.outstanding}{two}: outstanding x burst_beats may be at most {PORT_BUFFER_BEATS}, "
                f"the beats that a port of the PS buffers while it waits for the other; lower one of them",
            ),
            (
                self.wgt_entry_bytes >= beat,
                f"weight_bits = {self.weight_bits}: a weight block has {self.wgt_entry_bytes} bytes, at least one "
                f"AXI beat ({beat}) is needed; raise the blocks or lower axi_bits",
            ),
            (
                self.burst_beats * beat <= 4096,
                f"burst_beats = {self.burst_beats}: a burst may not exceed 4096 bytes, at most {4096 // beat} here",
            ),
            (
                self.burst_beats <= AXI_BURST_BEATS[self.axi_version],
                f"burst_beats = {self.burst_beats}: AXI{self.axi_version} bursts have at most "
                f"{AXI_BURST_BEATS[self.axi_version]} beats; lower it, or set axi_version = 4",
            ),
            (
                self.fetch_beats >= 2 * self.burst_beats,
                f"fetch_beats = {self.fetch_beats}: must be at least 2 x burst_beats = {2 * self.burst_beats}",
            ),
            (
                self.fetch_beats * beat >= self.burst_beats * beat + LONGEST_INSTRUCTION,
                f"fetch_beats = {self.fetch_beats}: an instruction and a burst must fit together, at least "
                f"{self.burst_beats + -(-LONGEST_INSTRUCTION // beat)} beats here",
            ),
            (
                self.dram_bandwidth == 0 or self.dram_bandwidth >= 2 * beat,
                f"dram_bandwidth = {self.dram_bandwidth}: must be at least {2 * beat}, what one core's port reads and "
                f"writes in a cycle (2 x axi_bits x axi_ports / 8), or 0 for no limit",
            ),
            (
                self.act_bank_units >= self.act_row_units,
                f"act_banks = {self.act_banks}: a bank must hold what a read brings; at most "
                f"{self.act_units // self.act_row_units} here",
            ),
            (
                self.acc_bank_units >= self.out_units,
                f"acc_banks = {self.acc_banks}: a bank must hold a whole vector; at most "
                f"{self.acc_units // self.out_units} here",
            ),
            (
                self.wgt_entries >= 2,
                f"wgt_bytes = {self.wgt_bytes}: must hold at least two weight blocks ({2 * self.wgt_entry_bytes})",
            ),
        ]
        for holds, message in rules:
            if not holds:
                raise ConfigError(message)


PARAMETERS: dict[str, Parameter] = {f.name: f.metadata["parameter"] for f in dataclasses.fields(Config)}
COSMETIC = tuple(name for name, parameter in PARAMETERS.items() if parameter.cosmetic)


def _unknown(name: str) -> str:
    return f"{name}: no such parameter; {_meant(name, PARAMETERS, 'parameters')}"


def _meant(name: str, names: Collection[str], what: str) -> str:
    """Which of the ``names`` may have been meant, and what there is."""
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    return f"{f'did you mean {near[0]}? The' if near else 'the'} {what} are {', '.join(names)}"


def _presets() -> dict[str, Config]:
    base = Config()
    zynq = base.replace(name="pynq-z2", axi_ports=2, clock_mhz=97)  # two of the four HP ports, for 21 LUTs
    mpsoc = base.replace(
        axi_bits=128, axi_version=4, dsp_packing=False, act_bytes=128 * KIB, act_banks=8, dram_latency=64, clock_mhz=96
    )
    return {
        "pynq-z2": zynq,
        "pynq-z1": zynq.replace(name="pynq-z1", board="pynq-z1"),
        "ultra96": mpsoc.replace(name="ultra96", board="ultra96"),
        "zcu104": mpsoc.replace(
            name="zcu104", board="zcu104", block_in=32, block_out=32,
            act_bytes=256 * KIB, wgt_bytes=512 * KIB, acc_bytes=256 * KIB,
        ),
        "kv260": mpsoc.replace(
            name="kv260", board="kv260", block_in=16, block_out=32,
            # two banks: four of 1,024 bits each would take 30 of the part's 144 block RAMs more, for 0 to 4 % fewer
            act_bytes=128 * KIB, wgt_bytes=256 * KIB, acc_bytes=128 * KIB, acc_banks=2,
            # no network measured needs the 16 KiB of others, which would take three block RAMs more than there are
            uop_gemm_bytes=8 * KIB, uop_alu_bytes=8 * KIB,
        ),
        "tiny": base.replace(
            name="tiny", board="", block_in=4, block_out=4, axi_bits=32, axi_version=4, act_bytes=8 * KIB, act_banks=4,
            wgt_bytes=16 * KIB, acc_bytes=16 * KIB, uop_gemm_bytes=4 * KIB, uop_alu_bytes=4 * KIB,
            prm_entries=32, queue_depth=8, dsp_packing=False, clock_mhz=98,
        ),
        "vta-64": base.replace(
            name="vta-64", board="pynq-z1", block_in=8, block_out=8, act_bytes=32 * KIB, act_banks=8,
            wgt_bytes=64 * KIB, acc_bytes=64 * KIB, dsp_packing=False,
        ),
        # 322 DSP slices: more than any XC7Z020 has, so it names no board
        "vta-256": base.replace(name="vta-256", board="", dsp_packing=False, act_banks=8, clock_mhz=97),
    }  # fmt: skip


PRESETS: dict[str, Config] = {}
PRESETS |= _presets()


def preset(name: str) -> Config:
    """The preset of a name. Raises :class:`ConfigError`, with the names that there are, for any other."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"{shown(name)}: no such preset; {_meant(str(name), PRESETS, 'presets')}")
    return PRESETS[name]


def load_config(name_or_path: str | Path | Config) -> Config:
    """A preset by name, or a TOML file by path (anything with a ``.toml`` suffix or a directory part), whose name is
    the Config's if it has none of its own.

    Raises :class:`ConfigError` naming the presets if it is neither.
    """
    if isinstance(name_or_path, Config):
        return name_or_path
    wanted = "a Config, a preset's name or the path of a .toml file"
    text = str(path_of("config", name_or_path, error=ConfigError, wanted=wanted))
    if text in PRESETS:
        return PRESETS[text]
    path = Path(text)
    if path.suffix == ".toml" or path.parent != Path("."):
        try:
            config = Config.from_toml(read_text(path), source=text)
            return config.replace(name=path.stem) if config.name == CUSTOM and path.stem not in PRESETS else config
        except FileError as error:
            raise ConfigError(str(error)) from error
    raise ConfigError(f"{text}: no such preset or .toml file; {_meant(text, PRESETS, 'presets')}")
