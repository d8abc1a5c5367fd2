"""Each sentence of staff about a refused value belongs to a field and a code with which the product really refuses."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, get_args

import pytest

from presence_core import InvalidArgument, InvalidCode, Presence, SessionFilter
from presence_core.files import password_file
from presence_core.files.password_file import PasswordFile
from presence_core.operations.staff import approvals, block_rules, members, saved_items
from presence_dashboard import access, texts, time_range
from presence_dashboard.actions import kick_and_block, staff_members
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.error_sentences import plain
from tests.support.servers import wait_for

BY: dict[str, Any] = {"by": "alex", "reason": "test", "expected": 9}
LONG = "x" * 5_000


@dataclass(frozen=True)
class Bench:
    """What a case may use: a client, a folder, and patches that end with the case."""

    presence: Presence
    folder: Path
    patch: pytest.MonkeyPatch

    def kick(self, *details: Any, **more: Any) -> object:
        return kick_and_block.kick_refs(self.presence, ["ada:session-1"], ActionDetails(*details, **more))

    def save(self, name: str, text: str = "text") -> object:
        return self.presence.save_item("view", name, text, by="alex")

    def ask(self) -> str:
        return self.presence.ask_approval(country="FR", sessions=0, by="alex", reason="test").id

    def rule(self, **match: Any) -> object:
        return self.presence.add_block_rule(**match, **BY)

    def with_limit(self, module: object, name: str, act: Callable[[Bench], object]) -> object:
        """Act with this limit at 0."""
        self.patch.setattr(module, name, 0)
        return act(self)

    def reset_password(self, name: str) -> object:
        file = PasswordFile(self.folder / "staff")
        self.patch.setattr(staff_members, "password_file", lambda: file)
        return staff_members.reset_password(self.presence, name)

    def set_password(self) -> object:
        return PasswordFile(self.folder / "staff").set("dana", "correct horse battery")


def _search(**query: Any) -> object:
    return SessionQuery(**query).filter(datetime.now(UTC), UTC)


def _pause_an_ended_job(b: Bench) -> object:
    job = b.presence.start_kick(SessionFilter(text="no-user"), **BY)
    b.presence.cancel_job(job.id, by="alex")
    return b.presence.pause_job(job.id, by="alex")


def _expect_too_few(b: Bench) -> object:
    past = b.presence.login("user01").session.login_at + timedelta(milliseconds=1)
    wait_for("the next millisecond", lambda: b.presence.counts().as_of > past)
    return b.presence.start_kick(SessionFilter(text="user"), **BY | {"expected": 0})


def _shorten_a_rule(b: Bench) -> object:
    b.rule(country="FR", confirm_wide="FR")
    return b.rule(country="FR", confirm_wide="FR", duration=60)


def _add_twice(b: Bench) -> object:
    b.presence.add_staff("dana", "viewer", by="alex")
    return b.presence.add_staff("dana", "admin", by="alex")


def _demote_the_last_admin(b: Bench) -> object:
    b.presence.set_staff("dana", "admin", by="alex")
    return b.presence.set_staff("dana", "viewer", by="alex")


def _on_a_full_disk(b: Bench) -> object:
    def full(_handle: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    b.patch.setattr(os, "fsync", full)
    return b.set_password()


def _in_a_read_only_folder(b: Bench) -> None:
    b.patch.setattr(os, "access", lambda *_: False)
    PasswordFile(b.folder / "staff").check_writable()


def _while_another_program_writes(b: Bench) -> object:
    written = password_file._written

    def replaced(path: Path, *rest: Any) -> str:
        path.write_text("theirs\n")
        return written(path, *rest)

    b.patch.setattr(password_file, "_written", replaced)
    return b.set_password()


RAISED: dict[tuple[str, str], Callable[[Bench], object]] = {
    ("reason", ""): lambda b: b.kick("a\x00b"),
    ("message", ""): lambda b: b.kick("test", "x" * 501),
    ("ticket", ""): lambda b: b.kick("test", ticket="é" * 64),
    ("block_for", ""): lambda b: b.kick("test", block=-1),
    ("duration", ""): lambda b: kick_and_block.block(b.presence, "ada", ActionDetails("test", block=-1)),
    ("idle_timeout", ""): lambda b: kick_and_block.change_timeouts(b.presence, "ada", None, 60, 30, "test"),
    ("by", "items_full"): lambda b: b.with_limit(saved_items, "LISTS", lambda b: b.save("mine")),
    ("by", "requests_full"): lambda b: b.with_limit(approvals, "MAX_OWN", lambda b: b.ask()),
    ("by", "own_request"): lambda b: b.presence.answer_request(b.ask(), "approve", by="alex"),
    ("request_id", ""): lambda b: b.presence.answer_request("unknown-request", "approve", by="dana"),
    ("word", ""): lambda b: b.presence.answer_request("unknown-request", "refuse", by="dana", word=LONG * 2),
    ("by", "not_an_actor"): lambda b: b.presence.kick("ada", by="x" * 257, reason="test"),
    ("by", ""): lambda b: b.presence.audit(by="x" * 257),
    ("job_id", ""): _pause_an_ended_job,
    ("expected", ""): _expect_too_few,
    ("exclude", "too_many"): lambda b: b.presence.preview_kick(
        SessionFilter(text="u"), exclude=["a:session1"] * 10_001
    ),
    ("logged_in_after", "in_the_future"): lambda b: b.presence.preview_kick(
        SessionFilter(logged_in_after=time.time() + 60)
    ),
    ("logged_in_after", "wrong_order"): lambda _: SessionFilter(logged_in_after=2, logged_in_before=1),
    ("text", "items_full"): lambda b: b.with_limit(saved_items, "LIST_BYTES", lambda b: b.save("mine")),
    ("text", "not_storable"): lambda b: b.save("mine", LONG),
    ("text", "too_long"): lambda b: b.presence.people("a" * 257),
    ("text", ""): lambda b: b.presence.people("\u0301" * 100),
    ("name_prefix", ""): lambda _: SessionFilter(name_prefix=LONG),
    ("name_contains", ""): lambda _: SessionFilter(name_contains="\u0301"),
    ("ip", ""): lambda _: SessionFilter(ip="192.0.2.0/99"),
    ("uid", ""): lambda b: kick_and_block.block(b.presence, "a\nda", ActionDetails("test")),
    ("idle", ""): lambda _: _search(idle="soon"),
    ("seen", ""): lambda _: _search(seen="soon"),
    ("seen_within", ""): lambda _: _search(seen="0"),
    ("methods", ""): lambda _: _search(method=","),
    ("mfa", ""): lambda _: _search(mfa="true"),
    ("app_version_below", ""): lambda _: _search(below="beta"),
    ("time", ""): lambda _: time_range.resolve("soon", datetime.now(UTC), UTC),
    ("device", ""): lambda _: SessionFilter(device=LONG),
    ("os", ""): lambda _: SessionFilter(os=LONG),
    ("browser", ""): lambda _: SessionFilter(browser=LONG),
    ("attributes", ""): lambda _: SessionFilter(attributes={"plan": LONG}),
    ("country", "list_full"): lambda b: b.with_limit(
        block_rules, "MAX_RULES", lambda b: b.rule(country="FR", confirm_wide="FR")
    ),
    ("country", ""): lambda _: SessionFilter(country="F1"),
    ("app", "list_full"): lambda b: b.with_limit(
        block_rules, "MAX_RULES", lambda b: b.rule(app="ios", app_version="4.2.0")
    ),
    ("app", "required"): lambda b: b.rule(app_version="4.2.0"),
    ("app", ""): lambda _: SessionFilter(app=LONG),
    ("app_version", "required"): lambda b: b.rule(app="ios"),
    ("app_version", ""): lambda _: SessionFilter(app_version=LONG),
    ("since", ""): lambda b: b.presence.ended(since=2, until=1),
    ("network", "list_full"): lambda b: b.with_limit(block_rules, "MAX_RULES", lambda b: b.rule(network="192.0.2.7")),
    ("network", "not_an_as_number"): lambda _: SessionFilter(network="here"),
    ("network", ""): lambda b: b.rule(network="here"),
    ("confirm_wide", ""): lambda b: b.rule(country="FR"),
    ("until", "shortens_rule"): _shorten_a_rule,
    ("until", ""): lambda b: b.rule(network="192.0.2.7", until=1),
    ("role", ""): lambda b: b.presence.set_staff("dana", "boss", by="alex"),  # type: ignore[arg-type]
    ("password", ""): lambda b: staff_members.reset_password(b.presence, "dana"),
    ("PRESENCE_STAFF_FILE", "read_only"): _in_a_read_only_folder,
    ("PRESENCE_STAFF_FILE", "changed_meanwhile"): _while_another_program_writes,
    ("PRESENCE_STAFF_FILE", "disk_full"): _on_a_full_disk,
    ("PRESENCE_STAFF_FILE", ""): lambda b: PasswordFile(b.folder).find("dana"),
    ("cursor", ""): lambda b: b.presence.list_sessions(cursor="x"),
    ("name", "items_full"): lambda b: b.with_limit(saved_items, "MAX_ITEMS", lambda b: b.save("mine")),
    ("name", "empty"): lambda b: b.save(" "),
    ("name", "too_long"): lambda b: b.save("é" * 129),
    ("name", "unprintable"): lambda b: b.save("a\x00b"),
    ("name", "last_admin"): _demote_the_last_admin,
    ("name", "list_full"): lambda b: b.with_limit(
        members, "MAX_MEMBERS", lambda b: b.presence.set_staff("dana", "viewer", by="alex")
    ),
    ("name", "damaged"): lambda _: members._decoded("dana", b"?"),
    ("name", "exists"): _add_twice,
    ("name", "own_password"): lambda b: b.reset_password(access.require("staff", action="test").name),
    ("name", "no_role"): lambda b: b.reset_password("stranger"),
    ("name", "not_a_staff_name"): lambda b: b.presence.set_staff("é" * 65, "viewer", by="alex"),
}
"""Field and code of each sentence of ``ERROR_FIELD`` → how the product refuses with them. "": any other code."""

PAIRS = [(field, code) for field, sentences in texts.ERROR_FIELD.items() for code in sentences]


@pytest.mark.parametrize(("field", "code"), PAIRS)
def test_every_sentence_about_a_refused_value_is_one_that_staff_can_meet(
    field: str,
    code: Any,
    presence: Presence,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sentences = texts.ERROR_FIELD[field]
    with monkeypatch.context() as patch, pytest.raises(InvalidArgument) as refused:
        RAISED[field, code](Bench(presence, tmp_path, patch))
    error = refused.value
    assert error.field == field
    assert error.code == code or (not code and error.code not in sentences)
    said = plain(error)
    assert said == sentences[code]
    assert said not in (texts.ERROR_VALUE, str(error))
    assert "_" not in said, "no name of an argument"
    assert not caplog.records, "this is nothing for an engineer"


def test_every_case_has_a_sentence() -> None:
    assert set(RAISED) == set(PAIRS)


def test_the_words_of_a_refusal_choose_no_sentence() -> None:
    for field, sentences in texts.ERROR_FIELD.items():
        for code in get_args(InvalidCode):
            said = {plain(InvalidArgument(field, rule, code)) for rule in ("x", "saved items", "last admin")}
            assert said == {sentences.get(code) or sentences.get("") or texts.ERROR_VALUE}
