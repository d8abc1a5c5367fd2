"""Sessions to a file and back: ``presence export`` and ``presence import``."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO, Any

from presence_core.cli.arguments import AddCommand, actor, add_by, add_filters, session_filter
from presence_core.cli.import_file import COLUMNS, check_file, read_rows
from presence_core.cli.output import ProgressLine, count_of, print_error, print_result, to_json
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, LoginRefused, PresenceError
from presence_core.files.csv_safety import safe_cell
from presence_core.logs import printable
from presence_core.models import AuditFact, Login, Session, plain
from presence_core.operations.sessions.login import BATCH


def add_commands(add_command: AddCommand) -> None:
    help = "Write live sessions to a file, without tokens."
    export = add_command("export", _export, help, changes=True)  # an entry in the audit
    add_filters(export)
    export.add_argument("--format", choices=("csv", "jsonl"), help="csv for spreadsheets, jsonl for presence import")
    help = "write a file, which appears only when it is complete; without it, or with -, write to standard output"
    export.add_argument("-o", "--output", metavar="FILE", help=help)
    add_by(export)
    help = "Start the sessions of a file; they get new tokens."
    read = add_command("import", _import, help, changes=lambda args: not args.dry_run)
    read.add_argument("file", metavar="FILE", help="JSON lines; - for standard input")
    read.add_argument("--dry-run", action="store_true", help="only check the file")
    read.add_argument("--tokens", metavar="FILE", help="write the new tokens to this new file, as JSON lines, mode 600")
    add_by(read)


# -- export -----------------------------------------------------------------------------------------------------------


def _export(presence: Presence, args: argparse.Namespace) -> int:
    filter = session_filter(args)
    sessions = presence.iter_sessions(filter if filter.given else None)
    by, path = actor(args), "-" if args.output is None else args.output
    format = args.format or ("csv" if path.endswith(".csv") else "jsonl")
    facts = [AuditFact("exported_to_output" if path == "-" else "exported_to_file")]
    if filter.given:
        facts.append(AuditFact("filter", {"filter": filter.to_json()[:1500]}))
    if path == "-":  # the audit entry comes before the data, also in a temporary file, so it has no count
        presence.audit_note(by=by, what="export", facts=facts)
        print_error(f"{count_of(_write_to_stdout(sessions, format), 'session')}.")
        return 0
    with _new_file(path) as (out, commit):
        presence.audit_note(by=by, what="export", facts=facts)
        count = write_sessions(sessions, out, format)
        commit()
    print_result(args, {"sessions": count, "file": path}, [f"{count_of(count, 'session')} in {path}"])
    return 0


def _write_to_stdout(sessions: Iterator[Session], format: str) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    # JSON escapes unprintable characters; a CSV file must not, but a terminal must not receive them.
    escape = printable if format == "csv" and sys.stdout.isatty() else str
    return write_sessions(sessions, sys.stdout, format, escape)


def write_sessions(sessions: Iterator[Session], out: IO[str], format: str, escape: Callable[[str], str] = str) -> int:
    """Write sessions as ``csv`` or ``jsonl``, and return how many. ``escape`` is applied to each cell of CSV."""
    writer = csv.writer(out)
    if format == "csv":
        writer.writerow(COLUMNS)
    count = 0
    with ProgressLine() as progress:
        # A session of staff on behalf of its user does not move: staff begin another one.
        for count, session in enumerate((session for session in sessions if session.on_behalf_by is None), 1):
            if format == "csv":
                writer.writerow([escape(_cell(getattr(session, name))) for name in COLUMNS])
            else:
                out.write(to_json(session) + "\n")
            if count % 500 == 0:
                progress.show(f"{count:,} sessions")
    return count


def _cell(value: Any) -> str:
    """A field as CSV text: times in ISO 8601, lists joined by semicolons, attributes as JSON."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        value = "; ".join(value)
    elif not isinstance(value, str):
        value = json.dumps(plain(value), ensure_ascii=False) if value != {} else ""
    return safe_cell(value)


