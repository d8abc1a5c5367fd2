"""Text for CSV files that spreadsheets do not run as a formula."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby
from typing import Final

_STARTS: Final = "=+\\-@＝＋－＠﹢﹣﹦﹫⁺⁻⁼₊₋₌−"
"""Characters that begin a formula, and those that a spreadsheet may read as them."""

_FILLERS: Final = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters that are drawn as nothing."""


def safe_cell(text: str) -> str:
    """Return the text with an apostrophe before each place where a spreadsheet would start a formula."""
    first = text[:1]
    if first.isascii() and first.isalnum() and ";" not in text:
        return text
    return (_formula("\\s\\x00-\\x1f\\x7f") if text.isascii() else _formula(_unseen())).sub(r"\1'", text)


@cache
def _formula(unseen: str) -> re.Pattern[str]:
    """Where a formula could start: at the start of a cell, and after a semicolon, which separates cells in many
    locales."""
    return re.compile(rf"(^|;)(?=[{unseen}]*[{_STARTS}]|[\t\r\n])")


@cache
def _unseen() -> str:
    """What may stand before a formula, as ranges of a pattern: spreadsheets skip it, or draw nothing.

    White space, control characters, marks of direction, soft hyphens, characters without width and their like.
    """
    parts = []
    for unseen, group in groupby(map(chr, range(sys.maxunicode + 1)), _is_unseen):
        chars = [*group]
        if unseen:
            parts.append(f"{re.escape(chars[0])}-{re.escape(chars[-1])}")
    return "".join(parts)


def _is_unseen(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "CZ" or category in ("Mn", "Me") or char in _FILLERS
