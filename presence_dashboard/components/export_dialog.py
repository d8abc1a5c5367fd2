"""The dialog that exports a list as a file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.actions import csv_export
from presence_dashboard.actions.csv_export import Export
from presence_dashboard.components import notifications
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import number
from presence_dashboard.gate.made_files import made_here

_REQUEST: Final = "export-request"


@dataclass(slots=True)
class ExportRequest:
    """The list to export, and the file when it is ready."""

    export: Export
    file: bytes | None = None
    name: str = ""
    count: int = 0
    failure: str | None = None


def open_dialog(export: Export) -> None:
    """Open the dialog for all matching rows."""
    if not notifications.refused(export.right, export.audit_name):
        st.session_state[_REQUEST] = ExportRequest(export)


def _close() -> None:
    st.session_state.pop(_REQUEST, None)  # with the file


def dialog() -> bool:
    request: ExportRequest | None = st.session_state.get(_REQUEST)
    if request is not None and not access.current().may(request.export.right):  # the role was lost
        _close()
        return False
    if request is not None:
        st.dialog(texts.EXPORT_TITLE, on_dismiss=_close)(_body)(request)
    return request is not None


def _body(request: ExportRequest) -> None:
    st.markdown(request.export.description)
    st.caption(texts.EXPORT_WHICH)
    if request.file is None and request.failure is None:
        _make(request)
    if request.failure is not None:
        st.warning(texts.action_failed(request.failure))
        st.button(texts.TRY_AGAIN, key="export-retry", on_click=_retry, args=(request,))
    if request.file is not None:
        st.markdown(texts.export_ready(request.count, number(request.count)))
        if request.count >= csv_export.MAX_ROWS:
            st.warning(texts.export_most(number(csv_export.MAX_ROWS)))
        st.download_button(
            texts.EXPORT_SAVE,
            request.file,
            request.name,
            "text/csv",
            key="export-save",
            type="primary",
            on_click="ignore",
        )
        made_here()


def _retry(request: ExportRequest) -> None:
    request.failure = None


def _make(request: ExportRequest) -> None:
    bar, count = st.progress(0.0), 0
    parts: list[str] = []
    try:
        for page in csv_export.pages(request.export):
            masked = access.current().masked
            parts.append(csv_export.csv(request.export.columns, page.items, header=not parts, masked=masked))
            count += len(page)
            most = min(csv_export.MAX_ROWS, max(count, page.total))
            bar.progress(count / max(1, most), texts.export_progress(number(count), number(most)))
        csv_export.log_export(open_store().presence, request.export, count)
    except REFUSALS as error:
        request.failure = plain(error)
    else:
        request.file, request.count = "".join(parts).encode("utf-8-sig"), count
        request.name = f"{request.export.view}-{datetime.now(UTC):%Y%m%d-%H%M%S}.csv"
    bar.empty()
