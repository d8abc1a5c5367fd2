"""Unfinished kicks and blocks of staff. This process keeps them in memory for an hour: they survive a sign-out and a
reload.

A draft is offered only to the staff member who wrote it, and only after another sign-in, or once the tab that wrote it
is gone: until then, that tab still shows it. It is offered in one tab, which was opened later: the same tab after a
reload, or the page after a sign-in. Without a sign-in (mode "open") there are no drafts.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from presence_dashboard import access
from presence_dashboard.data.browser_tab import is_open, tab_id, this_tab

KEEP: Final = 3_600.0
"""Seconds that a draft is kept after its last change."""

MAX_DRAFTS: Final = 500
"""Drafts of a process, one for each staff member."""

DraftKind = Literal["kick", "bulk"]


@dataclass(frozen=True, slots=True)
class Draft:
    """The open dialog of a staff member."""

    kind: DraftKind
    title: Callable[[], str]  #: of the dialog, in the language of the page that offers it
    request: Any  #: what the dialog asks about
    fields: Mapping[str, str]  #: the texts, by the name of the field
    sign_in: str  #: in which it was written
    tab: str | None  #: in which it was written, or is offered
    at: float  #: of the last change, by the monotonic clock
    is_offered: bool = False


_drafts: Final[OrderedDict[str, Draft]] = OrderedDict()
_lock: Final = threading.Lock()


def keep(kind: DraftKind, title: Callable[[], str], request: Any, fields: Mapping[str, str], *, has_text: bool) -> None:
    """Keep the open dialog of this page, if the staff member has typed a text. Otherwise forget what they deleted."""
    sign_in = access.sign_in_id()
    if sign_in is None:
        return
    name = access.current(touch=False).name
    with _lock:
        if not has_text:
            if name in _drafts and _drafts[name].tab == tab_id():
                del _drafts[name]
            return
        _drafts[name] = Draft(kind, title, request, dict(fields), sign_in, tab_id(), time.monotonic())
        _drafts.move_to_end(name)
        for other in list(_drafts):  # the oldest is first
            if len(_drafts) <= MAX_DRAFTS and time.monotonic() - _drafts[other].at < KEEP:
                break
            del _drafts[other]


def offered(kind: DraftKind) -> Draft | None:
    """The draft of this staff member from an earlier sign-in, or from a tab that is gone. The first tab that asks gets
    it, if it was opened after the last change. The others get it once that tab is gone."""
    sign_in = access.sign_in_id()
    if sign_in is None:
        return None
    name = access.current(touch=False).name
    with _lock:
        draft = _drafts.get(name)
        if draft is None or draft.kind != kind or time.monotonic() - draft.at >= KEEP:
            return None
        if draft.is_offered and draft.tab == tab_id():
            return draft
        is_elsewhere = draft.sign_in == sign_in and is_open(draft.tab)
        if is_elsewhere or this_tab().opened_at < draft.at:
            return None
        _drafts[name] = draft = replace(draft, sign_in=sign_in, tab=tab_id(), is_offered=True)
        return draft


def drop_of(name: str) -> None:
    """Forget the draft of a staff member who was removed."""
    with _lock:
        _drafts.pop(name, None)


def drop() -> None:
    """Forget the draft of this staff member: they sent it, closed its dialog, or do not want it."""
    if access.sign_in_id() is not None:
        with _lock:
            _drafts.pop(access.current(touch=False).name, None)
