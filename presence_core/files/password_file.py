"""A password file for teams without single sign-on: a line ``name:hash`` a person (argon2), private to its owner.

A one-time password has its end before the hash: ``name:once=<Unix seconds>,hash``. Its owner may only choose another
password with it. A hash that took the place of a weaker one of the same password has the version of the password before
it: ``name:version=<32 hex digits>,hash``. Roles are not in the file: they are staff records, in Redis. The `presence
staff` command and the Staff page write the file, the sign-in of the dashboard reads it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final

from presence_core.errors import InvalidArgument, InvalidCode, OutcomeUnknown

if TYPE_CHECKING:
    from argon2 import PasswordHasher

VARIABLE: Final = "PRESENCE_STAFF_FILE"
SHORTEST, LONGEST = 12, 1024

ONE_TIME_DAYS: Final = 7
"""How long a one-time password is valid."""

_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
_LINE: Final = re.compile(r"(?:once=(\d{1,12}),)?(?:version=([0-9a-f]{32}),)?(\$argon2.*)")

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, repr=False)
class StoredPassword:
    """The password of a staff member as the file has it."""

    hash: str
    valid_until: int | None = None  #: Unix seconds, of a one-time password; None: its owner chose it
    kept_version: str | None = None  #: the version under the weaker hash that this hash has replaced

    @property
    def is_one_time(self) -> bool:
        """Whether its owner must choose another before they can sign in."""
        return self.valid_until is not None

    @property
    def has_expired(self) -> bool:
        """Whether it is a one-time password that is past its end."""
        return self.valid_until is not None and self.valid_until <= time.time()

    @property
    def version(self) -> str:
        """Another one for each password that is stored, also for the same password stored again. A stronger hash keeps
        it, because sign-ins end when it changes. No secret."""
        return self.kept_version or sha256(self.line("").encode()).hexdigest()[:32]

    def line(self, name: str) -> str:
        once = "" if self.valid_until is None else f"once={self.valid_until},"
        version = "" if self.kept_version is None else f"version={self.kept_version},"
        return f"{name}:{once}{version}{self.hash}"


def one_time_password() -> tuple[str, int]:
    """A new random password of 99 bits, and when it ends, in Unix seconds."""
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(5)) for _ in range(4))
    return "-".join(groups), int(time.time()) + ONE_TIME_DAYS * 86_400


class PasswordFile:
    """Reads the file again when it has changed, and replaces it as a whole. Safe for several threads and processes.

    If the file cannot be used, methods raise InvalidArgument with the field PRESENCE_STAFF_FILE and change nothing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._given = path
        self._hasher = _hasher()
        self._stamp: _Stamp | None = None
        self._passwords: dict[str, StoredPassword] = {}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> PasswordFile | None:
        """The file that PRESENCE_STAFF_FILE names; None without it."""
        path = environ.get(VARIABLE, "").strip()
        return cls(path) if path else None

    @property
    def path(self) -> Path:
        """The file itself. A link is followed each time, because it may be set to another file."""
        return Path(os.path.realpath(self._given))

    @cached_property
    def _dummy_hash(self) -> str:
        """Dummy hash, so that unknown names take as long as known ones."""
        return self._hasher.hash(os.urandom(32))

    # -- Read ---------------------------------------------------------------------------------------------------------

    def __contains__(self, name: str) -> bool:
        return name in self._read()

    def find(self, name: str) -> StoredPassword | None:
        """The stored password of this name."""
        return self._read().get(name)

    def verify(self, name: str, password: str) -> StoredPassword | None:
        """The stored password if this one is right: a tenth of a second of work and 64 MB, also for unknown names.

        The caller checks ``is_one_time`` and ``has_expired``. A hash that is weaker than today's default is replaced.
        """
        from argon2.exceptions import InvalidHashError, VerificationError

        known, dummy = self.find(name), self._dummy_hash
        try:
            self._hasher.verify(known.hash if known else dummy, _normal(password[: LONGEST + 1]))
        except (VerificationError, InvalidHashError):
            return None
        if known is not None and self._hasher.check_needs_rehash(known.hash):
            stronger = replace(known, hash=self._hasher.hash(_normal(password)), kept_version=known.version)
            with (
                contextlib.suppress(InvalidArgument),  # the password is right even if the file may not be written
                self._changing(name, stronger, known),
            ):
                return stronger
        return known

    def check_readable(self) -> None:
        """Raise InvalidArgument if there is no such file, or this process may not read it."""
        self._read()
        if self._stamp is None:
            raise InvalidArgument(
                VARIABLE, "must name a file that exists: presence staff add writes it", "unusable_file"
            )
        if _mode_of(self.path) & stat.S_IROTH:
            _log.warning("%s names a file that every user of this machine can read: chmod 600", VARIABLE)

    def check_writable(self) -> None:
        """Raise InvalidArgument if this process may not write the file. A full disk is not noticed here."""
        path = self.path
        self._read()
        for place in (path.parent, *([path] if self._stamp else [])):
            if not os.access(place, os.W_OK):
                raise InvalidArgument(VARIABLE, "must name a file that can be written (it is read-only)", "read_only")

    # -- Change -------------------------------------------------------------------------------------------------------

    def set(
        self, name: str, password: str, *, valid_until: int | None = None, instead_of: StoredPassword | None = None
    ) -> StoredPassword:
        """Store a password; the name may be new. Arguments as of ``storing``."""
        with self.storing(name, password, valid_until=valid_until, instead_of=instead_of) as stored:
            return stored

    @contextlib.contextmanager
    def storing(
        self, name: str, password: str, *, valid_until: int | None = None, instead_of: StoredPassword | None = None
    ) -> Iterator[StoredPassword]:
        """Store a password while the body runs. If the body raises, the file is again as it was before.

        Exception: after OutcomeUnknown the password stays, because the body may have had its effect. Other writers wait
        until the body has ended, so it must be short.

        valid_until: of a one-time password, Unix seconds. instead_of: refuse if the stored password is another.
        """
        if not name.isprintable() or name != name.strip() or not name:  # a line break would add another line
            raise InvalidArgument("name", "must be printable text, with no space at either end", "not_a_staff_name")
        check_password(password)
        stored = StoredPassword(self._hasher.hash(_normal(password)), valid_until)
        with self._changing(name, stored, instead_of):
            yield stored

    def remove(self, name: str) -> bool:
        """Delete the password of a name. False: there was none."""
        if name not in self:
            return False
        with self._changing(name, None, None):
            return True

    def _read(self) -> dict[str, StoredPassword]:
        try:
            stamp = _stamp_of(self.path)
            _check_mode(self.path)
            if stamp is None:
                self._passwords, self._stamp = {}, None
            elif stamp != self._stamp:
                self._passwords = dict(_entries(self.path.read_text("utf-8").splitlines()))
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(error) from None
        return self._passwords

    @contextlib.contextmanager
    def _changing(self, name: str, wanted: StoredPassword | None, instead_of: StoredPassword | None) -> Iterator[None]:
        """Replace the line of this name. All other lines stay, also those that are not valid."""
        with contextlib.ExitStack() as cleanup:
            try:
                path = self.path
                cleanup.enter_context(_locked(path.parent))
                stamp = _stamp_of(path)
                _check_mode(path)
                old = path.read_text("utf-8") if stamp else ""
                if instead_of is not None and dict(_entries(old.splitlines())).get(name) != instead_of:
                    raise InvalidArgument(
                        "password", "has been changed in the meantime: sign in again", "changed_meanwhile"
                    )
                kept = [line for line in old.splitlines() if _name_of(line) != name]
                lines = [*kept, *([wanted.line(name)] if wanted else [])]
                # Both versions are on the disk before anything changes. Renaming then needs no space.
                new_file = _written(path, "".join(f"{line}\n" for line in lines), cleanup)
                old_file = _written(path, old, cleanup) if stamp else None
                new_stamp = _stamp_of(new_file)
                if _stamp_of(path) != stamp:
                    raise InvalidArgument(
                        VARIABLE, "was changed by another program in the meantime: try again", "changed_meanwhile"
                    )
                os.replace(new_file, path)
            except (OSError, UnicodeDecodeError) as error:
                raise _unusable(error) from None
            try:
                yield
            except OutcomeUnknown:
                raise
            except BaseException:
                if _stamp_of(path) == new_stamp:  # otherwise another program has replaced it
                    os.replace(old_file, path) if old_file else path.unlink()
                raise


