"""The bulk kick and the bulk change of timeouts: their dialogs and their progress."""

from __future__ import annotations

from typing import Final

from presence_core import JobErrorCode
from presence_dashboard.language import Counted, Sentence, ngettext, number
from presence_dashboard.language import gettext as _

# -- Bulk kicks --------------------------------------------------------------------------------------------------------


def kick_all(total: str, *, matching: bool, exact: bool) -> str:
    if exact and total == "1":
        return _("Kick the session that matches…") if matching else _("Kick the session…")
    if matching:
        sentence = _("Kick all {total} that match…") if exact else _("Kick all that match (about {total})…")
    else:
        sentence = _("Kick all {total}…") if exact else _("Kick all (about {total})…")
    return sentence.format(total=total)


KICK_ALL_HELP: Final = "Shows how many people and sessions match first, then asks you to type the number of sessions."
BULK_TITLE: Final = "Kick all matching sessions?"
BULK_TITLE_EVERYONE: Final = "Kick everyone?"
BULK_COUNTING: Final = "Counting the sessions …"
BULK_EVERYONE: Final = "everyone online"
BULK_NONE: Final = "No session matches any more. There is nothing to kick."
BULK_SAMPLE: Final = "A sample of the sessions"
COLUMN_FOUND_BY: Final = "Found by"
FOUND_BY: Final = {
    "uid": "User ID",
    "name": "Name",
    "alias": "Also known as",
    "ip": "IP address",
    "session_id": "Session ID",
}
BULK_PEOPLE_ALT: Final = "The people and how the search found them"
BULK_AGAIN: Final = "Count again"


def number_of_people(count: int, shown: str, is_exact: bool) -> str:
    if is_exact:
        return ngettext("**{shown}** person", "**{shown}** people", count).format(shown=shown)
    return ngettext("at least **{shown}** person", "at least **{shown}** people", count).format(shown=shown)


bulk_found: Final = Counted(
    "**{shown}** session of {people} as of {clock}: {which}. Later logins are not kicked.",
    "**{shown}** sessions of {people} as of {clock}: {which}. Later logins are not kicked.",
)
bulk_pace: Final = Sentence(
    "The kick starts {delay} seconds after you confirm. Until then, Stop cancels it and no session ends. After "
    "that it kicks up to {pace} sessions per second, which takes up to {duration}."
)


def bulk_people(count: int, are_all: bool) -> str:
    if are_all:
        return _("All {count} people, and how each was found").format(count=count)
    return _("The {count} people with the newest logins, and how each was found").format(count=count)


bulk_over: Final = Sentence("Your role can kick up to {most} sessions at once. Add a filter, or ask an admin.")


def too_many_at_once(most: int, count: int) -> str:
    return _("Alone you can kick up to {most} sessions at once, not {count}. Ask an admin.").format(
        most=number(most), count=number(count)
    )


bulk_spare: Final = Counted("Keep the ticked session", "Keep the {count} ticked sessions")
bulk_type: Final = Sentence("Type {number} to confirm")
bulk_mistyped: Final = Sentence("To confirm, type the number of sessions: {number}.")
BULK_GROWN: Final = "**Nothing was kicked, because more sessions match now.** Check the new count and confirm again."
BULK_STARTED: Final = "The bulk kick has started. It continues if you close this tab."

BULK_JOB_STOP: Final = "Stop"
bulk_job_waits: Final = Sentence("**Bulk kick starts in {seconds} s**: {total} sessions · {by} · {reason}")
BULK_JOB_CANCEL: Final = "Stop the rest"
BULK_JOB_HIDE: Final = "Hide"
bulk_job_progress: Final = Sentence("Bulk kick {state}: {kicked} of {total} as of {clock} · {by} · {reason}")


timeouts_job_progress: Final = Sentence(
    "Change of timeouts {state}: {kicked} of {total} as of {clock} · {by} · {reason}"
)
JOB_PROGRESS: Final = {"kick": bulk_job_progress, "timeouts": timeouts_job_progress}


