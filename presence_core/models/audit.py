"""The audit: what staff did, as facts and in English."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from presence_core.models.sessions import moment, optional_text, stored_number, text
from presence_core.schema.audit_facts import FACTS, VALUE_KINDS, FactValue


@dataclass(frozen=True, slots=True)
class AuditFact:
    """One fact about what an action did, for programs and for pages in other languages.

    ``code``: a row of ``FACTS`` in ``presence_core/schema/audit_facts.py``, such as "ended". ``values``: what its
    sentence names, such as {"count": 3}; times in ms, None for a block without an end.
    """

    code: str
    values: Mapping[str, FactValue] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        """The sentence in English."""
        form = FACTS[self.code]
        words = form.plural if form.plural and self.values["count"] != 1 else form.singular
        return words.format_map({name: _in_english(name, value) for name, value in self.values.items()})


def _in_english(name: str, value: FactValue) -> str:
    kind = VALUE_KINDS.get(name)
    if kind == "number":
        return f"{value:,}"
    if kind == "tickets":
        return f" ({value})" if value else ""
    if kind in ("time", "block_end", "rule_end"):
        if isinstance(value, int):
            at = f"{moment(value):%Y-%m-%d %H:%M:%S} UTC"
            return at if kind == "time" else f"until {at}"
        return "until removed" if kind == "rule_end" else "until unblocked"
    return str(value)


def write_facts(*facts: AuditFact) -> str:
    """Facts as they are stored."""
    return json.dumps([[fact.code, dict(fact.values)] for fact in facts], ensure_ascii=False, separators=(",", ":"))


def read_facts(raw: bytes | None) -> tuple[AuditFact, ...]:
    """Facts as they are stored; none if these are not as this version writes them."""
    try:
        facts = tuple(AuditFact(code, values) for code, values in json.loads(raw or b"[]"))
        all(map(str, facts))  # a sentence may lack a value
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError):
        return ()
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An action of a staff member, or one that they tried without the right to."""

    at: datetime  #: of denied attempts: the first
    by: str | None  #: "(others)" for denied attempts under too many names
    action: str  #: "kick", "block", "revoke_before", "require_sign_in", "change_timeouts", "kick_where", "denied", …
    uid: str | None = None  #: whom it concerns; of denied attempts the latest; None: no single user
    session_id: str | None = None
    reason: str | None = None  #: for staff; of denied attempts the latest
    message: str | None = None  #: the public text
    ticket: str | None = None
    outcome: str = ""  #: "3 sessions ended", "blocked until …", "was not blocked", "kick refused 3 times, last at …"
    count: int = 1  #: of denied attempts: how many; else 1
    facts: tuple[AuditFact, ...] = ()  #: what ``outcome`` says, for programs; empty for a text of the caller's own

    @classmethod
    def from_reply(cls, written_ms: int, fields: Mapping[bytes, bytes]) -> AuditEntry:
        """Decode an entry of the stream; ``written_ms`` is of its id."""
        facts = read_facts(fields.get(b"facts")) or tuple(_facts(fields))
        if chosen := fields.get(b"filter"):
            facts += (AuditFact("filter", {"filter": text(chosen)}),)
        return cls(
            at=_moment(fields.get(b"at")) or moment(written_ms),
            by=optional_text(fields.get(b"by")),
            action=optional_text(fields.get(b"what")) or "unknown",
            uid=optional_text(fields.get(b"uid")),
            session_id=optional_text(fields.get(b"session")),
            reason=optional_text(fields.get(b"reason")),
            message=optional_text(fields.get(b"message")),
            ticket=optional_text(fields.get(b"ticket")),
            outcome=text(fields.get(b"outcome") or b"") or in_english(facts),
            facts=facts,
        )

    @classmethod
    def from_denied(
        cls, by: str, what: str, count: int, first: int, last: int, uid: str | None, reason: str | None
    ) -> AuditEntry:
        """Denied attempts of one hour; times in ms."""
        once = AuditFact("refused_once", {"what": what})
        fact = once if count == 1 else AuditFact("refused", {"what": what, "times": count, "at": last})
        return cls(
            at=moment(first),
            by=by,
            action="denied",
            uid=uid,
            reason=reason,
            outcome=str(fact),
            count=count,
            facts=(fact,),
        )


def in_english(facts: Iterable[AuditFact]) -> str:
    """The outcome that these facts are."""
    return ", ".join(map(str, facts))


def _moment(raw: bytes | None) -> datetime | None:
    number = stored_number(raw)
    return None if number is None else moment(number)


_TIMEOUTS: Final = {b"idle": "idle_timeout", b"absolute": "absolute_timeout"}


def _facts(fields: Mapping[bytes, bytes]) -> Iterable[AuditFact]:
    """The facts in the numbers that scripts store."""
    for name, some, none in ((b"ended", "ended", "none_ended"), (b"demanded", "to_sign_in", "none_to_sign_in"),
                             (b"changed", "timeouts_of", "timeouts_of_none")):  # fmt: skip
        if (number := stored_number(fields.get(name))) is not None:
            yield AuditFact(some, {"count": number}) if number else AuditFact(none)
    for name, code in _TIMEOUTS.items():
        if seconds := fields.get(name):
            yield AuditFact(code, {"seconds": text(seconds)})
    if until := fields.get(b"until"):
        if fields.get(b"what") == b"revoke_before":
            end = stored_number(until)
            yield AuditFact("all_revoked") if end is None else AuditFact("revoked", {"at": end})
        else:
            if fields.get(b"again"):
                yield AuditFact("set_again")
            yield _hold(fields, stored_number(until))
    if was := fields.get(b"was"):
        yield AuditFact("unblocked" if was == b"1" else "was_not_blocked")


def _hold(fields: Mapping[bytes, bytes], until: int | None) -> AuditFact:
    """The block before and now."""

    def tickets(name: bytes) -> str:
        return text(fields.get(name, b"")).replace("\n", ", ")

    now: dict[str, FactValue] = {"until": until, "tickets": tickets(b"tickets")}
    if b"was_until" not in fields:
        return AuditFact("blocked", now)
    by, was = text(fields.get(b"was_by", b"")), stored_number(fields[b"was_until"])
    if asked := fields.get(b"asked"):
        return AuditFact("still_blocked", now | {"by": by, "asked": stored_number(asked)})
    is_shorter = until is not None and (was is None or until < was)
    before: dict[str, FactValue] = {"was": was, "by": by, "was_tickets": tickets(b"was_ticket")}
    return AuditFact("block_shorter" if is_shorter else "blocked_before", now | before)
