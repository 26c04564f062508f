"""Two int8 multiplies on one DSP48E1 (``tw_dot_pair``) equal plain multiplies: by trying all operands of a tap."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tilewright.hw.rtl.primitives import VERILOG_DIR
from tilewright.hw.verilated.build import RUNTIME, runtime_objects
from tilewright.hw.verilated.toolchain import FAST_FLAGS, compile_objects, link, verilator, verilator_root

HERE = Path(__file__).parent
SOURCE = (VERILOG_DIR / "tw_dot_pair.v").read_text()
TAPS = 4


def build(folder: Path, weight_bits: int, source: str = SOURCE) -> ctypes.CDLL:
    """The Verilated module with its check."""
    (folder / "tw_dot_pair.v").write_text(source)
    verilator(
        ["--cc", "--top-module", "tw_dot_pair", "--prefix", "Vpair", "--Mdir", "generated", "-Wno-fatal", "-Wno-lint",
         "-O3", f"-GTAPS={TAPS}", f"-GWEIGHT_BITS={weight_bits}", "tw_dot_pair.v"], folder,
    )  # fmt: skip
    root = verilator_root() / "include"
    include = [part for path in (root, root / "vltstd", folder / "generated") for part in ("-I", str(path))]
    files = [HERE / "dot_pair.cpp", *sorted((folder / "generated").glob("*.cpp"))]
    (folder / "all.cpp").write_text("".join(f'#include "{file}"\n' for file in files))
    objects = compile_objects([(folder / "all.cpp", FAST_FLAGS)], [f"-DWEIGHT_BITS={weight_bits}", *include], folder)
    objects += runtime_objects([root / name for name in RUNTIME], ["-I", str(root)])
    link(objects, [], folder / "pair.so")
    library = ctypes.CDLL(str(folder / "pair.so"))
    library.check_tap.restype, library.check_tap.argtypes = ctypes.c_int64, [ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    return library


@pytest.mark.slow
@pytest.mark.parametrize("weight_bits", [8, 4, 2])
def test_all_operands_of_every_tap(toolchain: None, weight_bits: int, tmp_path: Path) -> None:
    library = build(tmp_path, weight_bits)
    for tap, mode in (*((tap, 0) for tap in range(TAPS)), (0, 1), (0, 2)):
        assert library.check_tap(tap, mode, 1 << (8 + 2 * weight_bits)) == -1, (tap, mode)


def test_all_operands_of_narrow_weights(toolchain: None, tmp_path: Path) -> None:
    library = build(tmp_path, 4)
    assert [library.check_tap(tap, mode, 1 << 16) for tap in range(TAPS) for mode in range(3)] == [-1] * (3 * TAPS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        (" + {17'b0, p[15]}", ""),  # the borrow of the lower product
        ("{{2{p[15]}}, p[15:0]}", "{2'b0, p[15:0]}"),  # its sign
        ("(25'sd65536 * upper) + lower", "(25'sd65536 * upper) | lower"),
        ("late ? tree1[0] : early1", "early1"),
        ("firsts ? tree0[0] : ", ""),
        ("seconds ? before1 : early0", "early0"),
        ("reg signed [17:0] partial0", "reg signed [15:0] partial0"),  # sums of four need 17 bits
    ],
)
def test_the_check_notices(toolchain: None, change: tuple[str, str], tmp_path: Path) -> None:
    assert SOURCE.count(change[0]) == 1
    library = build(tmp_path, 8, SOURCE.replace(*change))
    assert any(library.check_tap(0, mode, 1 << 24) >= 0 for mode in range(3))
