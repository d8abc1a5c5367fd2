"""What can be asked of the list, and how text is compared: one truth in Python, which indexes and Lua only hasten.

A query may be driven by an index or walk the list; every session that it answers has passed ``SessionFilter.matches``.
So no plan, setting or stale entry can change an answer, only its cost.
"""

from __future__ import annotations

import ipaddress
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.models import Session

MAX_WORDS: Final = 8
"""Words of a name or an alias at which a prefix may start."""

CUT: Final = 20
"""Bytes that an index keeps of a text. Longer ones find few more than they should, which the records put right, and an
entry stays in the smaller of two size classes of the allocator: 48 bytes cost 10 B a session more."""

CLIENT_FIELDS: Final = ("device", "app", "app_version")
AGENT_FIELDS: Final = ("os", "browser")

_DOTTED = re.compile(r"(?:\d{1,3}\.){1,3}")
_CIDR = re.compile(r"[0-9A-Fa-f:.]+(?:/\d{1,3})?")

Span = tuple[bytes, bytes]
"""The first and the last address of a block, each its family and its bytes."""


# -- text -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16384)
def fold(value: str) -> str:
    """Text as it is compared: compatibility forms and accents taken off, case folded, white space single.

    NFKD and casefold of the Unicode Standard, chapters 3.11 and 3.13.
    """
    return " ".join(bare(value).split())


def bare(value: str) -> str:
    """The same, with white space as it is."""
    if value.isascii():
        return value.lower()
    return "".join(char for char in unicodedata.normalize("NFKD", value) if not unicodedata.combining(char)).casefold()


def starts(folded: str) -> Iterator[str]:
    """A folded text from each of its first words on: "emeka okafor", "okafor"."""
    at = 0
    for _ in range(MAX_WORDS):
        yield folded[at:]
        at = folded.find(" ", at) + 1
        if not at:
            return


@lru_cache(maxsize=16384)
def _pieces(value: str) -> tuple[bytes, ...]:
    """A text from each of its first words on, folded and cut."""
    folded = fold(value)
    if " " not in folded:
        return (folded.encode()[:CUT],) if folded else ()
    return tuple(part.encode()[:CUT] for part in starts(folded))


def entries(indexes: frozenset[str], uid: str, name: str, aliases: str) -> list[bytes]:
    """What the index of words holds for a user with this name and these aliases (one a line)."""
    raw = uid.encode()
    tail = b"\0" + raw
    found = []
    if "uid" in indexes:
        folded = uid if uid.islower() and uid.isascii() and " " not in uid else fold(uid)
        found.append(b"u" + raw if folded == uid else b"u" + folded.encode()[:CUT] + tail)
    if name and "name" in indexes:
        found += [b"n" + piece + tail for piece in _pieces(name)]
    if aliases and "alias" in indexes:
        for alias in aliases.split("\n"):
            found += [b"a" + piece + tail for piece in _pieces(alias)]
    return list(dict.fromkeys(found))


def uid_of(entry: bytes) -> str:
    """Whose an entry of the index of words is."""
    _, zero, uid = entry.partition(b"\0")
    return (uid if zero else entry[1:]).decode("utf-8", "replace")


def fold_table() -> str:
    """What ``fold`` makes of each letter of two UTF-8 bytes, as a Lua table; the others stay as they are."""
    rows = []
    for code in range(0x80, 0x800):
        char = chr(code)
        if bare(char) != char:
            rows.append(f"[{_lua(char)}]={_lua(bare(char))}")
    return "{" + ",".join(rows) + "}"


def _lua(value: str) -> str:
    return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'


# -- addresses --------------------------------------------------------------------------------------------------------


