"""The look is defined once: sizes of text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import presence_dashboard

PACKAGE = Path(presence_dashboard.__file__).parent
SCALE = PACKAGE / "browser_files" / "type_scale.css"
DEMO_SITE = PACKAGE / "demo" / "pages.py"  # a site with a look of its own
SIZES = dict(re.findall(r"--(text-\w+): ([\d.]+rem)", SCALE.read_text("utf-8")))
SIZE = re.compile(r"font-?size[\"']?\s*[:=]\s*([^;,}]+)|(?<!pen\.)\bfont\s*[:=]\s*([^;}]+)", re.IGNORECASE)
"""A size of text in CSS, HTML, SVG, JavaScript, or a chart's settings: ``font-size``, ``fontSize`` or ``font``; not in
a picture that a ``pen`` draws."""


def test_no_file_names_a_size_of_text_that_is_not_of_the_scale() -> None:
    used, wrong = set(), []
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix not in (".py", ".css", ".js", ".html", ".svg") or path == DEMO_SITE:
            continue
        for size, font in SIZE.findall(path.read_text("utf-8")):
            value = (size or font).strip()
            used |= (names := set(re.findall(r"var\(--(text-\w+)\)", value)))
            if not ((names <= SIZES.keys() and names) or value in ("0", "inherit")):
                wrong.append(f"{path.name}: {value}")
    assert wrong == []
    assert used <= SIZES.keys()


def test_the_theme_of_streamlit_uses_the_same_sizes() -> None:
    theme = tomllib.loads((PACKAGE.parent / ".streamlit" / "config.toml").read_text("utf-8"))["theme"]
    named = {theme["metricValueFontSize"], *theme["headingFontSizes"]}
    assert {size.rstrip("rem") for size in named} <= {size.rstrip("rem").lstrip("0") for size in SIZES.values()}


def test_the_pages_use_only_colours_and_measures_that_they_define() -> None:
    """Streamlit defines its own in components only: a fallback for one is used on every page, also in the dark."""
    sheets = "\n".join(path.read_text("utf-8") for path in SCALE.parent.glob("*.css"))
    assert set(re.findall(r"var\((--[\w-]+)", sheets)) - set(re.findall(r"(--[\w-]+):", sheets)) == set()
