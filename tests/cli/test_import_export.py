"""`presence export` and `presence import`."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import InvalidArgument, Session, cli
from presence_core.cli.import_file import check_import, parse_row
from presence_core.models import plain
from tests.cli.conftest import ROOT, Run
from tests.conftest import Bed, on
from tests.support.expected.bad_input import nested
from tests.support.facade import P

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


def _crowd(p: P) -> None:
    """Log in sessions with every field that a session can have, more than fit on a page."""
    p.set_now(p.clock.ms - 60_000)  # a login time in the future would become the present time
    p.login("ada", name="=HYPERLINK(1)", aliases=["+1 555", "ada@example.org"], device="\uff1dphone", app="shop",
            app_version="-2", ip="192.0.2.7", user_agent=FIREFOX, attributes={"floor": 3, "tags": ["é", None]},
            idle_timeout=600, absolute_timeout=7200, expires_at=p.clock.ms / 1000 + 3600.5,
            idp={"iss": "https://idp.example.com", "sub": "ada@idp", "sid": "08a5019c"})  # fmt: skip
    p.advance(1)
    p.login("a:b", name="José \u202e \U0001f600", ip="2001:db8::9", aliases=['comma, "quote"'])
    p.advance(1)
    p.login_many({"uid": f"u{number}", "device": "desk"} for number in range(700))
    p.heartbeat("ada", p.sessions("ada")[0].session_id)
    p.clock.run_freely()


def _kept(session: Session) -> dict[str, Any]:
    """The part of a session that an import does not change."""
    return {name: value for name, value in plain(session).items() if name != "last_ip"}


@on("valkey-sync", "cluster-sync")
def test_an_export_imports_as_the_same_list_elsewhere(
    p: P, bed: Bed, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _crowd(p)
    file, tokens = tmp_path / "all.jsonl", tmp_path / "tokens"
    code, out, err = run("export", "-o", file)
    assert (code, out, err) == (0, f"702 sessions in {file}\n", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["all.jsonl"]
    assert len(file.read_text("utf-8").splitlines()) == 702
    before = [_kept(session) for session in p.iter_sessions()]
    assert [json.loads(line)["uid"] for line in file.read_text("utf-8").splitlines()] == [
        session["uid"] for session in before
    ], "newest first"

    other = bed.connect(namespace=f"{bed.namespace}-b")
    monkeypatch.setenv("PRESENCE_NAMESPACE", f"{bed.namespace}-b")
    assert run("import", file, "--dry-run") == (0, "The file is correct: 702 sessions. Nothing was imported.\n", "")
    assert other.counts().sessions == 0
    assert run("import", file, "--tokens", tokens) == (0, "Imported 702 sessions.\n", "")
    assert [_kept(session) for session in other.iter_sessions()] == before
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    issued = [json.loads(line) for line in tokens.read_text("utf-8").splitlines()]
    for login in issued[::100]:
        live = other.validate(login["token"]).session
        assert live is not None
        assert (live.uid, live.session_id) == (login["uid"], login["session_id"])
    assert run("import", file, "--tokens", tokens)[::2] == (
        2, "tokens must name a new file: File exists.\n"
    )  # fmt: skip
    code, out, _ = run("import", "-", typed=file.read_bytes())
    assert (code, out) == (0, "Imported 702 sessions.\n"), "again, from standard input"
    assert other.counts().totals["login"] == other.counts().sessions == 702
    assert [entry.action for entry in other.audit()] == ["import", "import"]
    assert [(entry.action, entry.outcome) for entry in p.audit()] == [("export", "sessions exported to a file")]


@on("valkey-sync", "cluster-sync")
def test_a_csv_export_holds_no_formula(p: P, run: Run, tmp_path: Path) -> None:
    _crowd(p)
    code, out, err = run("export", "--format", "csv")
    assert (code, err) == (0, "702 sessions.\n")
    assert run("export", "--format", "csv", "-o", "-") == (code, out, err)
    assert not Path("-").exists()
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
    assert not any("token" in name for name in ada if name != "old_token")
    file = tmp_path / "desk.csv"
    code, out, _ = run("export", "--uid", "a:b", "-o", file, "--json")
    assert json.loads(out) == {"sessions": 1, "file": str(file)}
    assert next(csv.DictReader(io.StringIO(file.read_text("utf-8"))))["aliases"] == 'comma, "quote"'
    assert p.audit().items[0].outcome == 'sessions exported to a file, filter {"uid": "a:b"}'


@on("valkey-sync")
def test_an_interrupted_export_leaves_the_old_file(
    p: P, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _crowd(p)
    file = tmp_path / "all.jsonl"
    file.write_text("old")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.output.ProgressLine.show", stop)
    assert run("export", "-o", file)[0] == 130
    assert (file.read_text(), os.listdir(tmp_path)) == ("old", ["all.jsonl"])
    assert run("export", "-o", tmp_path)[::2] == (2, "output must name a file.\n")
    assert run("export", "-o", "/dev/null")[::2] == (2, "output must name a file.\n")
    assert run("export", "-o", tmp_path / "none" / "x")[::2] == (
        2, "output cannot be written: No such file or directory.\n"
    )  # fmt: skip


STOPPED = """
import os, sys
from presence_core import cli
from presence_core.cli.output import ProgressLine

