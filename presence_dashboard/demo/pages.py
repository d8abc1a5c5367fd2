"""The demo site's HTML. Every value from outside is escaped by ``e``."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape as e
from pathlib import Path
from typing import Final

from presence_core import Ended, Session
from presence_core.schema.endings import PROVIDER_CAUSES
from presence_core.web.notices.mail import NoticeMail
from presence_dashboard.demo.people import Member

DEVICES: Final = ("Windows PC", "Mac", "Linux PC", "iPhone", "iPad", "Android phone")

_STYLE: Final = """
:root{color-scheme:light dark}
body{margin:0 auto;max-width:42rem;padding:0 1rem 2rem;font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header{padding:1.25rem 0;font-weight:650}
section{border:1px solid #8885;border-radius:.75rem;padding:1rem 1.5rem;margin:0 0 1rem}
h1{font-size:1.625rem;line-height:1.25;margin:.15rem 0 .5rem}
small{font-size:.875rem}
label{display:block;font-weight:600;margin:1rem 0 .25rem}
select{width:100%;box-sizing:border-box;padding:.6rem .7rem;font:inherit}
button,.button{display:inline-block;margin-top:1rem;padding:.5rem 1.1rem;border:1px solid;border-radius:.5rem;
background:none;color:LinkText;font:inherit;font-weight:600;text-decoration:none;cursor:pointer}
blockquote{margin:1rem 0;padding:.5rem 1rem;border-left:4px solid #1f5f8b;white-space:pre-line}
h2{font-size:1.125rem;margin:.25rem 0 .75rem}
.mail{white-space:pre-line}
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
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def _page(title: str, body: str, *, live: bool = False) -> str:
    script = f"<script>{_SCRIPT}</script>\n" if live else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{e(title)} · Paperboat</title>
<style>{_STYLE}</style>
</head>
<body>
<header>Paperboat, a demo site: all users are invented</header>
<main>
{body}
</main>
{script}</body>
</html>
"""


def home(session: Session, count: int, dashboard: str | None, mails: int) -> str:
    """The start page: the user, on how many devices they are signed in, and how many mails they have got."""
    reach = " · ".join(f"<bdi>{e(text)}</bdi>" for text in (session.uid, *session.aliases))
    where = f'<a href="{e(dashboard)}" target="_blank" rel="noopener">dashboard</a>' if dashboard else "dashboard"
    return _page(
        "Start",
        f"""<section>
<span>Signed in as</span>
<h1><bdi>{e(session.name or session.uid)}</bdi></h1>
<p>{reach}</p>
<p>You are signed in on {count} device{"" if count == 1 else "s"}: <a href="/devices/">your devices</a>.</p>
<form method="post" action="/sign-out"><button>Sign out</button></form>
</section>
<section>
<h2>Try it</h2>
<p>Open the {where}, find <strong>{e(session.uid)}</strong> near the top of the list and kick this session, with a
message. Watch this page: it closes, and shows why.</p>
<p>Sign out, and sign in again on another device: Paperboat asks by mail whether that was you. You have
<a href="/mails">{mails} mail{"" if mails == 1 else "s"}</a>.</p>
</section>""",
        live=True,
    )


def mails(sent: Sequence[NoticeMail], folder: Path | None) -> str:
    """The mails to the user. The demo has no mail server."""
    where = f"<p><small>They are files in {e(str(folder))}, too.</small></p>" if folder else ""
    shown = "".join(_mail(mail) for mail in sent)
    none = "<p>None yet. Sign out, and sign in again on another device.</p>"
    body = f"""<section>
<h1>Mails</h1>
<p>The demo has no mail server: this is what it would have sent to you.</p>
{where}<a class="button" href="/">Back</a>
</section>
{shown or f"<section>{none}</section>"}"""
    return _page("Mails", body)


def _mail(mail: NoticeMail) -> str:
    text = mail.text.replace(mail.link, "")
    link = f'<a class="button" href="{e(mail.link)}">Check this sign-in</a>'
    return f"""<section>
<small>To: <bdi>{e(mail.to)}</bdi></small>
<h2>{e(mail.subject)}</h2>
<div class="mail">{e(text.strip())}</div>
{link}
</section>
"""


def own_store_home(name: str, dashboard: str | None) -> str:
    """The start page of the site with a store of its own."""
    where = f'<a href="{e(dashboard)}" target="_blank" rel="noopener">dashboard</a>' if dashboard else "dashboard"
    return _page(
        "Start",
        f"""<section>
<span>Signed in as</span>
<h1><bdi>{e(name)}</bdi></h1>
<form method="post" action="/sign-out"><button>Sign out</button></form>
</section>
<section>
<h2>Try it</h2>
<p>This site keeps its sessions in a Redis of its own and knows nothing of the dashboard. Open the {where}, find
<strong>{e(name)}</strong> near the top of the list and kick this session. Then load this page again.</p>
</section>""",
    )


def sign_in(members: Iterable[Member]) -> str:
    users = "".join(f'<option value="{e(member.uid)}">{e(member.name)}</option>' for member in members)
    devices = "".join(f"<option>{e(name)}</option>" for name in DEVICES)
    return _page(
        "Sign in",
        f"""<section>
<h1>Sign in</h1>
<p>A demo needs no password.</p>
<form method="post" action="/sign-in">
<label for="uid">User</label>
<select id="uid" name="uid">{users}</select>
<label for="device">This device</label>
<select id="device" name="device">{devices}</select>
<button>Sign in</button>
</form>
</section>""",
    )


_ENDINGS: Final = {
    "kicked": ("You have been signed out", "Our staff ended your session on this device."),
    "expired": ("Your session has expired", "You were inactive for too long, or signed in too long ago."),
    "replaced": ("You have been signed out on this device", "You signed in on more devices than are allowed at once."),
    "logout": ("This device is signed out", "You signed it out yourself, here or on another of your devices."),
}

_BY_PROVIDER: Final = ("You have been signed out", "The service with which you had signed in has ended it.")


def ended(end: Ended) -> str:
    """The page for the user of an ended session, with public information only."""
    return _page(*_end(end))


def ended_content(end: Ended | None) -> dict[str, str]:
    """The same for an open page: its new title and main part."""
    title, body = ("You are not signed in", _section("You are not signed in", "")) if end is None else _end(end)
    return {"title": f"{title} · Paperboat", "main": body}


def _end(end: Ended) -> tuple[str, str]:
    public = end.public
    title, why = _ENDINGS.get(public.code, ("You are signed out", "Your session has ended."))
    if end.cause in PROVIDER_CAUSES:
        title, why = _BY_PROVIDER
    message = f"<p>They left you a message:</p><blockquote>{e(public.message)}</blockquote>" if public.message else ""
    block = "" if public.block is None else f"<p><strong>{e(public.block.sentence)}</strong></p>"
    at = f"<p><small>It ended at {public.at:%H:%M:%S UTC on %-d %B %Y}.</small></p>"
    return title, _section(title, why, message + block + at)


def notice(title: str, sentence: str, link: str = "/") -> str:
    """A page with a title, a sentence and a link."""
    return _page(title, _section(title, sentence, link=link))


def _section(title: str, sentence: str, more: str = "", link: str = "/sign-in") -> str:
    words = "Sign in" if link == "/sign-in" else "Try again"
    return f"""<section>
<h1>{e(title)}</h1>
<p>{e(sentence)}</p>
{more}
<a class="button" href="{e(link)}">{words}</a>
</section>"""
