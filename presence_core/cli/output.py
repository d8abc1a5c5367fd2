"""What commands print: lines and tables that are safe for a terminal, times, JSON, and a progress line."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, Self

from presence_core.logs import printable
from presence_core.models import Ended, Page, Place, plain

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def print_error(text: str) -> None:
    """Print a line on standard error: an error, a warning, or a note that is not part of the result."""
    write_error(printable(text) + "\n")


def write_error(text: str) -> None:
    """Write to standard error. If that fails, the command goes on without it: it may be in the middle of a change."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: IO[str]) -> None:
    """Send what is left in the buffer of a stream, and what follows, to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_result(args: argparse.Namespace, value: Any, lines: Iterable[str]) -> None:
    """Print the result of a command: ``value`` as JSON with ``--json``, else ``lines``."""
    if args.json:
        print(to_json(value))
    else:
        for line in lines:
            print(printable(line))


def to_json(value: Any) -> str:
    """A value as one line of JSON, with unprintable characters escaped."""
    text = json.dumps(plain(value), ensure_ascii=False)
    return _NOT_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


def format_time(at: datetime) -> str:
    """A time to the second. The zone is in the column heading, or follows as ``UTC``."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def how_ended(ended: Ended) -> str:
    """ ": kicked at 2026-01-31 12:00:00 UTC by sam."."""
    by = f" by {ended.by}" if ended.by else ""
    return f": {ended.reason} at {format_time(ended.at)} UTC{by}."


def count_of(count: int, noun: str) -> str:
    """ "1 live session", "1,234 live sessions"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table with aligned columns. The first row is the heading."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def records_table(columns: Mapping[str, str], records: Iterable[object]) -> Iterator[str]:
    """A table with a line per record. columns: heading to attribute."""
    return table([tuple(columns), *([_cell(getattr(record, name)) for name in columns.values()] for record in records)])


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, int | float):
        return f"{value:,.0f}"
    if isinstance(value, Place):
        value = value.words
    return (", ".join(value) if isinstance(value, tuple) else value) or "-"


def page_lines(page: Page[Any], columns: Mapping[str, str], empty: str) -> Iterator[str]:
    """A page as a table like ``records_table``, or the sentence ``empty``; and how to get the next page."""
    if page.items:
        yield from records_table(columns, page)
        yield f"{len(page):,} of {page.total:,}{'' if page.total_is_exact else ' (total not exact)'}"
    else:
        yield "No match so far." if page.next_cursor else empty
    if page.complete_since is not None:
        yield f"Complete since {format_time(page.complete_since)} UTC. Older entries may be missing."
    yield from next_page(page)


def print_page(
    args: argparse.Namespace, page: Page[Any], columns: Mapping[str, str], empty: str, *filters: object
) -> int:
    """Print a page of what these filters match; None is no filter. Returns the exit code: 1 if nothing matches."""
    is_filtered = any(value is not None for value in filters)
    print_result(args, page, page_lines(page, columns, "Nothing matches." if is_filtered else empty))
    return 0 if page.items or page.next_cursor or args.cursor or not is_filtered else 1


def next_page(page: Page[Any]) -> Iterator[str]:
    """How to get the next page, if there is one."""
    if page.next_cursor:
        yield f"Next page: repeat the command with --cursor {page.next_cursor}"


class ProgressLine:
    """A line on standard error that is overwritten while a command works. Prints nothing if that is no terminal."""

    def __init__(self) -> None:
        self._printed = False

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            self._printed = True
            write_error(f"\r{printable(text)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._printed:
            print_error("")
