"""`presence kick` and `presence revoke-before`."""

from __future__ import annotations

import json

import pytest

from presence_core import KickResult, OutcomeUnknown, Presence, SessionFilter, Settings, Worker
from presence_core.models import NO_RUNNER
from tests.cli.conftest import Run, table_of, without_times
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT


@on("valkey-sync")
def test_revoke_before_asks_for_the_number_of_sessions(p: P, run: Run) -> None:
    p.login_many([{"uid": f"u{number}"} for number in range(1200)])
    now = ("revoke-before", "--before", "now", "--reason", "stolen keys")
    prompt = "To sign them out, type the number of sessions: "
    question = f"1,200 live sessions will end, and sessions that begin before you confirm.\n{prompt}"
    for typed in ("", "\n", "yes\n", "1199\n"):
        assert run(*now, typed=typed) == (1, "", f"{question}Nothing was done.\n")
    started = "2020-01-01 00:00:00 UTC"
    assert run("revoke-before", "--before", "2020-01-01", "--reason", "restore", typed="0\n") == (
        0,
        f"Signed out 0 sessions that began before {started}.\n",
        f"0 of 1,200 live sessions began before {started}.\n{prompt}",
    ), "the exit code is 0 although no session was so old"
    code, out, err = run(*now, "--message", "Log in again.", "--by", "Grace", typed="1,200\n")
    assert (code, err) == (0, question)
    lines = out.splitlines()
    assert lines[:2] == [
        "Signed out 1,200 sessions that began before now.",
        "Their tokens are invalid now. Sweeps remove them from the lists; presence counts shows when it is done.",
    ]
    assert p.count_sessions() == 0
    draining = "Revoked sessions are still being removed from the lists."
    assert run("counts")[1].splitlines()[-1] == draining
    p.sweep()
    assert run("counts")[1] == (
        "0 users online in 0 sessions\nsince the start: 1200 login, 0 logout, 0 expired, 1200 kicked, 0 replaced, "
        "0 new_device, 0 distant, 0 after_failures, 0 moved, 0 failed\n"
    )
    ended = p.ended("u7").items[0]
    assert (ended.reason, ended.cause, ended.by, ended.note) == ("kicked", "revoked", "Grace", "stolen keys")
    assert ended.message == "Log in again."
    p.login("ada")
    assert run(*now, "--yes", "--json") == (0, '{"signed_out": 1}\n', "")
    assert p.sessions("ada") == []


@on("valkey-sync")
def test_a_wrong_field_is_refused_before_the_confirmation(p: P, run: Run) -> None:
    p.login("ada")
    now = ("revoke-before", "--before", "now")
    assert run("revoke-before", "--before", "2200-01-01", "--reason", "x")[::2] == (
        2, "before must not be in the future.\n"
    )  # fmt: skip
    assert run(*now, "--reason", " ")[::2] == (2, "reason must be text of 1 to 500 characters.\n")
    assert run(*now, "--reason", "x", "--message", "")[::2] == (2, "message must be text of 1 to 500 characters.\n")
    assert run(*now, "--reason", "x", "--by", "")[::2] == (
        2, "by must be text of 1 to 256 bytes that says who does this.\n"
    )  # fmt: skip
    assert run("kick-where", "--uid", "ada", "--reason", "x", "--ticket", "")[::2] == (
        2, "ticket must be text of 1 to 64 bytes.\n"
    )  # fmt: skip
    assert p.count_sessions() == 1


