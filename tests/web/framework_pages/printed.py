"""The blocks of docs/use/frameworks.md and of the pages in docs/use/frameworks, as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs/use/frameworks"


def text_of(page: str) -> str:
    """A page in docs/use/frameworks."""
    return (PAGES / f"{page}.md").read_text("utf-8")


def blocks(page: str, language: str = "python") -> dict[str, str]:
    """Name → block. Each block of the language must have a name."""
    text = text_of(page)
    found = dict(re.findall(rf"^```{language} ([\w.-]+)\n(.*?)^```", text, re.M | re.S))
    assert len(found) == text.count(f"\n```{language}"), page
    return found


def staff_commands(page: str) -> list[list[str]]:
    """The arguments of each kick and block that staff run on this page, with ``presence`` for manage.py."""
    fences = re.findall(r"^```sh\n(.*?)^```", text_of(page), re.M | re.S)
    lines = [line for fence in fences for line in fence.splitlines()]
    return [
        shlex.split(line.removeprefix("python manage.py "))[not line.startswith("python") :]
        for line in lines
        if re.match(r"(python manage\.py )?presence (kick|block) ", line)
    ]
