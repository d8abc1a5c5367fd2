"""What the audit says about an action: one row for each code, with its sentence in English.

Scripts and operations store codes and values. The library makes ``AuditEntry.outcome`` of them; the dashboard's
catalogues translate the sentences (``presence_dashboard/texts/outcomes.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

FactValue = str | int | None


class Form(NamedTuple):
    """The sentence of a fact, with the names of its values."""

    singular: str
    plural: str = ""  #: where ``count`` is not 1; empty: there is no count


FACTS: Final[Mapping[str, Form]] = {
    # kicks and sign-ins
    "ended": Form("{count} session ended", "{count} sessions ended"),
    "none_ended": Form("no session to end"),
    "to_sign_in": Form("{count} session to sign in again", "{count} sessions to sign in again"),
    "none_to_sign_in": Form("no session to sign in again"),
    "revoked": Form("all that began before {at} signed out"),
    "all_revoked": Form("all signed out"),
    # blocks
    "blocked": Form("blocked {until}{tickets}"),
    "still_blocked": Form("still blocked {until}{tickets} by {by}, asked for: {asked}"),
    "blocked_before": Form("blocked {until}{tickets}, before: {was} by {by}{was_tickets}"),
    "block_shorter": Form("block made shorter: {until}{tickets}, before: {was} by {by}{was_tickets}"),
    "set_again": Form("set again"),
    "unblocked": Form("unblocked"),
    "was_not_blocked": Form("was not blocked"),
    "rule_added": Form(
        "{match} blocked {rule_until} (rule {rule}); {count} live session matched",
        "{match} blocked {rule_until} (rule {rule}); {count} live sessions matched",
    ),
    "rule_removed": Form("{match} no longer blocked (rule {rule}, by {by})"),
    "no_rule": Form("no rule {rule}"),
    # timeouts
    "timeouts_of": Form("{count} session", "{count} sessions"),
    "timeouts_of_none": Form("no session"),
    "timeouts_match": Form(
        "{count} session matches, at most {most} may change",
        "{count} sessions match, at most {most} may change",
    ),
    "idle_timeout": Form("idle timeout {seconds} s"),
    "absolute_timeout": Form("absolute timeout {seconds} s"),
    "only_shorter": Form("only where that is shorter"),
    "shortened": Form("{number} shortened"),
    "lengthened": Form("{number} lengthened"),
    "ended_as_older": Form("{number} ended as older"),
    "left_alone": Form("{number} left alone as they would be longer"),
    "nothing_to_change": Form("nothing to change"),
    "stopped": Form("stopped, as more sessions match than expected"),
    # bulk kicks
    "job_started": Form(
        "job {job}: {count} session matches, at most {most} may be ended",
        "job {job}: {count} sessions match, at most {most} may be ended",
    ),
    "timeouts_started": Form(
        "job {job}: {count} session matches, timeouts of at most {most} may change",
        "job {job}: {count} sessions match, timeouts of at most {most} may change",
    ),
    "job_paused": Form("job {job}: paused"),
    "job_resumed": Form("job {job}: resumed"),
    "job_cancelled": Form("job {job}: cancelled"),
    "job_ended": Form("job {job}: {kicked} of {count} session ended", "job {job}: {kicked} of {count} sessions ended"),
    "job_changed": Form(
        "job {job}: timeouts of {kicked} of {count} session changed",
        "job {job}: timeouts of {kicked} of {count} sessions changed",
    ),
    "job_lost": Form("job {job}: {count} session ended", "job {job}: {count} sessions ended"),
    "then_cancelled": Form("then it was cancelled"),
    "then_failed": Form("then it failed: {error}"),
    "with_error": Form("with a warning: {error}"),
    # requests that a second person approves
    "request_of": Form("request {request} of {name}"),
    "to_kick": Form("{count} session to kick", "{count} sessions to kick"),
    "to_change": Form("timeouts of {count} session to change", "timeouts of {count} sessions to change"),
    "to_block": Form("logins of {match} to block"),
    "narrowed": Form("narrowed to {count} session", "narrowed to {count} sessions"),
    "request_failed": Form("it failed: {error}"),
    # refused attempts
    "refused_once": Form("{what} refused once"),
    "refused": Form("{what} refused {times} times, last at {at}"),
    # staff
    "role_given": Form("{name} is now {role}"),
    "role_changed": Form("{name} is now {role}, was {before}"),
    "role_removed": Form("{name} is no longer on the staff"),
    "role_taken": Form("{name} is no longer on the staff, was {before}"),
    "glass_broken": Form("glass broken"),
    "password_chosen": Form("{name} chose a password"),
    "password_given": Form("{name} was given a one-time password"),
    "signed_out": Form("{name} was signed out, {count} sign-in ended", "{name} was signed out, {count} sign-ins ended"),
    "item_saved": Form('{kind} "{name}" saved for everyone'),
    "item_renamed": Form('{kind} "{name}" saved for everyone, was "{former}"'),
    "item_removed": Form('{kind} "{name}" removed for everyone'),
    # data
    "sessions_exported": Form("{count} session exported", "{count} sessions exported"),
    "ended_exported": Form("{count} ended session exported", "{count} ended sessions exported"),
    "blocks_exported": Form("{count} block exported", "{count} blocks exported"),
    "jobs_exported": Form("{count} bulk kick exported", "{count} bulk kicks exported"),
    "failures_exported": Form("{count} failed sign-in exported", "{count} failed sign-ins exported"),
    "actions_exported": Form("{count} staff action exported", "{count} staff actions exported"),
    "exported_to_file": Form("sessions exported to a file"),
    "exported_to_output": Form("sessions exported to standard output"),
    "filter": Form("filter {filter}"),
    "person_exported": Form("all that is kept of this person"),
    "to_import": Form("{count} session to import", "{count} sessions to import"),
    "erased": Form("{count} session erased, {live} of them live", "{count} sessions erased, {live} of them live"),
    "not_complete": Form("not complete"),
    "repaired": Form("{count} entry repaired", "{count} entries repaired"),
    "found_expired": Form("{count} session had expired", "{count} sessions had expired"),
}  # fmt: skip
"""Code → its sentence. What kind of value a name has stands in
``VALUE_KINDS``."""

VALUE_KINDS: Final[Mapping[str, str]] = {
    "at": "time", "until": "block_end", "was": "block_end", "asked": "block_end", "rule_until": "rule_end",
    "tickets": "tickets", "was_tickets": "tickets", "count": "number", "most": "number", "kicked": "number",
    "live": "number", "number": "number", "what": "action", "kind": "saved_kind",
}  # fmt: skip
"""Name of a value → its kind; the others are texts as they are. Times are in ms; an end that is None is open."""
