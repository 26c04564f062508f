"""Tables of the pages that are made from kept measurements and declarations: ``python -m docs.tables`` writes them.

Each stands between ``<!-- generated: ... -->`` and ``<!-- end -->``, where :mod:`tests.test_docs` compares it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright import pages
from tilewright.cli import app
from tilewright.cli.app import COMMANDS, GROUPS
from tilewright.cli.caches import PARTS as CACHES
from tilewright.compiling import compile
from tilewright.config import PRESETS
from tilewright.dse.evaluate import OBJECTIVES
from tilewright.hw import synthesis_report
from tilewright.hw.boards.board import board_names, load_board
from tilewright.hw.timing import whole
from tilewright.isa import timing
from tilewright.isa.assembler import assemble
from tilewright.jit.substitute.search import RULES
from tilewright.runtime.report import keys
from tilewright.runtime.report.host_work import PROCESSORS
from tilewright.sim import simulate_timing

ROOT = Path(__file__).resolve().parent.parent
#: published rates of fpgaConvNet on the same chip, a design for each network
PEERS = {"resnet8_cifar10": 2431, "dscnn_keywords": 3088, "mobilenet_person": 105}
SHORT = {
    "resnet8_cifar10": "resnet8", "dscnn_keywords": "DS-CNN (KWS)", "mobilenet_person": "MobileNet (VWW)",
    "autoencoder_toycar": "autoencoder (AD)", "mobilenet_v2_imagenet": "mobilenet_v2", "digits": "digits",
}  # fmt: skip
WELL_KNOWN = {
    "resnet50": "ResNet-50, 224", "inception_v1": "Inception v1, 224", "squeezenet": "SqueezeNet 1.1, 224",
    "shufflenet": "ShuffleNet v1 (g = 3), 224", "densenet121": "DenseNet-121, 112",
    "mobilenet_v3": "MobileNetV3-Small, 224", "efficientnet_b0": "EfficientNet-B0, 224",
    "efficientnet_lite0": "EfficientNet-Lite0, 224", "unet": "U-Net, 128", "lstm": "LSTM, 49 steps",
}  # fmt: skip
CHECKS = (
    "python -m tests.verification.differential",
    "python bench/bench_rtl_cycles.py",
    "python bench/bench_rates.py",
)
CAMPAIGNS = (
    "python -m tests.fuzz", "pytest tests/runtime/test_artifact_attack.py", "python -m tests.campaigns.mutants",
    "python -m tests.campaigns.misreadings", "python -m tests.campaigns.devices", "python -m tests.campaigns.kills",
    "pytest tests/test_interrupts.py", "python -m tests.campaigns.full_disk", "python -m tests.campaigns.soak",
    "pytest tests/runtime/test_threads.py", "pytest tests/test_public_api.py",
)  # fmt: skip
#: networks and inputs of the table of low-bit weights
LOW_BIT = {"digits": " (360 held-out images)", "dscnn_keywords": " (1,000 recordings)"}


def kept(name: str) -> Any:
    """A kept measurement."""
    return json.loads((ROOT / "bench" / "results" / name).read_text())["rows"]


def table(head: str, rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table; cells of columns named ``name:`` stand to the right."""
    names = [name.strip() for name in head.split("|")]
    lines = [f"| {' | '.join(name.removesuffix(':') for name in names)} |"]
    lines.append("|" + "".join("---:|" if name.endswith(":") else "---|" for name in names))
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def results() -> Iterator[list[str]]:
    """The README's networks on ``pynq-z2``, the host's work at the guessed rate of its processor."""
    config = PRESETS["pynq-z2"]
    a_microsecond = PROCESSORS[config.axi_version].instructions_per_second / 1e6
    counted = {(row["network"], row["runtime"]): row["each"] for row in kept("host_instructions.json")}
    of = {row["network"]: row for row in kept("networks.json")}
    for name in list(SHORT)[:-1]:
        row = of[name]
        cycles, bound = row["cycles"], row["lower_bound_cycles"]
        micros = cycles / config.clock_mhz
        host, python = (counted[name, runtime] / a_microsecond for runtime in ("C", "Python"))
        yield [
            f"`{name}`" + (", 224x224" if name == "mobilenet_v2_imagenet" else ""),
            *(f"{row[key]:,}" for key in ("inputs", "cycles", "lower_bound_cycles")),
            f"{cycles / bound:.2f}",
            f"{micros:.0f} µs" if micros < 1000 else f"{micros / 1000:.1f} ms",
            f"{1e6 / max(micros, host):,.0f}",
            f"{1e6 / (micros + python):,.0f}",
            f"{PEERS[name]:,}" if name in PEERS else "",
        ]


def well_known() -> Iterator[list[str]]:
    """Networks with seeded weights: cycles on two presets, and how many times the lower bound."""
    of = {(row["network"], row["config"]): row for row in kept("exact_networks.json")}
    for network, title in WELL_KNOWN.items():
        rows = [of.get((network, config)) for config in ("pynq-z2", "zcu104")]
        cells = [f"{row['cycles']:,} ({row['cycles'] / row['lower_bound_cycles']:.2f})" if row else "" for row in rows]
        yield [title, f"{of[network, 'pynq-z2']['macs'] / 1e6:,.0f}", *cells]


