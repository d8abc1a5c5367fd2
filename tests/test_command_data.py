"""The `presence` command: how all of it is, single sessions by hand, and sessions out of a namespace and into one."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import Session, Worker, cli
from presence_core.models import plain
from tests.conftest import Bed, on
from tests.facade import P

ROOT = Path(__file__).parent.parent

Said = Callable[..., tuple[int, str, str]]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@pytest.fixture
def environ(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    ours = {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    return os.environ | ours


@pytest.fixture
def said(environ: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """Runs a command: its exit code, what it said, what it said on the side."""

    def run(*words: str | Path, typed: str | bytes = "") -> tuple[int, str, str]:
        raw = typed if isinstance(typed, bytes) else typed.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        code = cli.main([str(word) for word in words])
        caught = capsys.readouterr()
        return code, caught.out, caught.err

    return run


def _row(line: str, column: int = 0) -> str:
    return line.split()[column]


# -- doctor ------------------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_the_doctor_shows_what_is_wrong_first_and_what_to_do(p: P, bed: Bed, said: Said) -> None:
    p.login("ada")
    code, out, err = said("doctor")
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["LEVEL", "ABOUT"]
    assert _row(lines[1]) == "warning"
    assert lines[2].strip().startswith("→ ")
    assert "No worker has ever run here" in out
    assert ("1 sessions on 64 shards: 0 to 1 on each" in out) == bed.is_cluster
    if not bed.is_cluster:
        assert bed.raw.connection_pool.connection_kwargs["path"] in out
    told = json.loads(said("doctor", "--json")[1])
    assert len(told["nodes"]) == (3 if bed.is_cluster else 1)
    assert {one["level"] for one in told["findings"]} == {"ok", "warning"}


@on("valkey-sync")
def test_the_doctor_is_content_with_what_is_no_worse_than_a_note(p: P, bed: Bed, said: Said) -> None:
    worker = Worker(p)
    worker._turn()
    bed.raw.config_set("save", "3600 1")
    try:
        code, out, _ = said("doctor")
    finally:
        bed.raw.config_set("save", "")
    assert code == 0
    assert _row(out.splitlines()[1]) == "note"
    assert "error" not in out


@on("valkey-sync", "redis7-sync")
def test_the_doctor_says_first_of_all_that_the_server_evicts(p: P, bed: Bed, said: Said) -> None:
    p.login("ada")
    bed.raw.config_set("maxmemory", "1gb")
    bed.raw.config_set("maxmemory-policy", "allkeys-lru")
    try:
        code, out, _ = said("doctor")
    finally:
        bed.raw.config_set("maxmemory-policy", "noeviction")
        bed.raw.config_set("maxmemory", "0")
    assert code == 1
    first, advice = out.splitlines()[1:3]
    assert _row(first) == "error"
    assert "allkeys-lru drops keys at will" in first
    assert advice.strip() == "→ Set maxmemory-policy noeviction."


@on("valkey-sync")
def test_the_doctor_says_what_to_try_while_redis_is_away(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("redis://ada:s3cret@127.0.0.1:1", "redis+cluster://ada:s3cret@127.0.0.1:1"):
        monkeypatch.setenv("PRESENCE_REDIS_URL", url)
        code, out, err = said("doctor")
        assert (code, out) == (3, "")
        assert "127.0.0.1:1 cannot be reached" in err
        assert "PRESENCE_REDIS_URL is right" in err
        assert "s3cret" not in err


# -- stats -------------------------------------------------------------------------------------------------------------


@on("valkey-sync", "cluster-sync")
def test_stats_are_one_screen(p: P, said: Said) -> None:
    code, out, _ = said("stats")
    assert code == 0
    assert "0 users online in 0 sessions" in out
    assert "no worker has taken samples" in out
    worker = Worker(p)
    p.set_now(p.clock.ms - 30_000)
    worker._turn()
    p.login_many([{"uid": f"u{number}", "device": f"d{number % 7}", "app": "shop"} for number in range(20)])
    p.login("u1", device="d1", user_agent=FIREFOX)
    p.advance(10)
    worker._turn()
    p.clock.run_freely()
    worker._turn()
    code, out, _ = said("stats")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("20 users online in 21 sessions, 20")
    named = {line[:13].strip(): line[13:] for line in lines[1:-7]}
    assert named["per minute"] == "42.0 logins, 0.0 ends (the last 10 minutes)", (
        "21 in the three samples that there are"
    )
    assert named["in all"].startswith("21 login, 0 logout, ")
    assert named["worker"].endswith(" leads, 0.0 s behind")
    assert named.get("peak today", "21 sessions").startswith("21 sessions"), "none where the day has just begun"
    assert lines[-6].split() == ["DEVICE", "SESSIONS", "APP", "SESSIONS", "BROWSER", "SESSIONS"]
    assert lines[-5].split() == ["d1", "4", "shop", "20", "Firefox", "1"], "and five values at most"
    told = json.loads(said("stats", "--json")[1])
    assert told["counts"]["sessions"] == 21
    assert told["top"]["app"] == {"shop": 20}


@on("valkey-sync")
def test_stats_are_told_again_and_again_until_ctrl_c(p: P, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.stats.time.sleep", sleep)
    code, out, err = said("stats", "--every", "2", "--json")
    assert (code, out.count("\n"), err, slept) == (130, 3, "", [2, 2, 2])
    assert said("stats", "--every", "0")[::2] == (2, "every must be a whole number from 1 to 3600.\n")


# -- one session -------------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_a_session_is_begun_and_ended_by_hand(p: P, said: Said) -> None:
    words = ("login", "ada", "--name", "Ada", "--alias", "ada@example.org", "--alias", "a", "--device", "phone",
             "--app", "shop", "--app-version", "2", "--ip", "192.0.2.7", "--user-agent", FIREFOX,
             "--attribute", "floor=3", "--session-id", "session-1",
             "--idle-timeout", "60", "--absolute-timeout", "600")  # fmt: skip
    code, out, err = said(*words)
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
    told = json.loads(said("login", "bob", "--json")[1])
    assert p.validate(told["token"])
    assert said("logout", "ada", "session-1") == (0, "Logged out.\n", "")
    assert said("logout", "ada", "session-1") == (1, "ada has no such live session.\n", "")
    assert said(*words)[::2] == (
        1, "This session id has ended; a session never comes back. Log in with a new id.\n"
    )  # fmt: skip
    assert said("login", " ")[::2] == (2, "uid must be text of 1 to 256 bytes, not only white space.\n")
    assert said("login", "ada", "--ip", "x")[::2] == (2, "ip must be an IPv4 or IPv6 address.\n")


@on("valkey-sync", "cluster-sync")
def test_who_is_kicked_may_be_kept_out_in_the_same_step(p: P, said: Said) -> None:
    p.login("ada")
    code, out, _ = said("kick", "ada", "--reason", "stolen", "--block-for", "60")
    assert code == 0
    assert re.match(r"Kicked 1 of ada's sessions\.\nada may not log in until \S+ \S+ UTC\.\n", out)
    code, out, err = said("login", "ada")
    assert (code, out) == (1, "")
    assert err.startswith("Signing in is blocked until 2")
    assert said("kick", "ada", "--reason", "again", "--block-for", "90")[0] == 0, (
        "nobody was kicked, but the block is new"
    )
    assert said("kick", "ada", "--reason", "x", "--block-for", "0")[0] == 2


# -- out and in again --------------------------------------------------------------------------------------------------


def _crowd(p: P) -> None:
    """Some of everything that a session may have, and more than a page of them."""
    p.set_now(p.clock.ms - 60_000)  # what was to come would be told again as of now
    p.login("ada", name="=HYPERLINK(1)", aliases=["+1 555", "ada@example.org"], device="\uff1dphone", app="shop",
            app_version="-2", ip="192.0.2.7", user_agent=FIREFOX, attributes={"floor": 3, "tags": ["é", None]},
            idle_timeout=600, absolute_timeout=7200)  # fmt: skip
    p.advance(1)
    p.login("a:b", name="José \u202e \U0001f600", ip="2001:db8::9", aliases=['comma, "quote"'])
    p.advance(1)
    p.login_many({"uid": f"u{number}", "device": "desk"} for number in range(700))
    p.heartbeat("ada", p.sessions("ada")[0].session_id)
    p.clock.run_freely()


def _kept(session: Session) -> dict[str, Any]:
    """What is not new by being imported."""
    return {name: value for name, value in plain(session).items() if name != "last_ip"}


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_what_was_exported_is_the_same_list_in_another_namespace(
    p: P, bed: Bed, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _crowd(p)
    file, tokens = tmp_path / "all.jsonl", tmp_path / "tokens"
    code, out, err = said("export", "-o", file)
    assert (code, out, err) == (0, f"702 sessions in {file}\n", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["all.jsonl"]
    assert len(file.read_text("utf-8").splitlines()) == 702
    before = [_kept(one) for one in p.iter_sessions()]
    assert [json.loads(line)["uid"] for line in file.read_text("utf-8").splitlines()] == [
        one["uid"] for one in before
    ], "newest first"

    other = bed.connect(namespace=f"{bed.namespace}-b")
    monkeypatch.setenv("PRESENCE_NAMESPACE", f"{bed.namespace}-b")
    assert said("import", file, "--dry-run") == (0, "702 sessions would be imported.\n", "")
    assert other.counts().sessions == 0
    assert said("import", file, "--tokens", tokens) == (0, "702 sessions imported.\n", "")
    assert [_kept(one) for one in other.iter_sessions()] == before
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    told = [json.loads(line) for line in tokens.read_text("utf-8").splitlines()]
    for one in told[::100]:
        live = other.validate(one["token"]).session
        assert live is not None
        assert (live.uid, live.session_id) == (one["uid"], one["session_id"])
    assert said("import", file, "--tokens", tokens)[::2] == (
        2, "tokens must be a file that can be made anew: File exists.\n"
    )  # fmt: skip
    code, out, _ = said("import", "-", typed=file.read_bytes())
    assert (code, out) == (0, "702 sessions imported.\n"), "again, from standard input"
    assert other.counts().totals["login"] == other.counts().sessions == 702
    assert [one.action for one in other.audit()] == ["import", "import"]
    assert [(one.action, one.outcome) for one in p.audit()] == [("export", "702 sessions exported")]


@on("valkey-sync", "cluster-sync")
def test_a_spreadsheet_finds_no_formula_in_an_export(p: P, said: Said, tmp_path: Path) -> None:
    _crowd(p)
    code, out, err = said("export", "--format", "csv")
    assert (code, err) == (0, "702 sessions.\n")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 702
    assert all(
        not (value or "").startswith(("=", "+", "-", "@", "\t", "\r", "＝")) for row in rows for value in row.values()
    )
    [ada] = [row for row in rows if row["uid"] == "ada"]
    assert (ada["name"], ada["aliases"], ada["device"], ada["app_version"]) == (
        "'=HYPERLINK(1)", "'+1 555; ada@example.org", "'\uff1dphone", "'-2"
    )  # fmt: skip
    assert json.loads(ada["attributes"]) == {"floor": 3, "tags": ["é", None]}
    assert not any("token" in name for name in ada)
    file = tmp_path / "desk.csv"
    code, out, _ = said("export", "--uid", "a:b", "-o", file, "--json")
    assert json.loads(out) == {"sessions": 1, "file": str(file)}
    assert next(csv.DictReader(io.StringIO(file.read_text("utf-8"))))["aliases"] == 'comma, "quote"'
    assert p.audit().items[0].outcome == '1 session exported: {"uid": "a:b"}'


@on("valkey-sync")
def test_an_export_that_breaks_off_leaves_the_old_file_and_nothing_else(
    p: P, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _crowd(p)
    file = tmp_path / "all.jsonl"
    file.write_text("old")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.moving.Growing.say", stop)
    assert said("export", "-o", file)[0] == 130
    assert (file.read_text(), os.listdir(tmp_path)) == ("old", ["all.jsonl"])
    assert said("export", "-o", tmp_path)[::2] == (2, "output must name a file.\n")
    assert said("export", "-o", "/dev/null")[::2] == (2, "output must name a file.\n")
    assert said("export", "-o", tmp_path / "none" / "x")[::2] == (
        2, "output cannot be written: No such file or directory.\n"
    )  # fmt: skip


@on("valkey-sync")
def test_a_reader_that_has_seen_enough_ends_an_export(p: P, environ: dict[str, str]) -> None:
    _crowd(p)
    shell = f"{sys.executable} -m presence_core.cli export | head -1"
    done = subprocess.run(shell, shell=True, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


BAD: list[tuple[str | bytes, str]] = [
    ('{"uid": ""}', "uid must be text of 1 to 256 bytes"),
    ("{}", "uid must be text of 1 to 256 bytes"),
    ("nonsense", "row must be a JSON object in UTF-8"),
    ('{"uid": "x"', "row must be a JSON object in UTF-8"),
    (b'{"uid": "\xff"}', "row must be a JSON object in UTF-8"),
    ('["x"]', "row must be a JSON object"),
    ("null", "row must be a JSON object"),
    ("[" * 50_000, "row must be a JSON object in UTF-8"),
    ('{"uid": "' + "x" * 70_000 + '"}', "row must be at most 65536 bytes"),
    ('{"uid": "x", "token": "s3cret"}', "token is not an argument of login"),
    ('{"uid": "x", "a\\u001b[2J": 1}', "a\\u{1b}[2J is not an argument of login"),
    ('{"uid": "x", "login_at": "2026-01-31T12:00:00"}', "login_at must be Unix seconds, or a time with its zone"),
    ('{"uid": "x", "login_at": [1]}', "login_at must be Unix seconds, or a time with its zone"),
    ('{"uid": "x", "login_at": NaN}', "login_at must be an aware datetime or Unix seconds"),
    ('{"uid": "x", "login_at": 1e999}', "login_at must be an aware datetime or Unix seconds"),
    ('{"uid": "x", "last_seen": 1790000000}', "last_seen must come with login_at"),
    ('{"uid": "x", "idle_timeout": 0}', "idle_timeout must be whole seconds"),
    ('{"uid": "x", "session_id": "short"}', "session_id must be 8 to 128 characters"),
    ('{"uid": "x", "attributes": {"n": NaN}}', "attributes must be made of what JSON can hold"),
    ('{"uid": "x", "aliases": "a"}', "aliases must be a list of texts"),
    ('{"uid": "x", "device": 5}', "device must be text of 1 to 64 bytes"),
]


@on("valkey-sync")
def test_each_bad_line_is_told_and_nothing_of_the_file_is_written(p: P, said: Said) -> None:
    good = b'{"uid": "fine"}'
    lines = [good, b""]
    for line, _ in BAD[:18]:
        lines += [line if isinstance(line, bytes) else line.encode(), good]
    code, out, err = said("import", "-", typed=b"\n".join(lines))
    assert (code, out) == (2, "")
    told = err.splitlines()
    for number, (_, sentence) in enumerate(BAD[:18]):
        assert told[number].startswith(f"line {3 + 2 * number}: {sentence}"), told[number]
    assert told[18] == "Nothing was imported: 18 lines of 37 must be put right."
    assert "s3cret" not in err
    assert p.counts().sessions == 0
    for line, sentence in BAD[18:]:
        code, _, err = said("import", "-", typed=line)
        assert code == 2
        assert err.startswith(f"line 1: {sentence}"), err
    many = said("import", "-", typed="x\n" * 1000)[2].splitlines()
    assert many[20:] == ["… and 980 more.", "Nothing was imported: 1,000 lines of 1,000 must be put right."]
    assert said("import", "/nowhere")[::2] == (2, "file cannot be read: No such file or directory.\n")
    assert said("import", "-") == (0, "0 sessions imported.\n", "")
    assert not p.audit(by="nobody").items


@on("valkey-sync", "cluster-sync")
def test_sessions_that_may_not_begin_are_counted_and_told(p: P, said: Said) -> None:
    p.block("eve", by="staff", reason="test", message="Call us.")
    gone = p.login("ada", session_id="session-1").session
    p.logout("ada", gone.session_id)
    old = (p.clock.now - timedelta(days=3)).timestamp()
    rows = [{"uid": "eve"}, {"uid": "ada", "session_id": "session-1"}, {"uid": "bob", "login_at": old}, {"uid": "bob"}]
    code, out, err = said("import", "-", typed="\n".join(map(json.dumps, rows)))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1 session imported.",
        "1 refused (expired), the first: This session would already be past its deadline.",
        "1 refused (blocked), the first: Call us. Signing in is blocked until our staff unblock it.",
        "1 refused (ended), the first: This session id has ended; a session never comes back. Log in with a new id.",
    ]
    code, out, _ = said("import", "-", "--json", typed=json.dumps(rows[0]))
    assert (code, json.loads(out)) == (1, {"lines": 1, "imported": 0, "refused": {"blocked": 1}})


@on("valkey-sync")
def test_a_limit_ends_the_oldest_of_what_is_imported_whatever_its_place_in_the_file(
    p: P, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = p.clock.now.timestamp()
    rows = [{"uid": "ada", "session_id": f"session-{age}", "login_at": now - age} for age in (10, 30, 20)]
    monkeypatch.setenv("PRESENCE_MAX_SESSIONS", "1")
    assert said("import", "-", typed="\n".join(map(json.dumps, rows)))[0] == 0
    assert [one.session_id for one in p.sessions("ada")] == ["session-10"]


def test_every_command_and_every_finding_is_explained() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    told = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([\w-]+)`", line.split("|")[1])
    }
    assert set(_commands()) <= told
    rooms = (ROOT / "presence_core" / "operations").glob("*findings.py")
    source = "\n".join(room.read_text("utf-8") for room in rooms)
    subjects = set(re.findall(r'Finding\(\s*[^,]+,\s*"(\w+)"', source))
    assert len(subjects) > 10
    assert {one for one in subjects if f"\n| {one} |" not in page} == set()


def _commands() -> list[str]:
    parser = cli._parser()
    [made] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return list(made.choices)
