"""Staff members: their records, the last admin, the audit, and the command that manages them."""

from __future__ import annotations

import io
import json
import os
import pty
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest
from argon2 import PasswordHasher

from presence_core import CorruptData, InvalidArgument, SavedKind, StaffMember, cli
from presence_core.files.password_file import PasswordFile
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.server_line import without_server_line

SECRET = "correct horse battery"


def roles(p: P) -> dict[str, str | None]:
    return {member.name: member.role for member in p.staff()}


# -- records ----------------------------------------------------------------------------------------------------------


@every_backend
def test_a_role_is_given_changed_and_removed_and_each_change_is_audited(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    assert p.staff() == []
    assert p.staff_member("Dana@Example.com") is None
    assert p.set_staff("root", "admin", by="command line").role == "admin"
    made = p.set_staff("Dana@Example.com", "viewer", by="root")
    assert made == StaffMember("dana@example.com", "viewer", p.clock.now, "root") == p.staff_member("DANA@example.com")
    p.advance(5)
    assert p.set_staff("dana@example.com", "viewer", by="eve") == made, "nothing changes, so nothing is written"
    assert p.set_staff("dana@example.com", "support", by="root").role == "support"
    assert p.remove_staff("dana@example.com", by="root")
    assert not p.remove_staff("dana@example.com", by="root")
    assert not p.remove_staff("nobody", by="root")
    assert roles(p) == {"dana@example.com": None, "root": "admin"}
    assert [(entry.action, entry.by, entry.outcome) for entry in p.audit()] == [
        ("staff", "root", "dana@example.com is no longer on the staff, was support"),
        ("staff", "root", "dana@example.com is now support, was viewer"),
        ("staff", "root", "dana@example.com is now viewer"),
        ("staff", "command line", "root is now admin"),
    ]


@every_topology
def test_a_claim_creates_a_record_once_and_never_for_a_removed_member(p: P) -> None:
    assert p.seed_staff("dana", "viewer", by="sign-in").role == "viewer"
    assert p.seed_staff("dana", "admin", by="sign-in").role == "viewer"
    assert p.set_staff("dana", "support", by="root").role == "support"
    assert p.seed_staff("dana", "viewer", by="sign-in").role == "support"
    assert p.remove_staff("dana", by="root")
    assert p.seed_staff("dana", "admin", by="sign-in").role is None
    assert p.set_staff("dana", "viewer", by="root").role == "viewer", "staff may take them back"


@every_topology
def test_a_member_is_added_once_also_after_a_removal(p: P) -> None:
    assert p.add_staff("Dana", "viewer", by="root").role == "viewer"
    for role in ("viewer", "admin"):
        with pytest.raises(InvalidArgument, match=r"^name must be new: dana has the role viewer already\.$"):
            p.add_staff("dana", role, by="eve")
    assert p.remove_staff("dana", by="root")
    assert p.add_staff("dana", "support", by="eve").by == "eve"
    assert [entry.outcome for entry in p.audit()] == [
        "dana is now support", "dana is no longer on the staff, was viewer", "dana is now viewer",
    ]  # fmt: skip


@on("valkey-sync", "redis7-async")
def test_of_several_who_add_the_same_member_at_once_one_succeeds(p: P) -> None:
    def add(number: int) -> bool:
        try:
            p.add_staff("dana", "viewer", by=f"admin{number}")
        except InvalidArgument:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(add, range(8)))
    assert results.count(True) == 1
    assert [member.by for member in p.staff()] == [f"admin{results.index(True)}"]
    assert p.audit().total == 1


@every_topology
def test_removing_a_member_deletes_their_own_saved_items_and_no_others(p: P) -> None:
    p.set_staff("root", "admin", by="command line")
    p.set_staff("dana", "support", by="root")
    for kind in get_args(SavedKind):
        p.save_item(kind, "mine", "q=a", by="Dana")
        p.save_item(kind, "ours", "q=a", by="dana", shared=True)
        p.save_item(kind, "hers", "q=a", by="root")
    with pytest.raises(InvalidArgument):
        p.remove_staff("root", by="dana")
    assert p.set_staff("dana", "viewer", by="root").role == "viewer"
    assert [item.name for item in p.saved_items("view", owner="dana")] == ["mine", "ours"], "a demotion keeps them"
    assert p.remove_staff("DANA", by="root")
    for kind in get_args(SavedKind):
        assert [item.name for item in p.saved_items(kind, owner="dana")] == ["ours"]
        assert [item.name for item in p.saved_items(kind, owner="root")] == ["hers", "ours"]


