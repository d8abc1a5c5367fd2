"""The page to which the link of a notice leads: was this login you?

Links that are forged, lapsed or used get the same answer, after the same calls. The end of the session does not end its
link: an attacker may have signed out, and in again on a device that is known by then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from gettext import NullTranslations
from typing import Final, NamedTuple

from presence_core.drive_generators import ClientCalls
from presence_core.models import Ended, Notice, NoticeAnswer, Page, Session, moment
from presence_core.operations.notices.queue import notice_id
from presence_core.web.notices.kinds import moved_to
from presence_core.web.notices.link import LinkKeys, NoticeTarget
from presence_core.web.your_devices.device_list import Device, device_of
from presence_core.web.your_devices.handles import find_session
from presence_core.web.your_devices.page_html import Content, message_content, notice_content

PATH: Final = "/notice"

_NO_ONE: Final = NoticeTarget("-", "", 0, 0)
"""Looked for in the place of a link that is not ours."""

MOST_ENDED: Final = 100
"""Ended sessions of a user in which that of a webhook's link is looked for. A mail has a notice, which names it."""

_ANSWERS: Final[Mapping[str, NoticeAnswer]] = {"me": "me", "not-me": "not_me"}


class Found(NamedTuple):
    """What a link opens."""

    target: NoticeTarget
    session_id: str
    notice: Notice | None  #: None: the link is of a webhook
    record: Session | Ended | None  #: None: nothing is kept of the session

    @property
    def at(self) -> datetime:
        """When the login was, or the move."""
        return moment(self.target.at)

    @property
    def has_moved(self) -> bool:
        """Whether it is about a move, not about a login."""
        if self.notice is not None and self.notice.kinds:
            return "moved" in self.notice.kinds
        return self.record is not None and self.record.login_at != self.at


def answer_of(form: Mapping[str, str] | None) -> NoticeAnswer | None:
    """The answer in a form; None if there is none."""
    return _ANSWERS.get((form or {}).get("answer", ""))


def find(keys: LinkKeys, token: str) -> ClientCalls[Found | None]:
    """What a link is about; None if the link opens nothing. Makes the same calls in each case."""
    target = keys.read(token, time.time())
    asked = target or _NO_ONE
    notices: list[Notice] = yield lambda p: p.notices_of(asked.uid)
    sessions: list[Session] = yield lambda p: p.sessions(asked.uid)
    ended: Page[Ended] = yield lambda p: p.ended(asked.uid, limit=MOST_ENDED)
    records: dict[str, Session | Ended] = {end.session_id: end for end in ended.items}
    records |= {session.session_id: session for session in sessions}
    session_ids = {*records, *(notice.session_id for notice in notices)}
    session_id = find_session(keys.handle_key, asked.uid, session_ids, asked.handle)
    by_id = {notice.id: notice for notice in notices}
    notice = by_id.get(notice_id(session_id or "-", asked.at))
    if target is None or session_id is None or (notice is not None and notice.answer is not None):
        return None
    return Found(target, session_id, notice, records.get(session_id))


def question(t: NullTranslations, found: Found, block: int | None) -> Content:
    """The page that asks."""
    is_live = isinstance(found.record, Session)
    return notice_content(t, _device(found), has_moved=found.has_moved, is_live=is_live, may_block=block is not None)


def _device(found: Found) -> Device:
    """The device of the login. Of a move only what is known of where the session is used now: its device is the
    user's own."""
    unknown = Device(handle="", is_this=False, is_support=False, name=None, browser=None, os=None, place=None,
                     last_active=found.at, signed_in=found.at)  # fmt: skip
    device = unknown if found.record is None else device_of(found.record, "")
    if not found.has_moved:
        return device
    now = moved_to(found.notice, found.record, found.at)
    place = now.place.words if now.place else None
    return replace(device, name=None, browser=now.browser, os=now.os, place=place or None)


def give_answer(found: Found, answer: NoticeAnswer, block: int | None) -> ClientCalls[bool]:
    """Do what was answered. False: the link was used meanwhile."""
    target, block_for = found.target, block if answer == "not_me" else None
    taken: bool = yield lambda p: p.answer_notice(
        target.uid, found.session_id, found.at, answer, until=moment(target.until), block_for=block_for
    )
    return taken


def thanks(t: NullTranslations, answer: NoticeAnswer, link: tuple[str, str] | None) -> Content:
    """The page after an answer."""
    if answer == "me":
        return message_content(t.gettext("Thank you"), t.gettext("Nothing was changed. You know this device."))
    sentence = t.gettext(
        "The device has been signed out, and your other devices must sign in again. Change your password now: someone "
        "else may know it."
    )
    return message_content(t.gettext("The device has been signed out"), sentence, link)
