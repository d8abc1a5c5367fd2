"""Sessions out of a namespace and into one: ``presence export`` and ``import``."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO, Any, Final

from presence_core.cli.asked import Maker, add_by, add_filters, by, session_filter
from presence_core.cli.shown import Growing, as_json, complain, number_of, say, shown
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, LoginRefused, PresenceError
from presence_core.models import Login, Session, plain
from presence_core.operations.login import BATCH, login_many

COLUMNS: Final = (
    "uid", "session_id", "name", "aliases", "device", "app", "app_version", "ip", "last_ip", "user_agent", "os",
    "browser", "attributes", "login_at", "last_seen", "expires_at", "idle_timeout", "absolute_timeout",
)  # fmt: skip

FOLLOWS: Final = frozenset(("last_ip", "os", "browser", "expires_at"))
"""What an export says beside a login's arguments: it follows from them, or begins anew."""

LINE: Final = 65_536
COMPLAINTS: Final = 20
"""Bad lines that are told one by one."""

_FORMULA: Final = re.compile(r"(^|;)(?=[=+\-@\t\r\n＝＋－＠])")
"""Where one would begin: also behind a semicolon, at which spreadsheets of many countries part the cells of a file."""


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    export = command("export", _export, "Write live sessions to a file, newest login first. Never tokens.")
    add_filters(export)
    export.add_argument("--format", choices=("csv", "jsonl"), help="csv for spreadsheets; jsonl, which import reads")
    export.add_argument(
        "-o", "--output", metavar="FILE", help="instead of standard output; there only once it is whole"
    )
    add_by(export)
    read = command(
        "import",
        _import,
        "Begin the sessions of a file, all checked first. Tokens that they had before open nothing any more.",
    )
    read.add_argument("file", metavar="FILE", help="or - for standard input")
    read.add_argument("--dry-run", action="store_true", help="only check")
    read.add_argument("--tokens", metavar="FILE", help="a new file for their tokens, one JSON object a line; mode 600")
    add_by(read)


# -- export -----------------------------------------------------------------------------------------------------------


def _export(presence: Presence, args: argparse.Namespace) -> int:
    asked = session_filter(args)
    path: str | None = args.output
    kind = args.format or ("csv" if (path or "").endswith(".csv") else "jsonl")
    wanted = asked if asked.given else None
    who, which = by(args), f": {asked.to_json()}" if asked.given else ""
    if path is None:
        presence.audit_note(by=who, what="export", outcome=f"sessions exported to standard output{which}"[:500])
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        safe = shown if kind == "csv" and sys.stdout.isatty() else str
        count = _write(presence.iter_sessions(wanted), sys.stdout, kind, safe)
        complain(f"{number_of(count, 'session')}.")
        return 0
    with _whole_file(path) as (out, done):
        count = _write(presence.iter_sessions(wanted), out, kind, str)
        presence.audit_note(by=who, what="export", outcome=f"{number_of(count, 'session')} exported{which}"[:500])
        done()
    say(args, {"sessions": count, "file": path}, [f"{number_of(count, 'session')} in {path}"])
    return 0


def _write(sessions: Iterator[Session], out: IO[str], kind: str, safe: Callable[[str], str]) -> int:
    table = csv.writer(out)
    count = 0
    with Growing() as line:
        if kind == "csv":
            table.writerow(COLUMNS)
        for session in sessions:
            if kind == "csv":
                table.writerow([safe(_cell(getattr(session, name))) for name in COLUMNS])
            else:
                out.write(as_json(session) + "\n")
            count += 1
            if count % 500 == 0:
                line.say(f"{count:,} sessions")
    return count


def _cell(value: Any) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before what would begin one."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        value = "; ".join(value)
    elif isinstance(value, datetime):
        return value.isoformat()
    elif not isinstance(value, str):
        value = json.dumps(plain(value), ensure_ascii=False) if value != {} else ""
    return _FORMULA.sub(r"\1'", value)


