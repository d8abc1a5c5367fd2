"""The log: an outage is two lines, fields have documented names, and the two formats of PRESENCE_LOG."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site import reference
from presence_core import InvalidArgument, Unavailable, cli
from presence_core.logs import STEADY_SECONDS, VARIABLE, JsonFormatter, OutageLog, TextFormatter, fields, start_logs

ROOT = Path(__file__).parents[2]
AWAY = Unavailable("Redis at here:1 cannot be reached.", "here:1", "LOADING")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def outage_log(clock: Clock) -> OutageLog:
    return OutageLog(
        logging.getLogger("test.outage"), "redis", "%(error)s", "%(server)s is back after %(seconds).1f s", clock
    )


def test_an_outage_is_one_warning_and_its_end_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    outages = outage_log(clock)
    assert not outages
    for _ in range(50):
        outages.failed(AWAY, "here:1")
        clock.now += 0.2
    assert outages
    clock.now += 2.3
    for _ in range(50):
        outages.worked("here:1")
        clock.now += 0.1
    assert not outages
    warning, restored = caplog.records
    assert (warning.levelname, warning.getMessage()) == ("WARNING", str(AWAY))
    assert (restored.levelname, restored.getMessage()) == ("INFO", "Redis at here:1 is back after 12.3 s")
    assert (
        vars(warning).items()
        >= fields(event="redis_failed", server="here:1", error="Unavailable", code="LOADING").items()
    )
    assert vars(restored).items() >= fields(event="redis_restored", server="here:1", seconds=12.3).items()


def test_a_server_that_answers_every_other_call_is_in_one_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    outages = outage_log(clock)
    for _ in range(100):
        outages.failed(AWAY)
        clock.now += STEADY_SECONDS / 2
        outages.worked()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    clock.now += STEADY_SECONDS
    outages.worked()
    outages.failed(AWAY)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_the_outage_of_one_server_does_not_end_with_the_reply_of_another(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    outages = outage_log(clock)
    outages.failed(AWAY, "here:1")
    clock.now += 10
    outages.worked("here:2")
    outages.worked()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def _fields_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fields":
            yield from (f"presence_{keyword.arg}" for keyword in node.keywords)


def test_every_field_is_documented_and_none_is_an_attribute_of_a_record() -> None:
    used = {name for folder in ("presence_core", "presence_dashboard") for path in (ROOT / folder).rglob("*.py")
            for name in _fields_of(path)}  # fmt: skip
    section = (ROOT / "docs/run/logging.md").read_text("utf-8").partition("### Fields")[2].partition("\n## ")[0]
    rows = [line.partition(":")[0] for line in section.splitlines() if line.startswith("- `")]
    assert set(re.findall("`(presence_[a-z]+)`", " ".join(rows))) == used
    record = logging.LogRecord("x", logging.INFO, "x", 1, "x", (), None)
    assert not used & (vars(record).keys() | {"message", "asctime"})


def test_every_logger_has_the_name_of_its_module() -> None:
    calls = {f"{path.name}: {call}" for folder in ("presence_core", "presence_dashboard")
             for path in (ROOT / folder).rglob("*.py")
             for call in re.findall(r"^\w+.*getLogger\((.*)\)$", path.read_text("utf-8"), re.MULTILINE)}  # fmt: skip
    assert len(calls) > 10
    assert {call for call in calls if not call.endswith(("__name__", "ACCESS_LOG"))} == set()


def _record(message: str, *args: object, exc_info: object = None) -> logging.LogRecord:
    record = logging.LogRecord("presence_core.x", logging.WARNING, "x.py", 1, message, args, exc_info)  # type: ignore[arg-type]
    vars(record).update(fields(event="request", ms=1.5, key=None), other="not ours")
    record.created, record.msecs = 1_769_860_800.042, 42.0
    return record


def test_the_text_format_has_time_level_and_logger_on_one_line() -> None:
    line = TextFormatter().format(_record("hello %s", "ann\n2026 FAKE\u2028x"))
    assert line == "2026-01-31T12:00:00.042Z WARNING presence_core.x: hello ann\\u{a}2026 FAKE\\u{2028}x"


def test_the_json_format_is_one_object_on_one_line_with_the_fields_and_no_other_extra() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = JsonFormatter().format(_record("hello %s", "ann\u2028x", exc_info=sys.exc_info()))
    assert line.isascii()
    assert line.isprintable()
    seen = json.loads(line)
    assert "ValueError: two\nlines" in seen.pop("exception")
    assert seen == {"time": "2026-01-31T12:00:00.042Z", "level": "WARNING", "logger": "presence_core.x",
                    "message": "hello ann\u2028x", "presence_event": "request", "presence_ms": 1.5}  # fmt: skip


def test_the_help_of_every_service_names_the_variable() -> None:
    helps = {name: parser.format_help() for name, parser in reference.subcommands(cli.build_parser()).items()}
    services = {"worker", "serve", "dashboard", "demo", "mirror", "notices"}
    assert {name for name, text in helps.items() if VARIABLE in text} == services


def test_a_wrong_format_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"^PRESENCE_LOG must be text or json\.$"):
        start_logs({"PRESENCE_LOG": "xml"})


def test_a_program_that_has_set_up_logging_keeps_its_own() -> None:
    before = list(logging.getLogger().handlers)
    assert before, "pytest has set it up"
    start_logs({})
    assert logging.getLogger().handlers == before
