"""The texts of the handbook: ``docs/use/handbook`` of a checkout, which a wheel has inside ``presence_dashboard``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[2]
_PACKED: Final = _PACKAGE / "handbook"
FOLDER: Final = _PACKED if _PACKED.is_dir() else _PACKAGE.parent / "docs" / "use" / "handbook"

FIRST: Final = "index"

_CHAPTER: Final = re.compile(r"^- \[.+\]\((\w+)\.md\)\n", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(\w+\.md\)")
_PICTURE: Final = re.compile(r"^!\[(.+)\]\((\w+\.png)\)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Picture:
    path: Path
    words: str


def names() -> list[str]:
    """The chapters in their order, as the list of the first one says."""
    return [FIRST, *_CHAPTER.findall(_read(FIRST))]


def title(name: str) -> str:
    return _read(name).partition("\n")[0].removeprefix("# ")


def parts(name: str) -> Iterator[str | Picture]:
    """The chapter below its title: Markdown, and pictures. The page lists all chapters itself, so links to them are
    plain text."""
    body = _read(name).partition("\n")[2]
    pieces = _PICTURE.split(_LINK.sub(r"\1", _CHAPTER.sub("", body)))
    yield pieces[0]
    for words, file, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield Picture(FOLDER / file, words)
        yield text


def _read(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text("utf-8")
