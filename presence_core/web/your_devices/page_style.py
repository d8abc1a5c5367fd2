"""The style of the page, and the policy that lets the browser use it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

_LIGHT: Final = {
    "accent": "#1f5f8b", "on_accent": "#fff", "text": "#111a23", "soft": "#4d5b69", "page": "#f4f6f8", "card": "#fff",
    "line": "#8796a5", "font": "system-ui, sans-serif", "radius": "0.5rem",
}  # fmt: skip
_DARK: Final = {
    "accent": "#7fb8e6", "on_accent": "#0d1a26", "text": "#e3e8ee", "soft": "#aab6c3", "page": "#12171d",
    "card": "#1c232b", "line": "#6b7a8a",
}  # fmt: skip

_RULES: Final = """
.your-devices, .your-devices * { box-sizing: border-box }
.your-devices { max-width: 42rem; margin: 0 auto; color: var(--devices-text);
  font: 1rem/1.5 var(--devices-font); overflow-wrap: anywhere }
.your-devices h1 { margin: .5rem 0; font-size: 1.625rem; line-height: 1.25 }
.your-devices h2 { margin: 1.5rem 0 .5rem; font-size: 1.125rem }
.your-devices p { margin: .5rem 0 }
.your-devices ul { margin: 0; padding: 0; list-style: none }
.your-devices li { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; margin: 0 0 .5rem;
  padding: 1rem; background: var(--devices-card); border: 1px solid var(--devices-line);
  border-radius: var(--devices-radius) }
.your-devices li > div { flex: 1 1 14rem; min-width: 0 }
.your-devices li span { display: block; color: var(--devices-soft); font-size: .875rem }
.your-devices blockquote { margin: .5rem 0 0; padding: 0 0 0 .75rem; border-left: 3px solid var(--devices-line);
  white-space: pre-line }
.your-devices a { color: var(--devices-accent) }
.your-devices form { margin: 0 }
.your-devices button, .your-devices a.button { display: inline-block; min-height: 2.75rem; padding: .5rem 1rem;
  font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer;
  color: var(--devices-accent); background: var(--devices-card); border: 1px solid var(--devices-accent);
  border-radius: var(--devices-radius) }
.your-devices .main { color: var(--devices-on-accent); background: var(--devices-accent) }
.your-devices .row { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0 }
.your-devices :focus-visible { outline: 3px solid var(--devices-accent); outline-offset: 2px }
.your-devices .done { padding: .75rem 1rem; border: 1px solid var(--devices-accent);
  border-radius: var(--devices-radius) }
"""

# The page of its own. With a template, the site draws what is around the content.
_DOCUMENT: Final = "html { background: var(--devices-page) } body { margin: 1rem }\n"


def style_sheet(theme: Mapping[str, str], *, whole_page: bool) -> str:
    """The CSS. Its colours are variables, ``--devices-accent`` and so on, so a site's own style can also set them."""
    dark = {name.removesuffix("_dark"): value for name, value in theme.items() if name.endswith("_dark")}
    light = {name: value for name, value in theme.items() if not name.endswith("_dark")}
    # A colour that is given once is that of both modes.
    both = {name: value for name, value in light.items() if name in _DARK}
    return (
        f":root {{ color-scheme: light dark; {_variables(_LIGHT | light)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK | both | dark)} }} }}"
        + (_RULES if not whole_page else _RULES + _DOCUMENT)
    )


def _variables(values: Mapping[str, str]) -> str:
    return "; ".join(f"--devices-{name.replace('_', '-')}: {value}" for name, value in values.items())


def content_policy(style: str, policy: str | None, *, whole_page: bool) -> str:
    """The Content-Security-Policy: our style by its hash. In a site's own template also the files of the site; in a
    ``policy`` of the site ``{style}`` is replaced."""
    ours = f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'"
    if policy is not None:
        return policy.replace("{style}", ours)
    parts = {
        "default-src": "'none'" if whole_page else "'self'",
        "style-src": ours if whole_page else f"'self' {ours}",
        "img-src": "'self'",
        "object-src": "'none'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())
