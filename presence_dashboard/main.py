"""The script that Streamlit runs: page setup and navigation. ``dashboard.py`` in the directory above serves it."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.access import Actor, Right
from presence_dashboard.views import identity, kick, notices
from presence_dashboard.views.pulse import choice, pulse

access.stop_without_gate()

PAGES: Final[tuple[tuple[str, str, Right], ...]] = (
    ("live", texts.LIVE_PAGE, "counts"),
    ("sessions", texts.SESSIONS_PAGE, "people"),
    ("person", texts.PERSON_PAGE, "people"),
    ("history", texts.HISTORY_PAGE, "people"),
    ("health", texts.HEALTH_PAGE, "counts"),
    ("staff", texts.STAFF_PAGE, "staff"),
)
"""File and address, title, and what one must be allowed to see it at all."""

FIRST: Final = "sessions"
"""The page that opens: what support staff come for. Streamlit serves it at ``/``; browser.py leads /sessions there."""


def main() -> None:
    st.set_page_config(page_title=texts.PRODUCT, layout="wide")  # the icon is browser.py's
    try:
        actor = access.current()
    except access.SignedOut as reason:
        if isinstance(reason, access.CannotTell):
            identity.wait_for_redis()
        else:
            identity.signed_out(str(reason))
        return
    pages = {
        file: st.Page(
            f"views/{file}.py",
            title=title,
            url_path=file,
            default=file == FIRST,
            visibility="visible" if actor.may(right) else "hidden",
        )
        for file, title, right in PAGES
    }
    page = st.navigation(list(pages.values()), position="top")
    st.set_page_config(page_title=texts.title(page.title))  # for who has several tabs of it
    right = next(right for file, _, right in PAGES if pages[file] == page)
    if page == pages[FIRST] and not actor.may(right):
        st.switch_page(pages["live"])  # who may see no people
    _header(actor)
    with st.container(key="pulse"):
        pulse(actor)
    kick.look_again()
    notices.show()
    if actor.may(right):
        page.run()
        kick.dialog()
    else:
        _no_permission(actor)


def _header(actor: Actor) -> None:
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small", key="header"
    ):
        st.title(texts.PRODUCT, width="content", anchor=False)
        with st.container(horizontal=True, width="content", vertical_alignment="center", gap="medium"):
            if os.environ.get("PRESENCE_DEMO") == "1":
                st.markdown(texts.demo_notice(demo_site(os.environ.get("PRESENCE_DEMO_SITE"))), width="content")
            identity.badge(actor)
            choice()


def demo_site(address: str | None) -> str | None:
    """The demo site's address, if it is one that may stand in a link."""
    if not address or any(char in address for char in "<>\\ \n"):
        return None
    return address if urlsplit(address).scheme in ("http", "https") else None


def _no_permission(actor: Actor) -> None:
    with st.container(border=True, key="no-permission"):
        st.subheader(texts.NO_PERMISSION_TITLE, anchor=False)
        st.markdown(texts.no_permission(actor.role))


main()
