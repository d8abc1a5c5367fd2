"""One session of the model, from its login until its tombstone is gone; and what else the model is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any, Final

from presence_core.filters import entries
from presence_core.models import Record
from presence_core.settings import INDEXES

DAY_MS: Final = 86_400_000
REASONS: Final = ("logout", "expired", "kicked", "replaced")

AGENTS: Final = {  # what the parser makes of those that are drawn
    None: (None, None),
    "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Firefox/130.0": ("Linux", "Firefox"),
    "curl/8": (None, "curl"),
}

Ref = tuple[str, str]
"""uid, session id"""

NamePlate = tuple[str | None, tuple[str, ...]]
"""Name and aliases."""


def words(uid: str, plate: NamePlate) -> set[bytes]:
    """What the index of words has to hold for a user who is called so. Its form is for test_search.py to judge."""
    return set(entries(frozenset(INDEXES), uid, plate[0] or "", "\n".join(plate[1])))


def said(record: Record, facts: Iterable[str]) -> dict[str, Any]:
    """What the library does answer."""
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
    """Everybody out who began up to here."""

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
    """Who may not log in."""

    by: str
    reason: str
    message: str | None
    tickets: tuple[str, ...]
    at: int
    until: int | None
    changed: int

    def and_before(self, before: Hold) -> Hold:
        """This one, set while there was another: the one that ends later stays, with the tickets of both."""
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
    token: str  #: the one that opens it
    login: int
    seen: int
    idle: int
    absolute: int
    given: dict[str, Any]  #: the latest login's other arguments
    last_ip: str | None = None
    end: End | None = None
    inline: frozenset[str] = field(default_factory=frozenset)  #: which of its two labels' texts it carries itself

    @property
    def ref(self) -> Ref:
        return self.uid, self.sid

    @property
    def name(self) -> str:
        return f"{self.uid}:{self.sid}"

    @property
    def key(self) -> tuple[int, bytes]:
        """Its place in the list: the greatest comes first."""
        return self.login, self.name.encode()

    @property
    def deadline(self) -> int:
        return min(self.seen + self.idle * 1000, self.login + self.absolute * 1000)

    @property
    def device(self) -> str | None:
        device: str | None = self.given.get("device")
        return device

    @property
    def plate(self) -> NamePlate:
        return self.given.get("name"), tuple(self.given.get("aliases", ()))

    @property
    def texts(self) -> dict[str, str]:
        """Its two labels: what the site said of its client, and the user agent with what is known of it."""
        known = {}
        client = [self.given.get(one) or "" for one in ("device", "app", "app_version")]
        if any(client):
            known["client"] = "\n".join(client)
        agent = self.given.get("user_agent")
        if agent:
            known["agent"] = "\n".join((*(one or "" for one in AGENTS[agent]), agent))
        return known

    @property
    def address(self) -> bytes | None:
        """What the index of addresses holds for it."""
        ip = self.given.get("ip")
        if ip is None:
            return None
        one = ip_address(ip)
        return f"{one.version}".encode() + one.packed + self.name.encode()

    def counted_as(self, declared: Iterable[str]) -> Iterator[bytes]:
        """The counters that it is in."""
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
                yield b"x" + name.encode() + b"\0" + json.dumps(attributes[name]).encode()


def label(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=4).digest() if text else bytes(4)