@on("valkey-sync")
def test_change_timeouts_of_one_session_or_of_all(p: P, run: Run) -> None:
    for number in (1, 2):
        assert run("login", "ada", "--session-id", f"session-{number}", "--max-sessions", "2")[0] == 0
    why = ("--reason", "kiosk", "--by", "sue")
    change = ("change-timeouts", "ada", *why)
    code, out, _ = run(*change, "--idle-timeout", "300")
    assert (code, len(out.splitlines())) == (0, 2)
    both = ("--absolute-timeout", "3600", "--idle-timeout", "60")
    code, out, _ = run("change-timeouts", "ada", "session-1", *both, *why)
    assert (code, without_times(out)) == (
        0, "session-1: idle timeout 60 s, absolute timeout 3600 s, expires at TIME UTC\n"
    )  # fmt: skip
    refused = run(*change, "--idle-timeout", "100", "--only-shorten")
    assert refused[::2] == (
        2, "idle_timeout must not be longer than that of each session, as only_shorten is given.\n"
    )  # fmt: skip
    assert run(*change)[::2] == (2, "idle_timeout or absolute_timeout must be given.\n")
    assert run("change-timeouts", "bob", "--idle-timeout", "5", "--reason", "x")[:2] == (
        1, "bob has no such live session.\n"
    )  # fmt: skip
    assert {session.session_id: session.idle_timeout for session in p.sessions("ada")} == {
        "session-1": 60, "session-2": 300,
    }  # fmt: skip
    assert [session["idle_timeout"] for session in json.loads(run(*change, "--idle-timeout", "5", "--json")[1])] == [
        5, 5,
    ]  # fmt: skip
    assert run(*change, "--idle-timeout", "5", "--text", "ada")[::2] == (
        2, "uid cannot be combined with filters and their options.\n"
    )  # fmt: skip
    assert run("change-timeouts", "ada", "--idle-timeout", "5")[::2] == (2, "reason must be given.\n")


@on("valkey-sync")
def test_change_timeouts_of_all_that_match(p: P, run: Run) -> None:
    for uid, seconds in (("ada", "60"), ("bob", "600"), ("cyd", "900")):
        assert run("login", uid, "--device", "kiosk", "--idle-timeout", seconds)[0] == 0
    change = ("change-timeouts", "--device", "kiosk", "--idle-timeout", "300")
    code, out, _ = run(*change, "--dry-run")
    assert (code, without_times(out).splitlines()) == (
        0, ["3 live sessions match, as of TIME UTC.", "Of these, 2 would be shorter, 1 longer; 0 would end at once."]
    )  # fmt: skip
    why = ("--reason", "kiosk", "--by", "sue")
    code, _, asked = run(*change, *why, typed="2\n")
    assert (code, without_times(asked).splitlines()[-1]) == (
        1, "To change them, type the number of sessions: Nothing was done."
    )  # fmt: skip
    assert "as of TIME UTC. Of these, 2 would be shorter, 1 longer; 0 would end at once.\n" in without_times(asked)
    assert run(*change, *why, "--yes")[::2] == (
        2, "expected must be given with --yes: the most sessions that may change.\n"
    )  # fmt: skip
    assert run(*change, *why, "--yes", "--expected", "2")[0] == 2
    assert [entry.action for entry in p.audit()] == []
    code, out, _ = run(*change, *why, "--only-shorten", "--expected", "3", typed="3\n")
    assert (code, out.partition(" is ")[2]) == (0, "done: 2 of 3 sessions have new timeouts, by sue: kiosk\n")
    done = json.loads(run(*change, *why, "--yes", "--expected", "3", "--json")[1])
    assert [done[name] for name in ("kind", "idle_timeout", "kicked", "total")] == ["timeouts", 300, 1, 3]
    heading, *jobs = table_of(run("jobs")[1])[:3]
    assert (heading[1], [row[1] for row in jobs]) == ("WHAT", ["timeouts", "timeouts"])
    assert {session.idle_timeout for session in p.iter_sessions()} == {300}
    assert {entry.by for entry in p.audit()} == {"sue"}
    assert run("change-timeouts", "--device", "tv", "--idle-timeout", "5", *why)[0] == 1
    assert run("change-timeouts", "--idle-timeout", "5", *why)[0] == 2


@on("valkey-sync", "cluster-sync")
def test_kick_can_block_in_the_same_step(p: P, run: Run) -> None:
    p.login("ada")
    code, out, _ = run("kick", "ada", "--reason", "stolen", "--block-for", "60")
    assert code == 0
    assert without_times(out).splitlines()[:2] == ["Kicked 1 session of ada.", "ada may not log in until TIME UTC."]
    code, out, err = run("login", "ada")
    assert (code, out) == (1, "")
    assert err.startswith("Signing in is blocked until 2")
    assert run("kick", "ada", "--reason", "again", "--block-for", "90")[0] == 0, "the block is new"
    assert run("kick", "ada", "--reason", "x", "--block-for", "0")[0] == 2


