"""Downloads, against a server on the loopback interface and tiny stand-ins for the networks."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tilewright import fetch
from tilewright.cli import models
from tilewright.cli.app import main
from tilewright.errors import TilewrightError
from tilewright.fetch import RemoteModel, fetch_model

CONTENT = bytes(range(256)) * 200
MODEL = RemoteModel("tiny/fake.tflite", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "a stand-in")


class Handler(BaseHTTPRequestHandler):
    """Serves ``/ok``, and the ways in which a server goes wrong under other first folders."""

    def do_GET(self) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]
        folder, _, path = self.path.lstrip("/").partition("/")
        if path != MODEL.path or folder == "missing":
            self.send_error(404)
            return
        body = {
            "ok": CONTENT,
            "wrong": CONTENT[::-1],
            "long": CONTENT + b"x",
            "short": CONTENT[:-1],
            "cut": CONTENT[: len(CONTENT) // 2],
        }[folder]
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT) if folder == "cut" else len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Keep the test output quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr(fetch, "MODELS", {"fake": MODEL})
    monkeypatch.delenv(fetch.BASE_URL_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    instance = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    instance.requests = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=instance.serve_forever, args=(0.01,))
    thread.start()
    yield instance
    instance.shutdown()
    thread.join()
    instance.server_close()


def url(server: ThreadingHTTPServer, folder: str) -> str:
    return f"http://127.0.0.1:{server.server_port}/{folder}"


def failure(server: ThreadingHTTPServer, directory: Path, folder: str) -> str:
    """The message of a download that must fail, after checking that it is one line and left nothing."""
    with pytest.raises(TilewrightError) as caught:
        fetch_model("fake", directory, base_url=url(server, folder))
    assert "\n" not in str(caught.value)
    assert list(directory.iterdir()) == []
    return str(caught.value)


def test_downloads_into_a_new_directory_with_progress(server, tmp_path):
    calls: list[tuple[int, int]] = []
    path = fetch_model(
        "fake", tmp_path / "a" / "b", url(server, "ok"), lambda _, done, total: calls.append((done, total))
    )
    assert path == tmp_path / "a" / "b" / "fake.tflite"
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == ["fake.tflite"]
    assert calls == sorted(calls)
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert len(calls) > 1


def test_a_right_file_is_kept_without_the_network(server, tmp_path):
    fetch_model("fake", tmp_path, url(server, "ok"))
    fetch_model("fake", tmp_path, url(server, "ok"))
    assert server.requests == ["/ok/tiny/fake.tflite"]


def test_a_wrong_file_is_replaced(server, tmp_path):
    (tmp_path / "fake.tflite").write_bytes(b"stale")
    assert fetch_model("fake", tmp_path, url(server, "ok")).read_bytes() == CONTENT


def test_a_failed_download_keeps_the_old_file(server, tmp_path):
    (tmp_path / "fake.tflite").write_bytes(b"mine")
    with pytest.raises(TilewrightError):
        fetch_model("fake", tmp_path, url(server, "wrong"))
    assert [(f.name, f.read_bytes()) for f in tmp_path.iterdir()] == [("fake.tflite", b"mine")]


def test_the_environment_names_the_server(server, tmp_path, monkeypatch):
    monkeypatch.setenv(fetch.BASE_URL_VARIABLE, url(server, "ok") + "/")
    assert fetch_model("fake", tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("missing", "404"),
        ("wrong", "wrong checksum"),
        ("long", "more than 51200 bytes"),
        ("short", "51199 of 51200 bytes"),
    ],
)
def test_what_the_server_gets_wrong(server, tmp_path, folder, words):
    message = failure(server, tmp_path, folder)
    assert words in message
    assert url(server, folder) in message
    assert "--base-url" in message


def test_a_broken_connection(server, tmp_path):
    assert "of 51200 bytes" in failure(server, tmp_path, "cut") or "broke off" in failure(server, tmp_path, "cut")


def test_no_server(server, tmp_path):
    with pytest.raises(TilewrightError, match="cannot reach http://127.0.0.1:1/.*check the network"):
        fetch_model("fake", tmp_path, "http://127.0.0.1:1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("base", ["nonsense", "gopher://x"])
def test_not_a_url(server, tmp_path, base):
    with pytest.raises(TilewrightError, match=f"{base}.*--base-url"):
        fetch_model("fake", tmp_path, base)


def test_a_directory_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TilewrightError, match="file/sub: cannot be written: not a directory"):
        fetch_model("fake", tmp_path / "file" / "sub", url(server, "ok"))


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(TilewrightError, match="unknown model 'resnet50': choose one of resnet8_cifar10, "):
        fetch_model("resnet50", tmp_path)


def test_registry_matches_the_shared_networks(shared_models):
    """The published files are the ones that the other tests run."""
    for name, model in fetch.MODELS.items():
        content = (shared_models / f"{name}.tflite").read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (model.size, model.sha256), name


def test_the_command_fetches_all(server, tmp_path, monkeypatch, capsys):
    second = RemoteModel(MODEL.path, MODEL.sha256, MODEL.size, "another", url(server, "ok"))
    monkeypatch.setattr(fetch, "MODELS", {"fake": MODEL, "other": second})
    monkeypatch.setattr(models, "MODELS", fetch.MODELS)
    assert main(["models", "fetch", "other", "-d", str(tmp_path)]) == 0
    assert main(["models", "fetch", "all", "-d", str(tmp_path), "--base-url", url(server, "ok")]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"fake.tflite", "other.tflite"}
    assert capsys.readouterr().out.split() == [str(tmp_path / f"{name}.tflite") for name in ("other", "fake", "other")]


@pytest.mark.parametrize("there", ["", "new"])
def test_a_download_that_fails_leaves_no_folder(there: str, tmp_path: Path) -> None:
    if there:
        (tmp_path / there).mkdir()
    for name in ("resnet8_cifar10", "no such model"):
        with pytest.raises(TilewrightError):
            fetch_model(name, tmp_path / "new" / "folder", "http://127.0.0.1:1")
        assert [path.name for path in tmp_path.rglob("*")] == ([there] if there else [])
