"""Two int8 multiplies on one DSP48E1 (``tw_dot_pair``) equal plain multiplies: by trying all operands of a tap."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.hw.mapped import mapped
from tilewright.hw.rtl.primitives import VERILOG_DIR
from tilewright.hw.verilated.build import RUNTIME, runtime_objects
from tilewright.hw.verilated.toolchain import FAST_FLAGS, compile_objects, link, verilator, verilator_root

HERE = Path(__file__).parent
SOURCE = (VERILOG_DIR / "tw_dot_pair.v").read_text()
TAPS = 4


def build(folder: Path, weight_bits: int | None, source: str = SOURCE) -> ctypes.CDLL:
    """The Verilated module with its check; None for a source that has no parameters and weights of 8 bits."""
    parameters = [] if weight_bits is None else [f"-GTAPS={TAPS}", f"-GWEIGHT_BITS={weight_bits}"]
    (folder / "tw_dot_pair.v").write_text(source)
    verilator(
        ["--cc", "--top-module", "tw_dot_pair", "--prefix", "Vpair", "--Mdir", "generated", "-Wno-fatal", "-Wno-lint",
         "-O3", *parameters, "tw_dot_pair.v"], folder,
    )  # fmt: skip
    root = verilator_root() / "include"
    include = [part for path in (root, root / "vltstd", folder / "generated") for part in ("-I", str(path))]
    files = [HERE / "dot_pair.cpp", *sorted((folder / "generated").glob("*.cpp"))]
    (folder / "all.cpp").write_text("".join(f'#include "{file}"\n' for file in files))
    objects = compile_objects(
        [(folder / "all.cpp", FAST_FLAGS)], [f"-DWEIGHT_BITS={weight_bits or 8}", *include], folder
    )
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
def test_what_yosys_maps_it_to_is_equal(toolchain: None, tmp_path: Path) -> None:
    library = build(tmp_path, None, mapped({"tw_dot_pair.v": SOURCE}, "tw_dot_pair", tmp_path, TAPS=TAPS))
    assert [library.check_tap(tap, late, 1 << 18) for tap in range(TAPS) for late in (0, 1)] == [-1] * (2 * TAPS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        ("START = 32767 - 65536", "START = 32768 - 65536"),  # one too many for the lower half
        ("START = 32767 - 65536", "START = 32767"),  # the upper half is not less one
        ("{~taps[i][15], taps[i][14:0]}", "taps[i][15:0]"),  # the sign of the lower half
        ("(25'sd65536 * upper) + lower", "(25'sd65536 * upper) | lower"),
        ("late ? node1[1] : early1", "early1"),
        ("firsts ? node0[1] : ", ""),
        ("seconds ? before1 : early0", "early0"),
        ("early0 <= node0[1]", "early0 <= node1[1]"),
        (
            "$signed({node0[2*n], 1'b1}) + $signed({node0[2*n+1], 1'b1})",
            "$signed({node0[2*n], 1'b0}) + $signed({node0[2*n+1], 1'b1})",
        ),  # the carry in
        ("KEPT = $clog2(TAPS / 2) / 2 + 1", "KEPT = 0"),  # no registers in the tree
    ],
)
def test_the_check_notices(toolchain: None, change: tuple[str, str], tmp_path: Path) -> None:
    assert SOURCE.count(change[0]) == 1
    library = build(tmp_path, 8, SOURCE.replace(*change))
    assert any(library.check_tap(0, mode, 1 << 24) >= 0 for mode in range(3))
