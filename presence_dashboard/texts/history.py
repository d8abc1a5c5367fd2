"""The History page."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Sentence
from presence_dashboard.language import gettext as _

HISTORY_VIEW: Final = "What to show"
HISTORY_ALT: Final = {
    "ended": "Ended sessions, newest first",
    "blocks": "Blocked people, newest block first",
    "jobs": "Bulk kicks and bulk changes of timeouts, newest first",
    "failed": "Failed sign-ins, latest first",
    "staff": "Staff actions, newest first",
}
HISTORY_VIEWS: Final = {
    "ended": "Ended",
    "blocks": "Blocked",
    "jobs": "Bulk kicks",
    "failed": "Failed sign-ins",
    "staff": "Staff actions",
}

# -- Filters -----------------------------------------------------------------------------------------------------------

HISTORY_BY: Final = "Staff"
HISTORY_PERSON_HINT: Final = "name, email, ID"
HISTORY_BY_HINT: Final = "part of a name"
HISTORY_WORDS: Final = "Reason contains"
HISTORY_WORDS_HINT: Final = "or the ticket"
HISTORY_ACTS: Final = {
    "": "Any action",
    "kick": "Kick",
    "block": "Block",
    "unblock": "Unblock",
    "add_block_rule": "Block rule added",
    "remove_block_rule": "Block rule removed",
    "kick_where": "Bulk kick",
    "ask_approval": "Request for approval",
    "approve_request": "Request approved",
    "refuse_request": "Request refused",
    "withdraw_request": "Request withdrawn",
    "lapse_request": "Request lapsed",
    "failed_request": "Approved request failed",
    "revoke_before": "Sign out everyone",
    "require_sign_in": "New sign-in required",
    "change_timeouts": "Timeouts changed",
    "change_timeouts_where": "Bulk change of timeouts",
    "staff": "Staff roles",
    "shared_item": "Shared views and phrases",
    "export": "Export",
    "denied": "Denied attempts",
    "repair": "Repair",
    "reindex": "Rebuild the search",
    "import": "Import",
    "export_person": "Person export",
    "forget": "Erase person",
    "add_remark": "Remark left",
    "remove_remark": "Remark removed",
    "login_on_behalf": "Support session",
    "idp_logout": "Signed out by identity provider",
    "confirm_login": "User said “This was me”",
    "deny_login": "User said “This was not me”",
    "rotate_device_key": "New key for devices",
}
_BULK_STEPS: Final = {
    "kick_where_start": "Bulk kick started",
    "kick_where_pause": "Bulk kick paused",
    "kick_where_resume": "Bulk kick resumed",
    "kick_where_cancel": "Bulk kick cancelled",
    "change_timeouts_where_start": "Bulk change of timeouts started",
    "change_timeouts_where_pause": "Bulk change of timeouts paused",
    "change_timeouts_where_resume": "Bulk change of timeouts resumed",
    "change_timeouts_where_cancel": "Bulk change of timeouts cancelled",
}


def act(action: str) -> str:
    """An audit action in words. An unknown action keeps its own name."""
    known = _BULK_STEPS.get(action) or HISTORY_ACTS.get(action)
    return _(known) if known else action


HISTORY_CLEAR: Final = "Clear filters"

# -- Tables ------------------------------------------------------------------------------------------------------------

HISTORY_STATE: Final = "State"
HISTORY_PROGRESS: Final = "Progress"
HISTORY_KICKED: Final = "Ended or changed"
HISTORY_TOTAL: Final = "Of"
HISTORY_OPEN_END: Final = "until unblocked"


history_place: Final = Sentence("{first}–{last} of {total} · page {page}")
at_least: Final = Sentence("at least {total}")
history_as_of: Final = Sentence("Data as of {clock}")
HISTORY_SELECT_HINT: Final = "Click a row to see its details."

# -- Empty -------------------------------------------------------------------------------------------------------------

HISTORY_EMPTY_TITLE: Final = {
    "ended": "No session has ended yet",
    "blocks": "No one is blocked",
    "jobs": "No bulk kicks yet",
    "failed": "No sign-in has failed",
    "staff": "No staff actions yet",
}
HISTORY_EMPTY: Final = {
    "ended": "Ended sessions appear here for as long as they are stored. Kicked sessions are stored longest.",
    "blocks": "People whom staff block, on the Person page or with a kick, appear here until the block ends.",
    "jobs": "Kicks of all sessions that match a search appear here for 30 days after they end.",
    "failed": "Sign-ins that fail appear here: those that blocks and limits refuse, and those that the site reports.",
    "staff": "Kicks, blocks, exports, role changes and denied attempts appear here.",
}
HISTORY_NO_MATCH_TITLE: Final = "Nothing matches"
HISTORY_NO_MATCH: Final = "No entry matches all of these filters."
HISTORY_NO_MATCH_SO_FAR: Final = "No match so far. Only the newest entries have been searched."
HISTORY_LOOK_FURTHER: Final = "Search older entries"

# -- Details -----------------------------------------------------------------------------------------------------------

HISTORY_OPEN_PERSON: Final = "Open the person"
FACT_CAUSE: Final = "Cause"
FACT_SESSION: Final = "Session"
FACT_REPLACED_BY: Final = "Replaced by"
FACT_FILTER: Final = "Filter"
FACT_ERROR: Final = "Error"
FACT_UPDATED: Final = "Updated"
FACT_FINISHED: Final = "Finished"
FACT_AGENT: Final = "User agent"

# -- Bulk kicks --------------------------------------------------------------------------------------------------------

JOB_STATES: Final = {
    "running": "running",
    "paused": "paused",
    "cancelled": "cancelled",
    "done": "done",
    "failed": "failed",
}
JOB_CANCEL: Final = "Cancel …"
JOB_CANCEL_EXPLAINED: Final = "What it has done stays done. A cancelled job cannot be resumed."
JOB_CANCEL_CONFIRM: Final = "Cancel this job"
JOB_GONE: Final = "This job is no longer stored."
JOB_KINDS: Final = {"kick": "Kick", "timeouts": "Timeouts"}
job_progress: Final = Sentence("{state} · {kicked} of {total} sessions")
job_steered: Final = Sentence("The job is now {state}.")
