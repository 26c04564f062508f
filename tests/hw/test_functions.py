"""Expressions as logic and as C++: every operator over all values of narrow variables."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal, Value, signed
from amaranth.sim import Simulator

from tests.isa.expressions import EXPRESSIONS, PAIRS, A, B, stated
from tilewright.hw.hls.build import ap_types
from tilewright.hw.hls.functions import SHIFT_RIGHT, cpp
from tilewright.hw.rtl.functions import logic, merge, none_of, one_of
from tilewright.hw.verilated.toolchain import compiler
from tilewright.isa.expression import ExpressionError, shift_right
from tilewright.isa.functions import AluOp


def simulated(m: Module, inputs: list[tuple[Signal, list[int]]], outputs: list[Value]) -> list[list[int]]:
    """What the outputs of combinational logic are for each of the inputs' values."""
    found: list[list[int]] = []

    async def bench(context: object) -> None:
        for values in zip(*(values for _, values in inputs)):
            for (signal, _), value in zip(inputs, values):
                context.set(signal, value)  # type: ignore[attr-defined]
            found.append([context.get(output) for output in outputs])  # type: ignore[attr-defined]

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return [list(column) for column in zip(*found)]


def test_logic_is_exact() -> None:
    built = {name: e for name, e in EXPRESSIONS.items() if "shift_right" not in {n.operator for n in e.nodes()}}
    m, a, b = Module(), Signal(signed(4)), Signal(signed(4))
    outputs = [Signal(signed(64), name=f"out_{k}") for k in range(len(built))]
    m.d.comb += [out.eq(logic(e, {"a": a, "b": b})) for out, e in zip(outputs, built.values())]
    found = simulated(m, [(a, PAIRS[0].tolist()), (b, PAIRS[1].tolist())], list(outputs))
    assert dict(zip(built, found)) == {name: stated(e) for name, e in built.items()}


def test_a_shift_that_varies_is_no_logic_of_one_cycle() -> None:
    with pytest.raises(ExpressionError, match="shift_right is no logic of one cycle"):
        logic(shift_right(A, B), {"a": Signal(4), "b": Signal(4)})


@pytest.mark.parametrize("bits", [3, 12])
@pytest.mark.parametrize(
    "names", [["maximum", "minimum", "sum", "nested", "greater"], ["absolute", "equal", "less", "wide"], ["negated"]]
)
def test_cases_are_merged(names: list[str], bits: int) -> None:
    cases = {name: EXPRESSIONS[name] for name in names}
    for name in names:
        m, a, b, code = Module(), Signal(signed(4)), Signal(signed(4)), Signal(3)
        out = merge(m, "out", [(code == k, e) for k, e in enumerate(cases.values())], {"a": a, "b": b}, bits)
        assert len(out) == bits
        codes = [names.index(name)] * len(PAIRS[0])
        found = simulated(m, [(a, PAIRS[0].tolist()), (b, PAIRS[1].tolist()), (code, codes)], [out])
        assert found == [[v % (1 << bits) for v in stated(EXPRESSIONS[name])]], name


def test_codes_are_told_apart() -> None:
    m, code = Module(), Signal(3)
    some = [AluOp.ADD, AluOp.MUL]
    outputs = [
        one_of(code, some),
        one_of(code, []),
        none_of(code, some),
        none_of(code, []),
        none_of(code, some, code[0]),
    ]
    assert simulated(m, [(code, list(range(6)))], outputs) == [
        [1, 0, 0, 1, 0, 0], [0] * 6, [0, 1, 1, 0, 1, 1], [1] * 6, [0, 1, 0, 0, 0, 1],
    ]  # fmt: skip


def test_cpp_is_exact(hls_toolchain: None, tmp_path: Path) -> None:
    body = "\n".join(f'        std::printf("%lld ", (long long)({cpp(e)}));' for e in EXPRESSIONS.values())
    (tmp_path / "all.cpp").write_text(
        f"#include <ap_int.h>\n#include <cstdint>\n#include <cstdio>\n{SHIFT_RIGHT}\n"
        "int main() {\n    for (int32_t a = -8; a < 8; a++) for (int32_t b = -8; b < 8; b++) {\n"
        f'{body}\n        std::printf("\\n");\n    }}\n}}\n'
    )
    # the headers shift negative numbers to the left
    flags = ["-std=c++14", "-Wno-unknown-pragmas", "-fsanitize=undefined", "-fno-sanitize=shift-base"]
    subprocess.run(
        [compiler(), *flags, "-fno-sanitize-recover", "-isystem", str(ap_types()), "all.cpp", "-o", "all"],
        cwd=tmp_path,
        check=True,
    )
    said = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True).stdout
    found = [list(column) for column in zip(*([int(v) for v in line.split()] for line in said.splitlines()))]
    assert dict(zip(EXPRESSIONS, found)) == {name: stated(e) for name, e in EXPRESSIONS.items()}
