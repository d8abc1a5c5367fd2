"""Commands on sessions: `presence login`, `logout` and `ended`; and what an empty page says."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.place_file import write_place_file

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@on("valkey-sync")
def test_sign_ins_of_a_user_are_listed_as_long_as_they_are_kept(
    bed: Bed, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_KEEP_SIGN_INS", "90")
    p = bed.connect(keep_sign_ins=90, place_file=str(write_place_file(tmp_path / "places.mmdb")))
    code, out, _ = run("sign-ins", "ada")
    assert (code, out.splitlines()[0]) == (1, "No login of ada is stored.")
    session = p.login("ada", device="phone", app="shop", ip="192.0.2.7", user_agent=FIREFOX).session
    code, out, _ = run("sign-ins", "ada")
    heading, line = out.splitlines()
    assert (code, heading.split()) == (0, ["LOGIN", "(UTC)", "PLACE", "DEVICE", "APP", "OS", "BROWSER"])
    assert line.split()[2:] == ["Lyon,", "FR", "phone", "shop", "Linux", "Firefox"]
    [shown] = json.loads(run("sign-ins", "ada", "--json")[1])
    assert (shown["at"], shown["place"]["city"]) == (session.login_at.isoformat(), "Lyon")


@on("valkey-sync", "cluster-sync")
def test_login_and_logout(p: P, run: Run) -> None:
    words = ("login", "ada", "--name", "Ada", "--alias", "ada@example.org", "--alias", "a", "--device", "phone",
             "--app", "shop", "--app-version", "2", "--ip", "192.0.2.7", "--user-agent", FIREFOX,
             "--attribute", "floor=3", "--session-id", "session-1",
             "--idle-timeout", "60", "--absolute-timeout", "600")  # fmt: skip
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    [session] = p.sessions("ada")
    first, second = out.splitlines()
    assert first.split() == ["session", "session-1"]
    assert p.validate(second.split()[1])
    assert (session.name, session.aliases, session.device, session.app, session.app_version) == (
        "Ada", ("ada@example.org", "a"), "phone", "shop", "2"
    )  # fmt: skip
    assert (session.ip, session.browser, session.attributes) == ("192.0.2.7", "Firefox", {"floor": 3})
    assert (session.idle_timeout, session.absolute_timeout) == (60, 600)
    login = json.loads(run("login", "bob", "--json")[1])
    assert p.validate(login["token"])
    assert run("logout", "ada", "session-1") == (0, "Logged out.\n", "")
    assert run("logout", "ada", "session-1") == (1, "ada has no such live session.\n", "")
    assert run(*words)[::2] == (
        1, "This session id has ended; a session never comes back. Log in with a new id.\n"
    )  # fmt: skip
    assert run("login", " ")[::2] == (2, "uid must be text of 1 to 256 bytes, not only white space.\n")
    assert run("login", "ada", "--session-id", "x")[0] == 2


@on("valkey-sync")
def test_places_are_listed_found_counted_and_exported(
    p: P, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("login", "bob")[0] == 0
    assert "PLACE" not in run("list")[1]
    monkeypatch.setenv("PRESENCE_PLACE_FILE", str(write_place_file(tmp_path / "places.mmdb")))
    for ip in ("192.0.2.7", "203.0.113.7"):
        assert run("login", "ada", "--ip", ip)[0] == 0
    heading, *lines = run("list")[1].splitlines()
    assert heading.endswith("  PLACE")
    assert [line.rsplit("  ", 1)[-1] for line in lines[:3]] == ["Tokyo, JP", "Lyon, FR", "-"]
    for option in (("--distant",), ("--country", "jp"), ("--network", "AS64510")):
        [found] = json.loads(run("list", *option, "--json")[1])["items"]
        assert found["previous_place"]["city"] == "Lyon"
    assert json.loads(run("facets", "country", "--json")[1]) == {"FR": 1, "JP": 1}
    assert run("list", "--country", "France")[::2] == (
        2, "country must be the two letters of an ISO country code, such as FR.\n"
    )  # fmt: skip
    assert run("export", "--format", "csv")[1].count('""city"": ""Lyon""') == 3
    monkeypatch.setenv("PRESENCE_PLACE_FILE", str(tmp_path / "none.mmdb"))
    code, said, error = run("counts")
    assert (code, said) == (2, "")
    assert error == (
        f"place_file must name MaxMind DB files that can be read: {tmp_path}/none.mmdb cannot "
        "(No such file or directory).\n"
    )


@on("valkey-sync")
def test_a_new_device_and_a_session_of_staff_are_listed_and_the_key_of_digests_is_rotated(p: P, run: Run) -> None:
    for number in (1, 2):
        assert run("login", "ada", "--device-id", f"device-{number}", "--session-id", f"session-{number}")[0] == 0
    assert run("login", "ada", "--on-behalf-by", "sam", "--reason", "ticket 7")[0] == 0
    [new] = json.loads(run("list", "--new-device", "--json")[1])["items"]
    assert (new["session_id"], new["new_device"]) == ("session-2", True)
    [of_staff] = json.loads(run("list", "--on-behalf", "--json")[1])["items"]
    assert of_staff["on_behalf_by"] == "sam"
    assert run("require-sign-in", "ada", "session-1", "--reason", "lost", "--by", "sue")[0] == 0
    [refused] = json.loads(run("list", "--sign-in-required", "--json")[1])["items"]
    assert refused["session_id"] == "session-1"
    assert run("require-sign-in", "ada", "--reason", "lost", "--by", "sue", "--keep", "session-1")[1].splitlines() == [
        "ada must sign in again in 1 session.", "Skipped 1 session on behalf of ada: kick them instead."
    ]  # fmt: skip
    code, _, error = run("require-sign-in", "ada", of_staff["session_id"], "--reason", "lost", "--by", "sue")
    sentence = "session_id must not be of a session of staff on behalf of the user: kick it instead.\n"
    assert (code, error) == (2, sentence)
    assert run("rotate-device-key", "--reason", "each year", "--by", "sue")[0] == 0
    assert [entry.action for entry in p.audit()] == [
        "rotate_device_key", "require_sign_in", "require_sign_in", "login_on_behalf",
    ]  # fmt: skip
    assert run("login", "ada", "--on-behalf-by", "sam")[::2] == (2, "reason must be text of 1 to 500 characters.\n")


@on("valkey-sync")
def test_sessions_of_which_an_old_token_was_used_are_listed_and_exported(
    p: P, bed: Bed, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = bed.connect(rotate_grace=30)
    site.freeze()
    tokens = [site.login("ada").token for _ in range(2)]
    for token in tokens:
        site.rotate(token)
    site.advance(30)
    assert not site.validate(tokens[0])
    site.clock.run_freely()
    [found] = json.loads(run("list", "--old-token", "--json")[1])["items"]
    assert (found["session_id"], found["old_token"]) == (tokens[0].split(".")[1], True)
    exported = csv.DictReader(run("export", "--format", "csv")[1].splitlines())
    assert sorted(row["old_token"] for row in exported) == ["false", "true"]
    monkeypatch.setenv("PRESENCE_ROTATE_GRACE", "301")
    assert run("counts")[::2] == (2, "rotate_grace must be a whole number from 0 to 300.\n")


@on("valkey-sync")
def test_a_login_names_its_identity_provider_and_the_end_that_it_has_set(p: P, run: Run) -> None:
    words = ("--idp-issuer", "https://idp.example.com", "--idp-session", "08a5019c", "--expires-at", "2100-01-31T12:00")
    session = json.loads(run("login", "ada", *words, "--json")[1])["session"]
    assert session["idp"] == {"iss": "https://idp.example.com", "sid": "08a5019c"}
    assert session["idp_expires_at"] == "2100-01-31T12:00:00+00:00"
    assert run("login", "ada", "--idp-issuer", "x")[::2] == (2, "idp must have iss, and sub or sid or both.\n")


@on("valkey-sync")
def test_a_page_of_a_filter_that_matches_nothing_says_so_and_has_exit_code_1(p: P, run: Run) -> None:
    for command in ("ended", "audit", "blocks", "jobs"):
        code, out, _ = run(command)
        assert code == 0, out
        assert "Nothing matches" not in out
    for words in (
        ("ended", "ada"),
        ("ended", "--reason", "kicked"),
        ("audit", "--by", "mia"),
        ("audit", "--user", "ada"),
    ):
        code, out, _ = run(*words)
        assert (code, out.splitlines()[0]) == (1, "Nothing matches."), words
    p.login("ada", session_id="session-1")
    p.kick("ada", by="mia", reason="test")
    assert [run(*words)[0] for words in (("ended", "ada"), ("audit", "--by", "mia"), ("ended", "ben"))] == [0, 0, 1]
