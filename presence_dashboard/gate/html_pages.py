"""The pages that the gate draws itself: plain HTML without scripts."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

import streamlit
from starlette.responses import HTMLResponse

from presence_core.files.password_file import LONGEST, SHORTEST
from presence_core.text.languages import tag_of
from presence_dashboard import language, texts
from presence_dashboard.gate.headers import hashed, policy

_FILES: Final = Path(__file__).parents[1] / "browser_files"
_MARK: Final = (_FILES / "icon.svg").read_text("utf-8")

_FONT: Final = next(
    (Path(streamlit.__file__).parent / "static" / "static" / "media").glob("SourceSansVF-Upright*.woff2")
).name
"""The font of the pages. Streamlit serves it to everyone, as all of /static/."""

_STYLE: Final = (
    (_FILES / "type_scale.css").read_text("utf-8")
    + f"""
@font-face {{ font-family: "Source Sans"; src: url("/static/media/{_FONT}") format("woff2"); font-weight: 200 900 }}"""
    + """
:root { color-scheme: light dark; --ink: #111a23; --soft: #455464; --page: #f6f8fa; --card: #fff; --line: #8796a5;
  --blue: #1f5f8b; --attention: #9a6700 }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #aab6c3; --page: #12171d; --card: #1c232b;
  --line: #6b7a8a; --blue: #307abb; --attention: #e3b341 } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--page);
  color: var(--ink); font: var(--text-body)/1.5 "Source Sans", sans-serif }
main { width: min(24rem, 100%); padding: 2rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem }
.brand { display: flex; align-items: center; gap: 8px; margin: 0 0 1.5rem; color: inherit; font-size: var(--text-title);
  font-weight: 700 }
.brand svg { display: block; width: 26px; height: 26px }
h1 { margin: 0; font-size: var(--text-heading) }
p { margin: .25rem 0 1.25rem; color: var(--soft) }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600 }
input { width: 100%; padding: .6rem .75rem; font: inherit; color: inherit; background: var(--page);
  border: 1px solid var(--line); border-radius: .375rem }
button { width: 100%; margin-top: 1.5rem; padding: .65rem; font: inherit; font-weight: 600; color: #fff;
  background: var(--blue); border: 0; border-radius: .375rem; cursor: pointer }
:focus-visible { outline: 3px solid var(--blue); outline-offset: 2px }
a { color: inherit }
.rule { margin: .25rem 0 0; font-size: var(--text-small) }
input[readonly] { background: none }
.wrong { margin: 1rem 0 0; padding: .6rem .75rem; color: var(--attention); border: 1px solid; border-radius: .375rem }
"""
)

_HEADERS: Final = {
    "Content-Security-Policy": policy(
        {
            "default-src": "'none'",
            "style-src": hashed(_STYLE),
            "img-src": "'self'",
            "font-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
    ),
    "Cache-Control": "no-store",
    # "no-referrer" would have the browser send its forms with "Origin: null".
    "Referrer-Policy": "same-origin",
}


def page(title: str, heading: str, lead: str, inside: str = "", status: int = 200, **headers: str) -> HTMLResponse:
    """An HTML page. ``inside`` is safe HTML, the other arguments are text."""
    html = (
        f'<!doctype html><html lang="{tag_of(language.current())}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="/page/icon.svg"><style>{_STYLE}</style></head>'
        f'<body><main><p class="brand"><span aria-hidden="true">{_MARK}</span>{escape(texts.PRODUCT)}</p>'
        f"<h1>{escape(heading)}</h1><p>{escape(lead)}</p>{inside}</main></body></html>"
    )
    return HTMLResponse(html, status, _HEADERS | {name.replace("_", "-"): value for name, value in headers.items()})


def refused(reason: str, status: int = 403) -> HTMLResponse:
    return page(texts.REFUSED_TITLE, texts.REFUSED_TITLE, reason, status=status)


def redis_away() -> HTMLResponse:
    """The page for an unavailable Redis. The Refresh header retries without a script."""
    return page(texts.AWAY_TITLE, texts.AWAY_TITLE, texts.AWAY_LEAD, status=503, Refresh="5", Retry_After="5")


def _form(path: str, csrf: str, then: str, wrong: str) -> str:
    """The beginning of a form that leads to ``then``: also in its address, which is all that a retry keeps. Above it
    what was wrong."""
    alert = f'<div class="wrong" role="alert" id="wrong">{escape(wrong)}</div>' if wrong else ""
    address = f"{path}?next={quote(then, safe='/')}"
    return f"""{alert}<form method="post" action="{escape(address)}">
