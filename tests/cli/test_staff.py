"""`presence kick` and `presence revoke-before`."""

from __future__ import annotations

import json

from tests.cli.conftest import Run, without_times
from tests.conftest import on
from tests.support.facade import P


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
        "0 new_device, 0 distant\n"
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
def test_an_earlier_block_that_ends_later_stays_in_force(p: P, run: Run) -> None:
    p.block("ada", by="Grace", reason="fraud", ticket="T-1")
    code, out, err = run("block", "ada", "--reason", "spam", "--for", "60", "--ticket", "T-2")
    assert (code, out, err) == (
        0,
        "ada may not log in until unblocked (T-1, T-2). "
        "An earlier block ends later and stays in force: by Grace, fraud\n",
        "",
    )