@contextlib.contextmanager
def _new_file(path: str) -> Iterator[tuple[IO[str], Callable[[], None]]]:
    """A temporary file with mode 600, and a function that moves it to ``path``. Deleted if that is not called."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise InvalidArgument("output", "must name a file")
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".export-", dir=os.path.dirname(target))
        with open(descriptor, "w", encoding="utf-8", newline="") as out:

            def commit() -> None:
                out.flush()
                os.replace(temporary, target)

            yield out, commit
    except OSError as error:
        raise InvalidArgument("output", f"cannot be written: {error.strerror}", "unusable_file") from None
    finally:
        with contextlib.suppress(OSError):  # moved, or never made
            os.unlink(temporary)


# -- import -----------------------------------------------------------------------------------------------------------


def _import(presence: Presence, args: argparse.Namespace) -> int:
    with _open_source(args.file) as source, ProgressLine() as progress:
        offsets, errors = check_file(source, presence.settings, progress)
        if errors:
            total = errors + len(offsets)
            print_error(f"Nothing was imported: correct {count_of(errors, 'line')} of {total:,}.")
            return 2
        if args.dry_run:
            sentence = f"The file is correct: {count_of(len(offsets), 'session')}. Nothing was imported."
            print_result(args, {"lines": len(offsets), "imported": 0, "refused": {}}, [sentence])
            return 0
        with _open_tokens(args.tokens) as tokens:
            presence.audit_note(by=actor(args), what="import", facts=[AuditFact("to_import", {"count": len(offsets)})])
            imported, refused = _send(presence, source, offsets, tokens, progress)
    codes = Counter(error.code for error in refused)
    lines = [f"Imported {count_of(imported, 'session')}."]
    for code, number in codes.most_common():
        first = next(error for error in refused if error.code == code)
        lines.append(f"Refused {number:,} ({code}). The first: {first.sentence}")
    print_result(args, {"lines": len(offsets), "imported": imported, "refused": dict(codes)}, lines)
    return 0 if imported or not offsets else 1


def _open_source(path: str) -> IO[bytes]:
    """The file. Standard input and pipes are copied to a temporary file, because the import reads twice."""
    if path == "-" and sys.stdin is None:
        raise InvalidArgument("file", "cannot be read: standard input is closed", "unusable_file")
    try:
        source = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
        if path != "-" and stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            return source
        with source:
            copy = tempfile.TemporaryFile()  # noqa: SIM115
            shutil.copyfileobj(source, copy)
        return copy
    except OSError as error:
        raise InvalidArgument("file", f"cannot be read: {error.strerror}", "unusable_file") from None


@contextlib.contextmanager
def _open_tokens(path: str | None) -> Iterator[IO[str] | None]:
    """A new file with mode 600. An existing file is refused: the tokens in it exist nowhere else."""
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidArgument("tokens", f"must name a new file: {error.strerror}", "unusable_file") from None
    with open(descriptor, "w", encoding="utf-8") as out:
        yield out


def _send(
    presence: Presence, source: IO[bytes], offsets: list[int], tokens: IO[str] | None, progress: ProgressLine
) -> tuple[int, list[LoginRefused]]:
    """Send the rows. Returns how many sessions began, and the refusals."""
    imported, refused = 0, []
    for first in range(0, len(offsets), BATCH):
        rows = read_rows(source, offsets[first : first + BATCH])
        try:
            results = presence.login_many(rows, imported=True)
        except PresenceError:
            print_error(
                f"Stopped after {count_of(imported, 'session')}. Import the same file again: a session with a "
                "session_id is never imported twice."
            )
            raise
        for result in results:
            if isinstance(result, Login):
                imported += 1
                _write_token(result, tokens)
            else:
                refused.append(result)
        progress.show(f"{min(first + BATCH, len(offsets)):,} of {len(offsets):,} sessions")
    return imported, refused


def _write_token(login: Login, tokens: IO[str] | None) -> None:
    if tokens:
        session = login.session
        tokens.write(to_json({"uid": session.uid, "session_id": session.session_id, "token": login.token}) + "\n")
