"""The public names in docs/lookup/compatibility.md, as the code has them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

import presence_core
from docs.site.reference import module_names

PAGE: Final = Path(__file__).parents[2] / "docs/lookup/compatibility.md"
_BLOCK: Final = re.compile(r"(?<=```text names\n).*?(?=^```)", re.DOTALL | re.MULTILINE)


def names() -> dict[str, list[str]]:
    """Module → its public names."""
    ours = {"presence_core": presence_core.__all__} | dict(module_names())
    return {module: sorted(found) for module, found in ours.items()}


def written() -> str:
    """The page with these names."""
    lines = (f"{module}: {', '.join(found)}" for module, found in names().items())
    text = "\n".join(textwrap.fill(line, 118, subsequent_indent="  ") for line in lines) + "\n"
    return _BLOCK.sub(lambda _: text, PAGE.read_text("utf-8"))