@on("valkey-sync")
def test_require_sign_in_names_the_number_of_sessions(p: P, run: Run) -> None:
    tokens = [p.login("ada").token for _ in range(3)]
    first, second, _ = (session.session_id for session in p.sessions("ada"))
    code, out, _ = run("require-sign-in", "ada", "--reason", "odd login", "--keep", first)
    assert (code, out.splitlines()[0]) == (0, "ada must sign in again in 2 sessions.")
    assert sum(bool(p.validate(token)) for token in tokens) == 1
    code, out, _ = run("require-sign-in", "ada", second, "--reason", "odd login", "--message", "Hello.", "--json")
    assert [session["session_id"] for session in json.loads(out)["sessions"]] == [second]
    assert run("require-sign-in", "eve", "--reason", "x")[:2] == (1, "eve has no such live session.\n")
    code, out, _ = run("login", "eve", "--method", "pwd", "--method", "otp", "--json")
    assert json.loads(out)["session"]["methods"] == ["pwd", "otp"]
    assert p.sessions("eve")[0].mfa
    assert run("login", "eve", "--method", "Password")[0] == 2


@on("valkey-sync")
def test_kick_names_sessions_that_had_already_ended(p: P, run: Run) -> None:
    session = p.login("ada").session
    p.kick("ada", by="Grace", reason="stolen")
    code, out, err = run("kick", "ada", session.session_id, "--reason", "stolen")
    assert (code, without_times(out), err) == (
        1,
        f"Kicked 0 sessions of ada.\n{session.session_id} had already ended: kicked at TIME UTC by Grace.\n",
        "",
    )


@on("valkey-sync")
def test_kick_refs_says_what_ended_what_had_ended_and_what_is_unknown(
    p: P, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [p.login(uid, session_id=f"session-{uid}").session.ref for uid in ("ada", "bob", "eve")]
    p.logout("bob", "session-bob")
    code, out, _ = run("kick-refs", *refs, "zoe:session-9", "--reason", "shared password", "--ticket", "T-1")
    assert (code, without_times(out)) == (
        0,
        "Kicked 2 sessions.\nbob:session-bob had already ended: logout at TIME UTC by bob.\n"
        "zoe:session-9 is unknown, or its end is no longer kept.\n",
    )
    assert p.counts().sessions == 0
    code, out, _ = run("kick-refs", refs[0], "--reason", "again", "--json")
    assert (code, json.loads(out)["count"], json.loads(out)["already_ended"][0]["ticket"]) == (1, 0, "T-1")
    assert run("kick-refs", "ada", "--reason", "x")[:2] == (2, "")
    lost = OutcomeUnknown("No reply from 10.0.0.1:6379.")
    monkeypatch.setattr(Presence, "kick_refs", lambda *_, **__: KickResult([], [], failed={refs[0]: lost}))
    code, out, err = run("kick-refs", refs[0], "--reason", "x", "--json")
    assert (code, json.loads(out)["failed"]) == (3, {refs[0]: "No reply from 10.0.0.1:6379."})
    assert "ada:session-ada may still be live. No reply from 10.0.0.1:6379." in err


@on("valkey-sync")
def test_an_earlier_block_that_ends_later_stays_in_force(p: P, run: Run) -> None:
    p.block("ada", by="Grace", reason="fraud", ticket="T-1")
    code, out, err = run("block", "ada", "--reason", "spam", "--for", "60", "--ticket", "T-2")
    assert (code, out, err) == (
        0,
        "ada may not log in until unblocked (T-1, T-2). "
        "An earlier block ends later and stays in force: by Grace, fraud\n",
        "",
    )


@on("valkey-sync")
def test_a_job_that_no_worker_runs_says_so(p: P, bed: Bed, run: Run) -> None:
    p.login("ada")
    job = p.start_kick(SessionFilter(uid="ada"), by="staff", reason="test", expected=1)
    code, out, _ = run("job", job.id)
    assert (code, out.splitlines()[1]) == (0, NO_RUNNER)
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
        Worker(presence)._beat()
    assert NO_RUNNER not in run("job", job.id)[1]
