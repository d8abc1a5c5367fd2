"""Text for CSV files that spreadsheets do not run as a formula."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"(^|;)(?=[\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]|[\t\r\n])")
"""Where a formula could start: at the start of a cell, and after a semicolon, which separates cells in many locales.
Spreadsheets skip white space, and some skip characters without width."""


def safe_cell(text: str) -> str:
    """Return the text with an apostrophe before each place where a spreadsheet would start a formula."""
    return _FORMULA.sub(r"\1'", text)
