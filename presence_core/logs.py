"""The log: named fields, one line for an outage and one for its end, and the two formats of the services.

Each module logs to the logger of its own name, below ``presence_core`` or ``presence_dashboard``. docs/run/logging.md
lists the fields.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any, Final

from presence_core.errors import InvalidArgument

VARIABLE: Final = "PRESENCE_LOG"

STEADY_SECONDS: Final = 1.0
"""An outage has ended when calls succeed and none has failed for this long. So a server that answers every
other call is in one outage, not in many."""

VISITOR_SECONDS: Final = 60.0
"""Between two lines on one field of visitors."""

PREFIX: Final = "presence_"

_log = logging.getLogger(__name__)


def fields(**values: object) -> dict[str, object]:
    """The ``extra`` of a log call. The prefix keeps the names apart from the attributes of a LogRecord. A field without
    a value is left out."""
    return {PREFIX + name: value for name, value in values.items() if value not in (None, "")}


def printable(text: str) -> str:
    """Text on one line, safe for a terminal: escapes, line breaks and direction marks become their code point."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


# -- outages ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Outage:
    began: float
    failed_at: float
    worked_at: float | None = None  #: the first success since the last failure


class OutageLog:
    """Logs one warning when something begins to fail, and one line when it works again; not one for each call.

    ``failed`` may contain ``%(error)s``; ``restored`` may contain ``%(server)s`` and ``%(seconds).1f``, the length of
    the outage. False while nothing fails. Safe to share between threads, and after a fork: it has no lock, and relies
    on single operations of a dict.
    """

    def __init__(
        self, log: logging.Logger, event: str, failed: str, restored: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._event = event
        self._failed = failed
        self._restored = restored
        self._clock = clock
        self._outages: dict[str, _Outage] = {}  # by server, or ""

    def __bool__(self) -> bool:
        return bool(self._outages)

    def failed(self, error: BaseException, server: str = "") -> None:
        """A call has failed."""
        now = self._clock()
        outage = _Outage(now, now)
        known = self._outages.setdefault(server, outage)
        known.failed_at, known.worked_at = now, None
        if known is outage:
            code = getattr(error, "code", None)
            extra = fields(event=f"{self._event}_failed", server=server, error=type(error).__name__, code=code)
            self._log.warning(self._failed, {"error": error}, extra=extra)

    def worked(self, server: str = "") -> None:
        """A call has succeeded."""
        outage = self._outages.get(server)
        if outage is None:
            return
        now = self._clock()
        outage.worked_at = worked_at = outage.worked_at or now
        if now - outage.failed_at >= STEADY_SECONDS and self._outages.pop(server, None) is outage:
            seconds = worked_at - outage.began
            extra = fields(event=f"{self._event}_restored", server=server, seconds=round(seconds, 3))
            words = {"server": f"Redis at {server}" if server else "Redis", "seconds": seconds}
            self._log.info(self._restored, words, extra=extra)


class VisitorLog:
    """Logs what could not be read of visitors: at once, then once a minute, with its number and never a value.

    Safe to share between threads: a race costs a count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}  # since the last line, and when that was

    def unfit(self, field: str) -> None:
        """A value of this field was cut or left out."""
        self._count("value_unfit", field, "%(field)s: %(count)d values did not fit, and were cut or left out")

    def no_address(self) -> None:
        """A login came without an address, while a block rule names a network."""
        self._count("login_without_address", "ip",
                    "%(count)d logins came without a readable address: block rules of networks could not match them"
                    )  # fmt: skip

    def _count(self, event: str, field: str, words: str) -> None:
        count, logged_at = self._counts.get(event + field, (0, -inf))
        count, now = count + 1, self._clock()
        if now - logged_at >= VISITOR_SECONDS:
            extra = fields(event=event, field=field, count=count)
            _log.warning(words, {"field": field, "count": count}, extra=extra)
            count, logged_at = 0, now
        self._counts[event + field] = count, logged_at


class WorkerLog:
    """Logs once that no worker leads in a namespace, and once that one leads again."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._is_missing = False

    def report(self, sentence: str) -> None:
        """``sentence``: that no worker leads, and what to do; "" if one leads."""
        was_missing, self._is_missing = self._is_missing, bool(sentence)
        if sentence and not was_missing:
            _log.warning("namespace %s: %s", self._namespace, sentence, extra=fields(event="no_worker"))
        elif was_missing and not sentence:
            _log.info("namespace %s: a worker leads again.", self._namespace, extra=fields(event="worker_restored"))


# -- the services -----------------------------------------------------------------------------------------------------


class TextFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.123Z WARNING presence_core.worker.loop: the sweep waits: …``. A traceback follows."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name of logging
        """One line: text of visitors and staff begins no line of its own."""
        return f"{_time_of(record)} {record.levelname} {record.name}: {printable(record.message)}"


class JsonFormatter(logging.Formatter):
    """One JSON object on one line: time, level, logger, message, the fields, and the traceback as ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        """ASCII, so that no reader sees a line break in it."""
        line: dict[str, Any] = {
            "time": _time_of(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()
        }  # fmt: skip
        line |= {name: value for name, value in vars(record).items() if name.startswith(PREFIX)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_FORMATS: Final[Mapping[str, type[logging.Formatter]]] = {"text": TextFormatter, "json": JsonFormatter}


def log_format(environ: Mapping[str, str]) -> type[logging.Formatter]:
    """The class of the formatter that PRESENCE_LOG names. Raises InvalidArgument."""
    found = _FORMATS.get(environ.get(VARIABLE, "").strip() or "text")
    if found is None:
        raise InvalidArgument(VARIABLE, "must be text or json")
    return found


def start_logs(environ: Mapping[str, str], handler: logging.Handler | None = None) -> None:
    """Log to standard error or ``handler``, in the format of PRESENCE_LOG: ``text`` (default) or ``json``.

    For programs: ours from level INFO, other libraries from WARNING. A program that has set up logging keeps its own.
    Raises InvalidArgument.
    """
    formatter = log_format(environ)()
    root = logging.getLogger()
    if root.handlers:
        return
    handler = handler or logging.StreamHandler()
    handler.setFormatter(formatter)
    root.addHandler(handler)
    for name in ("presence_core", "presence_dashboard"):
        logging.getLogger(name).setLevel(logging.INFO)