def bulk_job_result(state: str, kicked: str, total: str) -> str:
    if state == "cancelled":
        sentence = _("Bulk kick cancelled: {kicked} of {total} kicked.")
    elif state == "failed":
        sentence = _("Bulk kick failed: {kicked} of {total} kicked.")
    else:
        sentence = _("Bulk kick done: {kicked} of {total} kicked.")
    return sentence.format(kicked=kicked, total=total)


def timeouts_job_result(state: str, changed: str, total: str) -> str:
    if state == "cancelled":
        sentence = _("Change of timeouts cancelled: {changed} of {total} changed.")
    elif state == "failed":
        sentence = _("Change of timeouts failed: {changed} of {total} changed.")
    else:
        sentence = _("Change of timeouts done: {changed} of {total} changed.")
    return sentence.format(changed=changed, total=total)


JOB_RESULT: Final = {"kick": bulk_job_result, "timeouts": timeouts_job_result}


JOB_ERRORS: Final[dict[JobErrorCode, str]] = {
    "more_match": "More sessions match than were counted. Nothing was done to the rest: count again.",
    "not_ended": "Some sessions could not be kicked. Tell your administrator, then kick again.",
    "unconfirmed": "A server was replaced meanwhile: some of this may be undone. Count again in a minute.",
    "damaged": "The record of this job cannot be read. Sessions that it has ended stay ended.",
}
bulk_job_missed: Final = Counted(
    "1 session had already ended or no longer matched.", "{shown} sessions had already ended or no longer matched."
)
bulk_job_left: Final = Counted("1 session was not kicked.", "{shown} sessions were not kicked.")
timeouts_job_missed: Final = Counted(
    "1 session had ended, or keeps its times.", "{shown} sessions had ended, or keep their times."
)
timeouts_job_left: Final = Counted("1 session was not changed.", "{shown} sessions were not changed.")
JOB_MISSED: Final = {"kick": bulk_job_missed, "timeouts": timeouts_job_missed}
JOB_LEFT: Final = {"kick": bulk_job_left, "timeouts": timeouts_job_left}

# -- Bulk changes of timeouts ------------------------------------------------------------------------------------------

TIMEOUTS_ALL: Final = "Change timeouts of all…"
TIMEOUTS_ALL_HELP: Final = "Shows for how many sessions a time would be shorter or longer, before anything changes."
TIMEOUTS_ALL_TITLE: Final = "Change the timeouts of all matching sessions?"
TIMEOUTS_ALL_TITLE_EVERYONE: Final = "Change the timeouts of everyone?"
TIMEOUT_SAME: Final = "Unchanged"
timeouts_found: Final = Counted(
    "**{shown}** session matches as of {clock}: {which}. Later logins are not affected.",
    "**{shown}** sessions match as of {clock}: {which}. Later logins are not affected.",
)
timeouts_of_newest: Final = Sentence("The figures are of the newest {shown} of them.")
timeouts_figures: Final = Sentence(
    "**{shortened}** would end earlier, **{lengthened}** later; **{ended}** would end at once."
)
timeouts_skipped: Final = Counted(
    "1 session would end later and stays as it is.", "{shown} sessions would end later and stay as they are."
)
TIMEOUTS_NOTHING: Final = "No session would change."
timeouts_over: Final = Sentence("Your role can change up to {most} sessions at once. Add a filter.")
timeouts_ask_needed: Final = Sentence(
    "Alone you can change up to {most} sessions at once. Prepare this change and ask: it starts when an admin approves "
    "it."
)
ASK_TIMEOUTS: Final = "A bulk change of timeouts needs a second person. It starts when an admin approves it."
timeouts_confirm: Final = Counted("Change {shown} session", "Change {shown} sessions")
TIMEOUTS_STARTED: Final = "The change of timeouts has started. It continues if you close this tab."
