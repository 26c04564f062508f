"""Config: every parameter of one accelerator, frozen and validated.

The single source of the hardware's shape: the ISA's field widths, the simulator, the RTL, the compiler and
the explorer all read it from here. All sizes are powers of two unless said otherwise.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError

KIB = 1024
LONGEST_INSTRUCTION = 40  #: bytes of an instruction on the Config with the widest fields
AXI_BURST_BEATS = {3: 16, 4: 256}  #: longest incrementing burst by version of AXI (IHI 0022: AxLEN of 4 and 8 bits)

#: Parameters that programs and their cycles do not depend on. The version of AXI is one: it changes the ports and
#: bounds ``burst_beats``, which is a parameter of its own. So what is compiled for one runs on the other.
COSMETIC = ("name", "board", "axi_version")


class ConfigError(TilewrightError):
    """A parameter is missing, unknown, or outside its allowed range; the message names all three."""


@dataclass(frozen=True)
class Config:
    """Parameters of one accelerator. Raises :class:`ConfigError` on construction if any is out of range.

    Memory sizes are in bytes of payload. ``dram_latency`` is in cycles and only matters to simulation.
    """

    name: str = "pynq-z2"
    board: str = "pynq-z2"  #: board whose resource limits apply; empty for none
    batch: int = 1  #: images per GEMM (BATCH)
    block_in: int = 16  #: input channels per act vector (BLOCK_IN)
    block_out: int = 16  #: output channels per acc vector (BLOCK_OUT)
    weight_bits: int = 8
    act_bytes: int = 64 * KIB
    act_banks: int = 8
    wgt_bytes: int = 256 * KIB
    acc_bytes: int = 128 * KIB
    acc_banks: int = 4
    prm_entries: int = 64
    uop_gemm_bytes: int = 16 * KIB
    uop_alu_bytes: int = 16 * KIB
    axi_bits: int = 64
    axi_version: int = 3  #: of the memory port: 3 for the HP ports of Zynq-7000, 4 for those of Zynq UltraScale+
    burst_beats: int = 16  #: longest AXI burst; at most 16 with axi_version = 3
    outstanding: int = 8  #: bursts in flight, per direction
    dram_latency: int = 32  #: cycles from an accepted address to its first beat, in simulation
    clock_mhz: int = 100  #: any positive integer
    queue_depth: int = 32  #: instructions each engine's command queue holds
    token_depth: int = 63  #: most tokens a queue may hold in program order (2^n - 1)
    fetch_beats: int = 64  #: beats the instruction fetch FIFO holds
    segments: int = 8  #: DRAM segments a program may name
    dsp_packing: bool = True  #: two int8 multiplies per DSP48E1; window emits then take two cycles

    def __post_init__(self) -> None:
        for check in dataclasses.fields(self):
            _check_parameter(check.name, getattr(self, check.name))
        self._check_relations()

    # -- derived shapes --------------------------------------------------------------------------------

    @cached_property
    def lanes(self) -> int:
        """Channels of one *unit*, the addressing granule of act and acc: min(BLOCK_IN, BLOCK_OUT)."""
        return min(self.block_in, self.block_out)

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
    def beat_bytes(self) -> int:
        """Bytes of one AXI beat."""
        return self.axi_bits // 8

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits over every parameter that changes programs or timing (all but :data:`COSMETIC`)."""
        shape = {k: v for k, v in dataclasses.asdict(self).items() if k not in COSMETIC}
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]

    # -- conversions -----------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Config:
        """A copy with some parameters changed; validated like any other."""
        unknown = set(changes) - {f.name for f in dataclasses.fields(self)}
        if unknown:
            raise ConfigError(_unknown_parameter(sorted(unknown)[0]))
        return dataclasses.replace(self, **changes)

    def differences(self, other: Config) -> list[str]:
        """One line per parameter of the fingerprint in which two configs differ, e.g. ``block_in: 16 != 8``."""
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        return [f"{k}: {mine[k]} != {theirs[k]}" for k in mine if k not in COSMETIC and mine[k] != theirs[k]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as TOML and the program container hold them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The Config of a mapping; a missing parameter keeps its default, an unknown one is an error."""
        known = {f.name for f in dataclasses.fields(cls)}
        for key in values:
            if key not in known:
                raise ConfigError(_unknown_parameter(key))
        return cls(**values)

    def to_toml(self) -> str:
        """TOML text; :meth:`from_toml` gives an equal Config back."""
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in self.to_dict().items())

    @classmethod
    def from_toml(cls, text: str, source: str = "config") -> Config:
        """Parse TOML text; ``source`` names the file in error messages."""
        try:
            import tomllib
        except ModuleNotFoundError as error:  # on boards with PYNQ 3, which read no TOML
            raise ConfigError(f"{source}: TOML needs Python 3.11 or later") from error
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source}: not valid TOML: {error}") from error
        try:
            return cls.from_dict(values)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from error

    def _check_relations(self) -> None:
        beat = self.beat_bytes
        rules: list[tuple[bool, str]] = [
            (
                self.act_unit_bytes >= beat,
                f"axi_bits = {self.axi_bits}: must be at most {8 * self.act_unit_bytes}, the bits of an act unit "
                f"(8 x batch x min(block_in, block_out)); lower axi_bits or raise batch or the blocks",
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
                self.act_bank_units >= max(self.in_units, self.out_units),
                f"act_banks = {self.act_banks}: a bank must hold a whole vector; at most "
                f"{self.act_units // max(self.in_units, self.out_units)} here",
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


#: allowed range of each integer parameter, and whether it must be a power of two
RANGES: dict[str, tuple[int, int, bool]] = {
    "batch": (1, 16, True),
    "block_in": (4, 64, True),
    "block_out": (4, 64, True),
    "weight_bits": (2, 8, True),
    "act_bytes": (1 * KIB, 4096 * KIB, True),
    "act_banks": (2, 32, True),
    "wgt_bytes": (1 * KIB, 8192 * KIB, True),
    "acc_bytes": (1 * KIB, 4096 * KIB, True),
    "acc_banks": (2, 16, True),
    "prm_entries": (4, 1024, True),
    "uop_gemm_bytes": (512, 256 * KIB, True),
    "uop_alu_bytes": (512, 256 * KIB, True),
    "axi_bits": (32, 512, True),
    "axi_version": (min(AXI_BURST_BEATS), max(AXI_BURST_BEATS), False),
    "burst_beats": (1, 256, True),
    "outstanding": (1, 64, True),
    "dram_latency": (1, 1024, False),
    "clock_mhz": (1, 1000, False),
    "queue_depth": (2, 256, True),
    "token_depth": (1, 1023, False),
    "fetch_beats": (2, 512, True),
    "segments": (4, 16, True),
}


def _check_parameter(name: str, value: object) -> None:
    if name in ("name", "board"):
        if not isinstance(value, str):
            raise ConfigError(f"{name} = {value!r}: must be text")
        return
    if name == "dsp_packing":
        if not isinstance(value, bool):
            raise ConfigError(f"{name} = {value!r}: must be true or false")
        return
    low, high, power = RANGES[name]
    kind = "a power of two" if power else "an integer"
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} = {value!r}: must be {kind} from {low} to {high}")
    if not low <= value <= high or (power and value & (value - 1)):
        raise ConfigError(f"{name} = {value}: must be {kind} from {low} to {high}")


def _unknown_parameter(name: str) -> str:
    known = ", ".join(f.name for f in dataclasses.fields(Config))
    return f"{name}: no such parameter; the parameters are {known}"


def _presets() -> dict[str, Config]:
    base = Config()
    mpsoc = base.replace(axi_bits=128, axi_version=4, dsp_packing=False, act_bytes=128 * KIB, dram_latency=64)
    return {
        "pynq-z2": base,
        "pynq-z1": base.replace(name="pynq-z1", board="pynq-z1"),
        "ultra96": mpsoc.replace(name="ultra96", board="ultra96", clock_mhz=200),
        "zcu104": mpsoc.replace(
            name="zcu104", board="zcu104", clock_mhz=250, block_in=32, block_out=32,
            act_bytes=256 * KIB, wgt_bytes=512 * KIB, acc_bytes=256 * KIB,
        ),
        "kv260": mpsoc.replace(
            name="kv260", board="kv260", clock_mhz=250, block_in=16, block_out=32,
            # two banks: four of 1,024 bits each would take 160 of the part's 144 block RAMs, for 0 to 4 % fewer cycles
            act_bytes=128 * KIB, wgt_bytes=256 * KIB, acc_bytes=128 * KIB, acc_banks=2,
        ),
        "tiny": base.replace(
            name="tiny", board="", block_in=4, block_out=4, axi_bits=32, axi_version=4, act_bytes=8 * KIB, act_banks=4,
            wgt_bytes=16 * KIB, acc_bytes=16 * KIB, uop_gemm_bytes=4 * KIB, uop_alu_bytes=4 * KIB,
            prm_entries=32, queue_depth=8, dsp_packing=False,
        ),
        "vta-64": base.replace(
            name="vta-64", board="pynq-z1", block_in=8, block_out=8, act_bytes=32 * KIB, wgt_bytes=64 * KIB,
            acc_bytes=64 * KIB, dsp_packing=False,
        ),
        # 322 DSP slices: more than any XC7Z020 has, so it names no board
        "vta-256": base.replace(name="vta-256", board="", dsp_packing=False),
    }  # fmt: skip


PRESETS: dict[str, Config] = _presets()


def load_config(name_or_path: str | Path | Config) -> Config:
    """A preset by name, or a TOML file by path (anything with a ``.toml`` suffix or a directory part).

    Raises :class:`ConfigError` naming the presets if it is neither.
    """
    if isinstance(name_or_path, Config):
        return name_or_path
    text = str(name_or_path)
    if text in PRESETS:
        return PRESETS[text]
    path = Path(text)
    if path.suffix == ".toml" or path.parent != Path("."):
        try:
            return Config.from_toml(path.read_text(), source=text)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{text}: cannot be read: {error}") from error
    raise ConfigError(f"{text}: no such preset or .toml file; the presets are {', '.join(PRESETS)}")
