"""Who is signed in, and the way out; for who is not, the way in."""

from __future__ import annotations

from html import escape
from urllib.parse import urlsplit

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.format import code, name
from presence_dashboard.gate.forms import safe_next
from presence_dashboard.tab import TICK_AWAY


def badge(actor: Actor) -> None:
    """On every page: that it is open to this machine, or who is signed in and how they sign out."""
    if access.mode() == "open":
        st.markdown(texts.open_notice(name(actor.name)), width="content")
        return
    st.markdown(texts.signed_in_as(name(actor.name), actor.role), width="content")
    if access.mode() == "oidc":
        st.button(texts.SIGN_OUT_BUTTON, on_click=access.sign_out, key="sign-out")
    else:
        _link("/sign-out", texts.SIGN_OUT_BUTTON)


def wait_for_redis() -> None:
    """In place of every page, while nobody can tell who this is. The page comes back by itself."""
    with st.container(border=True, key="who-is-unknown"):
        st.subheader(texts.AWAY_TITLE, anchor=False)
        st.markdown(texts.AWAY_PAGE)
    with st.container():
        st.fragment(_look_again, run_every=TICK_AWAY)()


def _look_again() -> None:
    try:
        access.current(touch=False)
    except access.CannotTell:
        return
    except access.SignedOut:
        pass
    st.rerun()


def signed_out(reason: str) -> None:
    """In place of every page."""
    with st.container(border=True, key="signed-out"):
        st.subheader(texts.SIGNED_OUT_TITLE, anchor=False)
        st.markdown(code(reason))
        if access.mode() == "oidc":
            # Who is signed in at the provider and yet refused begins anew: the same sign-in stays refused.
            again = bool(st.user.to_dict().get("is_logged_in"))
            st.button(
                texts.SIGN_IN_AGAIN if again else texts.SIGN_IN_BUTTON,
                on_click=access.sign_out if again else st.login,
                type="primary",
            )
        else:
            _link(safe_next(urlsplit(st.context.url or "").path), texts.SIGN_IN_AGAIN)


def _link(path: str, text: str) -> None:
    """In this tab, which no link of Streamlit's own is."""
    st.html(f'<a href="{escape(path)}">{escape(text)}</a>', width="content")
