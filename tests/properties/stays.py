"""One session of the model, from its login until its tombstone expires; and the other parts of the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any, Final

from presence_core.models import Record
from presence_core.settings import INDEXES
from presence_core.text.search_text import entries

DAY_MS: Final = 86_400_000
REASONS: Final = ("logout", "expired", "kicked", "replaced")

AGENTS: Final = {  # the parser's results for the drawn user agents
    None: (None, None),
    "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Firefox/130.0": ("Linux", "Firefox"),
    "curl/8": (None, "curl"),
}

Ref = tuple[str, str]
"""uid, session id"""

NamePlate = tuple[str | None, tuple[str, ...]]
"""Name and aliases."""


def words(uid: str, plate: NamePlate) -> set[bytes]:
    """The entries in the index of words of a user with this name. Their format is tested by test_search.py."""
    return set(entries(frozenset(INDEXES), uid, plate[0] or "", "\n".join(plate[1])))


def said(record: Record, facts: Iterable[str]) -> dict[str, Any]:
    """The actual reply of the library."""
    return {field: getattr(record, field) for field in facts}


@dataclass(slots=True, kw_only=True)
class End:
    """How a session ended."""

    reason: str
    cause: str
    at: int
    by: str | None = None
    note: str | None = None
    ticket: str | None = None
    message: str | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """All sessions that began up to here are revoked."""

    upto: int
    at: int
    by: str
    note: str
    message: str | None

    @property
    def end(self) -> End:
        return End(reason="kicked", cause="revoked", at=self.at, by=self.by, note=self.note, message=self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A blocked user."""

    by: str
    reason: str
    message: str | None
    tickets: tuple[str, ...]
    at: int
    until: int | None
    changed: int

    def and_before(self, before: Hold) -> Hold:
        """This block, set while there was another: the one with the later end stays, with the tickets of both."""
        is_longer = self.until is not None and (before.until is None or before.until > self.until)
        tickets = tuple(dict.fromkeys((*before.tickets, *self.tickets)))
        return replace(before if is_longer else self, tickets=tickets, changed=self.changed)

    @property
    def stored(self) -> dict[str, str]:
        return {
            "by": self.by,
            "reason": self.reason,
            "message": self.message or "",
            "ticket": "\n".join(self.tickets),
            "at": str(self.at),
            "until": "" if self.until is None else str(self.until),
            "changed": str(self.changed),
        }


@dataclass(slots=True, kw_only=True)
class Stay:
    """One session. Times are ms, timeouts s."""

    uid: str
    sid: str
    token: str  #: the valid one
    login: int
    seen: int
    idle: int
    absolute: int
    given: dict[str, Any]  #: the other arguments of the latest login
    last_ip: str | None = None
    authenticated: int | None = None  #: ms; None: at login
    staff: str | None = None  #: the member of staff who began it on behalf of the user
    device_id: str | None = None  #: of the latest login
    is_new_device: bool = False
    demanded: int | None = None  #: when staff required a new sign-in, ms
    end: End | None = None
    inline: frozenset[str] = field(default_factory=frozenset)  #: the labels whose text is in the session's own record

    @property
    def ref(self) -> Ref:
        return self.uid, self.sid

    @property
    def name(self) -> str:
        return f"{self.uid}:{self.sid}"

    @property
    def key(self) -> tuple[int, bytes]:
        """Its position in the list: the greatest comes first."""
        return self.login, self.name.encode()

    @property
    def deadline(self) -> int:
        return min(self.seen + self.idle * 1000, self.login + self.absolute * 1000)

    @property
    def device(self) -> str | None:
        device: str | None = self.given.get("device")
        return device

    @property
    def limited(self) -> tuple[str | None, str | None]:
        """What the limit per device counts by: the id, or the label."""
        return self.device_id, None if self.device_id else self.device

    @property
    def plate(self) -> NamePlate:
        return self.given.get("name"), tuple(self.given.get("aliases", ()))

    @property
    def texts(self) -> dict[str, str]:
        """Its two labels: the client as the site described it, and the parsed user agent."""
        known = {}
        client = [self.given.get(field) or "" for field in ("device", "app", "app_version")]
        if any(client):
            known["client"] = "\n".join(client)
        agent = self.given.get("user_agent")
        if agent:
            known["agent"] = "\n".join((*(part or "" for part in AGENTS[agent]), agent))
        return known

    @property
    def addresses(self) -> set[bytes]:
        """Its entries in the index of addresses: that of its login, and the latest."""
        found = [ip_address(ip) for ip in (self.given.get("ip"), self.last_ip) if ip]
        return {f"{address.version}".encode() + address.packed + self.name.encode() for address in found}

    def counted_as(self, declared: Iterable[str]) -> Iterator[bytes]:
        """The facet counters that include it."""
        texts = self.texts
        for kind in ("client", "agent"):
            text = texts.get(kind, "")
            if kind in self.inline:
                yield kind[:1].upper().encode() + (text.rpartition("\n")[0] if kind == "agent" else text).encode()
            else:
                yield kind[:1].encode() + label(text)
        attributes = self.given.get("attributes") or {}
        for name in declared:
            if attributes.get(name) is not None:
                yield b"x" + name.encode() + b"\0" + json.dumps(attributes[name], separators=(",", ":")).encode()


def label(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=4).digest() if text else bytes(4)
