"""What the version policy (``docs/versions.md``) promises: kept artifacts run, report keys stay, CI's lock is whole."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tilewright as tw
from tests.conftest import REPOSITORY
from tests.runtime.network import images, make_artifact
from tilewright.runtime.artifact import FORMAT_VERSION, ArtifactError
from tilewright.runtime.executable import Executable
from tilewright.runtime.report import report

KEPT = sorted((REPOSITORY / "tests" / "runtime" / "kept").glob("*.twa"))
#: keys of the report's format 2: more may come, none may go
KEYS = """
 array_cycles array_macs_per_cycle clock_mhz compile_s config config_fingerprint config_parameters cpu_ms
 cycles cycles_by_cause device digests dram_read_bytes dram_write_bytes engines format host lower_bound_cycles
 lower_bound_ratio lower_bounds
 inferences inferences_per_second instructions latency_ms layers macs macs_of_model model notes operators pack_ms
 simulate_s stalls unpack_ms uops uops_issued utilization with_host_ms with_host_per_second"""
LAYER_KEYS = """alone_cycles alu_cycles array_cycles bound cycles cycles_by_cause lower_bound_cycles lower_bound_ratio
 macs name op place read_bytes title useful utilization why write_bytes"""
API = "PRESETS Config Executable Exploration Report TilewrightError __version__ compile explore load load_config"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_artifacts_run_and_are_exact_or_are_of_a_format_that_is_named(path: Path) -> None:
    """A change that ends artifacts counts the format up and keeps a file of the new one: tests/runtime/kept/make.py."""
    if path.stem != f"toy-format-{FORMAT_VERSION}":
        with pytest.raises(ArtifactError, match=f"this version of Tilewright reads {FORMAT_VERSION}"):
            tw.load(path)
        return
    with np.load(path.with_suffix(".npz")) as kept:
        y, _ = tw.load(path).run(kept["x"])
        assert np.array_equal(y, kept["y"])


def test_there_is_a_kept_artifact_of_this_format_and_others_are_named() -> None:
    assert f"toy-format-{FORMAT_VERSION}" in [path.stem for path in KEPT]
    data = bytearray(KEPT[-1].read_bytes())
    place = data.index(FORMAT_VERSION.to_bytes(2, "little"), 4)
    data[place] = 99
    with pytest.raises(ArtifactError, match=f"format 99, this version of Tilewright reads {FORMAT_VERSION}"):
        tw.runtime.artifact.Artifact.from_bytes(bytes(data))


def test_keys_of_the_report_stay() -> None:
    _, made = Executable(make_artifact()).run(images(1))
    data: dict[str, Any] = json.loads(json.dumps(made.to_dict()))
    assert data["format"] == report.FORMAT == 2
    assert set(KEYS.split()) <= set(data)
    assert set(LAYER_KEYS.split()) <= set(data["layers"][0])


def test_names_of_the_package_stay() -> None:
    assert set(API.split()) <= set(tw.__all__)


def test_the_version_is_one_and_the_policy_names_every_number() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert tw.__version__ == project["version"]
    policy = (REPOSITORY / "docs" / "versions.md").read_text()
    assert f"| {FORMAT_VERSION} | `.twa`" in policy
    assert f"| {report.FORMAT} | the report" in policy


def script(path: Path) -> ModuleType:
    """A file that is no module of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def inventory() -> ModuleType:
    return script(REPOSITORY / ".ci" / "inventory.py")


def test_the_lock_fits_what_the_extras_ask_for() -> None:
    lines = (REPOSITORY / ".ci" / "constraints.txt").read_text().splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(r for name in extras if name not in ("board", "torch") for r in extras[name])]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        if name != "tilewright":
            assert locked[name] in requirement.specifier, f"{name}: run python .ci/inventory.py"


