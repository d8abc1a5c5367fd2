"""How answers are shown: lines and tables that are safe for a terminal, times, JSON, a line that grows."""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from presence_core.models import Page, plain

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def shown(value: str) -> str:
    """Text for a terminal: what is not printable (escapes, line breaks, direction marks) shows as its code."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in value)


def complain(text: str) -> None:
    """What is wrong, or in the way of an answer, on standard error."""
    print(shown(text), file=sys.stderr)


def say(args: argparse.Namespace, value: Any, lines: Iterable[str]) -> None:
    """The answer: for programs, where they asked so, or for people."""
    if args.json:
        print(as_json(value))
    else:
        for line in lines:
            print(shown(line))


def as_json(value: Any) -> str:
    """A record in one line of JSON, in which a terminal finds nothing to obey."""
    text = json.dumps(plain(value), ensure_ascii=False)
    return _NOT_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def stamp(at: datetime) -> str:
    """A time of an answer, to the second; headings say that it is UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def number_of(count: int, what: str) -> str:
    """ "1 live session", "1,234 live sessions"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, its heading first."""
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Places that it takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def paged(page: Page[Any], rows: Sequence[Sequence[str]], nothing: str) -> Iterator[str]:
    """A page of what was written down: the rows, the heading first, or that there are none; and how to go on."""
    if page.items:
        yield from columns(rows)
        yield f"{len(page):,} of {page.total:,}{'' if page.total_is_exact else ', not counted to the end'}"
    else:
        yield "None was found so far." if page.next_cursor else nothing
    if page.complete_since is not None:
        yield f"Complete since {stamp(page.complete_since)} UTC. Older ones may have gone before their time."
    yield from go_on(page)


def go_on(page: Page[Any]) -> Iterator[str]:
    """Where the next page begins, if there is one."""
    if page.next_cursor:
        yield f"Go on: the same with --cursor {page.next_cursor}"


class Growing:
    """A line on standard error that is written anew while work goes on, where that is a terminal."""

    def __init__(self) -> None:
        self._has_begun = False

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            self._has_begun = True
            print(f"\r{shown(text)}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._has_begun:
            print(file=sys.stderr)
