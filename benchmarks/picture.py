"""The picture of docs/lookup/costs.md: the ratio to bare Redis commands of each method, as SVG.

It brings its own background for light and dark pages. Its text is text, and readable on a phone 390 pixels wide.
"""

from __future__ import annotations

from html import escape
from math import ceil, floor, log2
from pathlib import Path
from typing import Final

from benchmarks.measure import Json

SOURCE: Final = "valkey-100k.json"
"""The results that it shows."""

FILE: Final = Path(__file__).parents[1] / "docs" / "images" / "benchmarks.svg"
OTHER_BASES: Final = ("page_growth", "page_deep", "page_deep_gone")
"""Benchmarks that compare a call with another call of the library."""

WIDTH, LEFT, RIGHT, TOP, ROW = 460, 176, 412, 78, 22
STYLE: Final = """
svg { --page: #fff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --slower: #bf6a02; --faster: #1a7f37 }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --text: #f0f6fc; --quiet: #9198a1; --line: #3d444d; --slower: #db8b2d; --faster: #3fb950 }
}
text { font: 13px system-ui, sans-serif; fill: var(--text) }
text { paint-order: stroke; stroke: var(--page); stroke-width: 4px }
.title { font-weight: 600; font-size: 15px }
.quiet { fill: var(--quiet) }
.name { text-anchor: end }
.tick { text-anchor: middle; fill: var(--quiet) }
rect.page { fill: var(--page) } rect.slower { fill: var(--slower) } rect.faster { fill: var(--faster) }
line { stroke: var(--line) } line.bare { stroke: var(--text) }
"""


def draw(document: Json) -> str:
    """The SVG for the results of one server and size."""
    ratios = {
        result["name"]: float(result["ratio"])
        for result in document["results"]
        if "ratio" in result and result["benchmark"] not in OTHER_BASES
    }
    low = min(-1, floor(log2(min(ratios.values()))))
    high = max(1, ceil(log2(max(ratios.values()))))
    height = TOP + ROW * len(ratios) + 12

    def x(ratio: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (log2(ratio) - low) / (high - low), 1)

    about = f"{document['server']}, {document['sessions']:,} sessions"
    title = "Time of a call / bare Redis commands"
    spoken = "; ".join(f"{escape(name)} {ratio:.2g}" for name, ratio in ratios.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="title about"><title id="title">{title}</title>',
        f'<desc id="about">{about}. {spoken}.</desc>',
        f'<style>{STYLE}</style><rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="16" y="26">{title}</text>',
        f'<text class="quiet" x="16" y="46">{about}; medians of the ratio</text>',
    ]
    for power in range(low, high + 1):
        at, name = x(2**power), f"{2**power}" if power >= 0 else f"1/{2**-power}"
        lines.append(f'<text class="tick" x="{at}" y="{TOP - 8}">{name}</text>')
        kind = "other" if power else "bare"
        lines.append(f'<line class="{kind}" x1="{at}" x2="{at}" y1="{TOP - 2}" y2="{height - 10}"/>')
    for place, (name, ratio) in enumerate(sorted(ratios.items(), key=lambda pair: pair[1])):
        y, at = TOP + ROW * place + 4, x(ratio)
        begin, end, kind = min(at, x(1)), max(at, x(1)), "slower" if ratio > 1 else "faster"
        lines.append(f'<text class="name" x="{LEFT - 8}" y="{y + 12}">{escape(name)}</text>')
        lines.append(f'<rect class="{kind}" x="{begin}" y="{y + 2}" width="{max(1, end - begin):.1f}" height="12"/>')
        lines.append(f'<text x="{end + 5:.1f}" y="{y + 12}">{ratio:.2g}</text>')
    return "\n".join([*lines, "</svg>\n"])