def block_of(value: object) -> Span | None:
    """An IPv4 or IPv6 address, or a block in CIDR notation, as its first and last address."""
    if not isinstance(value, str) or not _CIDR.fullmatch(value):
        return None
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None
    first, last = network.network_address, network.broadcast_address
    if isinstance(first, ipaddress.IPv6Address) and network.prefixlen >= 96 and first.ipv4_mapped:
        assert isinstance(last, ipaddress.IPv6Address)
        return b"4" + first.packed[12:], b"4" + last.packed[12:]
    family = b"4" if first.version == 4 else b"6"
    return family + first.packed, family + last.packed


def _dotted(value: str) -> Span | None:
    """Whole octets and a dot, such as "192.0."."""
    if not _DOTTED.fullmatch(value):
        return None
    octets = value.split(".")[:-1]
    return block_of(".".join(octets + ["0"] * (4 - len(octets))) + f"/{8 * len(octets)}")


def packed(ip: str | None) -> bytes:
    """An address of a session in the form that spans compare."""
    if ip is None:
        return b""
    one = ipaddress.ip_address(ip)
    return (b"4" if one.version == 4 else b"6") + one.packed


# -- the filter -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """What a session must be to be listed. All fields that are given must hold.

    ``text``, ``name_prefix`` and ``name_contains`` are compared case- and accent-folded, white space single; the
    facets (``device`` … ``browser``) and ``attributes`` exactly.
    """

    text: str | None = None  #: start of the uid or of a word of name or alias; an address or block
    uid: str | None = None
    name_prefix: str | None = None  #: some word of the name, with what follows, starts with it (the first 8 words)
    name_contains: str | None = None
    ip: str | None = None  #: the address at login, or a block it lies in: "192.0.2.7", "2001:db8::/32"
    device: str | None = None
    app: str | None = None
    app_version: str | None = None
    os: str | None = None
    browser: str | None = None
    logged_in_after: Any = None  #: at this moment or later: an aware datetime, or Unix seconds
    logged_in_before: Any = None  #: before this moment: an aware datetime, or Unix seconds
    idle_for: int | None = None  #: not seen for at least so many seconds; 0 asks for nothing
    attributes: Mapping[str, Any] | None = None  #: each of these has this value

    def __post_init__(self) -> None:
        if self.uid is not None:
            check.uid(self.uid)
        for name in ("text", "name_prefix", "name_contains"):
            value = getattr(self, name)
            if value is not None:
                check.short(name, value, 256)
                if not fold(value):
                    raise InvalidArgument(name, "must hold more than accents")
        if self.ip is not None and block_of(self.ip) is None:
            raise InvalidArgument("ip", "must be an IPv4 or IPv6 address, or a block such as 192.0.2.0/24")
        for name in (*CLIENT_FIELDS, *AGENT_FIELDS):
            check.short(name, getattr(self, name), 64)
        after, before = self.after, self.before
        if after is not None and before is not None and after >= before:
            raise InvalidArgument("logged_in_after", "must be earlier than logged_in_before")
        if self.idle_for is not None:
            check.whole("idle_for", self.idle_for, 0, check.TEN_YEARS)
        if self.attributes is not None:  # as JSON has them, and nobody else's to change
            object.__setattr__(self, "attributes", json.loads(check.attributes(self.attributes) or b"{}"))

    @property
    def given(self) -> tuple[str, ...]:
        """The fields that ask for something."""
        return tuple(item.name for item in fields(self) if getattr(self, item.name) not in (None, 0, {}))

    @property
    def after(self) -> int | None:
        """The earliest login, ms."""
        return None if self.logged_in_after is None else check.past("logged_in_after", self.logged_in_after)

    @property
    def before(self) -> int | None:
        """Logins earlier than this, ms."""
        return None if self.logged_in_before is None else check.past("logged_in_before", self.logged_in_before)

    @property
    def block(self) -> Span | None:
        """The addresses of ``ip``."""
        return block_of(self.ip)

    @property
    def text_block(self) -> Span | None:
        """The addresses of ``text``, where it is written as such."""
        return None if self.text is None else block_of(self.text.strip()) or _dotted(self.text.strip())

    @property
    def digest(self) -> str:
        """What a cursor remembers of its filter."""
        return blake2b(self.to_json().encode(), digest_size=6).hexdigest() if self.given else ""

    @property
    def pieces(self) -> list[str]:
        """What the JSON of equal attributes surely has in it. Of numbers, which have many spellings, the name."""
        out = []
        for key, value in (self.attributes or {}).items():
            name = json.dumps(key, ensure_ascii=False) + ":"
            plain = value is None or isinstance(value, str | bool)
            out.append(name + json.dumps(value, ensure_ascii=False) if plain else name)
        return out

    def to_json(self) -> str:
        """The filter as text, to be kept with a job: ``from_json`` reads it."""
        known = {name: getattr(self, name) for name in self.given}
        for name, ms in (("logged_in_after", self.after), ("logged_in_before", self.before)):
            if ms is not None:
                known[name] = ms / 1000
        return json.dumps(known, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> SessionFilter:
        """What ``to_json`` wrote."""
        return cls(**json.loads(text))

    def matches(self, session: Session, now: int) -> bool:
        """Whether a session is one of those, ``now`` being ms since the epoch."""
        if self.uid is not None and session.uid != self.uid:
            return False
        if any(
            (wanted := getattr(self, name)) is not None and getattr(session, name) != wanted
            for name in (*CLIENT_FIELDS, *AGENT_FIELDS)
        ):
            return False
        login = round(session.login_at.timestamp() * 1000)
        if (self.after is not None and login < self.after) or (self.before is not None and login >= self.before):
            return False
        if self.idle_for and now - round(session.last_seen.timestamp() * 1000) < self.idle_for * 1000:
            return False
        block = self.block
        if block and not _within(session.ip, block):
            return False
        name = fold(session.name or "")
        if self.name_contains is not None and fold(self.name_contains) not in name:
            return False
        if self.name_prefix is not None and not _any_start(name, fold(self.name_prefix)):
            return False
        if self.attributes and not all(_same(session.attributes.get(key, _MISSING), value)
                                       for key, value in self.attributes.items()):  # fmt: skip
            return False
        return self.text is None or self._matches_text(session, fold(self.text), name)

    def _matches_text(self, session: Session, needle: str, name: str) -> bool:
        if fold(session.uid).startswith(needle) or _any_start(name, needle):
            return True
        if any(_any_start(fold(alias), needle) for alias in session.aliases):
            return True
        block = self.text_block
        return block is not None and _within(session.ip, block)


_MISSING: Final = object()


def _any_start(folded: str, needle: str) -> bool:
    return any(text.startswith(needle) for text in starts(folded))


def _within(ip: str | None, block: Span) -> bool:
    one = packed(ip)
    return len(one) == len(block[0]) and block[0] <= one <= block[1]


def _same(ours: object, wanted: object) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(ours, list) and isinstance(wanted, list):
        return len(ours) == len(wanted) and all(map(_same, ours, wanted))
    if isinstance(ours, dict) and isinstance(wanted, dict):
        return ours.keys() == wanted.keys() and all(_same(ours[key], wanted[key]) for key in wanted)
    return isinstance(ours, bool) == isinstance(wanted, bool) and ours == wanted


def read_attributes(pairs: Iterable[str]) -> dict[str, Any]:
    """Attributes that were written as NAME=VALUE, VALUE being JSON or else text."""
    attributes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgument("attribute", "must be NAME=VALUE")
        try:
            attributes[name] = json.loads(value)
        except (ValueError, RecursionError):
            attributes[name] = value
    return attributes


def facet_members(declared: Collection[str], attributes: Mapping[str, Any] | None) -> str:
    """What facets count of these attributes: name, zero, value as JSON; one a line."""
    known = attributes or {}
    return "\n".join(
        f"{name}\0{json.dumps(known[name], ensure_ascii=False, sort_keys=True, separators=(',', ':'))}"
        for name in declared
        if known.get(name) is not None
    )
