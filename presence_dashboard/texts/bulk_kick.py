"""The bulk kick: its dialog and its progress."""

from __future__ import annotations

from typing import Final

from presence_dashboard.texts.sessions import about

# -- Bulk kicks --------------------------------------------------------------------------------------------------------


def kick_all(total: str, *, matching: bool, exact: bool) -> str:
    that = " that match" if matching else ""
    return f"Kick all {total}{that}…" if exact else f"Kick all{that} ({about(total)})…"


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
    people = "person" if count == 1 else "people"
    return f"**{shown}** {people}" if is_exact else f"at least **{shown}** {people}"


def bulk_found(count: int, shown: str, people: str, clock: str, which: str) -> str:
    many = "session" if count == 1 else "sessions"
    return f"**{shown}** {many} of {people} as of {clock}: {which}. Later logins are not kicked."


def bulk_pace(delay: int, pace: str, duration: str) -> str:
    return (
        f"The kick starts {delay} seconds after you confirm. If you press Stop before that, no session is ended. "
        f"Then it kicks up to {pace} sessions per second, which takes up to {duration}."
    )


def bulk_people(count: int, are_all: bool) -> str:
    which = f"All {count} people" if are_all else f"The {count} people with the newest logins"
    return f"{which}, and how each was found"


def bulk_over(most: str) -> str:
    return f"Your role can kick up to {most} sessions at once. Add a filter, or ask an admin."


def too_many_at_once(most: int, count: int) -> str:
    return f"Your role can kick up to {most:,} sessions at once, not {count:,}. Ask an admin."


def bulk_spare(count: int) -> str:
    return "Keep the ticked session" if count == 1 else f"Keep the {count} ticked sessions"


def bulk_type(number: str) -> str:
    return f"Type {number} to confirm"


def bulk_mistyped(number: str) -> str:
    return f"To confirm, type the number of sessions: {number}."


BULK_GROWN: Final = "**Nothing was kicked, because more sessions match now.** Check the new count and confirm again."


BULK_STARTED: Final = "The bulk kick has started. It continues if you close this tab."

BULK_JOB_STOP: Final = "Stop"


def bulk_job_waits(seconds: int, total: str, by: str, reason: str) -> str:
    return f"**Bulk kick starts in {seconds} s**: {total} sessions · {by} · {reason}"


BULK_JOB_CANCEL: Final = "Stop the rest"
BULK_JOB_HIDE: Final = "Hide"


def bulk_job_progress(state: str, kicked: str, total: str, clock: str, by: str, reason: str) -> str:
    return f"Bulk kick {state}: {kicked} of {total} as of {clock} · {by} · {reason}"


def bulk_job_result(state: str, kicked: str, total: str) -> str:
    words = {"cancelled": "Bulk kick cancelled", "failed": "Bulk kick failed"}
    return f"{words.get(state, 'Bulk kick done')}: {kicked} of {total} kicked."


JOB_ERRORS: Final = {
    "More sessions match": "More sessions match than were counted. The rest was not kicked: count again.",
    "could not be ended": "Some sessions could not be kicked. Tell your administrator, then kick again.",
}


def bulk_job_error(error: str) -> str:
    """A failed job's error as support staff read it."""
    found = [sentence for part, sentence in JOB_ERRORS.items() if part in error]
    return found[0] if found else "The record of this bulk kick cannot be read. Sessions that it has ended stay ended."


def bulk_job_missed(count: int, shown: str) -> str:
    had = "One had" if count == 1 else f"{shown} had"
    return f"{had} already ended or no longer matched."


def bulk_job_left(count: int, shown: str) -> str:
    return "One was not kicked." if count == 1 else f"{shown} were not kicked."
