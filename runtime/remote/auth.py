"""Mutual proof of a shared token, by HMAC-SHA256 over both sides' nonces: the token itself never travels.

Each side sends a fresh nonce and the digest of its role and both nonces, so that a recorded exchange is of no use and
a digest cannot be reflected. Without TLS what follows is neither secret nor protected from changes on the way.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.files import read_bytes

TOKEN_VARIABLE = "TILEWRIGHT_TOKEN"
SHORTEST_TOKEN = 16
_NONCE_BYTES = 32


class TokenError(TilewrightError):
    """There is no token, or it is too short or malformed; says where it may come from."""


def new_token() -> str:
    """A random token of 256 bits."""
    return secrets.token_urlsafe(32)


def find_token(file: str | Path | None = None) -> str | None:
    """The token in ``file``, else in the environment variable ``TILEWRIGHT_TOKEN``, else None.

    Raises :class:`TokenError`, also for a file that others can read.
    """
    if file is not None:
        check_private(file)
        try:
            return check_token(read_bytes(file).decode().strip(), str(file))
        except UnicodeDecodeError as error:
            raise TokenError(f"{file}: the token is not text") from error
    if (value := os.environ.get(TOKEN_VARIABLE)) is not None:
        return check_token(value.strip(), TOKEN_VARIABLE)
    return None


def check_private(file: str | Path) -> None:
    """Raise :class:`TokenError` if others than its owner can read or write a file that holds a secret."""
    try:
        mode = os.stat(file).st_mode
    except OSError:
        return  # what is wrong with it, reading it will say
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TokenError(f"{file}: holds a secret that others can read (mode {mode & 0o777:o}); chmod 600 {file}")


def check_token(token: str, source: str) -> str:
    """The token, if it is long enough to be one. Raises :class:`TokenError` naming ``source``."""
    if len(token) < SHORTEST_TOKEN or not token.isprintable():
        raise TokenError(f"{source}: a token has at least {SHORTEST_TOKEN} printable characters")
    return token


def new_nonce() -> str:
    """A fresh random nonce, in hex."""
    return secrets.token_hex(_NONCE_BYTES)


def proof(token: str, role: str, server_nonce: str, client_nonce: str) -> str:
    """What ``role`` (``client`` or ``server``) sends to prove that it knows the token."""
    message = f"tilewright {role} {server_nonce} {client_nonce}".encode()
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


def proven(given: Any, token: str, role: str, server_nonce: Any, client_nonce: Any) -> bool:
    """Whether ``given`` is that proof; False for anything malformed."""
    if not all(isinstance(value, str) and value.isascii() for value in (given, server_nonce, client_nonce)):
        return False
    if min(len(server_nonce), len(client_nonce)) < 2 * _NONCE_BYTES:
        return False
    return hmac.compare_digest(given, proof(token, role, server_nonce, client_nonce))
