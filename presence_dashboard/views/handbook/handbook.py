"""The Handbook page: how support staff do each job. It reads no Redis and no other host. A Streamlit script."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import Final

import streamlit as st

from presence_dashboard import access, language, texts
from presence_dashboard.components.buttons import button
from presence_dashboard.views.handbook import chapters

access.stop_without_gate()

_PARAMETER: Final = "page"
_WIDTH: Final = 760
"""Of a text that is easy to read, in pixels."""


def page() -> None:
    known = chapters.names()
    wanted = st.query_params.get(_PARAMETER, chapters.FIRST)
    opened = wanted if wanted in known else chapters.FIRST
    contents, body = st.columns([1, 3], gap="large")
    with contents, st.container(gap="xxsmall"):
        for name in known:
            button(chapters.title(name), f"chapter-{name}", _open, name, type="tertiary", disabled=name == opened)
    with body, st.container(width=_WIDTH):
        st.header(chapters.title(opened), anchor=False)
        for part in chapters.parts(opened):
            if isinstance(part, chapters.Picture):
                _picture(part)
            else:
                st.markdown(part)
        if language.current() != "en":
            st.caption(texts.HANDBOOK_IN_ENGLISH)


def _picture(part: chapters.Picture) -> None:
    """A picture with a text for screen readers, which ``st.image`` cannot give it."""
    data = b64encode(part.path.read_bytes()).decode()
    st.html(f'<img alt="{escape(part.words)}" style="max-width: 100%" src="data:image/png;base64,{data}">')
    st.caption(part.words)


def _open(name: str) -> None:
    st.query_params[_PARAMETER] = name


page()