def low_bit() -> Iterator[list[str]]:
    """Networks with weights of 8, 4 and 2 bits."""
    before = ""
    for row in kept("low_bit.json"):
        name = row["network"]
        right = f"{100 * row['accuracy']:.2f} %" if row["accuracy"] is not None else ""
        numbers = [f"{row[key]:,}" for key in ("constant_bytes", "read_bytes", "cycles")]
        shown = "" if name == before else name + LOW_BIT.get(name, "")
        yield [shown, str(row["bits"]), *numbers, str(row.get("output_db", "")), right]
        before = name


def host_instructions(runtime: str) -> dict[str, dict[str, Any]]:
    """Counted instructions by network."""
    return {row["network"]: row for row in kept("host_instructions.json") if row["runtime"] == runtime}


def thousands(count: float) -> str:
    """Instructions in thousands, or millions."""
    if count >= 1e6:
        return f"{count / 1e6:,.3g} M"
    return f"{count / 1e3:,.0f} k" if count >= 9.95e3 else f"{count / 1e3:,.1f} k"


def c_runtime() -> Iterator[list[str]]:
    """Instructions of the C runtime."""
    for name, row in host_instructions("C").items():
        yield [SHORT[name], *(thousands(row[key]) for key in ("alone", "each", "open"))]


def prepared() -> Iterator[list[str]]:
    """Instructions of prepared calls from Python."""
    for name, row in host_instructions("Python").items():
        yield [SHORT[name], *(thousands(row[key]) for key in ("alone", "each")), str(row["many"])]


def rates() -> Iterator[list[str]]:
    """What an engine does in a cycle of the RTL, and what VTA's published RTL does."""
    for row in json.loads((ROOT / "bench" / "results" / "rates.json").read_text())["rates"]:
        shown = [f"{row[key]:.3g}" if row[key] is not None else "" for key in ("promised", "measured", "vta")]
        yield [row["what"], row["unit"], *shown]


def constants() -> Iterator[list[str]]:
    """The constants of the timing contract with the comments beside them."""
    for name, value, meaning in re.findall(r"^([A-Z_]+) = (\d+)  #: (.*)$", inspect.getsource(timing), re.M):
        yield [f"`{name}`", value, meaning.replace("``", "`")]


def worked_example() -> Iterator[list[str]]:
    """The times of the program on the page of the timing contract."""
    text = (ROOT / "docs" / "timing.md").read_text().partition("```text\n")[2].partition("```")[0]
    times = simulate_timing(assemble(text))
    named = re.findall(r"^((?:load|fill|wait|alu) \w+|[a-z]+)\b", text, re.M)
    for name, *each in zip(named, times.dispatch, times.issue, times.retire, strict=True):
        yield [name, *(str(cycle) for cycle in each)]


def boards() -> Iterator[list[str]]:
    """The boards with their ports and the clocks of their presets."""
    for board in map(load_board, board_names()):
        preset = PRESETS[board.name]
        ports = "HP0 and HP1" if preset.axi_ports == 2 else "HP0"
        yield [
            f"`{board.name}`",
            board.title,
            f"`{board.part}`",
            f"{ports}, AXI{board.memory_axi}, {board.memory_bits} bit",
            f"{preset.clock_mhz} MHz",
        ]


def objectives() -> Iterator[list[str]]:
    """What the explorer can be asked for."""
    for name, objective in OBJECTIVES.items():
        yield [f"`{name}`", objective.unit, objective.what + ("; maximised" if objective.maximise else "")]


def meanings(*parts: Mapping[tuple[str, ...], str]) -> Iterator[list[str]]:
    """Keys of a report with what they mean."""
    for names, meaning in (entry for part in parts for entry in part.items()):
        yield [", ".join(f"`{name}`" for name in names), meaning]


def parameters(function: Callable[..., Any]) -> Iterator[list[str]]:
    """The parameters of a function with their defaults, from its signature and docstring."""
    text = inspect.cleandoc(function.__doc__ or "").partition("\n:raises")[0]
    defaults = inspect.signature(function).parameters
    for name, meaning in re.findall(r":param (\w+): (.*?)(?=\n:param|\Z)", text, re.S):
        default = defaults[name].default
        shown = "" if default in (inspect.Parameter.empty, None) else f"`{default!r}`"
        yield [f"`{name}`", shown, plain(meaning)]


def shell() -> Iterator[list[str]]:
    """Each command with its example and the first line of its help."""
    for _, function, example in COMMANDS:
        yield [f"`tilewright {example}`", summary_of(function.__doc__)]
    for name, what, _ in GROUPS:
        yield [f"`tilewright {name}`", plain(what)]
    for function in (app.serve, app.selftest):
        yield [f"`tilewright {function.__name__}`", summary_of(function.__doc__)]


