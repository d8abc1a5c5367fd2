"""The dialog that makes a file of a list, step by step, and hands it over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_core import PresenceError
from presence_dashboard import access, exports, texts
from presence_dashboard.exports import Export
from presence_dashboard.format import number
from presence_dashboard.store import open_store
from presence_dashboard.views import notices
from presence_dashboard.wording import plain

_ASK: Final = "export-ask"


@dataclass(slots=True)
class Ask:
    """What is to be exported, and the file once it is made."""

    export: Export
    file: bytes | None = None
    name: str = ""
    count: int = 0
    failure: str | None = None


def ask(export: Export) -> None:
    """Open the dialog about all that match."""
    if not notices.refused(export.right, export.what):
        st.session_state[_ASK] = Ask(export)


def _close() -> None:
    st.session_state.pop(_ASK, None)  # and the file with it


def dialog() -> bool:
    """Show the dialog, if one is open."""
    known: Ask | None = st.session_state.get(_ASK)
    if known is not None and not access.current().may(known.export.right):  # the role is lost, and the file with it
        _close()
        return False
    if known is not None:
        st.dialog(texts.EXPORT_TITLE, on_dismiss=_close)(_body)(known)
    return known is not None


def _body(ask: Ask) -> None:
    st.markdown(ask.export.words)
    st.caption(texts.EXPORT_WHICH)
    if ask.file is None and ask.failure is None:
        _make(ask)
    if ask.failure is not None:
        st.error(texts.could_not(ask.failure))
        st.button(texts.EXPORT_RETRY, key="export-retry", on_click=_again, args=(ask,))
    if ask.file is not None:
        st.markdown(texts.export_ready(ask.count, number(ask.count)))
        if ask.count >= exports.MOST:
            st.warning(texts.export_most(number(exports.MOST)))
        st.download_button(
            texts.EXPORT_SAVE, ask.file, ask.name, "text/csv", key="export-save", type="primary", on_click="ignore"
        )


def _again(ask: Ask) -> None:
    ask.failure = None


def _make(ask: Ask) -> None:
    bar, count = st.progress(0.0), 0
    parts: list[str] = []
    try:
        for page in exports.pages(ask.export):
            masked = access.current().masked
            parts.append(exports.csv(ask.export.columns, page.items, header=not parts, masked=masked))
            count += len(page)
            most = min(exports.MOST, max(count, page.total))
            bar.progress(count / max(1, most), texts.export_progress(number(count), number(most)))
        exports.hand_over(open_store().presence, ask.export, count)
    except (PresenceError, access.Denied, access.SignedOut) as error:
        ask.failure = plain(error)
    else:
        ask.file, ask.count = "".join(parts).encode("utf-8-sig"), count
        ask.name = f"{ask.export.view}-{datetime.now(UTC):%Y%m%d-%H%M%S}.csv"
    bar.empty()