ProgressLine.show = lambda *_: os.kill(os.getpid(), int(sys.argv[1]))
sys.exit(cli.main(["export", "-o", sys.argv[2]]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@on("valkey-sync")
def test_a_terminated_export_leaves_no_data_but_an_entry_in_the_audit(
    p: P, environ: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    _crowd(p)
    command = [sys.executable, "-c", STOPPED, str(int(number)), str(tmp_path / "all.jsonl")]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert (done.returncode, os.listdir(tmp_path)) == (128 + number, []), done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.action for entry in p.audit()] == ["export"]


@on("valkey-sync")
def test_a_reader_that_closes_the_pipe_ends_an_export(p: P, environ: dict[str, str]) -> None:
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
    ('{"uid": "x", "attributes": {"n": NaN}}', "attributes must contain only JSON values"),
    ('{"uid": "x", "methods": "pwd"}', "methods must be at most 8 names"),
    ('{"uid": "x", "mfa": 5}', "mfa must be True, False or None"),
]


@on("valkey-sync")
def test_the_check_of_a_row_agrees_with_login_many(p: P) -> None:
    for line, _ in BAD:
        try:
            row = parse_row(line if isinstance(line, bytes) else line.encode())
        except InvalidArgument:
            continue  # not JSON, or a time format that only the command parses
        assert row is not None
        with pytest.raises(InvalidArgument) as checked:
            check_import(p.settings, row)
        with pytest.raises(InvalidArgument) as sent:
            p.login_many([row], imported=True)
        assert str(sent.value) == f"row 1: {checked.value}"


@on("valkey-sync")
def test_each_bad_line_is_reported_and_nothing_is_imported(p: P, run: Run) -> None:
    good = b'{"uid": "fine"}'
    lines = [good, b""]
    for line, _ in BAD[:18]:
        lines += [line if isinstance(line, bytes) else line.encode(), good]
    code, out, err = run("import", "-", typed=b"\n".join(lines))
    assert (code, out) == (2, "")
    errors = err.splitlines()
    for number, (_, sentence) in enumerate(BAD[:18]):
        assert errors[number].startswith(f"line {3 + 2 * number}: {sentence}"), errors[number]
    assert errors[18] == "Nothing was imported: correct 18 lines of 37."
    assert "s3cret" not in err
    assert p.counts().sessions == 0
    for line, sentence in BAD[18:]:
        code, _, err = run("import", "-", typed=line)
        assert code == 2
        assert err.startswith(f"line 1: {sentence}"), err
    many = run("import", "-", typed="x\n" * 1000)[2].splitlines()
    assert many[20:] == ["… and 980 more.", "Nothing was imported: correct 1,000 lines of 1,000."]
    assert run("import", "/nowhere")[::2] == (2, "file cannot be read: No such file or directory.\n")
    assert run("import", "-") == (0, "Imported 0 sessions.\n", "")
    assert not p.audit(by="unknown").items


def test_a_closed_standard_input_is_a_file_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setattr("sys.stdin", None)  # as Python has it after <&-
    assert cli.main(["import", "-"]) == 2
    assert capsys.readouterr().err == "file cannot be read: standard input is closed.\n"


@on("valkey-sync", "cluster-sync")
def test_refused_sessions_are_counted_by_code(p: P, run: Run) -> None:
    p.block("eve", by="staff", reason="test", message="Call us.")
    gone = p.login("ada", session_id="session-1").session
    p.logout("ada", gone.session_id)
    old = (p.clock.now - timedelta(days=3)).timestamp()
    rows = [{"uid": "eve"}, {"uid": "ada", "session_id": "session-1"}, {"uid": "bob", "login_at": old}, {"uid": "bob"}]
    code, out, err = run("import", "-", typed="\n".join(map(json.dumps, rows)))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Imported 1 session.",
        "Refused 1 (expired). The first: This session would already be past its deadline.",
        "Refused 1 (blocked). The first: Call us. Signing in is blocked until our staff unblock it.",
        "Refused 1 (ended). The first: This session id has ended; a session never comes back. Log in with a new id.",
    ]
    code, out, _ = run("import", "-", "--json", typed=json.dumps(rows[0]))
    assert (code, json.loads(out)) == (1, {"lines": 1, "imported": 0, "refused": {"blocked": 1}})


@on("valkey-sync")
def test_a_limit_ends_the_oldest_imported_session_in_any_order(p: P, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = p.clock.now.timestamp()
    rows = [{"uid": "ada", "session_id": f"session-{age}", "login_at": now - age} for age in (10, 30, 20)]
    monkeypatch.setenv("PRESENCE_MAX_SESSIONS", "1")
    assert run("import", "-", typed="\n".join(map(json.dumps, rows)))[0] == 0
    assert [session.session_id for session in p.sessions("ada")] == ["session-10"]


@on("valkey-sync")
def test_attributes_nested_too_deep_are_refused_with_their_line(p: P, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"uid": "ada", "attributes": nested(depth)} for depth in (32, 33)]
    file.write_text("\n".join(map(json.dumps, rows)))
    code, out, err = run("import", file)
    assert (code, out) == (2, "")
    assert "2: attributes must be nested at most 32 levels deep." in err
    assert p.counts().sessions == 0
    file.write_text(json.dumps(rows[0]))
    assert run("import", file)[0] == 0
    assert json.loads(run("list", "--json")[1])["items"][0]["attributes"] == nested(32)
    assert json.loads(run("export")[1])["attributes"] == nested(32)
    code, _, err = run("list", "--attribute", f"a={json.dumps(nested(32))}")
    assert (code, err) == (2, "attributes must be nested at most 32 levels deep.\n")