def site() -> Iterator[list[str]]:
    """The pages of the site with their titles, by the lists of its first page."""
    folder = ROOT / "docs"
    for caption, names in re.findall(
        r":caption: ([^\n]*)\n:maxdepth: 1\n\n(.*?)\n```", (folder / "index.md").read_text(), re.S
    ):
        titles = {
            name: (folder / f"{name}.md").read_text().partition("\n")[0].removeprefix("# ") for name in names.split()
        }
        yield [caption, ", ".join(f"[{title}](docs/{name}.md)" for name, title in titles.items())]


def parts(*names: str) -> Iterator[list[str]]:
    """The parts of the project with what their docstrings begin with."""
    for name in names:
        yield [f"`{name}/`", summary(ROOT / name / "__init__.py")]


def subpackages(folder: Path) -> Iterator[list[str]]:
    """The packages of a folder with what their docstrings begin with."""
    for path in sorted(folder.glob("*/__init__.py")):
        yield [f"`{path.parent.name}/`", summary(path)]


def summary(path: Path) -> str:
    """What the docstring of a file begins with."""
    return summary_of(ast.get_docstring(ast.parse(path.read_text())))


def summary_of(docstring: str | None) -> str:
    """What a docstring begins with."""
    return plain((docstring or "").partition("\n\n")[0])


def commands(*named: str) -> Iterator[list[str]]:
    """Commands of the project's tests and measurements with what their files say."""
    for command in named:
        what = command.split()[-1]
        module = ROOT / what.replace(".", "/")
        path = (
            ROOT / what
            if what.endswith(".py")
            else module / "__main__.py"
            if module.is_dir()
            else module.with_suffix(".py")
        )
        yield [f"`{command}`", re.sub(r"^`python -m [^`]*`: ", "", summary(path))]


def plain(text: str) -> str:
    """A docstring's text as Markdown."""
    return re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"`\1`", " ".join(text.split())).replace("``", "`")


def lines(text: str) -> list[str]:
    """The lines of a table that is made elsewhere."""
    return text.rstrip("\n").split("\n")


def blocks() -> dict[str, dict[str, list[str]]]:
    """The generated blocks of each page, by what makes them."""
    reports = synthesis_report.load_reports()
    default = next(report for report in reports if report["config"] == "pynq-z2")
    mhz = PRESETS["pynq-z2"].clock_mhz
    return {
        "../README.md": {
            "bench/results": table(
                f"network | inputs, all exact | cycles | lower bound | ratio | accelerator at {mhz} MHz | "
                "board, a second | from Python | fpgaConvNet, same chip",
                results(),
            ),
            "commands": table("for example | what it does", shell()),
            "pages": table("| pages", site()),
        },
        "api.md": {"compile": table("parameter | default | meaning", parameters(compile))},
        "architecture.md": {
            "parts": table("folder | holds", parts("isa", "sim", "hw", "jit", "runtime", "dse")),
            "jit": table("subpackage | does", subpackages(ROOT / "jit")),
        },
        "boards.md": {"boards": table("name | board | device | memory port | clock of its preset", boards())},
        "c_runtime.md": {
            "bench/results/host_instructions.json": table("network | one at a time | of 16 | open", c_runtime())
        },
        "compiler.md": {
            "jit/substitute": table(
                "rule | what it does",
                ([f"`{name}`", summary_of(rule.__doc__)] for name, rule in RULES.items()),
            )
        },
        "explorer.md": {"objectives": table("`--objective` | unit | what", objectives())},
        "hardware.md": {
            "checks": table("command | what it compares", commands(*CHECKS)),
            "bench/results/rates.json": table("rate | unit | promised: | measured: | VTA:", rates()),
            "python -m tilewright.hw.synthesis_report": lines(whole.table(reports)),
            "the worst paths of pynq-z2": lines(whole.path_table(default)),
        },
        "numbers.md": {
            "bench/results/exact_networks.json": table("network | MMACs: | `pynq-z2`: | `zcu104`:", well_known())
        },
        "quantizing.md": {
            "bench/results/low_bit.json": table(
                "network | bits: | constants: | bytes read: | cycles: | output, dB: | right:", low_bit()
            )
        },
        "reports.md": {
            "report": table("key | meaning", meanings(keys.REPORT)),
            "board": table("key | meaning", meanings(keys.BOARD)),
            "layer": table("key | meaning", meanings(keys.LAYER, keys.SOME_LAYERS)),
            "causes": table("cause | cycles in which", meanings(keys.CAUSES)),
        },
        "runtime.md": {
            "bench/results/host_instructions.json": table(
                "network | one at a time | for each of many | many", prepared()
            ),
            "cache": table("part | holds", ([f"`{name}`", what] for name, what in CACHES.items())),
        },
        "trust.md": {"campaigns": table("command | what it tries", commands(*CAMPAIGNS))},
        "timing.md": {
            "isa/timing.py": table("constant | cycles | meaning", constants()),
            "worked example": table("instruction | dispatch | issue | retire", worked_example()),
        },
    }


if __name__ == "__main__":
    for page, made in blocks().items():
        pages.write(page, made)
