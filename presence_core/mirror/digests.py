"""Our ids of the site's sessions: keyed digests. The key stays with the mirror, so no one who reads our Redis can tell
whether a session of the site is among them."""

from __future__ import annotations

import hmac
import os
import secrets
from base64 import urlsafe_b64encode
from binascii import Error, a2b_base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from presence_core.embedded import user_state_dir
from presence_core.errors import InvalidArgument
from presence_core.files.secret_files import read_secret
from presence_core.models.mirror import id_prefix
from presence_core.web.rules import hashed_id

VARIABLE: Final = "PRESENCE_MIRROR_KEY"
BYTES: Final = 32
_TAG: Final = 6


def read_key(environ: Mapping[str, str]) -> bytes:
    """The digest key: of ``PRESENCE_MIRROR_KEY`` (or ``…_FILE``), else of a file of this user, made once."""
    given = read_secret(environ, VARIABLE).strip()
    return _decode(given, VARIABLE) if given else own_key(Path(user_state_dir(), "presence-mirror.key"))


def own_key(path: Path) -> bytes:
    """The digest key in this file, which is made if it is not there. Raises InvalidArgument."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return _decode(path.read_text("ascii").strip(), str(path))
        with open(descriptor, "w") as out:
            made = secrets.token_bytes(BYTES)
            out.write(urlsafe_b64encode(made).decode() + "\n")
        return made
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InvalidArgument(VARIABLE, f"must be set: {path} cannot be used ({reason})", "unusable_file") from None


def _decode(text: str, field: str) -> bytes:
    try:
        key = a2b_base64(text.replace("-", "+").replace("_", "/"), strict_mode=True)
    except (Error, ValueError):
        key = b""
    if len(key) < BYTES:
        rule = f"must be at least {BYTES} random bytes in base64: openssl rand -base64 {BYTES}"
        raise InvalidArgument(field, rule, "malformed")
    return key


class Digests:
    """Makes the ids of one mirror."""

    def __init__(self, key: bytes, name: str) -> None:
        """name: of the mirror; sessions of another one have other ids."""
        self._key = key
        self.prefix = id_prefix(name)  #: of every id of this mirror
        self.key_id = hmac.digest(key, b"key id", "sha256")[:6].hex()  #: which key this is

    def session_id(self, key: bytes, identity: tuple[str, str], generation: int) -> str:
        """Our id of the session in this key, of this user and login. generation: how many copies of it have ended."""
        parts = (key, *(part.encode("utf-8", "surrogatepass") for part in identity), b"%d" % generation)
        packed = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return self.prefix + urlsafe_b64encode(hmac.digest(self._key, packed, "sha256")[:18]).decode()


class MiddlewareIds:
    """The ids that our middleware asks for, of ``hashed_id``: for an import, after which the site itself records."""

    def __init__(self, prefix: str) -> None:
        self._skip = len(prefix.encode())

    def session_id(self, key: bytes, identity: tuple[str, str], generation: int) -> str:
        return hashed_id(key[self._skip :].decode("utf-8", "replace"))
