"""The script that Streamlit runs: page setup and navigation. ``dashboard.py`` in the directory above serves it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.format import name


def demo_site(address: str | None) -> str | None:
    """The demo site's address, if it is one that may stand in a link."""
    if not address or any(char in address for char in "<>\\ \n"):
        return None
    return address if urlsplit(address).scheme in ("http", "https") else None


def notices() -> None:
    """What holds for every page: whose data this is, and who may see it."""
    if os.environ.get("PRESENCE_DEMO") == "1":
        st.markdown(texts.demo_notice(demo_site(os.environ.get("PRESENCE_DEMO_SITE"))), width="content")
    st.markdown(texts.open_notice(name(access.current().name)), width="content")


def main() -> None:
    # A local file: an icon of Streamlit's own would be loaded from outside.
    st.set_page_config(page_title=texts.PRODUCT, page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
    page = st.navigation(
        [st.Page("views/sessions.py", title=texts.SESSIONS_PAGE, url_path="sessions", default=True)], position="top"
    )
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small", key="header"
    ):
        st.title(texts.PRODUCT, width="content", anchor=False)
        with st.container(horizontal=True, width="content", vertical_alignment="center", gap="medium"):
            notices()
    page.run()


main()
