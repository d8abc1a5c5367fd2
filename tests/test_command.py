"""The `presence` command: what it answers, how it asks, and what it says of arguments that make no sense."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from presence_core import SessionFilter, cli
from presence_core.cli.shown import as_json, columns
from presence_core.operations import listing, merging
from tests.conftest import Bed, on
from tests.facade import P

ROOT = Path(__file__).parent.parent

Said = Callable[..., tuple[int, str, str]]

WHEN = "must be like 2026-01-31T12:00 (UTC), or Unix seconds"


@pytest.fixture
def environ(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    ours = {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    return os.environ | ours


@pytest.fixture
def said(environ: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """Runs a command: its exit code, what it said, what it said on the side."""

    def run(*words: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = cli.main(words)
        caught = capsys.readouterr()
        return code, caught.out, caught.err

    return run


def _users(out: str) -> list[str]:
    """The second column of a list of sessions."""
    return [line.split()[2] for line in out.splitlines()[1:] if re.match(r"\d{4}-\d\d-\d\d ", line)]


def _cursor(out: str) -> str:
    return out.partition("Go on: the same with --cursor ")[2].strip()


def _five(p: P) -> None:
    p.freeze()
    rows: list[dict[str, Any]] = [
        {"uid": "ada", "name": "Ada Lovelace", "aliases": ["ada@example.org"], "device": "phone", "ip": "192.0.2.7"},
        {"uid": "emeka", "name": "Emeka Okafor", "device": "phone", "app": "shop", "app_version": "2.1"},
        {"uid": "grace", "name": "Grace Hopper", "device": "desk", "attributes": {"tenant": "navy", "floor": 3}},
        {"uid": "jose", "name": "José Núñez", "device": "desk", "ip": "2001:db8::9"},
        {"uid": "lin", "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
    ]
    for row in rows:
        p.login(**row)
        p.advance(1)


# -- list -------------------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_the_list_takes_every_filter(p: P, said: Said) -> None:
    _five(p)
    third = str(p.sessions("grace")[0].login_at.timestamp())
    asked: list[tuple[tuple[str, ...], list[str]]] = [
        ((), ["lin", "jose", "grace", "emeka", "ada"]),
        (("--text", "oka"), ["emeka"]),
        (("--uid", "ada"), ["ada"]),
        (("--name-prefix", "nunez"), ["jose"]),
        (("--name-contains", "ace"), ["grace", "ada"]),
        (("--ip", "192.0.2.0/24"), ["ada"]),
        (("--device", "phone"), ["emeka", "ada"]),
        (("--app", "shop", "--app-version", "2.1"), ["emeka"]),
        (("--os", "Linux", "--browser", "Firefox"), ["lin"]),
        (("--logged-in-after", third), ["lin", "jose", "grace"]),
        (("--logged-in-before", third, "--device", "phone"), ["emeka", "ada"]),
        (("--attribute", "tenant=navy", "--attribute", "floor=3"), ["grace"]),
        (("--idle-for", "0", "--logged-in-after", "2020-01-31"), ["lin", "jose", "grace", "emeka", "ada"]),
    ]
    for words, users in asked:
        code, out, _ = said("list", *words)
        assert (code, _users(out)) == (0, users), words
        assert re.fullmatch(rf"{len(users)} of (about )?{len(users)}", out.splitlines()[-1]), words
        assert said("list", *words, "--count") == (0, f"{len(users)}\n", ""), words
        assert json.loads(said("list", *words, "--count", "--json")[1]) == {"count": len(users)}
        code, out, _ = said("list", *words, "--explain")
        assert code == 0
        assert len(out.splitlines()) == 1, words
    assert said("list", "--uid", "ada", "--explain")[1] == (
        "By the user's own sessions, about 1 of them for a page of 50, with nothing else to test; about 1 match.\n"
    )
    assert (
        "and then tests device, app; about"
        in said("list", "--uid", "ada", "--device", "x", "--app", "y", "--explain")[1]
    )
    plan = json.loads(said("list", "--name-prefix", "love", "--explain", "--json")[1])
    assert plan["tests"] == [] or plan["index"] == "list"


@on("valkey-sync", "cluster-sync")
def test_the_list_goes_on_where_it_says(p: P, said: Said) -> None:
    p.freeze()
    p.login_many([{"uid": f"u{number}", "device": "phone"} for number in range(1234)])
    code, out, _ = said("list")
    assert code == 0
    assert out.splitlines()[-2] == "50 of 1,234"
    seen = []
    words: tuple[str, ...] = ("list", "--device", "phone", "--limit", "500")
    cursor = ""
    for number in (500, 500, 234):
        code, out, _ = said(*words, *(("--cursor", cursor) if cursor else ()))
        assert code == 0
        assert re.search(rf"^{number} of (about )?1,234$", out, re.MULTILINE)
        seen += _users(out)
        cursor = _cursor(out)
    assert not cursor
    assert len(set(seen)) == 1234
    foreign = _cursor(said("list", "--limit", "1")[1])
    assert said(*words, "--cursor", foreign) == (
        2, "", "cursor must be one that list_sessions gave for this filter.\n"
    )  # fmt: skip
    p.sweep()
    last = json.loads(said("list", "--limit", "1000", "--json")[1])["next_cursor"]
    for uid in _users(said("list", "--limit", "1000", "--cursor", last)[1]):
        p.kick(uid, by="Bob", reason="test")
    assert said("list", "--cursor", last) == (0, "There are no more.\n", "")


@on("valkey-sync", "redis7-sync")
def test_a_short_page_says_how_far_it_looked(p: P, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BUDGET", 40)
    monkeypatch.setattr(listing, "PROBE", 20)
    monkeypatch.setattr(merging, "STEP", 10)
    p.freeze()
    for number in range(200):
        p.login(f"u{number}", attributes={"rare": number in (3, 199)})
        p.advance(1)
    words = ("list", "--attribute", "rare=true")
    code, out, _ = said(*words)
    assert code == 0
    assert _users(out) == ["u199"]
    assert re.search(r"^1 of about [\d,]+$", out, re.MULTILINE)
    assert re.search(
        r"^Matches are rare: [\d,]+ entries were looked at, \d+ % of the list so far\.$", out, re.MULTILINE
    )
    seen, empty = _users(out), 0
    while cursor := _cursor(out):
        code, out, _ = said(*words, "--cursor", cursor)
        assert code == 0
        seen += _users(out)
        empty += out.startswith("None was found so far.\n")
    assert seen == ["u199", "u3"]
    assert empty


@on("valkey-sync", "redis7-sync")
def test_an_empty_answer_says_so_and_what_to_try(p: P, said: Said) -> None:
    code, out, _ = said("list")
    assert code == 0
    assert out.startswith("Nobody is online.\nSee logins as they happen: presence watch.")
    assert said("list", "--count") == (0, "0\n", "")
    assert said("facets", "device") == (0, "Nobody is online.\n", "")
    _five(p)
    code, out, _ = said("list", "--device", "fridge")
    assert code == 1
    assert out.startswith("No live session matches.\n")
    assert "presence people TEXT" in out
    assert said("list", "--device", "fridge", "--count") == (0, "0\n", "")
    assert said("list", "--device", "fridge", "--explain")[1].startswith("No live session has such a value")
    code, out, _ = said("people", "zoe")
    assert code == 1
    assert "starts with zoe" in out
    assert "presence list --name-contains" in out
    code, out, _ = said("show", "zoe")
    assert code == 1
    assert "presence ended USER" in out
    assert json.loads(said("people", "zoe", "--json")[1]) == []
    assert json.loads(said("list", "--device", "fridge", "--json")[1])["items"] == []


# -- people and facets ------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_people_are_found_online_and_gone(p: P, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    _five(p)
    p.login("ada", device="desk")
    [emeka] = p.sessions("emeka")
    p.logout("emeka", emeka.session_id)
    code, out, _ = said("people", "ADA")
    assert code == 0
    assert re.search(r"ada +Ada Lovelace +2 sessions +ada@example\.org", out)
    assert "there may be more" not in out
    code, out, _ = said("people", "oka")
    assert code == 0
    assert re.search(r"emeka +Emeka Okafor +- +-", out)
    [found] = json.loads(said("people", "oka", "--json")[1])
    assert (found["uid"], found["online"], found["sessions"]) == ("emeka", False, 0)
    assert "These are the first 1: there may be more." in said("people", "a", "--limit", "1")[1]
    assert said("people", "a", "--limit", "101")[0] == 2
    monkeypatch.setenv("PRESENCE_INDEXES", "ip,uid")
    assert "indexes that are not kept here: alias, name" in said("people", "ada")[1]


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_facets_are_counted(p: P, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    _five(p)
    code, out, _ = said("facets", "device")
    assert code == 0
    lines = out.splitlines()
    assert [line.split() for line in lines[:3]] == [["DEVICE", "SESSIONS"], ["desk", "2"], ["phone", "2"]]
    assert lines[3] == "2 values in 4 of 5 live sessions; no sweep has run yet"
    p.sweep()
    assert "exact as of the last sweep, 20" in said("facets", "app")[1]
    assert json.loads(said("facets", "device", "--json")[1]) == {"desk": 2, "phone": 2}
    assert said("facets", "name")[::2] == (
        2,
        "field must be one of device, app, app_version, os, browser (an attribute counts where Settings.facets names"
        " it).\n",
    )
    monkeypatch.setenv("PRESENCE_FACETS", "tenant")
    assert said("facets", "tenant")[1] == (
        "None of 5 live sessions says its tenant.\nWhat is to be counted from now on needs: presence reindex\n"
    )
    assert said("facets", "app_version")[1].count("\n") == 3
    assert said("reindex")[1].startswith("Indexes: uid, name, alias, ip. Counted: device, app, app_version, os, brow")
    assert json.loads(said("facets", "tenant", "--json")[1]) == {"navy": 1}


# -- reindex ----------------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_reindex_shows_on_a_terminal_how_far_it_is(bed: Bed, environ: dict[str, str], said: Said) -> None:
    p = bed.connect(indexes=())
    p.login_many([{"uid": f"u{number}", "name": "Emeka Okafor", "ip": "192.0.2.7"} for number in range(1500)])
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "presence_core.cli", "reindex", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=end, text=True, check=True)
    os.close(end)
    line = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert json.loads(done.stdout)["repaired"] >= 1500
    assert line.startswith("\r")
    assert line.endswith("\r1,500 of 1,500 sessions visited\r\n")
    code, out, err = said("reindex")
    assert (code, err) == (0, ""), "no terminal, no line"
    assert out.endswith(" 0 entries were put right.\n")
    with_index = bed.connect()
    assert with_index.explain(SessionFilter(ip="192.0.2.8")).index == "ip"


@on("valkey-sync")
def test_ctrl_c_in_reindex_says_how_to_go_on(p: P, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    _five(p)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.shown.Growing.say", stop)
    code, out, err = said("reindex")
    assert (code, out) == (130, "")
    assert err.endswith("Go on: presence reindex\n")
    monkeypatch.undo()
    assert p.reindex().repaired >= 0


# -- everybody out ----------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_everybody_is_signed_out_by_who_types_their_number(p: P, said: Said) -> None:
    p.login_many([{"uid": f"u{number}"} for number in range(1200)])
    out_now = ("sign-out-all", "--before", "now", "--reason", "stolen keys")
    for typed in ("", "\n", "yes\n", "1199\n"):
        code, out, err = said(*out_now, typed=typed)
        assert (code, out) == (1, "")
        assert err.startswith("1,200 live sessions, and those that begin until you have answered.\n")
        assert err.endswith("type their number: Nothing was done.\n")
    code, out, err = said("sign-out-all", "--before", "2020-01-01", "--reason", "restore", typed="0\n")
    assert code == 0, "done, although nobody was online then"
    assert err.startswith("0 of 1,200 live sessions began before 2020-01-01 00:00:00 UTC.\n")
    assert out.startswith("Signed out 0 sessions: all that began before 2020-01-01 00:00:00 UTC.\n")
    code, out, _ = said(*out_now, "--message", "Log in again.", "--by", "Grace", typed="1,200\n")
    assert code == 0
    assert out.startswith("Signed out 1,200 sessions: all that began before now.\n")
    assert p.count_sessions() == 0
    assert "are still being taken off" in said("counts")[1]
    p.sweep()
    assert "are still being taken off" not in said("counts")[1]
    ended = p.ended("u7").items[0]
    assert (ended.reason, ended.cause, ended.by, ended.note) == ("kicked", "revoked", "Grace", "stolen keys")
    assert ended.message == "Log in again."
    p.login("ada")
    code, out, err = said(*out_now, "--yes", "--json")
    assert (code, json.loads(out), err) == (0, {"signed_out": 1}, "")
    assert p.sessions("ada") == []


@on("valkey-sync")
def test_who_would_be_refused_is_not_asked_first(p: P, said: Said) -> None:
    p.login("ada")
    now = ("sign-out-all", "--before", "now")
    assert said("sign-out-all", "--before", "2200-01-01", "--reason", "x")[::2] == (
        2, "before must not lie in the future.\n"
    )  # fmt: skip
    assert said(*now, "--reason", " ")[::2] == (2, "reason must be text of 1 to 500 characters.\n")
    assert said(*now, "--reason", "x", "--message", "")[::2] == (2, "message must be text of 1 to 500 characters.\n")
    assert said(*now, "--reason", "x", "--by", "")[::2] == (
        2, "by must be text of 1 to 256 bytes that says who does this.\n"
    )  # fmt: skip
    assert said("kick-where", "--uid", "ada", "--reason", "x", "--ticket", "")[::2] == (
        2, "ticket must be text of 1 to 64 bytes.\n"
    )  # fmt: skip
    assert p.count_sessions() == 1


# -- wrong words ------------------------------------------------------------------------------------------------------

WRONG: list[tuple[tuple[str, ...], str]] = [
    ((), "presence: the following arguments are required: command"),
    (("lst",), "presence: argument command: invalid choice: 'lst'"),
    (("list", "--limit", "many"), "presence list: argument --limit: invalid int value: 'many'"),
    (("list", "--limit", "0"), "limit must be a whole number from 1 to 1000."),
    (("list", "--limit", "1001"), "limit must be a whole number from 1 to 1000."),
    (("list", "--cursor", "x", "--count"), "presence list: argument --count: not allowed with argument --cursor"),
    (("list", "--count", "--explain"), "presence list: argument --explain: not allowed with argument --count"),
    (("list", "--cursor", "x"), "cursor must be one that list_sessions gave."),
    (("list", "--ip", "everywhere"), "ip must be an IPv4 or IPv6 address, or a block such as 192.0.2.0/24."),
    (("list", "--text", ""), "text must be text of 1 to 256 bytes."),
    (("list", "--idle-for", "-1"), "idle_for must be a whole number from 0 to 315360000."),
    (("list", "--attribute", "tenant"), "attribute must be NAME=VALUE."),
    (("list", "--attribute", "floor=NaN"), "attributes must be made of what JSON can hold."),
    *((("list", "--logged-in-after", when), f"presence list: argument --logged-in-after: {WHEN}")
      for when in ("", "soon", "99", "1790000000000", "1712012300000", "nan", "inf", "-1", "0001-01-01", "20261301")),
    (("list", "ada"), "presence: unrecognized arguments: ada"),
    (("list", "a\x1b[2J\nb"), "presence: unrecognized arguments: a\\u{1b}[2J\\u{a}b"),
    (("people",), "presence people: the following arguments are required: text"),
    (("people", " "), "text must be text of 1 to 256 bytes, not only white space."),
    (("people", "ada", "--limit", "0"), "limit must be a whole number from 1 to 100."),
    (("facets",), "presence facets: the following arguments are required: field"),
    (("facets", "uid"), "field must be one of device,"),
    (("sign-out-all", "--reason", "x"), "presence sign-out-all: the following arguments are required: --before"),
    (("sign-out-all", "--before", "now"), "presence sign-out-all: the following arguments are required: --reason"),
    (("sign-out-all", "--before", "yesterday", "--reason", "x"),
     f"presence sign-out-all: argument --before: {WHEN}"),
    (("reindex", "now"), "presence: unrecognized arguments: now"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(words) or "-" for words, _ in WRONG])
@on("valkey-sync")
def test_a_wrong_argument_is_one_sentence(said: Said, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = said(*words)
    assert (code, out) == (2, "")
    assert err.startswith(sentence), err
    assert err.count("\n") == 1
    assert err.endswith(".\n")


@on("valkey-sync")
def test_times_are_read_as_they_are_meant(p: P, said: Said) -> None:
    p.login("ada")
    for when in ("2020-01-31", "20200131", "2020-01-31T12:00", "2020-01-31 12:00:00+02:00", "1580000000", "1.58e9"):
        assert said("list", "--count", "--logged-in-after", when) == (0, "1\n", ""), when
        assert said("list", "--count", "--logged-in-before", when) == (0, "0\n", ""), when


@on("valkey-sync")
def test_redis_that_is_away_is_an_exit_code_of_its_own(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://127.0.0.1:1")
    commands = ("list", "list --count", "list --explain", "people ada", "facets app", "reindex",
                "sign-out-all --before now --reason x --yes")  # fmt: skip
    for words in commands:
        code, out, err = said(*words.split())
        assert (code, out) == (3, ""), words
        assert err.count("\n") == 1


# -- where the answer goes --------------------------------------------------------------------------------------------


@on("valkey-sync")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a disk that is always full")
def test_an_answer_that_cannot_be_written_is_told_in_one_sentence(p: P, environ: dict[str, str]) -> None:
    p.login("ada")
    for words in (["counts", "--json"], ["export"]):
        with open("/dev/full", "wb") as full:
            command = [sys.executable, "-m", "presence_core.cli", *words]
            done = subprocess.run(command, cwd=ROOT, env=environ, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (4, "The answer could not be written: No space left on device.\n")


@on("valkey-sync")
def test_a_command_whose_answers_nobody_wants_does_its_work(p: P, environ: dict[str, str]) -> None:
    """A service manager or a script may close both streams."""
    p.login("ada")
    command = [sys.executable, sys.executable, "-m", "presence_core.cli"]
    for redirect, word, code in ((">&-", "list", 0), (">&- 2>&-", "export", 0), ("2>&-", "no-such-command", 2)):
        shell = ["sh", "-c", f'"$@" {redirect}', *command, word]
        done = subprocess.run(shell, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (code, "")
        assert "Traceback" not in done.stderr


# -- the terminal -----------------------------------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[31mRED\nFAKE ROW\x9b2J\u202e"


@on("valkey-sync")
def test_no_escape_of_a_visitor_reaches_the_terminal(p: P, bed: Bed, said: Said) -> None:
    session = p.login("ada", name="Ada", device="a\u202eb", aliases=["x\u2028y"]).session
    p.login("bob", name="Bob")
    [left] = p.sessions("bob")
    p.logout("bob", left.session_id)
    shard = p.context.keys.shard("ada")
    bed.raw.hset(shard.record("ada", session.session_id), "n", EVIL.encode())
    bed.raw.hset(shard.person("bob"), "n", EVIL.encode())
    commands = ("list", "list --uid ada", "show ada", "people ada", "people bob", "facets device",
                "kick-where --uid ada --dry-run", "ended", "kick ada --reason x")  # fmt: skip
    for words in commands:
        for as_program in ((), ("--json",)):
            _, out, err = said(*words.split(), *as_program)
            assert out, words
            assert all(char.isprintable() or char == "\n" for char in out + err), words
            if as_program:
                assert out.count("\n") == 1
            else:
                assert "\nFAKE" not in out


def test_json_that_a_terminal_finds_nothing_in_is_the_same_json() -> None:
    value = {"name": EVIL, "É": ["日本", "\x7f\x85\u2028\U000e0001", None, 1.5, True]}
    text = as_json(value)
    assert text.isprintable()
    assert "日本" in text
    assert json.loads(text) == value


def test_a_table_is_straight_whatever_is_in_it() -> None:
    rows = list(columns([("A", "B"), ("日本", "x"), ("e\u0301e", "x"), ("a\x1bb", "x")]))
    assert rows == ["A" + " " * 9 + "B", "日本      x", "e\u0301e" + " " * 8 + "x", "a\\u{1b}b  x"]