<input type="hidden" name="csrf" value="{escape(csrf)}"><input type="hidden" name="next" value="{escape(then)}">"""


def sign_in_form(csrf: str, then: str, name: str = "", wrong: str = "", status: int = 200) -> HTMLResponse:
    """The sign-in form. then: the path to open next. The first empty field has the focus."""
    described = ' aria-describedby="wrong"' if wrong else ""
    on_name, on_password = ("", " autofocus") if name else (" autofocus", "")
    form = f"""{_form("/sign-in", csrf, then, wrong)}
<label for="name">{escape(texts.LABEL_NAME)}</label>
<input id="name" name="name" value="{escape(name)}" autocomplete="username" autocapitalize="none" spellcheck="false"
 maxlength="128" required{described}{on_name}>
<label for="password">{escape(texts.LABEL_PASSWORD)}</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024"
 required{described}{on_password}>
<button>{escape(texts.SIGN_IN_BUTTON)}</button></form>"""
    return page(texts.SIGN_IN_TITLE, texts.SIGN_IN_BUTTON, texts.SIGN_IN_LEAD, form, status)


def password_again_form(csrf: str, then: str, name: str, wrong: str = "", status: int = 200) -> HTMLResponse:
    """The form that asks a signed-in member for their password. The name is shown, and never read from the form."""
    described = ' aria-describedby="wrong"' if wrong else ""
    form = f"""{_form("/sign-in-again", csrf, then, wrong)}
<label for="name">{escape(texts.LABEL_NAME)}</label>
<input id="name" value="{escape(name)}" autocomplete="username" readonly>
<label for="password">{escape(texts.LABEL_PASSWORD)}</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024"
 required autofocus{described}>
<button>{escape(texts.PASSWORD_AGAIN_BUTTON)}</button></form><p></p>
<a href="{escape(then)}">{escape(texts.PASSWORD_AGAIN_BACK)}</a>"""
    return page(texts.PASSWORD_AGAIN_TITLE, texts.PASSWORD_AGAIN, texts.PASSWORD_AGAIN_LEAD, form, status)


def first_password_form(
    csrf: str, then: str, name: str, proof: str, wrong: str = "", status: int = 200
) -> HTMLResponse:
    """The form in which a new staff member chooses a password. The name is there for password managers."""
    described = "rule wrong" if wrong else "rule"
    form = f"""{_form("/sign-in", csrf, then, wrong)}
<input type="hidden" name="proof" value="{escape(proof)}">
<label for="name">{escape(texts.LABEL_NAME)}</label>
<input id="name" name="name" value="{escape(name)}" autocomplete="username" readonly>
<label for="password">{escape(texts.FIRST_PASSWORD_NEW)}</label>
<input id="password" name="password" type="password" autocomplete="new-password" minlength="{SHORTEST}"
 maxlength="{LONGEST}" required autofocus aria-describedby="{described}">
<p class="rule" id="rule">{escape(texts.first_password_length(SHORTEST, LONGEST))}</p>
<label for="repeat">{escape(texts.FIRST_PASSWORD_REPEAT)}</label>
<input id="repeat" name="repeat" type="password" autocomplete="new-password" maxlength="{LONGEST}" required>
<button>{escape(texts.FIRST_PASSWORD_BUTTON)}</button></form>"""
    return page(texts.SIGN_IN_TITLE, texts.FIRST_PASSWORD_HEADING, texts.FIRST_PASSWORD_LEAD, form, status)


def sign_out_form(csrf: str) -> HTMLResponse:
    form = f"""<form method="post" action="/sign-out"><input type="hidden" name="csrf" value="{escape(csrf)}">
<button autofocus>{escape(texts.SIGN_OUT_BUTTON)}</button></form><p></p><a href="/">{escape(texts.SIGN_OUT_BACK)}</a>"""
    return page(texts.SIGN_OUT_TITLE, texts.SIGN_OUT_BUTTON, texts.SIGN_OUT_LEAD, form)


def signed_out() -> HTMLResponse:
    again = f'<a href="/">{escape(texts.SIGN_IN_AGAIN)}</a>'
    return page(texts.SIGN_OUT_TITLE, texts.SIGN_OUT_HEADING, texts.SIGN_OUT_DONE, again)
