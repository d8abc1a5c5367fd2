"""Texts of users and staff begin no line of their own in a log or a table, and no formula in a file."""

from __future__ import annotations

import csv
import io
import logging
from typing import Any

import pytest

from presence_core import LoginRefused, Presence, SessionFilter, Settings, cli
from presence_core.cli.commands.import_export import write_sessions
from presence_core.files.csv_safety import safe_cell
from presence_core.web.rules import Rules, Visitor
from presence_dashboard.gate.staff_sessions import StaffSessions
from presence_dashboard.gate_settings import Config
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.files import dashboard_files
from tests.web.frameworks.sites import wsgi_site

FAKE = "2026-11-20 12:00:00  FAKE  line"
NAME = f"ann\u2028{FAKE}\u202e\u2029x"
"""A name, device or actor: control characters are refused, these are not."""

PROSE = f"why\n{FAKE}\t\u2028\u202e\u2066"
"""A reason or a message may have lines."""

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def _live_a_life(p: P) -> None:
    p.login(NAME, name=NAME, device=NAME, aliases=[NAME], user_agent=f"x\r\n{FAKE}\x1b[2J")
    p.kick(NAME, by=NAME, reason=PROSE, message=PROSE, ticket=NAME[:40])
    p.block(NAME, by=NAME, reason=PROSE, message=PROSE)
    p.denied(by=NAME, what=NAME[:40], uid=NAME, reason=PROSE)
    p.audit_note(by=NAME, what=NAME[:40], uid=NAME, reason=PROSE, outcome=PROSE)
    p.start_kick(SessionFilter(device=NAME), by=NAME, reason=PROSE, message=PROSE, expected=0)
    p.login("bob", name=NAME, device=NAME)