def test_the_last_admin_can_be_removed_only_by_force(p: P) -> None:
    p.set_staff("root", "admin", by="command line")
    for change in (
        lambda: p.remove_staff("root", by="root"),
        lambda: p.set_staff("root", "viewer", by="root"),
    ):
        with pytest.raises(
            InvalidArgument, match=r"^name must not be the last admin: make another member admin first\.$"
        ):
            change()
    assert roles(p) == {"root": "admin"}
    p.set_staff("dana", "admin", by="root")
    assert p.set_staff("root", "viewer", by="dana").role == "viewer"
    assert p.remove_staff("dana", by="command line", force=True)
    assert p.audit().items[0].outcome == "dana is no longer on the staff, was admin, glass broken"


@on("valkey-sync", "redis7-async")
def test_admins_who_remove_each_other_at_once_leave_one(p: P) -> None:
    names = [f"admin{number}" for number in range(8)]
    for name in names:
        p.set_staff(name, "admin", by="command line")

    def remove(name: str) -> bool:
        try:
            return p.remove_staff(name, by="a race")
        except InvalidArgument:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(remove, names)) == 7
    assert [role for role in roles(p).values() if role] == ["admin"]


@on("valkey-sync", "valkey-async")
@pytest.mark.parametrize(
    ("name", "role", "sentence"),
    [
        ("", "viewer", "name must be text of 1 to 128 bytes."),
        ("x" * 129, "viewer", "name must be text of 1 to 128 bytes."),
        (" dana", "viewer", "name must be 1 to 128 bytes of printable text, with no space at either end."),
        (
            "da\u202ena",
            "viewer",
            "name must be 1 to 128 bytes of printable text, with no space at either end.",
        ),
        ("a\nb", "viewer", "name must be text of 1 to 128 bytes, without control characters."),
        (None, "viewer", "name must be 1 to 128 bytes of printable text, with no space at either end."),
        ("dana", "root", "role must be one of stats, viewer, support, admin."),
        ("dana", None, "role must be one of stats, viewer, support, admin."),
        ("dana", "removed", "role must be one of stats, viewer, support, admin."),
    ],
)
def test_a_bad_name_or_role_is_refused_in_one_sentence(p: P, name: str, role: Any, sentence: str) -> None:
    for give in (p.set_staff, p.seed_staff, p.add_staff):
        with pytest.raises(InvalidArgument) as refused:
            give(name, role, by="root")
        assert str(refused.value) == sentence
    assert p.staff() == []


@on("valkey-sync", "redis7-sync")
def test_a_damaged_record_gives_no_role(bed: Bed, p: P) -> None:
    p.set_staff("root", "admin", by="command line")
    [key] = bed.families()["staff"]
    for name, junk in (
        ("a", b""),
        ("b", b"admin"),
        ("c", b"emperor\n1\nx"),
        ("d", b"admin\nsoon\nx"),
        ("e", b"\xff\n"),
    ):
        bed.raw.hset(key, name, junk)
        assert p.staff_member(name) is None
    assert roles(p) == {"root": "admin"}
    with pytest.raises(InvalidArgument, match="last admin"):
        p.remove_staff("root", by="root")
    assert p.set_staff("a", "viewer", by="root").role == "viewer"
    bed.raw.delete(key)
    bed.raw.set(key, "mine")
    with pytest.raises(CorruptData):
        p.set_staff("root", "admin", by="command line")
    assert p.audit().total == 2


