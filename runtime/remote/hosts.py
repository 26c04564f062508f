"""Names of machines, as far as it can be said without asking anybody."""

from __future__ import annotations

from tilewright.runtime.remote.frames import RemoteError


def check_host(host: str, what: str) -> str:
    """``host``, if a machine or an address can be called so. Raises :class:`RemoteError` beginning with ``what``.

    An empty one is refused too: to the operating system it is every address that this machine has.
    """
    try:
        host.encode("idna")
        fits = host.isprintable() and not any(c.isspace() for c in host) and not host.startswith(".")
    except UnicodeError:  # characters or lengths that no name has
        fits = False
    if not host or not fits:
        raise RemoteError(f"{what}: {host!r} is no machine's name or address; give one such as 127.0.0.1")
    return host
