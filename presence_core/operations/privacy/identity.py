"""Who a person is to a search of texts: what names them, where it stands, and how a text reads without it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any, Final
from unicodedata import category

from presence_core.filters import bare, fold, uid_of
from presence_core.keyspace import Shard, layout_key, split_ref
from presence_core.models import CORE, INLINE, NO_LABEL, text
from presence_core.operations.context import Context
from presence_core.scripts import Call, Op, command

ROUND: Final = 2_000
"""Members that one step of a walk looks at."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")
_ADDRESS: Final = re.compile(r"(?<![\w.:])[0-9A-Fa-f:.]{2,45}(?![\w:])")
_GLOB: Final = re.compile(rb"([\\*?\[\]])")


@dataclass(slots=True)
class Trace:
    """What the shard of a person holds of them."""

    sessions: list[str] = field(default_factory=list)  #: ids, live and over
    words: list[bytes] = field(default_factory=list)  #: entries of the index of words
    addresses: list[bytes] = field(default_factory=list)  #: entries of the index of addresses
    labels: set[bytes] = field(default_factory=set)  #: ids of texts that their records name
    notes: set[str] = field(default_factory=set)  #: ids of texts that staff wrote


@dataclass
class Identity:
    """Everything that names one person."""

    uid: str
    pseudonym: str
    sessions: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  #: and aliases
    words: set[str] = field(default_factory=set)  #: of their names
    addresses: set[str] = field(default_factory=set)

    @cached_property
    def _about(self) -> re.Pattern[str]:
        return _any_of({self.uid, *self.names, *self.words})

    @cached_property
    def _own(self) -> re.Pattern[str]:
        return _any_of({self.uid, *self.names})

    @cached_property
    def _others(self) -> re.Pattern[str]:
        return _any_of(term for term in (self.uid, *self.names) if not _is_common(term))

    def strip(self, value: str, *, own: bool = False, about: bool = False) -> str:
        """A text without what names this person. ``own``: it is theirs, ``about``: and nobody else's, so that any word
        of their name goes."""
        terms = self._about if about else self._own if own else self._others
        value = _replaced(terms, self.pseudonym, value)
        value = _ADDRESS.sub(self._address, value)
        return _TOKEN.sub(lambda found: self.pseudonym if found[0] in self.sessions else found[0], value)

    def _address(self, found: re.Match[str]) -> str:
        bare = found[0].rstrip(".")
        try:
            known = str(ip_address(bare)) in self.addresses
        except ValueError:
            return found[0]
        return self.pseudonym + found[0][len(bare) :] if known else found[0]

    def strip_json(self, value: Any, *, own: bool = False) -> Any:
        """The same for whatever JSON holds."""
        if isinstance(value, str):
            return self.strip(value, own=own)
        if isinstance(value, list):
            return [self.strip_json(one, own=own) for one in value]
        if isinstance(value, dict):
            return {key: self.strip_json(one, own=own) for key, one in value.items()}
        return value


def _is_common(term: str) -> bool:
    """A plain word ("spam") or a small number, such as the first users of many a site have for a uid: no reason to
    change what was written about somebody else, nor how many sessions ended."""
    return term.isalpha() or (term.isdecimal() and len(term) < 6)


def _any_of(terms: Iterable[str]) -> re.Pattern[str]:
    """Any of these as whole words of a bare text, the longest first; without one, nothing."""
    ordered = sorted({fold(term) for term in terms} - {""}, key=lambda term: (-len(term), term))
    return re.compile("|".join(map(_whole, ordered)) or r"(?!)")


def _whole(term: str) -> str:
    pattern = r"\s+".join(map(re.escape, term.split()))
    if term.isdecimal():  # which may be a part of an address, of a version, of 1,234
        return rf"(?<!\w)(?<!\d[.,]){pattern}(?!\w|[.,]\d)"
    front, back = (
        "" if category(char) == "Lo" else edge for char, edge in ((term[0], r"(?<!\w)"), (term[-1], r"(?!\w)"))
    )
    return front + pattern + back  # Chinese, among others, puts no space between words


def _replaced(terms: re.Pattern[str], by: str, value: str) -> str:
    """A text with these in other words, however it writes their accents and capitals."""
    if not terms.search(bare(value)):
        return value
    folded, places = _bare(value)
    out, last = "", 0
    for found in terms.finditer(folded):
        out += value[last : places[found.start()]] + by
        last = places[found.end()]
    return out + value[last:]


def _bare(value: str) -> tuple[str, Sequence[int]]:
    """A text as it is compared, and where each of its letters stands in the text."""
    if value.isascii():
        return bare(value), range(len(value) + 1)
    pairs = [(part, place) for place, char in enumerate(value) for part in bare(char)]
    return "".join(part for part, _ in pairs), [*(place for _, place in pairs), len(value)]


