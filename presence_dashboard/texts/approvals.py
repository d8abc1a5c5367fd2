"""Requests that an admin approves: on the Sessions page, in its dialogs and in the header."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Counted, Sentence
from presence_dashboard.language import gettext as _

# -- Ask ---------------------------------------------------------------------------------------------------------------

ASK_ADMIN: Final = "Ask an admin"


def ask_all(total: str, *, matching: bool, exact: bool) -> str:
    if matching:
        sentence = (
            _("Ask to kick all {total} that match…") if exact else _("Ask to kick all that match (about {total})…")
        )
    else:
        sentence = _("Ask to kick all {total}…") if exact else _("Ask to kick all (about {total})…")
    return sentence.format(total=total)


ask_all_help: Final = Sentence("Alone you can kick up to {most} sessions at once. An admin can approve this kick.")
ask_needed: Final = Sentence(
    "Alone you can kick up to {most} sessions at once. Prepare this kick and ask: it starts when an admin approves it."
)
ASK_WIDE: Final = "A large network or a country needs a second person. The rule starts when an admin approves it."
asked: Final = Sentence("An admin has been asked. If no one answers, the request lapses at {clock}.")

# -- The list ----------------------------------------------------------------------------------------------------------

request_badge: Final = Counted("**{count}** request waits for you", "**{count}** requests wait for you")
request_kick: Final = Sentence("Kick {sessions}: {which}")
request_timeouts: Final = Sentence("Change timeouts of {sessions}: {which} · {times}")
request_idle: Final = Sentence("ends if not used for {duration}")
request_absolute: Final = Sentence("ends at the latest {duration} after its login")
request_block: Final = Sentence("Block logins of {match} for {duration}")
request_block_open: Final = Sentence("Block logins of {match} until the rule is removed")
request_asked: Final = Sentence("{by} asked at {clock}: {reason}")
request_open: Final = Sentence("Waits for an admin until {clock}.")
request_refused: Final = Sentence("{by} refused at {clock}: {word}")
REQUEST_WITHDRAWN: Final = "Withdrawn."
request_lapsed: Final = Sentence("Lapsed at {clock}: no one answered.")
request_started: Final = Sentence("{by} approved at {clock}. It is starting.")
request_unknown: Final = Sentence(
    "{by} approved at {clock}, and the dashboard did not record a result. Check the bulk kicks and the block rules "
    "before you ask again."
)
request_done: Final = Sentence("{by} approved at {clock}, and it has started.")
request_failed: Final = Sentence("{by} approved at {clock}, but it failed: {outcome}")
request_changed: Final = Sentence("Approved with changes: {acts}")
REQUEST_REVIEW: Final = "Review…"
REQUEST_WITHDRAW: Final = "Withdraw"
REQUEST_IS_WITHDRAWN: Final = "The request was withdrawn."

# -- Review ------------------------------------------------------------------------------------------------------------

REVIEW_TITLE: Final = "Approve this request?"
review_before: Final = Counted(
    "**{shown}** session matched when {by} asked.", "**{shown}** sessions matched when {by} asked."
)
REVIEW_ONLY: Final = "Only sessions with"
REVIEW_ONLY_ALL: Final = "All that match"
REVIEW_LEAVE_OUT: Final = "Leave out"
REVIEW_LEAVE_OUT_NONE: Final = "No session"
review_leave_out_help: Final = Sentence("The newest {most} sessions that match.")
REVIEW_NONE: Final = "No session matches any more. Refuse the request, with a word to the person who asked."
review_no_right: Final = Sentence("{by} may no longer ask for this. Refuse the request, or do it in your own name.")
review_kick: Final = Counted("Approve and kick {shown} session", "Approve and kick {shown} sessions")
review_both: Final = Counted("Approve: block, then kick {shown} session", "Approve: block, then kick {shown} sessions")
review_timeouts: Final = Counted("Approve and change {shown} session", "Approve and change {shown} sessions")
REVIEW_BLOCK: Final = "Approve and block these logins"
review_word: Final = Sentence("If you refuse, say why. {by} reads it.")
REVIEW_REFUSE: Final = "Refuse"
REVIEW_WORD_MISSING: Final = "Write why you refuse."
request_is_approved: Final = Sentence("You approved the request of {by}.")
request_is_refused: Final = Sentence("You refused the request of {by}.")

# -- A bulk kick with a block ------------------------------------------------------------------------------------------

BLOCK_ALSO: Final = "Also block new logins by"
BLOCK_ALSO_NOT: Final = "No block"
block_also_found: Final = Sentence("{match} matches {sessions} now. The block starts first, then the kick.")
block_and_kick: Final = Counted("Block, then kick {shown} session", "Block, then kick {shown} sessions")
BLOCK_ALSO_INCOMPLETE: Final = "Fill in what to block, or choose “No block”."
blocked_not_kicked: Final = Sentence("{blocked} The kick did not start: {reason}")
