"""A password file for teams without single sign-on: a line ``name:hash`` a person (argon2), private to its owner.

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
    """Reads the file again when it has changed, and replaces it as a whole. Safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self._hasher = _hasher()
        self._stamp: tuple[int, int, int] | None = None
        self._hashes: dict[str, str] = {}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> PasswordFile | None:
        """The file that PRESENCE_STAFF_FILE names; None without it."""
        path = environ.get(VARIABLE, "").strip()
        return cls(path) if path else None

    @cached_property
    def _dummy_hash(self) -> str:
        """Dummy hash, so that unknown names take as long as known ones."""
        return self._hasher.hash(os.urandom(32))

    def __contains__(self, name: str) -> bool:
        return name in self._read()

    def verify(self, name: str, password: str) -> bool:
        """Whether this is the password of this name: a tenth of a second of work and 64 MB, also for unknown names.

        A hash that is weaker than today's default is replaced.
        """
        from argon2.exceptions import InvalidHashError, VerificationError

        known, dummy = self._read().get(name), self._dummy_hash
        try:
            self._hasher.verify(known or dummy, _normal(password[: LONGEST + 1]))
        except (VerificationError, InvalidHashError):
            return False
        if known is None:
            return False
        if self._hasher.check_needs_rehash(known):
            with contextlib.suppress(InvalidArgument):  # the password is right even if the file may not be written
                self.set(name, password)
        return True

    def set(self, name: str, password: str) -> None:
        """Store a password; the name may be new."""
        check_password(password)
        self._change(name, f"{name}:{self._hasher.hash(_normal(password))}")

    def remove(self, name: str) -> None:
        """Delete the password of a name, if there is one."""
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
        """Replace the line of this name. All other lines stay, also those that are not valid."""
        try:
            with _locked(self.path.parent):
                old = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
                kept = [entry for entry in old if entry.rpartition(":")[0] != name]
                self._replace("".join(f"{entry}\n" for entry in (*kept, *([line] if line else []))))
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(error) from None

    def _replace(self, text: str) -> None:
        handle, made = mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")  # 0600 from the beginning
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(OSError):  # keep its owner, such as the user that runs the dashboard
                owner = self.path.stat()
                os.chown(made, owner.st_uid, owner.st_gid)
            os.replace(made, self.path)
        except BaseException:
            os.unlink(made)
            raise


def check_password(password: str) -> None:
    """Raise InvalidArgument for a password that is too short or too long, without repeating it."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidArgument("password", f"must be {SHORTEST} to {LONGEST} characters")


def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError:
        raise InvalidArgument(VARIABLE, "needs argon2-cffi: install the extra dashboard") from None
    return PasswordHasher()


def _normal(password: str) -> bytes:
    """The same bytes for the same password, however a keyboard composes accents."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, known = line.strip().rpartition(":")
        if name and known.startswith("$argon2"):
            yield name, known


def _unusable(error: OSError | UnicodeDecodeError) -> InvalidArgument:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
    return InvalidArgument(VARIABLE, f"must name a file that can be read and written ({reason})")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock the directory against other writers, if the system has such locks."""
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