def pseudonym(ctx: Context, uid: str) -> Op[str]:
    """What stands for a person who was forgotten: the same each time, by a secret that only Redis has."""
    key = layout_key(ctx.settings.namespace)
    yield [command(key, "HSETNX", key, "pseudonyms", ctx.new_secret().hex())]
    [(secret,)] = yield [command(key, "HMGET", key, "pseudonyms")]
    return "forgotten:" + blake2b(uid.encode(), digest_size=6, key=(secret or b"")[:64]).hexdigest()


def trace(ctx: Context, who: Identity) -> Op[Trace]:
    """Look for all of it: by the user's own keys, and by a walk over the lists, which finds what those have lost."""
    s, uid = ctx.shard(who.uid), who.uid
    found = Trace()
    [live, ended, closing, person] = yield [
        command(s.user(uid), "SMEMBERS", s.user(uid), lenient=True),
        command(s.ended_of(uid), "ZRANGE", s.ended_of(uid), 0, -1, lenient=True),
        command(s.closing, "HKEYS", s.closing, lenient=True),
        command(s.person(uid), "HMGET", s.person(uid), "n", "a", lenient=True),
    ]
    refs = [*(ended or ()), *(ref for ref in closing or () if _is_of(ref, uid))]
    for key in (s.sessions, s.deadlines, s.ended):
        refs += [ref for ref in (yield from _walk(key, uid, b":*")) if _is_of(ref, uid)]
    found.words = [entry for entry in (yield from _walk(s.words, uid, b"", front=b"*")) if uid_of(entry) == uid]
    for entry in (yield from _walk(s.addresses, uid, b":*", front=b"*")):
        if _is_of(entry[_ref_at(entry) :], uid):
            found.addresses.append(entry)
            who.addresses.add(str(ip_address(entry[1 : _ref_at(entry)])))
    _name(who, person or (None, None))
    who.sessions |= {text(sid) for sid in live or ()} | {split_ref(text(ref))[1] for ref in refs}
    yield from read(s, who, found)
    return found


def read(s: Shard, who: Identity, found: Trace) -> Op[None]:
    """What the records of those sessions say of them that have not been read."""
    unread = sorted(who.sessions.difference(found.sessions))
    found.sessions += unread
    for first in range(0, len(unread), ROUND):
        part = unread[first : first + ROUND]
        rows = yield [_record(s.record(who.uid, sid)) for sid in part]
        for row in rows:
            name, aliases, core, last, *notes = row or [None] * 6
            _name(who, (name, aliases))
            core = core or b""
            found.labels |= {core[32:36], core[36:40]} - {b"", NO_LABEL, INLINE}
            found.notes |= {text(note) for note in notes if note}
            packed = [one for one in (core[CORE.size :], last or b"") if len(one) in (4, 16)]
            who.addresses |= {str(ip_address(one)) for one in packed}


def _record(key: str) -> Call:
    return command(key, "HMGET", key, "n", "a", "c", "i", "en", "em", lenient=True)


def _name(who: Identity, row: Sequence[bytes | None]) -> None:
    name, aliases = row
    who.names |= {one for one in (text(name or b""), *text(aliases or b"").split("\n")) if one.strip()}
    who.words |= {word for word in text(name or b"").split() if len(word) > 2}


def _ref_at(entry: bytes) -> int:
    """Where the session's name begins in an entry of the index of addresses."""
    return 5 if entry[:1] == b"4" else 17


def _is_of(ref: bytes, uid: str) -> bool:
    return ref.rpartition(b":")[0] == uid.encode()


def _walk(key: str, uid: str, end: bytes, front: bytes = b"") -> Op[list[bytes]]:
    """Members with this uid in them; Redis leaves out most of the others."""
    pattern = front + _GLOB.sub(rb"\\\1", uid.encode()) + end
    out: dict[bytes, None] = {}
    cursor = b"0"
    while True:
        [(cursor, flat)] = yield [command(key, "ZSCAN", key, cursor, "MATCH", pattern, "COUNT", ROUND)]
        out |= dict.fromkeys(flat[::2])
        if cursor == b"0":
            return list(out)


def unshared(ctx: Context, s: Shard, uid: str, labels: set[bytes]) -> Op[set[bytes]]:
    """Those of these texts that no other session names, live or over: a device may be called after its owner."""
    left = set(labels)
    if left:
        known = [field for label in left for field in (b"c" + label, b"a" + label)]
        [counts] = yield [command(s.facets, "HMGET", s.facets, *known, lenient=True)]
        used = {field[1:] for field, count in zip(known, counts or (), strict=False) if count}
        left -= used
    for key in (s.ended, s.sessions):
        cursor = b"0"
        while left:
            [(cursor, flat)] = yield [command(key, "ZSCAN", key, cursor, "COUNT", ROUND // 2)]
            records = [s.record_prefix.encode() + ref for ref in flat[::2] if not _is_of(ref, uid)]
            for core in (yield [command(s.tag, "HGET", one, "c", lenient=True) for one in records]) if records else []:
                left -= {core[32:36], core[36:40]} if core else set()
            if cursor == b"0":
                break
    return left
