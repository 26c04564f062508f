"""``tilewright serve``: a device of this machine for whoever reaches its port, one job at a time.

Each connection is greeted and served on a thread of its own. One of them has the device, the others wait their turn as
long as their client asked for.
"""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.device_base import Device
from tilewright.runtime.remote.frames import Channel, ConnectionLost, FrameError, RemoteError, reason
from tilewright.runtime.remote.hosts import check_host
from tilewright.runtime.remote.session import Programs, Session, error_reply
from tilewright.runtime.remote.turns import TakenError, Turns

PROTOCOL = 2
DEFAULT_PORT = 7747
_GREETING_BYTES = 4096
_LONGEST_WAIT = 86400.0

Log = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """What the server gives: bytes of one message, bytes of segments and programs, idle seconds, connections.

    A client has ``greeting_seconds`` to say what it wants.
    """

    request_bytes: int = 64 << 20
    memory_bytes: int = 512 << 20
    idle_seconds: float = 60.0
    connections: int = 16
    greeting_seconds: float = 10.0


class Server:
    """Listens on ``host``:``port`` (0: any free one) for clients of ``device``. :meth:`close` ends it.

    Raises :class:`RemoteError` if it cannot listen there, or no machine is called so. ``log`` gets one line per event.
    """

    def __init__(
        self, device: Device, host: str = "127.0.0.1", port: int = DEFAULT_PORT, *, limits: Limits = Limits(),
        log: Log = lambda line: None,
    ) -> None:  # fmt: skip
        self._device, self._limits, self._log = device, limits, log
        self._programs, self._turns = Programs(limits.memory_bytes), Turns()
        self._places = threading.BoundedSemaphore(limits.connections)
        check_host(host, "--host")
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listener = socket.create_server((host, port), family=family)
        except (OSError, OverflowError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            why = why.partition(" (while attempting")[0]  # it names host and port again
            raise RemoteError(f"cannot listen on {host} port {port}: {why}; choose another --host or --port") from error
        self._closed = threading.Event()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._listener.getsockname()[1])

    @property
    def waiting(self) -> int:
        """How many clients wait for their turn."""
        return self._turns.waiting

    def serve_forever(self) -> None:
        """Accept clients until :meth:`close`."""
        while not self._closed.is_set():
            try:
                connection, address = self._listener.accept()
            except OSError as error:
                if self._closed.is_set():
                    return
                self._log(f"a connection could not be accepted: {reason(error)}")
                time.sleep(0.1)
                continue
            peer = f"{address[0]}:{address[1]}"
            if self._places.acquire(blocking=False):
                threading.Thread(target=self._connection, args=(connection, peer), daemon=True).start()
            else:
                self._refuse(connection, peer)

    def close(self) -> None:
        """Stop listening. A session that is being served goes on to its end; doing it again does nothing."""
        if self._closed.is_set():
            return
        self._closed.set()
        # wakes accept(), which closing alone does not
        with socket.socket(self._listener.family, socket.SOCK_STREAM) as waker:
            waker.settimeout(1)
            waker.connect_ex(self._listener.getsockname()[:2])
        self._listener.close()

    def _refuse(self, connection: socket.socket, peer: str) -> None:
        """Hang up on a client too many."""
        why = f"{self._limits.connections} connections are open"
        self._log(f"{peer}: refused, {why}")
        self._tell(Channel(connection, peer, payload_limit=0, seconds=1), {"error": "full", "message": why})
        connection.close()

    # -- one connection ----------------------------------------------------------------------------------

    def _connection(self, connection: socket.socket, peer: str) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._greet(
                Channel(
                    connection,
                    peer,
                    payload_limit=0,
                    header_limit=_GREETING_BYTES,
                    seconds=self._limits.greeting_seconds,
                )
            )
        except (RemoteError, OSError) as error:
            self._log(str(error) if isinstance(error, RemoteError) else f"{peer}: {reason(error)}")
        except Exception:  # noqa: BLE001 - a defect in one session must not take the server down; it is logged in full
            self._log(f"{peer}: internal error\n{traceback.format_exc()}")
        finally:
            connection.close()
            self._places.release()

    def _greet(self, channel: Channel) -> None:
        """Answer a client's question, or let it have the device when it is its turn."""
        channel.send({"tilewright": PROTOCOL})
        hello, _ = channel.receive()
        welcome = {
            "device": self._device.name, "config": self._device.config.to_dict(),
            "max_request": self._limits.request_bytes, "shares": self._device.shares,
        }  # fmt: skip
        if hello.get("purpose") == "job":
            self._take_turn(channel, hello, welcome)
        else:
            channel.send(welcome)

    def _take_turn(self, channel: Channel, hello: dict[str, Any], welcome: dict[str, Any]) -> None:
        try:
            self._turns.take(channel.peer, _seconds(hello.get("wait")), lambda taken: self._notice(channel, taken))
        except TakenError as error:
            channel.send(error_reply(error, "busy"))
            return
        try:
            self._check_open(channel)
            channel.send(welcome)
            self._serve(channel)
        finally:
            self._turns.give_back()
        self._tell(channel, {"ok": True})  # only now: the client may come back at once

    def _notice(self, channel: Channel, taken: str) -> None:
        """Let a client know that it is still waiting; one that has gone is found out by this."""
        self._check_open(channel)
        channel.send({"waiting": taken})

    def _check_open(self, channel: Channel) -> None:
        """A client that has waited is not served any more once the server has been closed."""
        if self._closed.is_set():
            self._tell(channel, {"error": "closed", "message": "the server was closed"})
            raise RemoteError(f"{channel.peer}: waited until the server was closed")

    def _serve(self, channel: Channel) -> None:
        limits = self._limits
        channel = Channel(
            channel.connection, channel.peer, payload_limit=limits.request_bytes, seconds=limits.idle_seconds
        )
        self._log(f"{channel.peer}: begins")
        try:
            with self._device.turn.taken(f"the job of {channel.peer}"):  # beside who runs on it in this process
                Session(channel, self._device, self._programs, self._limits.memory_bytes).serve()
        except FrameError as error:
            self._tell(channel, error_reply(error, "request"))
            raise
        except RemoteError:
            raise
        except Exception as error:
            self._tell(channel, error_reply(RuntimeError(f"internal error: {type(error).__name__}"), "internal"))
            raise
        self._log(f"{channel.peer}: done")

    @staticmethod
    def _tell(channel: Channel, reply: dict[str, Any]) -> None:
        """Send a last word; a client that no longer listens is no new error."""
        try:
            channel.send(reply)
        except ConnectionLost:
            return


def _seconds(asked: Any) -> float:
    """How long a client would wait for the device; 0 for one that does not say so."""
    number = isinstance(asked, int | float) and not isinstance(asked, bool)
    return float(min(max(0.0, asked), _LONGEST_WAIT)) if number else 0.0