@on("valkey-sync")
def test_a_table_has_one_line_for_each_row(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    _live_a_life(p)
    rows = {"audit": 5, "ended": 1, "blocks": 1, "jobs": 1, "list": 1, "show bob": 1}
    for words, count in rows.items():
        cli.main(words.split())
        out = capsys.readouterr().out
        assert all(char.isprintable() or char == "\n" for char in out), words
        lines = out.splitlines()
        assert not any(line.lstrip().startswith(FAKE) for line in lines), words
        assert len(lines) <= count + 3, (words, out)
    assert len(p.audit().items) == 5, "and one entry for each act"


class _Lines(logging.Handler):
    """Lines as programs that read a log file split them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += self.format(record).splitlines()


@pytest.fixture
def lines() -> Any:
    handler, root = _Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(level)


@on("valkey-sync")
def test_a_name_adds_no_line_to_the_log_of_the_dashboard(p: P, bed: Bed, lines: list[str]) -> None:
    staff = Presence.from_url(bed.url, Settings(namespace=f"{bed.namespace}-staff", timeout=PATIENT))
    unreachable = Presence.from_url("redis://127.0.0.1:1", Settings(timeout=0.1))
    staff_sessions = StaffSessions(Config(mode="password"), lambda: unreachable, lambda: staff)
    staff_sessions.sign_in_as(NAME, None, PROSE)
    staff_sessions.log_denial(NAME, "sign-in", NAME)
    staff_sessions.close()
    unreachable.close()
    ours = [line for line in lines if "FAKE" in line]
    assert len(ours) == 2
    assert ours[0].startswith("ann")
    assert all(line.isprintable() for line in ours)


@on("valkey-sync")
@pytest.mark.parametrize("mode", ["observe", "adopt", "enforce"])
def test_what_staff_wrote_adds_no_line_to_the_log_of_a_site(bed: Bed, lines: list[str], mode: Any) -> None:
    p = bed.connect()
    p.block(NAME, by=NAME, reason=PROSE, message=PROSE)
    token = p.login("bob", name=NAME).token
    p.kick("bob", by=NAME, reason=PROSE, message=PROSE)
    site = wsgi_site(
        bed.url, Settings(namespace=bed.namespace, timeout=PATIENT), Rules(mode=mode), lambda: Visitor(NAME)
    )
    for headers in ({}, {"authorization": f"Bearer {token}"}, {"authorization": f"Bearer {PROSE}"}, {"cookie": PROSE}):
        answer = site.ask("/", **headers)
        assert not any("\n" in value or "\r" in value for _, value in answer.headers)
    site.close()
    with pytest.raises(LoginRefused):
        p.login(NAME)
    assert [line for line in lines if "FAKE" in line] == []


# -- files ------------------------------------------------------------------------------------------------------------


@on("valkey-sync")
@pytest.mark.parametrize("start", STARTS, ids=[f"{ord(character):x}" for character in STARTS])
def test_no_cell_of_any_file_begins_a_formula(p: P, start: str) -> None:
    """Each text of each file, with every possible first character: library, dashboard's list, and the dashboard's four
    records."""
    p.freeze()
    hostile = f"{start}1+1|cmd" if start.isprintable() else "=1+1|cmd"  # no name may begin with a control character
    why = hostile if start == "\r" else f"{start}1+1|cmd"
    about: dict[str, Any] = {"name": hostile, "device": hostile, "app": hostile, "app_version": hostile,
                             "aliases": [hostile], "attributes": {hostile: hostile}, "user_agent": hostile}  # fmt: skip
    over, session = p.login(hostile, **about).session, p.login(hostile, **about).session
    p.kick(hostile, over.session_id, by=hostile, reason=why, message=why, ticket=hostile)
    p.block(hostile, by=hostile, reason=why, message=why, ticket=hostile)
    p.start_kick(SessionFilter(device=hostile), by=hostile, reason=why, message=why, ticket=hostile, expected=1)
    p.audit_note(by=hostile, what=hostile, uid=hostile, reason=why, outcome=why)
    files = dashboard_files(p)
    assert set(files) == {"sessions", "ended", "blocks", "jobs", "staff"}
    out = io.StringIO(newline="")
    write_sessions(iter([session]), out, "csv")
    for text in (out.getvalue(), *files.values()):
        _no_formula(text)


UNSEEN = (
    *("\u202e", "\u00ad", "\u061c", "\u180e", "\ufe0f", "\u200b", "\u2066", "\u034f", "\u3164", "\u2800", "\u115f"),
    *(
        "\ufff9",
        "\U000e0001",
        "\U000e0100",
        "\u2065",
        "\ue000",
        "\x7f",
        "\x9b",
        "\u00a0",
        "\u0301",
        "\u202e\u00ad \ufe0f",
    ),
)
"""What a spreadsheet skips, or draws as nothing."""


@pytest.mark.parametrize("unseen", UNSEEN, ids=[ascii(text) for text in UNSEEN])
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d"])
def test_no_unseen_character_hides_the_start_of_a_formula(unseen: str, start: str) -> None:
    hostile = f"{unseen}{start}1+1|cmd"
    assert safe_cell(hostile) == f"'{hostile}"
    assert safe_cell(f"Ada;{hostile}") == f"Ada;'{hostile}"


@pytest.mark.parametrize("text", ["Ada Lovelace", "\xc9mile", "\u540d\u524d", "a=b", "x\u202e=1", "", "1-2"])
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert safe_cell(text) == text


@on("valkey-sync")
@pytest.mark.parametrize("unseen", ["\u202e", "\u00ad", "\u061c", "\ufe0f", "\u3164"], ids=ascii)
def test_no_cell_of_any_file_hides_a_formula(p: P, unseen: str) -> None:
    hostile = f"{unseen}=1+1|cmd"
    session = p.login("ann", name=hostile, device=hostile, app=hostile, aliases=[hostile]).session
    p.kick("ann", session.session_id, by=hostile, reason=hostile, message=hostile)
    p.block("ann", by="dana", reason=hostile)
    session = p.login("bob", name=hostile, device=hostile, attributes={hostile: hostile}).session
    out = io.StringIO(newline="")
    write_sessions(iter([session]), out, "csv")
    for text in (out.getvalue(), *dashboard_files(p).values()):
        assert not any(cell.startswith(unseen) for row in csv.reader(io.StringIO(text, newline="")) for cell in row)
    assert unseen in out.getvalue()


def _no_formula(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len(rows) > 1
    assert not any(cell.startswith(STARTS) for row in rows for cell in row)
    assert any("1+1" in cell for row in rows[1:] for cell in row)
    assert {len(row) for row in rows} == {len(rows[0])}