def check_password(password: str) -> None:
    """Raise InvalidArgument for a password that is too short or too long, without repeating it."""
    if not SHORTEST <= len(password) <= LONGEST:
        code: InvalidCode = "too_short" if len(password) < SHORTEST else "too_long"
        raise InvalidArgument("password", f"must be {SHORTEST} to {LONGEST} characters", code)


def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError:
        raise InvalidArgument(VARIABLE, "needs argon2-cffi: install the extra dashboard", "not_installed") from None
    return PasswordHasher()


def _normal(password: str) -> bytes:
    """The same bytes for the same password, however a keyboard composes accents."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def _name_of(line: str) -> str:
    return line.strip().rpartition(":")[0]


def _entries(lines: list[str]) -> Iterator[tuple[str, StoredPassword]]:
    for line in lines:
        name, _, known = line.strip().rpartition(":")
        found = _LINE.fullmatch(known)
        if name and found:
            yield name, StoredPassword(found[3], int(found[1]) if found[1] else None, found[2])


def _stamp_of(path: str | Path) -> _Stamp | None:
    """Changes with the content of the file; None: there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _mode_of(path: Path) -> int:
    """The permissions of the file; 0 if there is none, or where the system has no such permissions."""
    try:
        return stat.S_IMODE(path.stat().st_mode) if os.name == "posix" else 0
    except FileNotFoundError:
        return 0


def _check_mode(path: Path) -> None:
    """Raise InvalidArgument if others than the owner may write the file: they could choose a password for anyone."""
    mode = _mode_of(path)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidArgument(
            VARIABLE,
            f"must name a file that only its owner may write (its mode is {mode:04o}): chmod 600",
            "unusable_file",
        )


def _written(path: Path, text: str, cleanup: contextlib.ExitStack) -> str:
    """A new file with this text next to ``path``, complete on the disk. ``cleanup`` deletes it if it is still there."""
    handle, made = mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600 from the beginning
    cleanup.callback(Path(made).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(OSError):  # keep its owner, such as the user that runs the dashboard
        owner = path.stat()
        os.chown(made, owner.st_uid, owner.st_gid)
    return made


def _unusable(error: OSError | UnicodeDecodeError) -> InvalidArgument:
    is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
    rule = f"must name a file that can be read and written ({reason})"
    return InvalidArgument(VARIABLE, rule, "disk_full" if is_full else "unusable_file")


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
