"""No sentence that the library writes for engineers reaches support staff."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import (
    CorruptData,
    InvalidArgument,
    JobErrorCode,
    JobKind,
    OutcomeUnknown,
    Presence,
    PresenceError,
    SessionFilter,
    Unavailable,
)
from presence_core.schema.endings import END_COUNTS
from presence_dashboard import texts
from presence_dashboard.actions import kick_and_block, staff_members
from presence_dashboard.error_sentences import plain
from presence_dashboard.views.live import split_chart
from tests.dashboard.conftest import confirm, log_in, tick, toasts

PACKAGE = Path(kick_and_block.__file__).parents[1]
RAW = "{online:1:0}:sessions WRONGTYPE 10.0.0.7:6379"
ERRORS: list[PresenceError] = [
    InvalidArgument("some_argument", RAW),
    *(InvalidArgument(field, RAW) for field in texts.ERROR_FIELD),
    Unavailable(RAW),
    Unavailable(RAW, "10.0.0.7:6379"),
    *(Unavailable(RAW, "10.0.0.7:6379", code) for code in (*texts.ERROR_SERVER, "CLUSTERDOWN")),
    OutcomeUnknown(RAW, "10.0.0.7:6379"),
    CorruptData(RAW),
    PresenceError(RAW),
]


def test_every_error_of_a_job_has_a_sentence() -> None:
    assert texts.JOB_ERRORS.keys() == set(get_args(JobErrorCode))


def test_every_kind_of_a_job_has_its_words() -> None:
    for words in (texts.JOB_KINDS, texts.JOB_PROGRESS, texts.JOB_RESULT, texts.JOB_MISSED, texts.JOB_LEFT):
        assert words.keys() == set(get_args(JobKind))


def test_every_count_of_ends_has_a_colour_and_a_name_on_live() -> None:
    assert split_chart._COLOURS.keys() == set(END_COUNTS)
    assert set(END_COUNTS) <= texts.LIVE_REASONS.keys()


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_no_error_reaches_staff_as_the_library_says_it(error: PresenceError) -> None:
    said = plain(error)
    assert said.endswith(".")
    assert not any(word in said for word in (*RAW.split(), "some_argument"))


def test_what_staff_cannot_put_right_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    error = Unavailable(f"{RAW} {time.time()}", "10.0.0.7:6379")
    plain(error)
    plain(error)
    assert [str(error) in record.getMessage() for record in caplog.records] == [True]


def test_no_part_of_a_page_takes_the_text_of_an_error_for_itself() -> None:
    """``plain`` is the only way from an error to a page; these places keep the text for engineers."""
    taken = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ExceptHandler) and node.name and _takes_text(node, node.name)
    ]
    ours = {"access.py", "main.py"}  # Denied and SignedOut, whose text is a sentence of texts.py
    engineers = {  # for the Health page, for the log, for the terminal
        "data/store.py", "actions/maintenance.py", "actions/bulk_kick.py", "actions/staff_members.py", "__main__.py",
        "actions/approvals.py",
    }  # fmt: skip
    assert [
        place for place in taken if not place.startswith(("gate/", "demo/")) and place not in ours | engineers
    ] == []


def _takes_text(handler: ast.ExceptHandler, name: str) -> bool:
    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    for node in ast.walk(handler):
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called not in ("plain", "isinstance", "_failed") and any(map(is_it, node.args)):
                return True
        if isinstance(node, ast.FormattedValue) and is_it(node.value):
            return True
        if isinstance(node, ast.Attribute) and is_it(node.value) and node.attr in ("rule", "sentence", "args"):
            return True
    return False


def shown(app: AppTest) -> str:
    assert not app.exception
    kinds = (app.markdown, app.caption, app.error, app.warning, app.info)
    return " | ".join([toasts(app), *(element.value for kind in kinds for element in kind)])


@pytest.mark.parametrize("error", [InvalidArgument("ticket", RAW), Unavailable(RAW, "x"), CorruptData(RAW)], ids=repr)
def test_a_kick_that_fails_says_so_in_plain_words(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, error: PresenceError
) -> None:
    def kick(*_: object, **__: object) -> None:
        raise error

    log_in(presence, 1)
    tick(app.run(), 0)
    app.button(key="kick-selected").click().run()
    monkeypatch.setattr(Presence, "kick", kick)
    confirm(app)
    assert plain(error) in shown(app)
    assert RAW not in shown(app)


def test_a_bulk_kick_that_has_ended_meanwhile_is_refused_in_plain_words(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    job = presence.start_kick(SessionFilter(text="user"), by="alex", reason="Clean-up", expected=9)
    presence.pause_job(job.id, by="alex")
    app.run()
    presence.cancel_job(job.id, by="alex")
    app.button(key=f"resume-{job.id}").click().run()
    assert texts.ERROR_FIELD["job_id"][""] in toasts(app)
    assert "job_id" not in shown(app)


def test_the_last_admin_stays_admin_and_reads_why_in_plain_words(presence: Presence) -> None:
    presence.set_staff("dana", "admin", by="test")
    with pytest.raises(InvalidArgument) as refused:
        staff_members.remove(presence, "dana")
    assert plain(refused.value) == texts.ERROR_FIELD["name"]["last_admin"]


def test_red_boxes_are_for_danger_only() -> None:
    """A mistake or a failure is amber. Red: the service is affected, or the dashboard runs without its gate."""
    red = {
        f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "error" and ast.unparse(node.value) not in LOGS_AND_READINGS
    }
    assert red == {"access.py: st.error", "views/health/health.py: st.error"}


LOGS_AND_READINGS = {"_log", "counts", "job", "reading", "self"}
"""What else has an attribute ``error``."""

HEALTH_WORDS = re.compile(r"\b(redis|valkey|sweep\w*|workers?|shards?|index\w*|json|namespaces?)\b", re.IGNORECASE)
"""Words for operators, which only the Health page uses."""

COMMANDS = {"LIVE_NO_SAMPLES_CODE"}
"""Commands for the administrator, shown as code."""


def sentences(path: Path) -> Iterator[str]:
    """The strings of a module of texts, without docstrings and keys."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    for node in tree.body:
        if isinstance(node, ast.Expr) or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in COMMANDS):
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in skipped:
                yield part.value


@pytest.mark.parametrize("path", sorted((PACKAGE / "texts").glob("*.py")), ids=lambda path: str(path.stem))
def test_words_for_operators_are_on_the_health_page_only(path: Path) -> None:
    found = [text for text in sentences(path) if HEALTH_WORDS.search(text)]
    if path.stem == "health":
        assert found
    else:
        assert found == []
