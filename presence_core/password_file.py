"""The password file of a team without a sign-in of its own: ``name:hash`` a line, argon2, readable by its owner only.

Roles are not in it: they are staff records, in Redis. The `presence staff` command writes it, the dashboard reads it.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final

from presence_core.errors import InvalidArgument

if TYPE_CHECKING:
    from argon2 import PasswordHasher

VARIABLE: Final = "PRESENCE_STAFF_FILE"
SHORTEST, LONGEST = 12, 1024


class PasswordFile:
    """Read anew whenever it has changed; replaced as a whole. Safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self._hasher = _hasher()
        self._stamp: tuple[int, int, int] | None = None
        self._hashes: dict[str, str] = {}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> PasswordFile | None:
        """The one that PRESENCE_STAFF_FILE names; None where it names none."""
        path = environ.get(VARIABLE, "").strip()
        return cls(path) if path else None

    @cached_property
    def _nobody(self) -> str:
        """Of what nobody can type: who is not in the file is answered as slowly as who is."""
        return self._hasher.hash(os.urandom(32))

    def __contains__(self, name: str) -> bool:
        return name in self._read()

    def verify(self, name: str, password: str) -> bool:
        """Whether this is the password of this name: a tenth of a second of work and 64 MB, also for unknown names.

        A hash that is weaker than what is usual by now is made anew.
        """
        from argon2.exceptions import InvalidHashError, VerificationError

        known, nobody = self._read().get(name), self._nobody
        try:
            self._hasher.verify(known or nobody, _normal(password[: LONGEST + 1]))
        except (VerificationError, InvalidHashError):
            return False
        if known is None:
            return False
        if self._hasher.check_needs_rehash(known):
            with contextlib.suppress(InvalidArgument):  # a file that may not be written to still opens
                self.set(name, password)
        return True

    def set(self, name: str, password: str) -> None:
        """Write a new password down; the name may be new."""
        check_password(password)
        self._change(name, f"{name}:{self._hasher.hash(_normal(password))}")

    def remove(self, name: str) -> None:
        """Forget the password of a name, if there is one."""
        if self.path.exists() and name in self:
            self._change(name, None)

    def _read(self) -> dict[str, str]:
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                self._hashes = dict(_entries(self.path.read_text("utf-8").splitlines()))
                self._stamp = stamp
        except FileNotFoundError:
            self._hashes, self._stamp = {}, None
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(error) from None
        return self._hashes

    def _change(self, name: str, line: str | None) -> None:
        """Replace the line of this name. Others' lines stay as they are, also those that we cannot read."""
        try:
            with _alone(self.path.parent):
                old = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
                kept = [one for one in old if one.rpartition(":")[0] != name]
                self._replace("".join(f"{one}\n" for one in (*kept, *([line] if line else []))))
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(error) from None

    def _replace(self, text: str) -> None:
        handle, made = mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")  # 0600 from the beginning
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # whoever owns it now, such as the user that the dashboard runs as
                owner = self.path.stat()
                os.chown(made, owner.st_uid, owner.st_gid)
            os.replace(made, self.path)
        except BaseException:
            os.unlink(made)
            raise


def check_password(password: str) -> None:
    """Raises InvalidArgument for one that is too short or too long; says nothing of what it is."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidArgument("password", f"must be {SHORTEST} to {LONGEST} characters")


def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError:
        raise InvalidArgument(VARIABLE, "needs argon2-cffi: pip install 'presence-core[dashboard]'") from None
    return PasswordHasher()


def _normal(password: str) -> bytes:
    """The same bytes for the same password, whichever way a keyboard puts an accent on a letter."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, known = line.strip().rpartition(":")
        if name and known.startswith("$argon2"):
            yield name, known


def _unusable(error: OSError | UnicodeDecodeError) -> InvalidArgument:
    why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
    return InvalidArgument(VARIABLE, f"must name a file that can be read and written ({why})")


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Nobody else replaces the file meanwhile, where the system knows such locks."""
    try:
        import fcntl
    except ModuleNotFoundError:
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
