"""The page to which the link of a notice leads: was this login you?

Links that are forged, lapsed, used, or of a session that has ended get the same answer, after the same calls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from gettext import NullTranslations
from typing import Final, NamedTuple

from presence_core.drive_generators import ClientCalls
from presence_core.models import NoticeAnswer, Session, moment
from presence_core.operations.notices.queue import notice_id
from presence_core.web.notices.kinds import move_at
from presence_core.web.notices.link import LinkKeys, NoticeTarget
from presence_core.web.your_devices.device_list import device_of
from presence_core.web.your_devices.handles import find_session
from presence_core.web.your_devices.page_html import Content, message_content, notice_content

PATH: Final = "/notice"

_NO_ONE: Final = NoticeTarget("-", "", 0, 0)
"""Looked for in the place of a link that is not ours."""

_ANSWERS: Final[Mapping[str, NoticeAnswer]] = {"me": "me", "not-me": "not_me"}


class Found(NamedTuple):
    """What a link opens."""

    target: NoticeTarget
    session: Session


def answer_of(form: Mapping[str, str] | None) -> NoticeAnswer | None:
    """The answer in a form; None if there is none."""
    return _ANSWERS.get((form or {}).get("answer", ""))


def find(keys: LinkKeys, token: str) -> ClientCalls[Found | None]:
    """The session that a link is about; None if the link opens nothing. Makes the same calls in each case."""
    target = keys.read(token, time.time())
    asked = target or _NO_ONE
    sessions: list[Session] = yield lambda p: p.sessions(asked.uid)
    by_id = {session.session_id: session for session in sessions}
    session = by_id.get(find_session(keys.handle_key, asked.uid, by_id, asked.handle) or "")
    name = notice_id(session.session_id if session else "-", asked.at)
    is_open = yield lambda p: p.notice_is_open(asked.uid, name)
    return Found(target, session) if target is not None and session is not None and is_open else None


def question(t: NullTranslations, found: Found, block: int | None) -> Content:
    """The page that asks."""
    device, move = device_of(found.session, ""), move_at(found.session, moment(found.target.at))
    if move is not None:
        place = move.after.place.words if move.after.place else None
        device = replace(device, browser=move.after.browser, os=move.after.os, place=place or None)
    return notice_content(t, device, has_moved=move is not None, may_block=block is not None)


def give_answer(found: Found, answer: NoticeAnswer, block: int | None) -> ClientCalls[bool]:
    """Do what was answered. False: the link was used, or the session ended, meanwhile."""
    target, session = found
    block_for = block if answer == "not_me" else None
    taken: bool = yield lambda p: p.answer_notice(
        session.uid, session.session_id, moment(target.at), answer, until=moment(target.until), block_for=block_for
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
