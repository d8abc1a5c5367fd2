"""Outcomes of staff actions. The audit stores them in English; a page shows them in its own language.

An outcome of another form, such as an older one, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from presence_dashboard.language import Counted, Sentence, current, number
from presence_dashboard.language import gettext as _
from presence_dashboard.texts.history import act

_END_CODE: Final = r"until (?:unblocked|removed|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)"
_ROLE_CODE: Final = r"(?:admin|support|viewer|stats)"
_HOLD: Final = re.compile(
    rf"(?P<again>set again: )?(?P<verb>blocked|still blocked|block made shorter:) (?P<end>{_END_CODE})"
    rf"(?P<tickets> \([^()]*\))?(?: by (?P<holder>.+), asked for: (?P<asked>{_END_CODE}))?"
    rf"(?:, before: (?P<was>{_END_CODE}) by (?P<by>.+?)(?P<was_tickets> \([^()]*\))?)?"
)

_FORMS: Final[dict[str, Sentence | Counted]] = {
    r"(?P<count>[\d,]+) sessions? ended": Counted("{shown} session ended", "{shown} sessions ended"),
    r"(?P<kicked>[\d,]+) of (?P<count>[\d,]+) sessions? ended":
     Counted("{kicked} of {shown} session ended", "{kicked} of {shown} sessions ended"),
    r"no session to end": Sentence("no session to end"),
    r"(?P<count>[\d,]+) sessions? to sign in again":
     Counted("{shown} session to sign in again", "{shown} sessions to sign in again"),
    r"no session to sign in again": Sentence("no session to sign in again"),
    r"unblocked": Sentence("unblocked"),
    r"was not blocked": Sentence("was not blocked"),
    r"(?P<what>\S.*) refused once": Sentence("{what} refused once"),
    r"(?P<what>\S.*) refused (?P<times>\d+) times, last at (?P<at>.+ UTC)":
     Sentence("{what} refused {times} times, last at {at}"),
    r"(?P<count>[\d,]+) sessions? exported(?P<rest>.*)":
     Counted("{shown} session exported{rest}", "{shown} sessions exported{rest}"),
    r"(?P<count>[\d,]+) ended sessions? exported(?P<rest>.*)":
     Counted("{shown} ended session exported{rest}", "{shown} ended sessions exported{rest}"),
    r"(?P<count>[\d,]+) blocks? exported(?P<rest>.*)":
     Counted("{shown} block exported{rest}", "{shown} blocks exported{rest}"),
    r"(?P<count>[\d,]+) bulk kicks? exported(?P<rest>.*)":
     Counted("{shown} bulk kick exported{rest}", "{shown} bulk kicks exported{rest}"),
    r"(?P<count>[\d,]+) staff actions? exported(?P<rest>.*)":
     Counted("{shown} staff action exported{rest}", "{shown} staff actions exported{rest}"),
    rf"(?P<name>\S+) is now (?P<role>{_ROLE_CODE})": Sentence("{name} is now {role}"),
    rf"(?P<name>\S+) is now (?P<role>{_ROLE_CODE}), was (?P<before>{_ROLE_CODE})":
     Sentence("{name} is now {role}, was {before}"),
    rf"(?P<name>\S+) is no longer on the staff, was (?P<before>{_ROLE_CODE})":
     Sentence("{name} is no longer on the staff, was {before}"),
    r"(?P<name>\S+) chose a password": Sentence("{name} chose a password"),
    r"(?P<name>\S+) was given a one-time password": Sentence("{name} was given a one-time password"),
    r"(?P<name>\S+) was signed out, (?P<sessions>\d+) sign-ins ended":
     Sentence("{name} was signed out, {sessions} sign-ins ended"),
    rf"(?P<match>.+) blocked (?P<end>{_END_CODE}) \(rule (?P<rule>\S+)\); (?P<sessions>[\d,]+) live sessions? matched":
     Sentence("{match} blocked {end} (rule {rule}); live sessions that matched: {sessions}"),
    r"(?P<match>.+) no longer blocked \(rule (?P<rule>\S+), by (?P<by>.+)\)":
     Sentence("{match} no longer blocked (rule {rule}, by {by})"),
    r"all that began before (?P<at>.+ UTC) signed out": Sentence("all that began before {at} signed out"),
    r"(?P<count>[\d,]+) sessions? erased, (?P<live>[\d,]+) of them live":
     Counted("{shown} session erased, {live} of them live", "{shown} sessions erased, {live} of them live"),
    r"all that is kept of this person": Sentence("all that is kept of this person"),
    r"paused": Sentence("paused"),
    r"resumed": Sentence("resumed"),
    r"cancelled": Sentence("cancelled"),
    r"(?P<count>[\d,]+) sessions? match, at most (?P<most>[\d,]+) may be ended":
     Counted("{shown} session matches, at most {most} may be ended",
             "{shown} sessions match, at most {most} may be ended"),
}  # fmt: skip
"""Pattern of the English form → the sentence, whose values are its groups."""

_PATTERNS: Final = tuple((re.compile(pattern), sentence) for pattern, sentence in _FORMS.items())
_JOB: Final = re.compile(r"job (?P<job>\S+): (?P<what>.+)")
_THEN_CANCELLED: Final = re.compile(r"(?P<what>.+), then it was cancelled")

_outcome_of_job: Final = Sentence("job {job}: {what}")
_then_cancelled: Final = Sentence("{what}, then it was cancelled")


def outcome(text: str, end: Callable[[str], str]) -> str:
    """An outcome in the language of the page. Times stay as they are stored, but ``end`` words the ends of blocks."""
    if current() == "en" or not text:
        return text
    if found := _JOB.fullmatch(text):
        return _outcome_of_job(found["job"], outcome(found["what"], end))
    if found := _THEN_CANCELLED.fullmatch(text):
        return _then_cancelled(outcome(found["what"], end))
    if found := _HOLD.fullmatch(text):
        return _hold(found, end)
    for pattern, sentence in _PATTERNS:
        if found := pattern.fullmatch(text):
            return _filled(sentence, found, end)
    first, comma, rest = text.partition(", ")  # a kick with a block
    return f"{outcome(first, end)}, {outcome(rest, end)}" if comma else text


def _filled(sentence: Sentence | Counted, found: re.Match[str], end: Callable[[str], str]) -> str:
    values = {name: value or "" for name, value in found.groupdict().items()}
    if "what" in values:
        values["what"] = act(values["what"])
    if "end" in values:
        values["end"] = _until(values["end"], end)
    if isinstance(sentence, Sentence):
        return sentence(*(values[name] for name in sentence.values))
    count = int(values["count"].replace(",", ""))
    values["shown"] = number(count)
    return sentence(count, *(values[name] for name in sentence.values[1:]))


def _hold(found: re.Match[str], end: Callable[[str], str]) -> str:
    """A block, and the one that was there before."""
    sentence = {
        "blocked": _("blocked {end}"),
        "still blocked": _("still blocked {end}"),
        "block made shorter:": _("block made shorter: {end}"),
    }[found["verb"]]
    block = sentence.format(end=_until(found["end"], end)) + (found["tickets"] or "")
    if found["asked"]:
        block = _("{block} by {by}, asked for: {end}").format(
            block=block, by=found["holder"], end=_until(found["asked"], end)
        )
    if found["was"]:
        before = _("{block}, before: {end} by {by}").format(block=block, end=_until(found["was"], end), by=found["by"])
        block = before + (found["was_tickets"] or "")
    return _("set again: {block}").format(block=block) if found["again"] else block


def _until(text: str, end: Callable[[str], str]) -> str:
    moment = text.removeprefix("until ")
    if moment == "unblocked":
        return _("until unblocked")
    return _("until removed") if moment == "removed" else _("until {moment}").format(moment=end(moment))
