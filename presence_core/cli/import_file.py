"""The file that ``presence import`` reads: one JSON object per line, each with the arguments of a login."""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import IO, Any, Final, NamedTuple

from presence_core import validation as check
from presence_core.cli.output import ProgressLine, print_error
from presence_core.errors import InvalidArgument
from presence_core.models import Session
from presence_core.operations.sessions.login_row import check_row
from presence_core.operations.visitor_fields import VisitorFields
from presence_core.settings import Settings

MAX_LINE: Final = 65_536
"""Bytes of a line."""

MAX_ERRORS: Final = 20
"""Bad lines that are printed; the rest are only counted."""

COLUMNS: Final = tuple(field.name for field in fields(Session))
"""The fields of an export. An import takes idp_expires_at as the login's expires_at."""

_TAKEN: Final = frozenset((
    "uid", "session_id", "name", "aliases", "device", "app", "app_version", "ip", "user_agent", "attributes",
    "login_at", "last_seen", "idle_timeout", "absolute_timeout", "idp_expires_at", "idp", "methods", "mfa",
))  # fmt: skip
_IGNORED: Final = frozenset(COLUMNS) - _TAKEN
"""Fields of an export that an import ignores: they are derived from the others, or start again."""

_FIELDS: Final = _TAKEN - {"idp_expires_at"} | {"expires_at"}


class Line(NamedTuple):
    """A line of the file."""

    number: int  #: from 1
    offset: int
    text: bytes  #: at most MAX_LINE + 1 bytes


def check_file(source: IO[bytes], settings: Settings, progress: ProgressLine) -> tuple[list[int], int]:
    """Check every line, and print the first errors. Returns the offsets of the good lines and the number of bad lines.

    The oldest login comes first, so that session limits end the sessions that they would have ended at the time.
    """
    offsets, logins, errors = array("q"), array("d"), 0
    for line in _lines(source):
        try:
            if (row := parse_row(line.text)) is not None:
                check_import(settings, row)
                offsets.append(line.offset)
                logins.append(_login_time(row))
        except InvalidArgument as error:
            errors += 1
            if errors <= MAX_ERRORS:
                print_error(f"line {line.number}: {error.field[:100]} {error.rule}.")
        if line.number % 1000 == 0:
            progress.show(f"{line.number:,} lines checked")
    if errors > MAX_ERRORS:
        print_error(f"… and {errors - MAX_ERRORS:,} more.")
    oldest_first = sorted(range(len(offsets)), key=logins.__getitem__)
    return [offsets[place] for place in oldest_first], errors


def read_rows(source: IO[bytes], offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
    """The rows at these offsets, which ``check_file`` has checked."""
    for offset in offsets:
        source.seek(offset)
        yield parse_row(source.readline(MAX_LINE + 1)) or {}


def _lines(source: IO[bytes]) -> Iterator[Line]:
    source.seek(0)
    for number in itertools.count(1):
        offset = source.tell()
        text = rest = source.readline(MAX_LINE + 1)
        if not text:
            return
        while rest and not rest.endswith(b"\n"):  # skip the rest of a line that is too long
            rest = source.readline(MAX_LINE + 1)
        yield Line(number, offset, text)


def parse_row(line: bytes) -> dict[str, Any] | None:
    """The arguments of a login in one line; None for an empty line. Raises InvalidArgument."""
    if len(line) > MAX_LINE:
        raise InvalidArgument("row", f"must be at most {MAX_LINE} bytes", "too_long")
    try:
        text = line.decode("utf-8-sig").strip()
        row = json.loads(text) if text else None
    except (ValueError, RecursionError):
        raise InvalidArgument("row", "must be a JSON object in UTF-8", "malformed") from None
    if not text:
        return None
    if not isinstance(row, dict):
        raise InvalidArgument("row", "must be a JSON object", "wrong_type")
    given = {name: value for name, value in row.items() if name not in _IGNORED and value is not None}
    for name in ("login_at", "last_seen", "idp_expires_at"):
        if name in given:
            given[name] = _parse_time(name, given[name])
    if "idp_expires_at" in given:
        given["expires_at"] = given.pop("idp_expires_at")
    return given


def _parse_time(field: str, value: Any) -> datetime | int | float:
    """Unix seconds as they are, or an ISO 8601 time with a zone. ``check_import`` checks the range."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        parsed = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise InvalidArgument(
            field, "must be Unix seconds, or a time with its zone such as 2026-01-31T12:00:00+00:00", "malformed"
        )
    return parsed


def check_import(settings: Settings, row: dict[str, Any]) -> None:
    """Raise the InvalidArgument that ``login_many([row], imported=True)`` would raise, without sending anything."""
    if unknown := sorted(row.keys() - _FIELDS):
        raise InvalidArgument(unknown[0], "is not an argument of login", "unknown")
    check_row(settings, VisitorFields(refuse=settings.unfit == "refuse"), row, new_id="")
    if "login_at" in row:
        check.time_ms("login_at", row["login_at"])
        if "last_seen" in row:
            check.time_ms("last_seen", row["last_seen"])
    elif "last_seen" in row:
        raise InvalidArgument("last_seen", "must come with login_at", "required")


def _login_time(row: dict[str, Any]) -> float:
    """Unix seconds. Rows without a login time begin now, so they come last."""
    login_at = row.get("login_at", float("inf"))
    return login_at.timestamp() if isinstance(login_at, datetime) else float(login_at)
