"""Library, dashboard, tests and benchmarks use plain words: names, docstrings and comments avoid a list of words."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]

INSTEAD = {
    "anew": "again",
    "beside": "next to, compared with",
    "by itself": "automatically",
    "came of": "result",
    "goes by": "uses",
    "is over": "has ended",
    "mend": "repair",
    "mends": "repairs",
    "of late": "recently",
    "nobody": "no one, or name the actor",
    "somebody": "name the actor",
    "stands still": "is suspended",
    "told": "sent, logged, reported",
    "whatever": "any",
    "whoever": "name the actor",
}
"""Word → a plainer one."""

WORDS = re.compile(rf"(?<![a-z])({'|'.join(INSTEAD)})(?![a-z])", re.IGNORECASE)


def _texts(text: str) -> Iterator[tuple[int, str]]:
    """Names with spaces for underscores, comments, and docstrings, also those of constants."""
    begins_a_statement = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string.replace("_", " ")
        elif token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins_a_statement):
            yield token.start[0], " ".join(token.string.split())
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins_a_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def _found(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    if not WORDS.search(" ".join(text.replace("_", " ").split())) and not re.search(r"\bone\b", text):
        return  # only a file that has one of the words anywhere is read token by token, which is slow
    for number, piece in dict.fromkeys(_texts(text)):
        where = f"{path.relative_to(CHECKOUT)}:{number}"
        for word in WORDS.findall(piece) if len(piece) > 3 else ():
            yield f"{where}: {word!r}: write {INSTEAD[word.lower()]!r}"
        if piece == "one":
            yield f"{where}: 'one' is no name: write what it is, such as 'session'"


FOLDERS = sorted(
    path
    for path in [
        *(CHECKOUT / name for name in ("benchmarks", "presence_core", "presence_dashboard")),
        *(CHECKOUT / "tests").iterdir(),
    ]
    if path.is_dir() and path.name != "__pycache__"
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_product_its_tests_and_benchmarks_use_plain_words(folder: Path) -> None:
    paths = [path for path in sorted(folder.rglob("*.py")) if path != Path(__file__)]
    assert [line for path in paths for line in _found(path)] == []