@contextlib.contextmanager
def _whole_file(path: str) -> Iterator[tuple[IO[str], Callable[[], None]]]:
    """A file that only its owner reads, written beside and put in its place by the call that comes with it."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise InvalidArgument("output", "must name a file")
    aside = ""
    try:
        descriptor, aside = tempfile.mkstemp(prefix=".export-", dir=os.path.dirname(target))
        with open(descriptor, "w", encoding="utf-8", newline="") as out:

            def done() -> None:
                out.flush()
                os.replace(aside, target)

            yield out, done
    except OSError as error:
        raise InvalidArgument("output", f"cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):  # in its place, or never begun
            os.unlink(aside)


# -- import -----------------------------------------------------------------------------------------------------------


def _import(presence: Presence, args: argparse.Namespace) -> int:
    with _source(args.file) as source, Growing() as line:
        places, bad = _checked(presence, source, line)
        if bad:
            complain(f"Nothing was imported: {number_of(bad, 'line')} of {bad + len(places):,} must be put right.")
            return 2
        if args.dry_run:
            said = f"{number_of(len(places), 'session')} would be imported."
            say(args, {"lines": len(places), "imported": 0, "refused": {}}, [said])
            return 0
        with _token_file(args.tokens) as tokens:
            presence.audit_note(by=by(args), what="import", outcome=f"{number_of(len(places), 'session')} to import")
            imported, refused = _send(presence, source, places, tokens, line)
    codes = Counter(error.code for error in refused)
    lines = [f"{number_of(imported, 'session')} imported."]
    for code, number in codes.most_common():
        sentence = next(error.sentence for error in refused if error.code == code)
        lines.append(f"{number:,} refused ({code}), the first: {sentence}")
    say(args, {"lines": len(places), "imported": imported, "refused": dict(codes)}, lines)
    return 0 if imported or not places else 1


def _source(path: str) -> IO[bytes]:
    """What is read twice: standard input, or a pipe, goes to a file without a name first."""
    try:
        given = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
        if path != "-" and stat.S_ISREG(os.fstat(given.fileno()).st_mode):
            return given
        with given:
            spool = tempfile.TemporaryFile()  # noqa: SIM115
            shutil.copyfileobj(given, spool)
        return spool
    except OSError as error:
        raise InvalidArgument("file", f"cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def _token_file(path: str | None) -> Iterator[IO[str] | None]:
    """Only for its owner, and new: tokens are given once, so nothing may be lost with an old one."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidArgument("tokens", f"must be a file that can be made anew: {error.strerror}") from None
    with open(descriptor, "w", encoding="utf-8") as out:
        yield out


def _checked(presence: Presence, source: IO[bytes], line: Growing) -> tuple[list[int], int]:
    """Where each row begins, the oldest login first, as limits would have met them; and how many lines are bad."""
    offsets, logins, bad, number, at = array("q"), array("d"), 0, 0, 0
    source.seek(0)
    while raw := source.readline(LINE + 1):
        number += 1
        begin, at = at, at + len(raw)
        try:
            row = _row(raw)
            if row is not None:
                login_many(presence._ctx, [row], True)  # checks at once, and would send only if it were run
                offsets.append(begin)
                login_at = row.get("login_at")
                logins.append(login_at.timestamp() if isinstance(login_at, datetime) else login_at or float("inf"))
        except InvalidArgument as error:
            bad += 1
            if bad <= COMPLAINTS:
                complain(f"line {number}: {error.field.removeprefix('row 1: ')[:100]} {error.rule}.")
            while raw and not raw.endswith(b"\n"):  # the rest of a line that is too long
                raw = source.readline(LINE + 1)
                at += len(raw)
        if number % 1000 == 0:
            line.say(f"{number:,} lines checked")
    if bad > COMPLAINTS:
        complain(f"… and {bad - COMPLAINTS:,} more.")
    return [offsets[place] for place in sorted(range(len(offsets)), key=logins.__getitem__)], bad


def _row(raw: bytes) -> dict[str, Any] | None:
    """login's arguments from one line; None of an empty one."""
    if len(raw) > LINE:
        raise InvalidArgument("row", f"must be at most {LINE} bytes")
    try:
        text = raw.decode("utf-8-sig").strip()
        row = json.loads(text) if text else None
    except (ValueError, RecursionError):
        raise InvalidArgument("row", "must be a JSON object in UTF-8") from None
    if row is None and not text:
        return None
    if not isinstance(row, dict):
        raise InvalidArgument("row", "must be a JSON object")
    given = {name: value for name, value in row.items() if name not in FOLLOWS and value is not None}
    for name in ("login_at", "last_seen"):
        if name in given:
            given[name] = _moment(name, given[name])
    return given


def _moment(field: str, value: Any) -> datetime | int | float:
    """Unix seconds, or ISO 8601 with a zone; login_many judges the rest."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidArgument(field, "must be Unix seconds, or a time with its zone such as 2026-01-31T12:00:00+00:00")
    return at


def _send(
    presence: Presence, source: IO[bytes], places: list[int], tokens: IO[str] | None, line: Growing
) -> tuple[int, list[LoginRefused]]:
    imported, refused = 0, []
    for first in range(0, len(places), BATCH):
        rows = []
        for place in places[first : first + BATCH]:
            source.seek(place)
            rows.append(_row(source.readline(LINE + 1)) or {})
        try:
            answers = presence.login_many(rows, imported=True)
        except PresenceError:
            complain(f"It broke off after {number_of(imported, 'session')}. Import the same file again: a session that "
                     "has a session_id is there once.")  # fmt: skip
            raise
        for answer in answers:
            if isinstance(answer, Login):
                imported += 1
                if tokens:
                    session = answer.session
                    told = {"uid": session.uid, "session_id": session.session_id, "token": answer.token}
                    tokens.write(as_json(told) + "\n")
            else:
                refused.append(answer)
        line.say(f"{min(first + BATCH, len(places)):,} of {len(places):,} sessions")
    return imported, refused