def test_every_component_has_a_version_and_a_licence_without_its_text(inventory: ModuleType) -> None:
    bill = json.loads((REPOSITORY / ".ci" / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    lines = (REPOSITORY / ".ci" / "constraints.txt").read_text().splitlines()[1:]
    assert [re.sub("[+].*", "", f"{c['name']}=={c['version']}") for c in bill["components"]] == lines
    for component in bill["components"]:
        name = component["licenses"][0]["license"]["name"]
        assert 0 < len(name) < 120, component["name"]
    page = (REPOSITORY / "docs" / "versions.md").read_text()
    copyleft = [c["name"] for c in bill["components"] if re.search("GPL|Lesser", c["licenses"][0]["license"]["name"])]
    assert all(f"`{name}`" in page for name in copyleft), copyleft
    for name, stated in inventory.KNOWN.items():
        assert {"license": {"name": stated}} in next(c for c in bill["components"] if c["name"] == name)["licenses"]


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or one that pyenv or uv keep; None if the machine has none."""
    places = [Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python"]
    kept = [str(path) for place in places for path in place.glob(f"*{version}.*/bin/python{version}")]
    for candidate in [shutil.which(f"python{version}"), *kept]:
        if (
            candidate
            and not subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True).returncode
        ):
            return candidate
    return None


ORIGIN = "https://user:secret@forge.example/group/tilewright.git"


@pytest.mark.parametrize(
    ("origin", "place"),
    [
        (ORIGIN, "https://forge.example/group/tilewright"),
        ("https://forge.example:8443/a/b/tilewright/", "https://forge.example/a/b/tilewright"),
        ("git@forge.example:group/tilewright.git", "https://forge.example/group/tilewright"),
        ("ssh://git@forge.example:2222/~me/tilewright.git", "https://forge.example/~me/tilewright"),
        ("/srv/git/tilewright.git", None),
        ("../tilewright", None),
        ("file:///srv/git/tilewright.git", None),
        ("backup.disk/tilewright", None),
        ("", None),
    ],
)
def test_where_the_project_is_hosted(origin: str, place: str | None, tmp_path: Path) -> None:
    """Is where it was cloned from, in every form that git takes, without a secret; an archive keeps what it has."""
    setup = script(REPOSITORY / "setup.py")
    addresses = setup.addresses
    assert setup.hosted(origin) == place
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "config", "remote.origin.url", origin], cwd=tmp_path, check=True)
    assert addresses(tmp_path) == ({"Source": place, "Issues": f"{place}/issues"} if place else {})
    (tmp_path / "PKG-INFO").write_text("Name: tilewright\nProject-URL: Source, https://forge.example/x\n\nText\n")
    assert addresses(tmp_path) == {"Source": "https://forge.example/x"}
    (tmp_path / "inner").mkdir()
    assert addresses(tmp_path / "inner") == {}


@pytest.mark.slow
def test_packages_say_where_the_project_is_hosted(packages: dict[str, Path]) -> None:
    with zipfile.ZipFile(packages["wheel"]) as wheel:
        written = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    with tarfile.open(packages["sdist"]) as sdist:
        name = next(name for name in sdist.getnames() if name.count("/") == 1 and name.endswith("PKG-INFO"))
        member = sdist.extractfile(name)
        assert member is not None
        packed = member.read().decode()
    for text in (written, packed):
        assert "Project-URL: Source, https://forge.example/group/tilewright\n" in text
        assert "secret" not in text


def committed(source: Path) -> Path:
    """A folder with what is committed."""
    source.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)
    return source


@pytest.mark.slow
def test_a_wheel_of_one_machine_carries_the_library(tmp_path: Path) -> None:
    source, pip = committed(tmp_path / "source"), [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    environment = {**os.environ, "TILEWRIGHT_WHEEL": "armv7l"}
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(source)], check=True, env=environment)
    (made,) = tmp_path.glob("*-py3-none-manylinux_2_17_armv7l.whl")
    with zipfile.ZipFile(made) as wheel:
        library = wheel.read("tilewright/runtime/native/libtilewright.so")
    assert library[:5] == b"\x7fELF\x01", "of 32 bits"
    assert library[18:20] == b"\x28\0", "for ARM"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheel and sdist of what is committed, made in pip's own build environment, as of a clone of a server's."""
    folder = tmp_path_factory.mktemp("packages")
    source = committed(folder / "source")
    subprocess.run(["git", "init", "-q"], cwd=source, check=True)
    subprocess.run(["git", "remote", "add", "origin", ORIGIN], cwd=source, check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(source)], check=True)
    builder, wanted = folder / "builder", tomllib.loads((source / "pyproject.toml").read_text())["build-system"]
    subprocess.run([sys.executable, "-m", "venv", builder], check=True)
    subprocess.run([str(builder / "bin" / "python"), *pip[1:], "install", *wanted["requires"]], check=True)
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([str(builder / "bin" / "python"), "-c", build], cwd=source, check=True, capture_output=True)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


@pytest.mark.slow
@pytest.mark.parametrize(("package", "version"), [("sdist", "3.11"), *(("wheel", f"3.{n}") for n in (11, 12, 13))])
def test_package_installs_and_runs_in_a_clean_environment(
    packages: dict[str, Path], package: str, version: str, tmp_path: Path
) -> None:
    """A kept artifact with its integers, and a model file compiled and compared, from a folder elsewhere."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    home, place, model = tmp_path / "environment", tmp_path / "elsewhere", KEPT[-1]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TILEWRIGHT", "NUMBA"))}
    clean["TILEWRIGHT_CACHE"] = str(tmp_path / "cache")
    subprocess.run([python, "-m", "venv", home], check=True, env=clean)
    install = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*install, f"{packages[package]}[compile]"], check=True, env=clean)
    place.mkdir()
    shutil.copy(model.with_suffix(".npz"), place / "x.npz")
    code = (
        "import numpy as np, tilewright as tw; k = np.load('x.npz');"
        f"y, r = tw.load({str(model)!r}).run(k['x']); assert np.array_equal(y, k['y']); r.save_html('r.html');"
        "assert tw.__file__.startswith(" + repr(str(home)) + ")"
    )
    subprocess.run([home / "bin" / "python", "-c", code], cwd=place, check=True, env=clean)
    command, digits = str(home / "bin" / "tilewright"), str(REPOSITORY / "examples" / "digits" / "digits.onnx")
    shown = subprocess.run([command, "--version"], cwd=place, env=clean, capture_output=True, text=True)
    assert tw.__version__ in shown.stdout, shown.stderr
    ran = subprocess.run([command, "run", digits, "--check"], cwd=place, env=clean, capture_output=True, text=True)
    assert "all 10 elements of 1 outputs equal the reference" in ran.stdout, ran.stderr


@pytest.mark.slow
def test_the_wheel_of_a_board_needs_numpy_alone(packages: dict[str, Path], tmp_path: Path) -> None:
    """The Python and NumPy of PYNQ 3: pip takes the wheel as it is, and the command runs."""
    python = interpreter("3.10")
    if python is None:
        pytest.skip("there is no Python 3.10 here")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TILEWRIGHT"))}
    subprocess.run([python, "-m", "venv", tmp_path], check=True, env=clean)
    pip = [str(tmp_path / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, "numpy==1.21.6"], check=True, env=clean)
    subprocess.run([*pip, "--no-deps", str(packages["wheel"])], check=True, env=clean)
    command = [str(tmp_path / "bin" / "tilewright"), "selftest", "--overlay", "nowhere.bit"]
    ran = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert "FAIL  overlay" in ran.stdout, ran.stderr
