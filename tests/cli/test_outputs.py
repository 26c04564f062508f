"""An output is never an input, by whatever name, nor another output, in any command."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.shell import Shell
from tests.isa.test_assembler import LEGAL
from tests.jit.source.test_onnx_lenient import convolution
from tests.runtime.network import images
from tilewright import checking
from tilewright.cli.app import COMMANDS, GROUPS
from tilewright.cli.paths import FOLDER, READ, WRITTEN, uses
from tilewright.files import FileError, check_writable, inputs_kept, write_atomic
from tilewright.model_files import locations

ALL: dict[str, Callable[..., Any]] = {name: function for name, function, _ in COMMANDS}
ALL |= {f"{group} {name}": function for group, _, members in GROUPS for name, function, _ in members}
#: texts that name no file
NO_FILE = {
    "run": {"device", "exact", "objective"}, "compile": {"exact", "objective"}, "inspect": {"exact", "objective"},
    "explore": {"board", "objective", "weight", "clock", "sampler", "set_", "storage", "scheduler"},
    "cache clear": {"parts"}, "models fetch": {"names", "base_url"},
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_that_names_a_file_says_what_is_done_with_it(name: str) -> None:
    function = ALL[name]
    hints = get_type_hints(function)
    kinds = {p: {hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))} for p, hint in hints.items()}
    may = {p for p, found in kinds.items() if found & {str, Path}} - NO_FILE.get(name, set())
    assert set(uses(function)) == may
    for parameter, use in uses(function).items():
        wanted = {"output", "report", "trace", "html", "model_explorer", "wave", "markdown"} if use is WRITTEN else None
        assert wanted is None or parameter in wanted


#: a command line, IN the input that its output is
LINES = [
    "run IN:toy.twa --output OUT", "run IN:toy.twa --report OUT", "run IN:toy.twa --trace OUT",
    "run IN:toy.twa --html OUT", "run toy.twa --input IN:x.npy --output OUT", "run toy.twa --input IN:x.npy --html OUT",
    "run IN:toy.tflite --html OUT", "run toy.tflite --config IN:c.toml --report OUT",
    "run toy.twa --check --reference IN:toy.tflite --report OUT",
    "run IN:toy.twa --device rtl --wave OUT",
    "compile IN:toy.tflite -o OUT", "compile toy.tflite --config IN:c.toml -o OUT",
    "compare IN:r.json r.json --markdown OUT", "compare r.json IN:r.json --markdown OUT",
    "quantize IN:float.onnx --data x.npy -o OUT", "quantize float.onnx --data IN:x.npy -o OUT",
    "asm IN:p.s -o OUT", "disasm IN:p.twp -o OUT",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["itself", "hard", "symbolic"])
@pytest.mark.parametrize("line", LINES)
def test_an_output_that_is_an_input_is_refused(shell: Shell, artifact: Path, toy: Path, line: str, kind: str) -> None:
    np.save("x.npy", images(2))
    Path("c.toml").write_text('name = "mine"\n')
    Path("p.s").write_text(LEGAL)
    assert shell("asm", "p.s", "-o", "p.twp") == 0
    assert shell("run", "toy.twa", "--report", "r.json") == 0
    Path("float.onnx").touch()
    words = line.split()
    source = next(word for word in words if word.startswith("IN:")).removeprefix("IN:")
    out = Path(source if kind == "itself" else f"other{'.onnx' if 'quantize' in line else '.out'}")
    if kind == "hard":
        out.hardlink_to(source)
    elif kind == "symbolic":
        out.symlink_to(source)
    before = Path(source).read_bytes()
    said = shell.fails(*(str(out) if word == "OUT" else word.removeprefix("IN:") for word in words))
    if not ("quantize" in line and kind == "itself" and source == "x.npy"):  # it must be called .onnx
        assert "is the input" in said
        assert "give another file name" in said
    assert Path(source).read_bytes() == before
    assert out.is_symlink() == (kind == "symbolic")


def test_one_of_several_outputs_that_is_the_input_is_refused(tmp_path: Path) -> None:
    """What is known only when it is written, as ``y.0.npy`` of ``--output y.npy``."""
    (tmp_path / "y.0.npy").write_text("input")
    with inputs_kept([tmp_path / "y.0.npy", tmp_path / "not there", "/dev/null"]):
        with pytest.raises(FileError, match="y.0.npy: cannot be written: is the input itself"):
            write_atomic(tmp_path / "y.0.npy", "output")
        write_atomic(tmp_path / "y.1.npy", "output")
        write_atomic("/dev/null", "output")
    assert (tmp_path / "y.0.npy").read_text() == "input"
    write_atomic(tmp_path / "y.0.npy", "output")


def test_a_file_that_an_input_names_is_an_input_too(shell: Shell) -> None:
    """Weights beside a model, of a branch too."""
    model = convolution(Path("m.onnx"))
    proto = onnx.load(str(model))
    onnx.save(proto, str(model), save_as_external_data=True, location="weights.bin", size_threshold=0)
    before = Path("weights.bin").read_bytes()
    Path("link.bin").symlink_to("weights.bin")
    for out in ("weights.bin", "link.bin"):
        said = shell.fails("compile", model, "--config", "tiny", "-o", out)
        assert f"{out}: cannot be written: is the input" in said
        assert Path("weights.bin").read_bytes() == before
    assert shell("compile", model, "--config", "tiny", "-o", "m.twa") == 0


def test_files_beside_a_graph_are_those_of_its_bodies_too() -> None:
    def tensor(location: str) -> onnx.TensorProto:
        made = onnx.TensorProto(name="c", data_type=onnx.TensorProto.INT8, dims=[1])
        made.data_location = onnx.TensorProto.EXTERNAL
        made.external_data.add(key="location", value=location)
        made.external_data.add(key="offset", value="0")
        return made

    constant = helper.make_node("Constant", [], ["v"], value=tensor("constant"))
    body = helper.make_graph([constant], "body", [], [], [tensor("inner")])
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=body)], "g", [], [], [tensor("outer")])
    constant = helper.make_node("Constant", [], ["v"], value=tensor("function"))
    function = helper.make_function("own", "f", [], ["v"], [constant], [helper.make_opsetid("", 17)])
    found = set(locations(helper.make_model(graph, functions=[function])))
    assert found == {"constant", "inner", "outer", "function"}


def test_the_model_beside_an_artifact_is_an_input_of_its_check(shell: Shell) -> None:
    model = convolution(Path("m.onnx"))
    before = model.read_bytes()
    assert shell("compile", model, "--config", "tiny", "-o", "m.twa") == 0
    assert "m.onnx: cannot be written: is the input" in shell.fails("run", "m.twa", "--check", "--output", model)
    assert model.read_bytes() == before
    assert shell("run", "m.twa", "--check", "--output", "y.npy") == 0


def test_two_outputs_of_one_name_are_refused(shell: Shell, artifact: Path) -> None:
    Path("link.json").symlink_to("r.json")
    for other in ("r.json", "./r.json", "link.json"):
        said = shell.fails("run", artifact, "--report", "r.json", "--trace", other)
        assert "both --report and --trace would be written there" in said
    assert shell("run", artifact, "--report", "/dev/null", "--trace", "/dev/null") == 0


def test_a_link_that_leads_to_itself_is_no_place_to_write(shell: Shell, artifact: Path) -> None:
    os.symlink("b", "a")
    os.symlink("a", "b")
    for option in ("--output", "--report", "--html"):
        assert "too many levels of symbolic links" in shell.fails("run", artifact, option, "a")
    with pytest.raises(FileError, match="symbolic links"):
        check_writable("a")
    with pytest.raises(FileError, match="symbolic links"):
        write_atomic("a", "text")
    assert os.readlink("a") == "b"
    os.symlink("nowhere", "d")
    assert "d is a link that leads nowhere" in shell.fails("hw", "verilog", "--config", "tiny", "-o", "d/new")


def test_folders_are_marked() -> None:
    found = {name: [p for p, use in uses(function).items() if use is FOLDER] for name, function in ALL.items()}
    assert {name for name, folders in found.items() if folders} == {"run", "explore", "models fetch", "hw verilog"}
    assert uses(ALL["run"])["model"] is READ


def test_a_check_that_cannot_be_made_leaves_no_intermediates(
    shell: Shell, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise checking.CheckError("no reference")

    monkeypatch.setattr(checking, "reference_outputs", broken)
    shell.fails("run", toy, "--config", "tiny", "--check", "--keep-intermediates", "a/b", "--output", "y.npy")
