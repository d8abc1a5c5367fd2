"""The five acts of the kick dialog: the words of each, what it asks for, and what it does.

An act has no state. ``DialogRequest`` says on whom it acts; the package draws the dialog and calls the act.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, Literal

import streamlit as st

from presence_core import Block, InvalidArgument, PresenceError, Session
from presence_dashboard import texts
from presence_dashboard.actions import kick_and_block
from presence_dashboard.actions.kick_and_block import ActionDetails, KickOutcome
from presence_dashboard.components import notifications
from presence_dashboard.components.block_choice import BlockEnd, is_block_chosen
from presence_dashboard.components.kick_dialog.timeout_choice import NewTimeouts
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.phrases import PhraseUse
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import cut, name

UNANSWERED: Final = "kick-unanswered"
"""Key in the session state of the refs whose kick had no reply."""


@dataclass(frozen=True, slots=True)
class DialogRequest:
    """The action that the dialog asks about."""

    number: int  #: new for every dialog, so that its fields start empty
    act: Act
    sessions: tuple[Session, ...] = ()  #: to kick, or of which a new sign-in is required or the timeouts change
    uid: str | None = None  #: set for an action on a person: on all their sessions, or on their block
    name: str | None = None
    as_of: datetime | None = None  #: of ``sessions``, if they are all of the person
    selected: tuple[str, ...] = ()  #: ticked refs, which can be kept
    keep_selected: bool = False  #: initial value of the box that keeps them
    blocks: tuple[Block, ...] = ()  #: existing blocks of these people

    @property
    def only_uid(self) -> str | None:
        """The person, if there is only one. Several people cannot be blocked at once."""
        uids = {session.uid for session in self.sessions}
        return self.uid if self.uid is not None else uids.pop() if len(uids) == 1 else None

    @property
    def existing_block(self) -> Block | None:
        return self.blocks[0] if self.blocks and self.only_uid is not None else None


@dataclass(frozen=True, slots=True)
class Answers:
    """What the reader has entered."""

    details: ActionDetails
    end: BlockEnd
    keep: tuple[str, ...]  #: refs of sessions to keep
    timeouts: NewTimeouts


class Act(ABC):
    """What the dialog does. A method that an act does not have returns what suits most of them."""

    audit_name: ClassVar[str]  #: of an attempt that is denied
    is_dangerous: ClassVar[bool] = True
    has_message: ClassVar[bool] = True  #: also a ticket and the saved phrases
    block_choice: ClassVar[Literal["kick", "block"] | None] = None  #: whether it asks how long to block, and for what
    has_timeouts: ClassVar[bool] = False  #: whether it asks for timeouts

    @abstractmethod
    def title(self, request: DialogRequest) -> str:
        """The question of the dialog."""

    @abstractmethod
    def button(self, request: DialogRequest, answers: Answers) -> str:
        """The label of the button that acts."""

    @abstractmethod
    def run(self, request: DialogRequest, answers: Answers) -> list[Notification] | str:
        """Act. Returns the results, or a sentence if nothing was done. Raises as the functions of ``actions``."""

    def targets(self) -> str:
        """The heading of several sessions."""
        return texts.KICK_TARGETS

    def read_at(self, clock: str) -> str:
        """The line below all sessions of a person, which were read at this time."""
        return texts.read_just_now(clock, is_kick=False)

    def explanation(self) -> str | None:
        """What the act does to the sessions, where its name does not say it."""
        return None

    def block_hint(self, request: DialogRequest) -> str | None:
        """What happens to the existing block."""
        return None

    def phrase_use(self, request: DialogRequest) -> PhraseUse:
        """Which version of a saved phrase fits."""
        return "kick"

    def needs_fresh_sign_in(self, request: DialogRequest, answers: Answers) -> bool:
        """Whether it blocks, unblocks, or kicks several people. A kick of one person must be quick."""
        return answers.end.seconds is not None

    def missing(self, request: DialogRequest, answers: Answers) -> str | None:
        """What the reader has yet to enter, as a sentence."""
        return None if answers.details.reason else texts.REASON_MISSING


class Kick(Act):
    """End sessions, and perhaps block their person."""

    audit_name = "kick"
    block_choice = "kick"

    def title(self, request: DialogRequest) -> str:
        count = len(request.sessions)
        if request.uid is not None:
            return texts.kick_person(count)
        return texts.KICK_ONE if count == 1 else texts.kick_many(count)

    def button(self, request: DialogRequest, answers: Answers) -> str:
        return texts.confirm(len(request.sessions) - len(answers.keep))

    def read_at(self, clock: str) -> str:
        return texts.read_just_now(clock, is_kick=True)

    def phrase_use(self, request: DialogRequest) -> PhraseUse:
        has_block = request.existing_block is not None or is_block_chosen(request.number)
        return "kick and block" if has_block else "kick"

    def needs_fresh_sign_in(self, request: DialogRequest, answers: Answers) -> bool:
        return request.only_uid is None or answers.end.seconds is not None

    def missing(self, request: DialogRequest, answers: Answers) -> str | None:
        keeps_all = {session.ref for session in request.sessions} <= set(answers.keep)
        return super().missing(request, answers) or (texts.NOTHING_LEFT if keeps_all else None)

    def run(self, request: DialogRequest, answers: Answers) -> list[Notification] | str:
        outcome = _kick(request, answers)
        if outcome.did_nothing:
            return texts.not_kicked(len(outcome.not_kicked), outcome.failure or "")
        return list(notifications.outcome_notifications(outcome))


def _kick(request: DialogRequest, answers: Answers) -> KickOutcome:
    refs = [session.ref for session in request.sessions]
    try:
        presence = open_store().presence
        if request.uid is None:
            outcome = kick_and_block.kick_refs(presence, refs, answers.details)
        else:
            outcome = kick_and_block.kick_person(presence, request.uid, refs, answers.details, answers.keep)
    except InvalidArgument:
        raise
    except PresenceError as error:
        outcome = KickOutcome(not_kicked=tuple(refs), failure=plain(error))
    st.session_state[UNANSWERED] = (*st.session_state.get(UNANSWERED, ()), *outcome.unanswered)
    return outcome


class RequireSignIn(Act):
    """Require a new sign-in. It can be repeated, so an unknown outcome needs no check."""

    audit_name = "require_sign_in"
    is_dangerous = False

    def title(self, request: DialogRequest) -> str:
        return texts.sign_in_title(len(request.sessions), is_person=request.uid is not None)

    def button(self, request: DialogRequest, answers: Answers) -> str:
        return texts.require_sign_in(len(request.sessions))

    def targets(self) -> str:
        return texts.SIGN_IN_TARGETS

    def explanation(self) -> str | None:
        return texts.SIGN_IN_EXPLAINED

    def phrase_use(self, request: DialogRequest) -> PhraseUse:
        return "require_sign_in"

    def run(self, request: DialogRequest, answers: Answers) -> list[Notification] | str:
        presence, first = open_store().presence, request.sessions[0]
        session_id = None if request.uid is not None else first.session_id
        result = kick_and_block.require_sign_in(presence, first.uid, session_id, answers.details)
        if not result and request.uid is None:  # it has just ended
            return list(notifications.outcome_notifications(kick_and_block.check_again(presence, [first.ref])))
        return list(notifications.sign_in_notifications(result, may_be_undone=kick_and_block.may_be_undone(presence)))


class ChangeTimeouts(Act):
    """Change the timeouts of sessions. It can be repeated, so an unknown outcome needs no check."""

    audit_name = "change_timeouts"
    is_dangerous = False
    has_message = False
    has_timeouts = True

    def title(self, request: DialogRequest) -> str:
        return texts.timeouts_title(len(request.sessions))

    def button(self, request: DialogRequest, answers: Answers) -> str:
        return texts.CHANGE_TIMEOUTS

    def explanation(self) -> str | None:
        return texts.TIMEOUTS_EXPLAINED

    def needs_fresh_sign_in(self, request: DialogRequest, answers: Answers) -> bool:
        return answers.timeouts.is_longer

    def missing(self, request: DialogRequest, answers: Answers) -> str | None:
        has_none = answers.timeouts.idle is None and answers.timeouts.absolute is None
        return texts.TIMEOUTS_MISSING if has_none else super().missing(request, answers)

    def run(self, request: DialogRequest, answers: Answers) -> list[Notification] | str:
        presence, first, new = open_store().presence, request.sessions[0], answers.timeouts
        session_id = None if request.uid is not None else first.session_id
        reason = answers.details.reason
        changed = kick_and_block.change_timeouts(presence, first.uid, session_id, new.idle, new.absolute, reason)
        if not changed and request.uid is None:  # it has just ended
            return list(notifications.outcome_notifications(kick_and_block.check_again(presence, [first.ref])))
        return list(notifications.timeout_notifications(changed, may_be_undone=presence.may_fail_over))


class BlockPerson(Act):
    """Block a person, or change their block. It can be repeated, so an unknown outcome needs no check."""

    audit_name = "block"
    block_choice = "block"

    def title(self, request: DialogRequest) -> str:
        return texts.BLOCK_PERSON if request.existing_block is None else texts.CHANGE_BLOCK

    def button(self, request: DialogRequest, answers: Answers) -> str:
        if request.existing_block is None:
            return texts.BLOCK
        return texts.CONFIRM_SHORTEN if answers.end.is_shorter else texts.CHANGE_BLOCK_BUTTON

    def block_hint(self, request: DialogRequest) -> str | None:
        return None if request.existing_block is None else texts.CHANGES_BLOCK

    def phrase_use(self, request: DialogRequest) -> PhraseUse:
        return "block"

    def needs_fresh_sign_in(self, request: DialogRequest, answers: Answers) -> bool:
        return True

    def missing(self, request: DialogRequest, answers: Answers) -> str | None:
        lacks_shorten = answers.end.is_shorter and not answers.end.shorten
        return texts.SHORTEN_MISSING if lacks_shorten else super().missing(request, answers)

    def run(self, request: DialogRequest, answers: Answers) -> list[Notification] | str:
        presence = open_store().presence
        block = kick_and_block.block(presence, request.uid or "", answers.details)
        result = notifications.block_result(request.name or block.uid, block)
        if kick_and_block.may_be_undone(presence):
            return [Notification("note", texts.no_replica_asked(result))]
        return [Notification("done" if block.confirmed is not False else "note", result)]


class UnblockPerson(Act):
    """Let a person log in again. It can be repeated, so an unknown outcome needs no check."""

    audit_name = "unblock"
    is_dangerous = False
    has_message = False

    def title(self, request: DialogRequest) -> str:
        return texts.UNBLOCK_PERSON

    def button(self, request: DialogRequest, answers: Answers) -> str:
        return texts.UNBLOCK

    def needs_fresh_sign_in(self, request: DialogRequest, answers: Answers) -> bool:
        return True

    def run(self, request: DialogRequest, answers: Answers) -> list[Notification] | str:
        person = name(cut(request.name or request.uid or "", 40))
        if kick_and_block.unblock(open_store().presence, request.uid or "", answers.details.reason):
            return [Notification("done", texts.unblocked(person))]
        return [Notification("note", texts.was_not_blocked(person))]


KICK: Final = Kick()
REQUIRE_SIGN_IN: Final = RequireSignIn()
CHANGE_TIMEOUTS: Final = ChangeTimeouts()
BLOCK: Final = BlockPerson()
UNBLOCK: Final = UnblockPerson()
