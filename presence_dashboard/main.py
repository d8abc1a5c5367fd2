"""The script that Streamlit runs for each event of a tab: page setup, header and navigation.

``dashboard.py`` serves it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from presence_dashboard import access, texts
from presence_dashboard.components import account, kick_dialog, notifications
from presence_dashboard.components.page_header import outage_notice, page_header
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.language import gettext
from presence_dashboard.roles import Actor, Right, SignedOut, SignInUnknown
from presence_dashboard.texts import english

access.stop_without_gate()

PAGES: Final[tuple[tuple[str, str, Right], ...]] = (
    ("live", english.LIVE_PAGE, "counts"),
    ("sessions", english.SESSIONS_PAGE, "people"),
    ("person", english.PERSON_PAGE, "people"),
    ("blocks", english.BLOCKS_PAGE, "people"),
    ("history", english.HISTORY_PAGE, "people"),
    ("report", english.REPORT_PAGE, "people"),
    ("health", english.HEALTH_PAGE, "counts"),
    ("staff", english.STAFF_PAGE, "staff"),
    ("handbook", english.HANDBOOK_PAGE, "counts"),
)
"""Name (of the package in ``views`` and in the address), English title, and the right needed to see the page."""

HELP: Final = "handbook"
"""The page that the account menu links to, and not the line of pages."""

FIRST: Final = "sessions"
"""The page that opens at ``/``. ``browser_files`` redirects /sessions to it."""


def main() -> None:
    st.set_page_config(page_title=texts.PRODUCT, layout="wide")  # browser_files adds the icon
    try:
        actor = access.current()
    except SignInUnknown:
        account.sign_in_unknown()
        return
    except SignedOut as reason:
        account.signed_out(str(reason))
        return
    pages = {
        name: st.Page(
            f"views/{name}/{name}.py",
            title=gettext(title),
            url_path=name,
            default=name == FIRST,
            visibility="visible" if actor.may(right) and name != HELP else "hidden",
        )
        for name, title, right in PAGES
    }
    page = st.navigation(list(pages.values()), position="top")
    st.set_page_config(page_title=texts.title(page.title))  # tells several open tabs apart
    opened, right = next((name, right) for name, _, right in PAGES if pages[name] == page)
    this_tab().opened(opened)
    _restore_search()
    if page == pages[FIRST] and not actor.may(right):
        st.switch_page(pages["live"])  # their role may not see people
    page_header(actor)
    account.idle_warning()
    outage_notice()
    kick_dialog.check_again()
    notifications.show()
    if actor.may("kick"):
        kick_dialog.draft_offer()
    if actor.may(right):
        page.run()
        kick_dialog.dialog()
    else:
        _no_permission(actor)


def _restore_search() -> None:
    """Put the search text back into the address after Back or Forward. Streamlit removes parameters to which the page
    left behind binds a widget, and both Sessions and Person bind ``q``."""
    run = get_script_run_ctx()
    if run is not None and run.is_history_navigation and "q" not in st.query_params:
        wanted = parse_qs(run.query_string)
        if "q" in wanted:
            st.query_params.from_dict(wanted)
            st.rerun()  # a search box reads the address at the start of a run


def _no_permission(actor: Actor) -> None:
    with st.container(border=True, key="no-permission"):
        st.subheader(texts.NO_PERMISSION_TITLE, anchor=False)
        st.markdown(texts.no_permission(actor.role))


main()
