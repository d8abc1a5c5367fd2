"""The account menu in the header, and the pages for an ended or unknown sign-in."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from html import escape
from typing import Final, Literal
from urllib.parse import urlencode, urlsplit

import streamlit as st

from presence_core.text.languages import LANGUAGES
from presence_dashboard import access, language, texts
from presence_dashboard.data.browser_tab import TICK_AWAY, TICKS, local_time, this_tab, zone
from presence_dashboard.format import code, cut, name
from presence_dashboard.gate.sign_in_forms import safe_next
from presence_dashboard.roles import Actor, SignedOut, SignInUnknown

WARN_BEFORE: Final = 120
"""Seconds before the end of a sign-in in which the page warns; less if a sign-in is short."""

WARN_TICK: Final = 5.0

_REFRESH: Final = "every"
_DENSITY: Final = "density"
_OF_BROWSER: Final = "browser"
_LANGUAGE_NAMES: Final = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "ja": "日本語",
    "zh_Hans": "简体中文",
}
"""Each language in its own words."""


def menu(actor: Actor) -> None:
    """The menu in the header of every page: the signed-in name, the sign-out, and how this browser shows the pages."""
    is_open = access.mode() == "open"
    short = name(cut(actor.name, 20))
    label = short if is_open else texts.signed_in_as(short, actor.role)
    full = name(actor.name)
    with st.popover(label, key="menu-account", icon=":material/account_circle:"), st.container(key="account"):
        st.markdown(texts.open_notice(full) if is_open else texts.signed_in_as(full, actor.role))
        _refresh_choice()
        _density_choice()
        _language_choice()
        st.caption(texts.times_in(code(str(zone()))))
        _link("/handbook", texts.HANDBOOK_PAGE)
        if access.mode() == "oidc":
            st.button(texts.SIGN_OUT_BUTTON, on_click=access.sign_out, key="sign-out")
        elif not is_open:
            _link("/sign-out", texts.SIGN_OUT_BUTTON)
    _tell_browser()


def _refresh_choice() -> None:
    if _REFRESH not in st.session_state:
        seconds = st.context.cookies.get("presence_every", "")
        st.session_state[_REFRESH] = int(seconds) if seconds in map(str, TICKS) else TICKS[0]
    chosen = st.selectbox(
        texts.REFRESH_EVERY,
        TICKS,
        key=_REFRESH,
        format_func=texts.refresh_every,
        help=texts.REFRESH_EVERY_HELP,
    )
    this_tab().refresh = TICKS[0] if chosen is None else chosen


def _density_choice() -> None:
    if _DENSITY not in st.session_state:
        known = st.context.cookies.get("presence_density", "")
        st.session_state[_DENSITY] = known if known in texts.DENSITIES else next(iter(texts.DENSITIES))
    st.segmented_control(
        texts.DENSITY,
        list(texts.DENSITIES),
        key=_DENSITY,
        required=True,
        format_func=texts.DENSITIES.__getitem__,
    )


def _language_choice() -> None:
    if language.is_fixed():
        return
    if language.CHOICE not in st.session_state:
        known = language.choice()
        st.session_state[language.CHOICE] = known if known in LANGUAGES else _OF_BROWSER
    st.selectbox(
        texts.LANGUAGE,
        [_OF_BROWSER, *LANGUAGES],
        key=language.CHOICE,
        format_func=lambda name: _LANGUAGE_NAMES.get(name) or texts.LANGUAGE_OF_BROWSER,
        on_change=language.choose,
    )


def _tell_browser() -> None:
    """Invisible, for page.js, which keeps the choices in cookies and says whether the tab is hidden."""
    with (
        st.container(key="tab-state"),
        st.container(key=f"every-{this_tab().refresh}"),
        st.container(key=f"density-{st.session_state[_DENSITY]}"),
        st.container(key=f"language-{st.session_state.get(language.CHOICE, _OF_BROWSER)}"),
    ):
        this_tab().hidden = st.toggle(texts.TAB_HIDDEN, key="tab-hidden")


def idle_warning(place: Literal["page", "dialog"] = "page") -> None:
    """A warning in the last two minutes of the sign-in. A dialog covers that of the page, so it has its own."""
    if access.mode() != "open":
        with st.container(key=f"sign-in-end-{place}"):
            st.fragment(_idle_warning, run_every=WARN_TICK)(place)


def _idle_warning(place: str) -> None:
    end = access.sign_in_end()
    if end is None:
        return
    left = math.ceil((end.at - datetime.now(UTC)).total_seconds())
    if not 0 < left <= min(WARN_BEFORE, end.idle // 3):
        return
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", border=True, key=f"idle-warning-{place}"
    ):
        words = texts.idle_warning if end.may_stay else texts.absolute_warning
        st.markdown(words(local_time(end.at), left), width="stretch")
        if end.may_stay:
            st.button(
                texts.STAY_SIGNED_IN, key=f"stay-signed-in-{place}", type="primary", on_click=access.stay_signed_in
            )


def sign_in_unknown() -> None:
    """Drawn instead of a page while the sign-in cannot be checked. Retries automatically."""
    with st.container(border=True, key="sign-in-unknown"):
        st.subheader(texts.AWAY_TITLE, anchor=False)
        st.markdown(texts.AWAY_LEAD)
    with st.container():
        st.fragment(_look_again, run_every=TICK_AWAY)()


def _look_again() -> None:
    try:
        access.current(touch=False)
    except SignInUnknown:
        return
    except SignedOut:
        pass
    st.rerun()


def signed_out(reason: str) -> None:
    """Drawn instead of a page for an actor who is not signed in."""
    is_old_tab = reason == texts.PASSWORD_AGAIN_ELSEWHERE
    with st.container(border=True, key="signed-out"):
        st.subheader(texts.PASSWORD_AGAIN_OLD_TAB if is_old_tab else texts.SIGNED_OUT_TITLE, anchor=False)
        st.markdown(code(reason))
        if access.mode() == "oidc":
            # A sign-in that was refused stays refused: the staff member must sign out at Streamlit and sign in again.
            again = bool(st.user.to_dict().get("is_logged_in"))
            st.button(
                texts.SIGN_IN_AGAIN if again else texts.SIGN_IN_BUTTON,
                on_click=access.sign_out if again else st.login,
                type="primary",
            )
        else:
            _link(_this_path(), texts.OPEN_AGAIN if is_old_tab else texts.SIGN_IN_AGAIN)


def must_sign_in_again(place: str) -> bool:
    """Say that the actor must authenticate again before a protected action, and link to it. False: they need not."""
    too_old = access.authentication_too_old()
    if too_old is None:
        return False
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", border=True, key=f"sign-in-again-{place}"
    ):
        st.markdown(too_old, width="stretch")
        words = texts.SIGN_IN_AGAIN if access.mode() == "oidc" else texts.PASSWORD_AGAIN
        _link(access.sign_in_again_path(_this_path()), words)
    return True


def _this_path() -> str:
    """The path of this page with its query, to return to."""
    query = urlencode({key: st.query_params.get_all(key) for key in st.query_params}, doseq=True)
    path = urlsplit(st.context.url or "").path or "/"
    return safe_next(f"{path}?{query}" if query else path)


def _link(path: str, text: str) -> None:
    """A link in the same tab. Links of Streamlit open another tab."""
    st.html(f'<a href="{escape(path)}">{escape(text)}</a>', width="content")
