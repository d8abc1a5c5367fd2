"""The dialog that kicks, requires a new sign-in and blocks, and the notifications about its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from presence_dashboard.language import Counted, Sentence, ngettext
from presence_dashboard.language import gettext as _

# -- The kick dialog ---------------------------------------------------------------------------------------------------

KICK_ONE: Final = "Kick this session?"
kick_many: Final = Sentence("Kick these {count} sessions?")
kick_person: Final = Counted("Kick the only session of this user?", "Kick all {count} sessions of this user?")
KICK_TARGETS: Final = "Sessions to kick"
SIGN_IN_TARGETS: Final = "Sessions that must sign in again"
and_more: Final = Sentence("… and {count} more.")
login_at: Final = Sentence("{exact} ({ago} ago)")


def read_just_now(clock: str, *, is_kick: bool) -> str:
    if is_kick:
        return _("Data as of {clock}. Logins after that are kicked as well.").format(clock=clock)
    return _("Data as of {clock}. Sessions that begin before you confirm are included.").format(clock=clock)


SIGN_IN_EXPLAINED: Final = "No session ends. The site asks for a new sign-in at the next request of each session."
SIGN_IN_NONE_LEFT: Final = "This user has no live session that could be asked to sign in again."


def require_sign_in(count: int) -> str:
    return ngettext("Require sign-in", "Require sign-in on {count} sessions", max(count, 1)).format(count=count)


def sign_in_title(count: int, *, is_person: bool) -> str:
    if count == 1 and is_person:
        return _("Require a new sign-in for the only session?")
    return ngettext(
        "Require a new sign-in for this session?", "Require a new sign-in for these {count} sessions?", count
    ).format(count=count)


CHANGE_TIMEOUTS: Final = "Change timeouts"
timeouts_title: Final = Counted("Change the timeouts of this session?", "Change the timeouts of {count} sessions?")
TIMEOUTS_EXPLAINED: Final = (
    "A session ends when it has not been used for a time, and at the latest some time after its login. Sessions that "
    "begin later are not affected."
)
TIMEOUTS_ONLY_SHORTER: Final = "Your role can only make these times shorter. An admin can make them longer."
TIMEOUT_IDLE: Final = "Ends if not used for"
TIMEOUT_ABSOLUTE: Final = "Ends at the latest, after its login"
timeout_unchanged: Final = Sentence("Unchanged: {current}")
timeout_range: Final = Sentence("{shortest} to {longest}")
TIMEOUTS_TABLE: Final = "What this means for the sessions"
TIMEOUTS_NEW_END: Final = "Would then expire"
TIMEOUTS_END_NOW: Final = "at once"
TIMEOUTS_IF_USED: Final = "If a session is used meanwhile, it expires later, but never after the limit since its login."
TIMEOUTS_MISSING: Final = "Choose at least one new time."
keep_one: Final = Sentence("Keep the selected session: {device}, login at {clock}")
keep_selected: Final = Sentence("Keep the {count} selected sessions")
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
phrase_saved: Final = Sentence("Phrase {phrase} saved for everyone.")
phrase_deleted: Final = Sentence("Phrase {phrase} deleted for everyone.")
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
    return _("until {moment}").format(moment=moment) if moment else _("until unblocked")


def block_summary(until: str, by: str, tickets: Iterable[str]) -> str:
    listed = ", ".join(tickets)
    if listed:
        return _("{until} by {by} ({tickets})").format(until=until, by=by, tickets=listed)
    return _("{until} by {by}").format(until=until, by=by)


PERSON_BLOCKED: Final = ":orange-badge[Blocked]"


def is_blocked(person: str | None, block: str) -> str:
    return f"{_(PERSON_BLOCKED)} {f'{person}: ' if person else ''}{block}"


unchanged_end: Final = Sentence("Unchanged: {until}")
shorten: Final = Sentence("Yes, make the block shorter. It now lasts {until}.")
longer_stays: Final = Sentence(
    "The existing block lasts longer and stays in force: {until}. To make it shorter, open the Person page."
)
confirm: Final = Counted("Kick {count} session", "Kick {count} sessions")
NONE_LEFT: Final = "This user has no live sessions."
NOTHING_LEFT: Final = "You keep all sessions, so there is nothing to kick."

PHRASE_LABELS: Final = {
    "Suspicious sign-in": "Suspicious sign-in",
    "User asked": "User asked",
    "Lost device": "Lost device",
    "Shared account": "Shared account",
}
"""The phrases of the product by label. Their labels are stored, so they are the same in each language."""

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
draft_kept: Final = Sentence("You did not finish this: {title}. Your texts are kept for an hour.")
DRAFT_CONTINUE: Final = "Continue"
DRAFT_DISCARD: Final = "Discard"

# -- What happened -----------------------------------------------------------------------------------------------------

kicked: Final = Counted("Kicked {target}.", "Kicked {count} sessions of {target}.")
sign_in_required: Final = Counted("{target} must sign in again.", "{count} sessions of {target} must sign in again.")

timeouts_changed: Final = Counted("Timeouts of {target} changed.", "Timeouts of {count} sessions of {target} changed.")
TIMEOUTS_MAY_BE_UNDONE: Final = "A server failure could undo this. To be sure that a session ends, kick it."


def several(first: str, others: int) -> str:
    return ngettext("{first} and {count} other", "{first} and {count} others", others).format(first=first, count=others)


UNCONFIRMED: Final = "Not confirmed yet: a server failure could undo it. Retrying until it is confirmed."
NO_REPLICA_ASKED: Final = (
    "Not confirmed: a server failure could undo it. Ask your administrator to turn confirmation on."
)
SITE_ENDS_SOON: Final = "The site’s own session is deleted next, usually within a second."
SITE_ENDS_LATER: Final = (
    "The site’s own session has not ended yet: the mirror does not work at the moment. It ends when the mirror works "
    "again. Tell your administrator."
)


def unconfirmed(result: str) -> str:
    return f"{result} {_(UNCONFIRMED)}"


def no_replica_asked(result: str) -> str:
    return f"{result} {_(NO_REPLICA_ASKED)}"


def already_ended(session: str, how: str, others: int) -> str:
    sentence = _("Already ended: {session} – {how}.").format(session=session, how=how)
    if not others:
        return sentence
    rest = ngettext("{count} more had already ended.", "{count} more had already ended.", others)
    return f"{sentence} {rest.format(count=others)}"


ended_unknown: Final = Counted(
    "One session had already ended. The end reason is no longer stored.",
    "{count} sessions had already ended. The end reason is no longer stored.",
)
outcome_unknown: Final = Counted(
    "Outcome unknown for one session: the server did not reply. Checking automatically.",
    "Outcome unknown for {count} sessions: the server did not reply. Checking automatically.",
)


def still_live(person: str) -> str:
    return _("Not kicked: {session}. The server did not reply, and the session is still online. Try again.").format(
        session=person
    )


not_kicked: Final = Counted("One session was not kicked: {reason}", "{count} sessions were not kicked: {reason}")
action_failed: Final = Sentence("The action failed: {reason}")
unresolved: Final = Counted(
    "**Outcome unknown.** One kick had no reply. Checking again as soon as the server replies.",
    "**Outcome unknown.** {count} kicks had no reply. Checking again as soon as the server replies.",
)
blocked: Final = Sentence("Blocked {person} {block}. They cannot log in.")
still_blocked: Final = Sentence("{person} stays blocked {block}: the existing block lasts longer.")
unblocked: Final = Sentence("Unblocked {person}. They can log in again.")
was_not_blocked: Final = Sentence("{person} was not blocked.")
