"""The dialog that kicks, requires a new sign-in and blocks, and the notifications about its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# -- The kick dialog ---------------------------------------------------------------------------------------------------

KICK_ONE: Final = "Kick this session?"


def kick_many(count: int) -> str:
    return f"Kick these {count} sessions?"


def kick_person(count: int) -> str:
    return "Kick the only session of this user?" if count == 1 else f"Kick all {count} sessions of this user?"


KICK_TARGETS: Final = "Sessions to kick"


def and_more(count: int) -> str:
    return f"… and {count} more."


def login_at(exact: str, ago: str) -> str:
    return f"{exact} ({ago} ago)"


def read_just_now(clock: str, *, is_kick: bool) -> str:
    more = (
        "Logins after that are kicked as well." if is_kick else "Sessions that begin before you confirm are included."
    )
    return f"Data as of {clock}. {more}"


SIGN_IN_EXPLAINED: Final = "No session ends. Each opens nothing until the visitor has signed in again on that device."
SIGN_IN_NONE_LEFT: Final = "This user has no live session that could be asked to sign in again."


def require_sign_in(count: int) -> str:
    return f"Require {count} sign-ins" if count > 1 else "Require sign-in"


def sign_in_title(count: int, *, is_person: bool) -> str:
    if count == 1:
        return f"Require a new sign-in for {'the only' if is_person else 'this'} session?"
    return f"Require a new sign-in for these {count} sessions?"


def keep_one(device: str, clock: str) -> str:
    return f"Keep the selected session: {device}, login at {clock}"


def keep_selected(count: int) -> str:
    return f"Keep the {count} selected sessions"


PHRASES_LABEL: Final = "Saved phrases"
PHRASES_HELP: Final = "A phrase is added to both texts. Text that you typed stays."
PHRASE_TOO_LONG: Final = "The phrase was not added: the text would be longer than 500 characters."
PHRASES_EDIT: Final = "Edit phrases"
PHRASE_TO_EDIT: Final = "Phrase"
PHRASE_NEW: Final = "New phrase"
PHRASE_NAME: Final = "Name of the phrase"
PHRASE_MESSAGE: Final = "Message for the visitor"
PHRASE_SIGN_IN: Final = "Message if they must only sign in again"
PHRASE_WITH_BLOCK: Final = "Message if the person is also blocked"
PHRASE_BLOCK: Final = "Message for a block without a kick"
PHRASE_FOR_ALL: Final = (
    "All staff see this change. It is in the audit log. If a message is empty, the message above it is used; "
    "for a new sign-in, the first message."
)
PHRASE_SAVE: Final = "Save for everyone"
PHRASE_DELETE: Final = "Delete for everyone"
PHRASE_MISSING: Final = "Give the phrase a name and a reason."


def phrase_saved(phrase: str) -> str:
    return f"Phrase {phrase} saved for everyone."


def phrase_deleted(phrase: str) -> str:
    return f"Phrase {phrase} deleted for everyone."


REASON_HELP: Final = "Stored with the session and in the audit log, up to 500 characters. The visitor never sees it."
REASON_MISSING: Final = "Give a reason. Colleagues will read it later."
MESSAGE: Final = "Message for the visitor (optional)"
MESSAGE_HELP: Final = "Shown to the visitor at their next click, up to 500 characters."
TICKET: Final = "Ticket (optional)"
CANCEL: Final = "Cancel"

BLOCK_PERSON: Final = "Block this person?"
CHANGE_BLOCK: Final = "Change the block?"
CHANGES_BLOCK: Final = "This changes the existing block. It does not start a second one."
UNBLOCK_PERSON: Final = "Let this person log in again?"
BLOCK_FOR: Final = "Block new logins"
BLOCK_HELP: Final = "A blocked person cannot log in on any device, until the block ends or staff unblock them."
BLOCK_NOT: Final = "No, they can log in again"
BLOCK_UNCHANGED: Final = "Leave the block as it is"
BLOCK_HOUR: Final = "For 1 hour"
BLOCK_DAY: Final = "For 1 day"
BLOCK_WEEK: Final = "For 7 days"
BLOCK_MONTH: Final = "For 30 days"
BLOCK_UNTIL_UNBLOCKED: Final = "Until unblocked"
CONFIRM_SHORTEN: Final = "Make the block shorter"
TICKET_CHANGE_HELP: Final = "A new ticket is added to the block. It keeps up to ten."
BLOCK_HAS_ENDED: Final = "The existing block has just ended. Choose how long to block this person."
SHORTEN_MISSING: Final = "This makes the block shorter. To confirm, tick the box under “Block new logins”."


def until(moment: str | None) -> str:
    return f"until {moment}" if moment else "until unblocked"


def block_summary(until: str, by: str, tickets: Iterable[str]) -> str:
    listed = ", ".join(tickets)
    return f"{until} by {by}{f' ({listed})' if listed else ''}"


PERSON_BLOCKED: Final = ":orange-badge[Blocked]"


def is_blocked(person: str | None, block: str) -> str:
    return f"{PERSON_BLOCKED} {f'{person}: ' if person else ''}{block}"


def unchanged_end(until: str) -> str:
    return f"Unchanged: {until}"


def shorten(until: str) -> str:
    return f"Yes, make the block shorter. It now lasts {until}."


def longer_stays(until: str) -> str:
    return f"The existing block lasts longer and stays in force: {until}. To make it shorter, open the Person page."


def confirm(count: int) -> str:
    return "Kick 1 session" if count == 1 else f"Kick {count} sessions"


NONE_LEFT: Final = "This user has no live sessions."
NOTHING_LEFT: Final = "You keep all sessions, so there is nothing to kick."

PHRASES: Final = {
    "Suspicious sign-in": (
        "Suspicious sign-in",
        "We signed out this device because its sign-in looked unusual. If it was you, sign in again. "
        "If it was not, change your password.",
    ),
    "User asked": ("The user asked us to sign out this device.", "You asked us to sign out this device."),
    "Lost device": (
        "The user reports this device as lost or stolen.",
        "This device was reported as lost and has been signed out.",
    ),
    "Shared account": (
        "The account is used by several people.",
        "This account was used by several people. Please sign in with your own account.",
    ),
}
"""Label → (reason, message)."""

PHRASES_BLOCKED: Final = {
    "Suspicious sign-in": (
        "We signed out this device because its sign-in looked unusual. For your safety, signing in is blocked for now.",
        "A sign-in to this account looked unusual. For your safety, signing in is blocked for now.",
    ),
    "User asked": (
        "You asked us to sign out this device and to block signing in.",
        "You asked us to block signing in to this account.",
    ),
    "Lost device": (
        "This device was reported as lost and has been signed out. For your safety, signing in is blocked for now.",
        "A device of this account was reported as lost. For your safety, signing in is blocked for now.",
    ),
    "Shared account": (
        "This account was used by several people. Signing in to it is blocked for now.",
        "This account was used by several people. Signing in to it is blocked for now.",
    ),
}
"""Label → (message of a kick with a block, message of a block alone). The site adds until when."""


PHRASES_SIGN_IN: Final = {
    "Suspicious sign-in": (
        "The sign-in on this device looked unusual. If it was you, sign in again. If it was not, change your password."
    ),
    "User asked": "You asked us for a new sign-in on this device. Please sign in again.",
    "Lost device": "This device was reported as lost. Please sign in again.",
    "Shared account": "This account was used by several people. Please sign in with your own account.",
}
"""Label → message of a required sign-in."""


def draft_kept(title: str) -> str:
    return f"You were signed out before you finished this: {title}. Your texts are kept for an hour."


DRAFT_CONTINUE: Final = "Continue"
DRAFT_DISCARD: Final = "Discard"


# -- What happened -----------------------------------------------------------------------------------------------------


def kicked(count: int, target: str) -> str:
    return f"Kicked {target}." if count == 1 else f"Kicked {count} sessions of {target}."


def sign_in_required(count: int, target: str) -> str:
    return f"{target} must sign in again." if count == 1 else f"{count} sessions of {target} must sign in again."


def several(first: str, others: int) -> str:
    return f"{first} and {others} {'other' if others == 1 else 'others'}"


UNCONFIRMED: Final = "Not confirmed yet: a server failure could undo it. Retrying until it is confirmed."
NO_REPLICA_ASKED: Final = (
    "Not confirmed: a server failure could undo it. Ask your administrator to turn confirmation on."
)


def unconfirmed(result: str) -> str:
    return f"{result} {UNCONFIRMED}"


def no_replica_asked(result: str) -> str:
    return f"{result} {NO_REPLICA_ASKED}"


def already_ended(session: str, how: str, others: int) -> str:
    rest = f" {others} more had already ended." if others else ""
    return f"Already ended: {session} – {how}.{rest}"


def ended_unknown(count: int) -> str:
    had = "One session had" if count == 1 else f"{count} sessions had"
    return f"{had} already ended. The end reason is no longer stored."


def end_kicked(by: str, clock: str, ago: str) -> str:
    return f"kicked by {by} at {clock}, {ago} ago"


def end_logout(clock: str, ago: str) -> str:
    return f"signed out at {clock}, {ago} ago"


def end_expired(clock: str, ago: str) -> str:
    return f"expired at {clock}, {ago} ago"


def end_replaced(clock: str, ago: str) -> str:
    return f"replaced by a newer login at {clock}, {ago} ago"


def outcome_unknown(count: int) -> str:
    sessions = "one session" if count == 1 else f"{count} sessions"
    return f"Outcome unknown for {sessions}: the server did not reply. Checking automatically."


def still_alive(session: str) -> str:
    return f"Not kicked: {session}. The server did not reply, and the session is still online. Try again."


def not_kicked(count: int, reason: str) -> str:
    sessions = "One session was" if count == 1 else f"{count} sessions were"
    return f"{sessions} not kicked: {reason}"


def action_failed(reason: str) -> str:
    return f"The action failed: {reason}"


def unresolved(count: int) -> str:
    kicks = "One kick" if count == 1 else f"{count} kicks"
    return f"**Outcome unknown.** {kicks} had no reply. Checking again as soon as the server replies."


def blocked(person: str, block: str) -> str:
    return f"Blocked {person} {block}. They cannot log in."


def still_blocked(person: str, block: str) -> str:
    return f"{person} stays blocked {block}: the existing block lasts longer."


def unblocked(person: str) -> str:
    return f"Unblocked {person}. They can log in again."


def was_not_blocked(person: str) -> str:
    return f"{person} was not blocked."
