"""What must stay as it is when code is moved: the texts in ``files``, each compared with what the code makes.

``python -m tests.golden`` writes them again. A commit that changes one of them says what has changed, and why.
"""

from __future__ import annotations

import difflib
import inspect
import json
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from babel.messages.pofile import read_po

import presence_dashboard
from docs.site.reference import openapi, subcommands
from presence_core import AsyncPresence, Presence, cli
from presence_core.scripts import EVERY

FILES: Final = Path(__file__).parent / "files"
LINES: Final = 60
"""Lines of a difference that a failed test shows."""


def _scripts() -> Iterator[str]:
    """The digest of each script, as Redis has it."""
    yield from sorted(f"{script.sha}  {script.name}" for script in EVERY)


def _openapi() -> Iterator[str]:
    """The schema of the HTTP service: each part on a line, and what it repeats by the place of the first."""
    yield from _parts("", openapi(), {})


def _parts(path: str, node: Any, places: dict[str, str]) -> Iterator[str]:
    text = json.dumps(node, sort_keys=True, ensure_ascii=False)
    if len(text) > 60 and text in places:
        yield f"{path}: as {places[text]}"
        return
    places[text] = path
    if len(text) < 400 or not isinstance(node, dict | list):
        yield f"{path}: {text}"
        return
    for name, part in sorted(node.items()) if isinstance(node, dict) else enumerate(node):
        yield from _parts(f"{path}/{name}", part, places)


def _help() -> Iterator[str]:
    """The help of every command."""

    def of(name: str, parser: ArgumentParser) -> Iterator[str]:
        yield f"==== {name}"
        parser.formatter_class = partial(HelpFormatter, width=98)  # however wide the terminal is
        yield from (line.rstrip() for line in parser.format_help().split("\n"))
        for inner, below in subcommands(parser).items():
            yield from of(f"{name} {inner}", below)

    yield from of("presence", cli.build_parser())


def _signatures() -> Iterator[str]:
    """The public methods of both clients."""
    for client in (Presence, AsyncPresence):
        for name in sorted(vars(client).keys() | set(dir(client))):
            method = getattr(client, name)
            if callable(method) and (not name.startswith("_") or name == "__init__"):
                yield f"{client.__name__}.{name}{inspect.signature(method)}"


def _msgids() -> Iterator[str]:
    """The texts of the dashboard that are translated."""
    path = Path(presence_dashboard.__file__).parent / "locale" / "de" / "LC_MESSAGES" / "dashboard.po"
    with path.open("rb") as file:
        yield from sorted(repr(message.id) for message in read_po(file) if message.id)


TEXTS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "scripts.txt": _scripts,
    "openapi.txt": _openapi,
    "help.txt": _help,
    "signatures.txt": _signatures,
    "msgids.txt": _msgids,
}
"""File → what makes its lines. ``namespace.txt`` needs a server: see namespace.py."""


def stored(name: str) -> str:
    """The text as it is stored."""
    return (FILES / name).read_text("utf-8")


def difference(name: str, text: str) -> str:
    """What a failed test says; empty if the text is as it is stored."""
    if text == stored(name):
        return ""
    lines = list(difflib.unified_diff(stored(name).split("\n"), text.split("\n"), "stored", "now", lineterm="", n=1))
    more = f"\n… and {len(lines) - LINES} lines more" if len(lines) > LINES else ""
    return (
        f"tests/golden/files/{name} is not what the code makes.\n" + "\n".join(lines[:LINES]) + more + "\nIf this is "
        "meant: run `python -m tests.golden`, look at `git diff`, and say in the commit what has changed, and why."
    )
