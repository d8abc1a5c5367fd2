"""The findings of a security review, one test each."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from presence_core import CorruptData, InvalidArgument, LoginRefused, Presence, Settings, Unavailable
from presence_core.cli import main as command
from presence_core.operations.maintenance import repair as repair_operations
from presence_core.operations.sessions import login_calls
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT


@every_topology
def test_a_kick_of_one_session_works_although_the_list_is_lost(p: P, raw: Any) -> None:
    login = p.login("ada")
    raw.delete(p.context.keys.shard("ada").sessions)
    assert p.kick("ada", login.session.session_id, by="staff", reason="test")
    p.repair()
    assert not p.validate(login.token)
    assert p.counts().totals["kicked"] == 1


def test_a_kick_of_all_reports_that_the_users_set_is_lost(p: P, raw: Any) -> None:
    login = p.login("ada")
    raw.delete(p.context.keys.shard("ada").user("ada"))
    with pytest.raises(CorruptData, match="repair"):
        p.kick("ada", by="staff", reason="test")
    p.repair()
    assert p.kick("ada", by="staff", reason="test")
    assert not p.validate(login.token)


class Role(str, enum.Enum):  # noqa: UP042 (a StrEnum says its value; this one does not)
    ADA = "ada"


def test_a_uid_of_a_str_subclass_is_stored_as_text(p: P) -> None:
    login = p.login(Role.ADA)
    assert p.validate(login.token)
    assert type(p.sessions("ada")[0].uid) is str


def test_a_refused_rotation_has_a_reason(p: P) -> None:
    old = p.login("ada").token
    p.rotate(old)
    with pytest.raises(LoginRefused, match="its secret was changed"):
        p.rotate(old)


def test_an_impossible_stream_position_is_a_bad_argument(p: P) -> None:
    with pytest.raises(InvalidArgument):
        p.events(after="NS05OTk5OTk5OTk5OTk5OTk5OTk5OQ")


@on("valkey-sync", "redis7-sync")
def test_a_read_only_client_learns_the_layout_once_a_writer_has_written_it(bed: Bed) -> None:
    bed.raw.execute_command("ACL", "SETUSER", "viewer", "reset", "on", ">s", "allkeys", "+@read", "+evalsha_ro",
                            "+script|load", "+@connection", "+time")  # fmt: skip
    path = bed.raw.connection_pool.connection_kwargs["path"]
    name = bed.namespace
    with (
        Presence.from_url(f"unix://viewer:s@{path}", Settings(namespace=name, heal=False, timeout=PATIENT)) as viewer,
        Presence.from_url(f"unix://{path}", Settings(namespace=name, shards=8, timeout=PATIENT)) as writer,
    ):
        assert viewer.counts().sessions == 0
        writer.login_many([{"uid": f"u{number}"} for number in range(20)])
        assert viewer.counts().sessions == 20
        bed.raw.delete(f"{{{name}}}:layout")
        writer.sweep()  # stores the layout again, before a new client chooses another one
        assert bed.raw.hget(f"{{{name}}}:layout", "shards") == b"8"


@on("valkey-sync")
def test_the_command_line_prints_no_escape_sequence(
    bed: Bed, p: P, raw: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = p.login("ada", name="Ada\u202e").session
    raw.hset(p.context.keys.shard("ada").record("ada", session.session_id), "n", b"\x1b[31mRED\nFAKE ROW")
    path = raw.connection_pool.connection_kwargs["path"]
    monkeypatch.setenv("PRESENCE_REDIS_URL", f"unix://{path}")
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    assert command(["list"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 3
    assert command(["kick", "nobody", "--reason", "test"]) == 1
    assert command(["kick", "ada", "--reason", "test", "--json"]) == 0
    assert command(["show", "ada"]) == 1
    assert command(["list", "--limit", "0"]) == 2
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://127.0.0.1:1")
    assert command(["counts"]) == 3


def test_unavailable_quotes_the_error_of_redis() -> None:
    assert Unavailable("sentence", "host:1", "NOPERM").code == "NOPERM"


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_repair_frees_the_labels_that_hostile_user_agents_took(p: P, raw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_calls, "MAX_LABELS", 20)
    monkeypatch.setattr(repair_operations, "PRUNE_FROM", 10)
    kept = p.login("ada", user_agent="kept by a session").session
    over = p.login("ada", user_agent="kept by a tombstone").session
    p.kick("ada", over.session_id, by="staff", reason="test")
    for number in range(40):
        session = p.login("ada", user_agent=f"hostile {number}").session
        raw.unlink(p.context.keys.shard("ada").record("ada", session.session_id))
    p.repair()
    labels = raw.hvals(p.context.keys.shard("ada").labels)
    assert sorted(label.rpartition(b"\n")[2] for label in labels) == [b"kept by a session", b"kept by a tombstone"]
    found = p.get("ada", kept.session_id)
    assert found is not None
    assert found.user_agent == "kept by a session"
    ended = p.validate_session("ada", over.session_id).ended
    assert ended is not None
    assert ended.user_agent == "kept by a tombstone"
