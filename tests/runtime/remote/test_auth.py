"""Who may use a server: tokens, proofs, TLS, and what strangers can send."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.preflight import lacking
from tests.runtime.network import TINY, images, make_artifact, reference
from tests.runtime.remote.serving import TOKEN, Running, raw, serving
from tilewright.runtime.device import open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote import auth
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.remote.frames import MAGIC, PREFIX, Channel, RemoteError
from tilewright.runtime.remote.server import Limits, tls_context


def test_a_wrong_token_is_denied(running: Running) -> None:
    with pytest.raises(RemoteError, match="the token is not the server's"):
        running.client(token="another token altogether")
    assert running.saw("denied, wrong token")
    assert running.is_well()


def test_a_missing_or_short_token_is_named(running: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(auth.TOKEN_VARIABLE, raising=False)
    with pytest.raises(auth.TokenError, match=r"needs the token .* TILEWRIGHT_TOKEN or --token-file"):
        RemoteDevice(TINY, running.url)
    monkeypatch.setenv(auth.TOKEN_VARIABLE, TOKEN)
    assert str(open_device(running.url, TINY)) == running.url
    monkeypatch.setenv(auth.TOKEN_VARIABLE, "short")
    with pytest.raises(auth.TokenError, match="at least 16 printable characters"):
        RemoteDevice(TINY, running.url)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    assert auth.find_token(tmp_path / "token") == TOKEN


def test_a_server_that_does_not_know_the_token_is_found_out() -> None:
    """An impostor can answer, but not prove the token."""
    listener = socket.create_server(("127.0.0.1", 0))

    def impostor() -> None:
        channel = Channel(listener.accept()[0], "client", 0)
        channel.send({"tilewright": 1, "nonce": auth.new_nonce()})
        hello, _ = channel.receive()
        channel.send({"proof": hello["proof"], "device": "sim", "config": TINY.to_dict(), "max_request": 1})

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(RemoteError, match="the server does not know the token"):
        RemoteDevice(TINY, f"pynq://127.0.0.1:{listener.getsockname()[1]}", TOKEN)
    thread.join()
    listener.close()


def test_proofs_bind_role_nonces_and_token() -> None:
    server, client = auth.new_nonce(), auth.new_nonce()
    given = auth.proof(TOKEN, "client", server, client)
    assert auth.proven(given, TOKEN, "client", server, client)
    assert not auth.proven(given, TOKEN, "server", server, client)
    assert not auth.proven(given, TOKEN, "client", client, server)
    assert not auth.proven(given, TOKEN + "x", "client", server, client)
    assert not auth.proven(given, TOKEN, "client", auth.new_nonce(), client)
    assert not auth.proven(auth.proof(TOKEN, "client", server, ""), TOKEN, "client", server, "")
    assert not auth.proven(None, TOKEN, "client", server, client)


@pytest.mark.skipif(bool(lacking("openssl")), reason=lacking("openssl"))
def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=board", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    x = images(2)
    with serving(tls=tls_context(certificate, key)) as running:
        secure = running.url.replace("pynq:", "pynqs:")
        device = RemoteDevice(TINY, secure, TOKEN, ca=certificate)
        assert np.array_equal(Executable(make_artifact(), device).run(x)[0], reference(x)[1].reshape(2, -1))
        with pytest.raises(RemoteError, match=r"no connection .*certificate verify failed"):
            RemoteDevice(TINY, secure, TOKEN)
    impatient = Limits(greeting_seconds=0.3)
    with (
        serving(tls=tls_context(certificate, key), limits=impatient) as running,
        pytest.raises(RemoteError, match=r"before it greeted; does it use TLS\? then write pynqs://"),
    ):
        RemoteDevice(TINY, running.url, TOKEN)
    with serving(tls=tls_context(certificate, key), limits=Limits(strangers=1)) as running:
        secure = running.url.replace("pynq:", "pynqs:")
        with (
            socket.create_connection(("127.0.0.1", running.server.port)),
            pytest.raises(RemoteError, match="hung up; it may have all the connections that it takes; waited 0 s"),
        ):
            RemoteDevice(TINY, secure, TOKEN, ca=certificate, wait=0)
        device = RemoteDevice(TINY, secure, TOKEN, ca=certificate)
        assert np.array_equal(Executable(make_artifact(), device).run(x)[0], reference(x)[1].reshape(2, -1))
    with serving() as plain, pytest.raises(RemoteError, match=r"no connection.*with TLS"):
        RemoteDevice(TINY, plain.url.replace("pynq:", "pynqs:"), TOKEN, ca=certificate)
    with pytest.raises(RemoteError, match="not usable as a TLS certificate"):
        tls_context(tmp_path / "none.pem", None)
    key.chmod(0o644)
    with pytest.raises(auth.TokenError, match=r"key\.pem: holds a secret that others can read \(mode 644\); chmod 600"):
        tls_context(certificate, key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_token_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(auth.new_token())
    file.chmod(mode)
    with pytest.raises(auth.TokenError, match=rf"others can read \(mode {mode:o}\); chmod 600 .*token"):
        auth.find_token(file)
    file.chmod(0o600)
    assert auth.find_token(file) == file.read_text()


@pytest.mark.parametrize(
    "error", [ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError]
)
def test_a_close_in_the_handshake_is_a_full_server_however_it_shows(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them a client meets is a matter of timing; all are worth waiting for."""

    def closed(*_: object, **__: object) -> None:
        raise error(1, "closed")

    monkeypatch.setattr("tilewright.runtime.remote.greeting.socket.create_connection", closed)
    with pytest.raises(RemoteError, match="hung up; it may have all the connections that it takes; waited 0 s"):
        RemoteDevice(TINY, "pynq://127.0.0.1:9", TOKEN, wait=0)


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        (b"GET / HTTP/1.1\r\nHost: board\r\n\r\n", "speaks another protocol"),
        (PREFIX.pack(MAGIC, 1 << 31, 0), "a message of 2147483648 + 0 bytes, at most 4096 + 0 are accepted"),
        (raw(b"{}", payload=5), "at most 4096 + 0 are accepted"),
        (raw(b"{oops}"), "not valid JSON"),
        (raw(b"[" * 4000), "not valid JSON"),
        (raw(b"[1, 2]"), "not a JSON object"),
        (raw(b"{}"), "denied, wrong token"),
        (raw(json.dumps({"proof": 7, "nonce": [1]}).encode()), "denied, wrong token"),
        (b"TWR1\x00", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_bytes_from_strangers(running: Running, sent: bytes, logged: str) -> None:
    with socket.create_connection(("127.0.0.1", running.server.port)) as stranger:
        with suppress(OSError):  # the server may have hung up already
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
        assert running.saw(logged)
    assert running.is_well()
