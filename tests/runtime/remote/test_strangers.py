"""What strangers can send to a server."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from tests.runtime.remote.serving import Running, raw
from tilewright.runtime.remote.frames import MAGIC, PREFIX


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        (b"GET / HTTP/1.1\r\nHost: board\r\n\r\n", "speaks another protocol"),
        (PREFIX.pack(MAGIC, 1 << 31, 0), "a message of 2147483648 + 0 bytes, at most 4096 + 0 are accepted"),
        (raw(b"{}", payload=5), "at most 4096 + 0 are accepted"),
        (raw(b"{oops}"), "not valid JSON"),
        (raw(b"[" * 4000), "not valid JSON"),
        (raw(b"[1, 2]"), "not a JSON object"),
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
