"""The password file of staff: a change is whole or not made, also if the body, the disk or another program fails."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from argon2 import PasswordHasher, Type
from argon2.profiles import RFC_9106_LOW_MEMORY

from presence_core import InvalidArgument, OutcomeUnknown
from presence_core.files import password_file as module
from presence_core.files.password_file import ONE_TIME_DAYS, PasswordFile, one_time_password
from tests.support.cheap_work import HASHER

SECRET, OTHER = "correct horse battery", "another horse battery"
END = 4_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> PasswordFile:
    """A file with the password of root."""
    made = PasswordFile(tmp_path / "passwords")
    made.set("root", SECRET)
    return made


def names(file: PasswordFile) -> list[str]:
    return sorted(path.name for path in file.path.parent.iterdir())


def test_a_one_time_password_is_random_and_ends_after_some_days(file: PasswordFile) -> None:
    first, until = one_time_password()
    assert first != one_time_password()[0]
    assert abs(until - time.time() - ONE_TIME_DAYS * 86_400) < 60
    file.set("dana", first, valid_until=until)
    stored = file.verify("dana", first)
    assert stored is not None
    assert (stored.is_one_time, stored.has_expired) == (True, False)
    assert first not in file.path.read_text()
    assert stored.hash not in repr(stored)

    file.set("dana", first, valid_until=int(time.time()))
    stored = file.verify("dana", first)
    assert stored is not None
    assert stored.has_expired
    file.set("dana", SECRET)
    stored = file.verify("dana", SECRET)
    assert stored is not None
    assert (stored.is_one_time, stored.has_expired) == (False, False)


@pytest.mark.skipif(os.name != "posix", reason="no such permissions")
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602, 0o660, 0o646, 0o777, 0o422])
def test_a_file_that_others_may_write_is_refused_everywhere(file: PasswordFile, mode: int) -> None:
    before = file.path.read_text()
    assert file.verify("root", SECRET) is not None
    file.path.chmod(mode)
    for use in (
        file.check_readable,
        file.check_writable,
        lambda: file.verify("root", SECRET),
        lambda: file.find("root"),
        lambda: file.set("eve", SECRET),
        lambda: file.remove("root"),
    ):
        with pytest.raises(InvalidArgument, match=rf"only its owner may write \(its mode is 0{mode:o}\): chmod 600"):
            use()
    assert file.path.read_text() == before
    file.path.chmod(0o600)
    assert file.verify("root", SECRET) is not None


@pytest.mark.skipif(os.name != "posix", reason="no such permissions")
@pytest.mark.parametrize(
    ("mode", "warned"), [(0o600, False), (0o640, False), (0o400, False), (0o644, True), (0o444, True)]
)
def test_a_file_that_every_user_may_read_is_warned_of(
    file: PasswordFile, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    file.path.chmod(mode)
    file.check_readable()
    assert ("every user of this machine can read" in caplog.text) is warned


def test_a_hash_costs_an_attacker_as_much_as_argon2_recommends() -> None:
    used, recommended = HASHER(), PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
    assert used.type is Type.ID
    assert (used.time_cost, used.memory_cost) >= (recommended.time_cost, recommended.memory_cost)


def test_a_renewed_hash_stays_a_one_time_password_and_keeps_its_version(file: PasswordFile) -> None:
    file.set("dana", SECRET, valid_until=END)
    weak = file.find("dana")
    assert weak is not None
    file._hasher = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
    stored = file.verify("dana", SECRET)
    assert stored is not None
    assert stored == file.find("dana") != weak
    assert (stored.valid_until, stored.version) == (END, weak.version)
    file._hasher = PasswordHasher(time_cost=3, memory_cost=64, parallelism=1)
    stored = file.verify("dana", SECRET)
    assert stored is not None
    assert stored == PasswordFile(file.path).find("dana")
    assert stored.version == weak.version
    with file.storing("dana", SECRET, valid_until=END) as again:
        assert again.version != weak.version, "stored again: its sign-ins end"


@pytest.mark.parametrize("failure", [RuntimeError("x"), KeyboardInterrupt(), InvalidArgument("name", "x")])
def test_if_the_body_fails_the_file_is_as_before(file: PasswordFile, failure: BaseException) -> None:
    def fail() -> NoReturn:
        assert "dana" in file or file.verify("root", OTHER)
        raise failure

    before = file.path.read_bytes()
    with pytest.raises(type(failure)), file.storing("dana", SECRET):
        fail()
    assert file.path.read_bytes() == before
    with pytest.raises(type(failure)), file.storing("root", OTHER):
        fail()
    assert file.verify("root", SECRET)
    assert names(file) == ["passwords"]

    file.path.unlink()
    with pytest.raises(type(failure)), file.storing("root", OTHER):
        fail()
    assert names(file) == []


def test_after_an_unknown_outcome_the_password_stays(file: PasswordFile) -> None:
    with pytest.raises(OutcomeUnknown), file.storing("dana", SECRET, valid_until=END):
        raise OutcomeUnknown("no reply", "here")
    assert file.verify("dana", SECRET)


def full_disk(_handle: int) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_nothing_changes_and_the_body_does_not_run(
    file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.path.read_bytes()
    monkeypatch.setattr("os.fsync", full_disk)
    for change in (lambda: file.set("dana", SECRET), lambda: file.remove("root")):
        with pytest.raises(InvalidArgument, match=r"^PRESENCE_STAFF_FILE must .*\(No space left on device\)\.$"):
            change()
    assert file.path.read_bytes() == before
    assert names(file) == ["passwords"]


def test_a_file_that_another_program_replaces_meanwhile_is_not_overwritten(
    file: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = module._written

    def replaced(path: Path, *rest: object) -> str:
        path.write_text("theirs\n")
        return written(path, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module, "_written", replaced)
        with pytest.raises(InvalidArgument, match=r"^PRESENCE_STAFF_FILE was changed by another program"):
            file.set("dana", SECRET)
    assert file.path.read_text() == "theirs\n"

    def replace_and_fail() -> NoReturn:
        file.path.write_text("theirs again\n")
        raise RuntimeError

    with pytest.raises(RuntimeError), file.storing("dana", SECRET):
        replace_and_fail()
    assert file.path.read_text() == "theirs again\n"
    assert names(file) == ["passwords"]


def test_a_password_that_was_changed_in_the_meantime_is_not_replaced(file: PasswordFile) -> None:
    first = file.find("root")
    file.set("root", OTHER)
    with pytest.raises(InvalidArgument, match=r"^password has been changed in the meantime"):
        file.set("root", "a third horse battery", instead_of=first)
    assert file.verify("root", OTHER)


@pytest.mark.parametrize("name", ["", " dana", "dana ", "x\nroot", "x\rroot", "x\u2028root", "x\x85root", "da\u202ena"])
def test_a_name_cannot_add_a_line_for_another_person(file: PasswordFile, name: str) -> None:
    before = file.path.read_bytes()
    with pytest.raises(InvalidArgument, match=r"^name must be printable text"):
        file.set(name, OTHER)
    assert file.path.read_bytes() == before


def test_a_link_is_followed_to_the_file_that_it_names_now(file: PasswordFile, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file.path)
    linked = PasswordFile(link)
    assert "root" in linked
    (tmp_path / "second").write_text("dana:$argon2id$x\n")
    link.unlink()
    link.symlink_to(tmp_path / "second")
    assert "root" not in linked
    linked.set("eve", SECRET)
    assert link.is_symlink()
    assert "eve" in PasswordFile(tmp_path / "second")


@pytest.mark.parametrize("place", ["passwords", ""])
def test_a_read_only_file_or_directory_is_reported(
    file: PasswordFile, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.check_writable()
    allowed: Callable[..., bool] = os.access
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path / place and allowed(path, mode))
    with pytest.raises(
        InvalidArgument, match=r"^PRESENCE_STAFF_FILE must name a file that can be written \(it is read"
    ):
        file.check_writable()


def test_a_path_that_cannot_be_looked_at_is_a_setting_that_is_wrong(tmp_path: Path) -> None:
    """As a directory that this user may not enter, for which a test may have too many rights."""
    file = PasswordFile(tmp_path / ("x" * 300))
    for use in (file.check_readable, file.check_writable, lambda: file.remove("root")):
        with pytest.raises(
            InvalidArgument, match=r"^PRESENCE_STAFF_FILE must name a file that can be read and written"
        ):
            use()