# -- the command ------------------------------------------------------------------------------------------------------

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(bed: Bed, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """Run ``presence staff …``; returns exit code, standard output and standard error."""
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    monkeypatch.setenv("PRESENCE_STAFF_FILE", str(tmp_path / "staff"))

    def run(*words: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = cli.main(["staff", *words])
        caught = capsys.readouterr()
        return code, caught.out, without_server_line(caught.err)

    return run


@on("valkey-sync")
def test_the_command_manages_roles_and_passwords(p: P, said: Said, tmp_path: Path) -> None:
    path = tmp_path / "staff"
    assert said("list") == (0, "No one has a role yet. Add the first: presence staff add NAME --role admin\n", "")
    assert said("add", "Root", "--role", "admin", "--password-stdin", typed=SECRET + "\n")[0] == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file = PasswordFile(path)
    assert file.verify("root", SECRET)
    assert not file.verify("root", SECRET + "x")
    assert not file.verify("nobody", SECRET)
    assert SECRET not in path.read_text()

    assert said("add", "dana", "--role", "viewer", "--password-stdin", typed="short\n") == (
        2, "", "password must be 12 to 1024 characters.\n",
    )  # fmt: skip
    assert roles(p) == {"root": "admin"}, "nothing is half-written"
    assert said("add", "dana", "--role", "viewer", "--password-stdin", typed="x" * 12)[0] == 0
    assert said("add", "dana", "--role", "admin")[0] == 2
    assert said("role", "dana", "support") == (
        0, "dana is now support. Open pages follow within 5 seconds.\n", "",
    )  # fmt: skip
    assert said("password", "dana", "--password-stdin", typed="y" * 12)[0] == 0
    assert file.verify("dana", "y" * 12), "a change is seen without a restart"
    lines = said("list")[1].splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["dana", "support"], ["root", "admin"]]

    assert said("remove", "root") == (2, "", "name must not be the last admin: make another member admin first.\n")
    assert file.verify("root", SECRET)
    assert said("role", "root", "viewer", "--break-glass")[0] == 0
    assert said("remove", "dana")[0] == 0
    assert "dana" not in file
    assert said("remove", "dana")[0] == 1
    assert said("role", "nobody", "admin")[0] == 1
    assert path.read_text().count("\n") == 1
    assert [file.name for file in path.parent.iterdir()] == ["staff"]


@on("valkey-sync")
def test_the_command_makes_a_one_time_password_and_prints_it_once(p: P, said: Said, tmp_path: Path) -> None:
    code, out, _ = said("add", "root", "--role", "admin", "--one-time")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "root is admin."
    password = lines[1].removeprefix("One-time password: ")
    assert lines[2].endswith("UTC. It is not shown again.")
    stored = PasswordFile(tmp_path / "staff").verify("root", password)
    assert stored
    assert stored.is_one_time
    assert said("list")[1].split()[-1] == "one-time"

    reset = json.loads(said("password", "root", "--one-time", "--json")[1])
    assert sorted(reset) == ["name", "password", "valid_until"]
    assert reset["password"] != password
    assert PasswordFile(tmp_path / "staff").verify("root", reset["password"])
    before = (tmp_path / "staff").read_bytes()
    assert said("add", "ROOT", "--role", "stats", "--one-time")[0] == 2
    assert said("add", "dana", "--role", "stats", "--one-time", "--password-stdin")[0] == 2
    assert (tmp_path / "staff").read_bytes() == before
    assert all(password not in entry.outcome for entry in p.audit())


@on("valkey-sync")
def test_if_the_record_cannot_be_written_the_command_leaves_no_password(
    p: P, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("presence_core.operations.staff.members.MAX_MEMBERS", 1)
    p.set_staff("root", "admin", by="test")
    assert said("add", "dana", "--role", "viewer", "--one-time") == (
        2, "", "name cannot be added: the limit of 1 staff records is reached.\n",
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@on("valkey-sync")
def test_a_member_is_removed_although_the_password_cannot_be_deleted(p: P, said: Said, tmp_path: Path) -> None:
    for name in ("root", "dana"):
        p.set_staff(name, "admin", by="test")
    (tmp_path / "staff").write_bytes(b"\xff")
    assert said("remove", "dana", "--json") == (
        1, '{"removed": true}\n',
        "The password of dana is still stored, and opens nothing without a role. PRESENCE_STAFF_FILE must name a file "
        "that can be read and written (it is not text).\n",
    )  # fmt: skip
    assert roles(p) == {"root": "admin", "dana": None}


@on("valkey-sync")
def test_without_a_password_file_there_are_only_roles(p: P, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRESENCE_STAFF_FILE")
    assert said("add", "dana@example.com", "--role", "admin")[:2] == (0, "dana@example.com is admin.\n")
    code, _, wrong = said("password", "dana@example.com")
    assert (code, wrong) == (2, "PRESENCE_STAFF_FILE must name the password file.\n")
    assert roles(p) == {"dana@example.com": "admin"}


def test_lines_of_other_programs_are_kept_and_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "staff"
    path.write_text("# ours\nbroken\n")
    file = PasswordFile(path)
    assert not file.verify("broken", SECRET)
    file.set("dana", SECRET)
    assert path.read_text().startswith("# ours\nbroken\ndana:$argon2id$")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match=r"^PRESENCE_STAFF_FILE must name a file that can be read"):
        file.verify("dana", SECRET)


def test_a_hash_weaker_than_the_current_setting_is_renewed(tmp_path: Path) -> None:
    path = tmp_path / "staff"
    path.write_text(f"dana:{PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(SECRET)}\n")
    file, weak = PasswordFile(path), path.read_text()
    assert not file.verify("dana", "wrong horse battery")
    assert path.read_text() == weak
    assert file.verify("dana", SECRET)
    assert path.read_text() != weak
    assert file.verify("dana", SECRET)


@on("valkey-sync")
def test_at_a_terminal_a_password_is_typed_twice_and_never_shown(p: P, said: Said, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "presence_core.cli", "staff", "add", "root", "--role", "admin"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    seen = b""
    for prompt in (b"New password: ", b"Repeat the password: "):
        while not seen.endswith(prompt):
            seen += os.read(terminal, 1024)
        os.write(terminal, SECRET.encode() + b"\n")
    try:
        while more := os.read(terminal, 1024):
            seen += more
    except OSError:  # how Linux reports that the other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"root is admin, with a password." in seen
    assert SECRET.encode() not in seen
    assert PasswordFile(tmp_path / "staff").verify("root", SECRET)
    assert roles(p) == {"root": "admin"}
