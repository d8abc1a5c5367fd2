"""The Sessions page: who is online, newest login first. Streamlit runs this file as a script of its own."""

from __future__ import annotations

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.format import code
from presence_dashboard.listing import Listing, this_tab
from presence_dashboard.store import open_store
from presence_dashboard.views import kick, notices
from presence_dashboard.views.strip import strip
from presence_dashboard.views.table import pager, table


def page() -> None:
    store, listing = open_store(), this_tab()
    place = st.container()  # the strip's own: a fragment that shares one may vanish when it meets a rerun
    with st.skeleton(height=320):
        listing.load(store)
    listing.away = store.read().failure is not None
    with place:
        strip(listing.away)
    kick.look_again()
    notices.show()
    _list(listing)
    kick.dialog()


def _list(listing: Listing) -> None:
    if listing.failure is not None:
        st.error(texts.unreadable(code(listing.failure)))
    if listing.rows is None:
        st.info(texts.NO_LIST_YET)
    elif listing.rows.sessions:
        table(listing, listing.rows)
        pager(listing, listing.rows)
    else:
        _nobody()


def _nobody() -> None:
    with st.container(border=True, key="empty"):
        st.subheader(texts.EMPTY_TITLE, anchor=False)
        st.markdown(texts.EMPTY)
        st.code(texts.EMPTY_CODE, language="python")
        st.caption(texts.EMPTY_NEXT)


page()
