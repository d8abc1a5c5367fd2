"""The demo site's HTML. Every value from outside is escaped by ``e``."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape as e
from typing import Final

from presence_core import Ended, Session
from presence_core.web.your_devices.device_list import DevicesPage

DEVICES: Final = ("Windows PC", "Mac", "Linux PC", "iPhone", "iPad", "Android phone", "Android tablet")

_STYLE: Final = """
:root{color-scheme:light dark;--page:#f4f6f8;--card:#fff;--text:#111a23;--soft:#4d5b69;--line:#d5dde5;--blue:#1f5f8b;
--on-blue:#fff;--tint:#e8f1f8;--red:#a4243b;--red-tint:#fbecee;--amber-tint:#fdf3dc}
@media (prefers-color-scheme:dark){:root{--page:#12171d;--card:#1c232b;--text:#e3e8ee;--soft:#a7b3bf;--line:#36424e;
--blue:#7fb8e6;--on-blue:#0d1a26;--tint:#1d3244;--red:#f0a0ab;--red-tint:#3a2329;--amber-tint:#37301c}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:42rem;margin:0 auto;padding:0 1rem}
header{display:flex;align-items:center;gap:.6rem;padding-top:1.25rem;padding-bottom:1.25rem}
header a{display:flex;align-items:center;gap:.6rem;color:inherit;font-weight:650;font-size:1.125rem;
text-decoration:none}
header svg{display:block}
.mark{margin-left:auto;border:1px solid var(--line);border-radius:99px;padding:.1rem .7rem;color:var(--soft);
font-size:.8125rem}
section{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.25rem 1.5rem;
margin:0 0 1rem}
h1{font-size:1.625rem;line-height:1.25;margin:.15rem 0 .5rem}
h2{font-size:1.0625rem;margin:0 0 .25rem}
p{margin:.5rem 0}
.soft,small{color:var(--soft)}
small{font-size:.875rem}
a{color:var(--blue)}
form{margin:0}
label{display:block;font-weight:600;margin:1rem 0 .25rem}
label.check{display:flex;gap:.6rem;align-items:flex-start;font-weight:400}
label.check input{margin-top:.3rem}
input:not([type=checkbox]),select{width:100%;padding:.6rem .7rem;border:1px solid var(--soft);border-radius:.5rem;
background:var(--card);color:inherit;font:inherit}
button,.button{display:inline-block;min-height:2.75rem;padding:.5rem 1.1rem;border:1px solid var(--blue);
border-radius:.5rem;background:var(--card);color:var(--blue);font:inherit;font-weight:600;text-decoration:none;
cursor:pointer;white-space:nowrap}
button.main,.button.main{background:var(--blue);color:var(--on-blue);margin-top:1rem}
button:hover,.button:hover{filter:brightness(1.08)}
:focus-visible{outline:3px solid var(--blue);outline-offset:2px}
.note{background:var(--tint);border-color:transparent}
.error{background:var(--red-tint);color:var(--red);border-radius:.5rem;padding:.6rem .9rem;font-weight:600}
.wait{background:var(--amber-tint)}
blockquote{margin:1rem 0;padding:.75rem 1rem;border-left:4px solid var(--blue);background:var(--tint);
border-radius:0 .5rem .5rem 0;white-space:pre-line}
footer{color:var(--soft);font-size:.875rem;padding-top:.5rem;padding-bottom:2rem}
@media (max-width:30rem){section{padding:1rem}}
"""

# Waits for the end of the session, then shows the reason in place of the page's content. The back button reloads the
# page, so that no old content is shown.
_SCRIPT: Final = """
const live = new EventSource("/live");
live.addEventListener("ended", event => {
  live.close();
  const content = JSON.parse(event.data);
  document.title = content.title;
  const main = document.querySelector("main");
  main.innerHTML = content.main;
  main.tabIndex = -1;
  main.focus();
});
addEventListener("pageshow", event => { if (event.persisted) location.reload(); });
"""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Our style and our script by their hashes: no other has an effect on these pages.
POLICY: Final = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

DEVICES_POLICY: Final = POLICY.replace("style-src ", "style-src {style} ")

DEVICES_THEME: Final = {"line": "#d5dde5", "line_dark": "#36424e", "radius": ".75rem"}

_BOAT: Final = (
    '<svg width="28" height="28" viewBox="0 0 32 32" aria-hidden="true" fill="none" stroke="currentColor" '
    'stroke-width="2" stroke-linejoin="round"><path d="M2 18h28l-6 9H8zM16 4l8 14H8zM16 4v14"/></svg>'
)
_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E"
    "%3Cpath fill='%231f5f8b' d='M2 18h28l-6 9H8zM16 3l9 13H7z'/%3E%3C/svg%3E"
)


def _title(title: str) -> str:
    return f"{e(title)} · Paperboat"


def _page(title: str, body: str, *, live: bool = False, language: str = "en", style: str = "") -> str:
    script = f"<script>{_SCRIPT}</script>\n" if live else ""
    return f"""<!doctype html>
<html lang="{e(language)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_title(title)}</title>
<link rel="icon" href="{_ICON}">
<style>{_STYLE}</style>{f"<style>{style}</style>" if style else ""}
</head>
<body>
<header><a href="/">{_BOAT}Paperboat</a><span class="mark">demo site</span></header>
<main>
{body}
</main>
<footer>A demo: all users are invented, and nothing is for sale.</footer>
{script}</body>
</html>
"""


def _span(seconds: int) -> str:
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds} seconds"


def _try_it(session: Session, dashboard: str | None) -> str:
    where = f'<a href="{e(dashboard)}" target="_blank" rel="noopener">dashboard</a>' if dashboard else "dashboard"
    return f"""<section class="note">
<h2>Try it</h2>
<p>Open the {where}, find <strong>{e(session.uid)}</strong> near the top of the list and kick this session, with a
message. Watch this page: it closes, and shows why.</p>
</section>"""


def home(session: Session, count: int, dashboard: str | None) -> str:
    """The start page: the user, and on how many devices they are signed in."""
    reach = " · ".join(f"<bdi>{e(alias)}</bdi>" for alias in session.aliases)
    return _page(
        "Start",
        f"""<section>
<span class="soft">Signed in as</span>
<h1><bdi>{e(session.name or session.uid)}</bdi></h1>
<p class="soft"><bdi>{e(session.uid)}</bdi>{" · " if reach else ""}{reach}</p>
<form method="post" action="/sign-out"><button>Sign out</button></form>
</section>
<section>
<h2>You are signed in on {count} device{"" if count == 1 else "s"}</h2>
<a class="button main" href="/devices/">Your devices</a>
</section>
{_try_it(session, dashboard)}
<p class="soft"><small>This device is signed out after {_span(session.idle_timeout)} without a click, and
{_span(session.absolute_timeout)} after signing in at the latest.</small></p>""",
        live=True,
    )


def devices(page: DevicesPage) -> str:
    """ "Your devices" in the site's own layout."""
    return _page(page.title, page.body, live=page.devices is not None, language=page.language, style=page.style)


def sign_in(example: str, names: Sequence[str], *, who: str = "", error: str | None = None) -> str:
    """The form. ``names`` are suggestions; ``error`` is one sentence."""
    alert = f'<p class="error" role="alert" id="error">{e(error)}</p>' if error else ""
    invalid = ' aria-invalid="true" aria-describedby="error"' if error else ""
    suggestions = "".join(f'<option value="{e(name)}">' for name in names)
    devices = "".join(f"<option>{e(name)}</option>" for name in DEVICES)
    return _page(
        "Sign in",
        f"""<section>
<h1>Sign in</h1>
<p class="soft">Sign in as any user of the demo's directory, for example <strong><bdi>{e(example)}</bdi></strong>.</p>
{alert}
<form method="post" action="/sign-in">
<label for="who">Name or email</label>
<input id="who" name="who" value="{e(who or example)}" list="people" required maxlength="256" autocomplete="off"
 dir="auto" autofocus{invalid}>
<datalist id="people">{suggestions}</datalist>
<label for="password">Password <small>(demo: any password)</small></label>
<input id="password" name="password" type="password" value="demo" required maxlength="256" autocomplete="off">
<label for="device">This device</label>
<select id="device" name="device"><option value="">As the browser says</option>{devices}</select>
<label class="check"><input type="checkbox" name="remember" value="yes" checked>
<span>Keep me signed in while I look around</span></label>
<button class="main">Sign in</button>
</form>
</section>""",
    )


_ENDINGS: Final = {
    "kicked": ("You have been signed out", "Our staff ended your session on this device."),
    "expired": ("Your session has expired", "You were inactive for too long, or signed in too long ago."),
    "replaced": (
        "You have been signed out on this device",
        "You signed in on another device, and the number of devices at once is limited.",
    ),
    "logout": ("This device is signed out", "You signed it out yourself, here or on another of your devices."),
}


def ended(end: Ended) -> str:
    """The page for the user of an ended session, with public information only."""
    return _page(*_end(end))


def ended_content(end: Ended | None) -> dict[str, str]:
    """The same for an open page: its new title and main part."""
    title, body = _end(end) if end is not None else ("You are not signed in", _UNKNOWN)
    return {"title": f"{title} · Paperboat", "main": body}


def _end(end: Ended) -> tuple[str, str]:
    public = end.public
    title, why = _ENDINGS.get(public.code, ("You are signed out", "Your session has ended."))
    message = f"<p>They left you a message:</p><blockquote>{e(public.message)}</blockquote>" if public.message else ""
    block = "" if public.block is None else f"<p><strong>{e(public.block.sentence)}</strong></p>"
    way_on = "To the sign-in page" if public.block else "Sign in again"
    at = f'<time datetime="{public.at.isoformat(timespec="seconds")}">{public.at:%H:%M:%S UTC on %-d %B %Y}</time>'
    return (
        title,
        f"""<section>
<h1>{e(title)}</h1>
<p>{e(why)}</p>
{message}
{block}
<p class="soft">It ended at {at}.</p>
<a class="button main" href="/sign-in">{way_on}</a>
</section>""",
    )


_UNKNOWN: Final = """<section>
<h1>You are not signed in</h1>
<p>Your session has ended.</p>
<a class="button main" href="/sign-in">Sign in</a>
</section>"""


def unknown() -> str:
    """The page for an unknown token."""
    return notice("You are not signed in", "This browser's session is unknown, or ended too long ago.", "/sign-in")


def unavailable() -> str:
    """The page while Redis is away."""
    return _page(
        "Try again shortly",
        """<section class="wait">
<h1>We cannot check your session right now</h1>
<p>Our session store does not answer. <strong>You have not been signed
out</strong>: you can continue as soon as it is back.</p>
<a class="button main" href="/">Try again</a>
</section>""",
    )


def notice(title: str, sentence: str, link: str = "/") -> str:
    """A page with a title, a sentence and a link."""
    words = "Sign in" if link == "/sign-in" else "To the start page"
    return _page(
        title,
        f"""<section>
<h1>{e(title)}</h1>
<p>{e(sentence)}</p>
<a class="button main" href="{e(link)}">{words}</a>
</section>""",
    )
