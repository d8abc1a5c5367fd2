"""``make docs``: build the documentation as a site, in ``build/docs/site``. Fails at the first thing that is not right.

1. Copy the pages of the checkout to ``build/docs/pages``, under the same paths, so that their links stay as they are. A
   link to a file that is not on the site leads to the repository of ``pyproject.toml``.
2. Write the pages of the reference next to them.
3. Let Zensical build the site from ``zensical.toml``, in strict mode.
4. Check the result: Zensical's exit code is 0 also if mkdocstrings found no such name.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import presence_core
from docs.site import reference

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIG: Final = Path(__file__).parent / "zensical.toml"
BUILD: Final = ROOT / "build" / "docs"
SITE: Final = BUILD / "site"
REFERENCE: Final = "docs/reference"
SERVE: Final = "python3 -m http.server --bind 127.0.0.1 --directory"
"""Browsers refuse a page from a file to read the search index."""

SOURCES: Final = {
    "presence_core/settings.py": "settings",
    "presence_core/filters.py": "session_filter",
    "presence_core/schema/refusals.py": "errors",
    "presence_dashboard/gate_settings.py": "settings",
}
"""A link to one of these files leads to its page of the reference."""

REPOSITORY: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]

_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_LOADED: Final = re.compile(
    r"""<(?:script|img|link(?![^>]*rel="?canonical)|iframe|source)\b[^>]*(?:src|href)="?(https?:|//)"""
)


def nav_pages() -> list[str]:
    """The pages that the navigation names, in its order."""

    def of(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry if isinstance(entry, list) else entry.values():
                yield from of(below)

    return list(of(tomllib.loads(CONFIG.read_text("utf-8"))["project"]["nav"]))


def page_texts() -> dict[str, str]:
    """Path → Markdown, of all pages of the site."""
    generated = {f"{REFERENCE}/{name}.md": text for name, text in reference.pages().items()}
    written = {page: (ROOT / page).read_text("utf-8") for page in nav_pages() if page not in generated}
    known = generated.keys() | written.keys()
    return generated | {page: _for_the_site(page, text, known) for page, text in written.items()}


def _for_the_site(page: str, text: str, known: set[str]) -> str:
    def kept(match: re.Match[str]) -> str:
        target = (ROOT / page).parent.joinpath(match[2]).resolve()
        path = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
        if path in SOURCES:
            return f"[{match[1]}]({os.path.relpath(f'{REFERENCE}/{SOURCES[path]}.md', Path(page).parent)})"
        if path in known or path.startswith("docs/images/"):
            return match[0]
        return f"[{match[1]}]({REPOSITORY}/blob/main/{path}{match[3] or ''})" if path else match[1]

    text = re.sub(r"^```(\w+) .+$", r"```\1", text, flags=re.MULTILINE)  # the names of blocks are for the tests
    return _LINK.sub(kept, text)


def stage() -> None:
    """Write what Zensical reads."""
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = BUILD / "pages"
    for page, text in page_texts().items():
        (pages / page).parent.mkdir(parents=True, exist_ok=True)
        (pages / page).write_text(text, "utf-8")
    for picture in (path for path in (ROOT / "docs").rglob("*") if path.suffix in {".png", ".svg", ".gif"}):
        target = pages / picture.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    shutil.copy(CONFIG.parent / "extra.css", pages)
    shutil.copy(CONFIG, BUILD)


def build(zensical: str) -> Iterator[str]:
    """Run Zensical. Yields what is wrong."""
    done = subprocess.run(
        [zensical, "build", "--strict", "--clean", "--config-file", str(BUILD / CONFIG.name)],
        cwd=BUILD, capture_output=True, text=True, check=False,
    )  # fmt: skip
    output = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    if done.returncode or re.search(r"\b(warning|error)\b", output, re.IGNORECASE):
        yield f"Zensical (exit code {done.returncode}): {output}"


def check_site() -> Iterator[str]:
    """What is missing on the built site, or must not be there."""
    texts = {path.relative_to(SITE).as_posix(): path.read_text("utf-8") for path in SITE.rglob("*.html")}
    anchors = {anchor for text in texts.values() for anchor in re.findall(r'\bid="?([\w.]+)', text)}
    for name in expected_anchors():
        if name not in anchors:
            yield f"{name} has no description"
    for page, text in texts.items():
        for loaded in _LOADED.finditer(text):
            yield f"{page} loads a file from another host: {loaded[0]}"
        if ":::" in text:
            yield f"{page} has a directive that nothing replaced"
    for page in nav_pages():
        html = page.replace("README.md", "index.html").replace(".md", ".html")
        if html not in texts:
            yield f"{page} is not on the site ({html})"


def expected_anchors() -> Iterator[str]:
    """Every public name, method and field of the library."""
    for name in presence_core.__all__:
        yield f"{reference.CORE}.{name}"
        value = getattr(presence_core, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            for member in dir(value):
                inherited = getattr(value, member, None)
                is_ours = str(getattr(inherited, "__module__", "")).startswith(reference.CORE)
                if not member.startswith("_") and callable(inherited) and is_ours:
                    yield f"{reference.CORE}.{name}.{member}"
    for module, names in reference.module_names():
        yield from (f"{module}.{name}" for name in names)


def main() -> int:
    stage()
    # Absolute, because Zensical runs in another directory.
    problems = list(build(str(Path(sys.argv[1]).absolute()))) or list(check_site())
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    folder = SITE.relative_to(ROOT) if SITE.is_relative_to(ROOT) else SITE
    print(f"{len(nav_pages())} pages. To read and search them, run {SERVE} {folder}, and open http://127.0.0.1:8000")
    return 0


if __name__ == "__main__":
    sys.exit(main())
