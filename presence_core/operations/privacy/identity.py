"""What names one person: where it is stored, and how a text reads without it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any, Final
from unicodedata import category

from presence_core.keyspace import Shard, layout_key, split_ref
from presence_core.models import CORE, text
from presence_core.models.sessions import idp_link, label_ids
from presence_core.operations.context import Context
from presence_core.operations.scan import scan_part
from presence_core.operations.search.rebuild import address_ref, idp_ref
from presence_core.scripts.calls import Call, Op, command
from presence_core.text.search_text import bare, fold, uid_of

ROUND: Final = 2_000
"""Members that one step of a scan reads."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")
_ADDRESS: Final = re.compile(r"(?<![\w.:])[0-9A-Fa-f:.]{2,45}(?![\w:])")
_GLOB: Final = re.compile(rb"([\\*?\[\]])")


@dataclass(slots=True)
class Trace:
    """What the person's shard holds of them."""

    sessions: list[str] = field(default_factory=list)  #: ids, live and ended
    words: list[bytes] = field(default_factory=list)  #: entries of the index of words
    addresses: list[bytes] = field(default_factory=list)  #: entries of the index of addresses
    idp: list[bytes] = field(default_factory=list)  #: entries of the index of identity providers
    failures: list[bytes] = field(default_factory=list)  #: entries of the list of failed sign-ins
    labels: set[bytes] = field(default_factory=set)  #: ids of label texts that their records name
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
        """A text without this person. ``own``: the text is about this person too, ``about``: about no other person, so
        that every single word of their name goes."""
        terms = self._about if about else self._own if own else self._others
        value = _replaced(terms, self.pseudonym, value)
        value = _ADDRESS.sub(self._address, value)
        return _TOKEN.sub(lambda found: self.pseudonym if found[0] in self.sessions else found[0], value)

    def _address(self, found: re.Match[str]) -> str:
        address = found[0].rstrip(".")
        try:
            is_theirs = str(ip_address(address)) in self.addresses
        except ValueError:
            return found[0]
        return self.pseudonym + found[0][len(address) :] if is_theirs else found[0]

    def strip_json(self, value: Any, *, own: bool = False) -> Any:
        """``strip`` for every text in a JSON value."""
        if isinstance(value, str):
            return self.strip(value, own=own)
        if isinstance(value, list):
            return [self.strip_json(item, own=own) for item in value]
        if isinstance(value, dict):
            return {key: self.strip_json(item, own=own) for key, item in value.items()}
        return value


def _is_common(term: str) -> bool:
    """Whether this is a plain word ("spam") or a small number, as many sites use for uids. In texts about other people
    it stays: it may be a reason or a number of sessions."""
    return term.isalpha() or (term.isdecimal() and len(term) < 6)


def _any_of(terms: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds these terms as whole words of a folded text, the longest first."""
    ordered = sorted({fold(term) for term in terms} - {""}, key=lambda term: (-len(term), term))
    return re.compile("|".join(map(_whole, ordered)) or r"(?!)")


def _whole(term: str) -> str:
    pattern = r"\s+".join(map(re.escape, term.split()))
    if term.isdecimal():  # not as a part of an address, a version, or 1,234
        return rf"(?<!\w)(?<!\d[.,]){pattern}(?!\w|[.,]\d)"
    front, back = (
        "" if category(char) == "Lo" else edge for char, edge in ((term[0], r"(?<!\w)"), (term[-1], r"(?!\w)"))
    )
    return front + pattern + back  # Chinese, among others, puts no space between words


def _replaced(terms: re.Pattern[str], by: str, value: str) -> str:
    """The text with ``by`` for each of these terms, with any accents and capitals."""
    if not terms.search(bare(value)):
        return value
    folded, places = _bare(value)
    out, last = "", 0
    for found in terms.finditer(folded):
        out += value[last : places[found.start()]] + by
        last = places[found.end()]
    return out + value[last:]


def _bare(value: str) -> tuple[str, Sequence[int]]:
    """The folded text, and for each of its letters the place in the given text."""
    if value.isascii():
        return bare(value), range(len(value) + 1)
    pairs = [(part, place) for place, char in enumerate(value) for part in bare(char)]
    return "".join(part for part, _ in pairs), [*(place for _, place in pairs), len(value)]


def pseudonym(ctx: Context, uid: str) -> Op[str]:
    """The pseudonym of an erased person: always the same, made with a secret that only Redis has."""
    key = layout_key(ctx.settings.namespace)
    yield [command(key, "HSETNX", key, "pseudonyms", ctx.new_secret().hex())]
    [(secret,)] = yield [command(key, "HMGET", key, "pseudonyms")]
    return "forgotten:" + blake2b(uid.encode(), digest_size=6, key=(secret or b"")[:64]).hexdigest()


def trace(ctx: Context, person: Identity) -> Op[Trace]:
    """Find everything: by the user's own keys, and by a scan of the lists, in case a key was lost."""
    shard, uid = ctx.shard(person.uid), person.uid
    found = Trace()
    [live, ended, closing, names] = yield [
        command(shard.user(uid), "SMEMBERS", shard.user(uid), lenient=True),
        command(shard.ended_of(uid), "ZRANGE", shard.ended_of(uid), 0, -1, lenient=True),
        command(shard.closing, "HKEYS", shard.closing, lenient=True),
        command(shard.person(uid), "HMGET", shard.person(uid), "n", "a", lenient=True),
    ]
    refs = [*(ended or ()), *(ref for ref in closing or () if _is_of(ref, uid))]
    for key in (shard.sessions, shard.deadlines, shard.ended):
        refs += [ref for ref in (yield from walk(key, uid, b":*")) if _is_of(ref, uid)]
    found.words = [entry for entry in (yield from walk(shard.words, uid, b"", front=b"*")) if uid_of(entry) == uid]
    for entry in (yield from walk(shard.addresses, uid, b":*", front=b"*")):
        if _is_of(address_ref(entry), uid):
            found.addresses.append(entry)
            person.addresses.add(str(ip_address(entry[1 : -len(address_ref(entry))])))
    found.failures = [ref for ref in (yield from walk(shard.failed, uid, b":*")) if _is_of(ref, uid)]
    links = yield from walk(shard.idp, uid, b":*", front=b"*")
    found.idp = [entry for entry in links if _is_of(idp_ref(entry), uid)]
    _add_names(person, *(names or (None, None)))
    person.sessions |= {text(sid) for sid in live or ()} | {split_ref(text(ref))[1] for ref in refs}
    yield from read(shard, person, found)
    return found


def read(shard: Shard, person: Identity, found: Trace) -> Op[None]:
    """Add what the records of the sessions say that have not been read yet."""
    unread = sorted(person.sessions.difference(found.sessions))
    found.sessions += unread
    for first in range(0, len(unread), ROUND):
        part = unread[first : first + ROUND]
        rows = yield [_record_call(shard.record(person.uid, sid)) for sid in part]
        for row in rows:
            if not row:
                continue
            name, aliases, core, last_address, note, message, demand, link = row
            _add_names(person, name, aliases)
            claims = idp_link(link or b"") or {}
            person.names |= {value for claim, value in claims.items() if claim != "iss"}
            core = core or b""
            found.labels |= label_ids(core)
            found.notes |= {text(text_id) for text_id in (note, message, (demand or b"")[8:]) if text_id}
            packed = (address for address in (core[CORE.size :], last_address or b"") if len(address) in (4, 16))
            person.addresses |= {str(ip_address(address)) for address in packed}


def _record_call(key: str) -> Call:
    return command(key, "HMGET", key, "n", "a", "c", "i", "en", "em", "q", "l", lenient=True)


def _add_names(person: Identity, name: bytes | None, aliases: bytes | None) -> None:
    names = (text(name or b""), *text(aliases or b"").split("\n"))
    person.names |= {known for known in names if known.strip()}
    person.words |= {word for word in text(name or b"").split() if len(word) > 2}


def _is_of(ref: bytes, uid: str) -> bool:
    return ref.rpartition(b":")[0] == uid.encode()


def walk(key: str, uid: str, end: bytes, front: bytes = b"") -> Op[list[bytes]]:
    """Members that contain this uid; Redis leaves out most others."""
    pattern = front + _GLOB.sub(rb"\\\1", uid.encode()) + end
    members: dict[bytes, None] = {}
    cursor = b"0"
    while True:
        cursor, part = yield from scan_part("ZSCAN", key, cursor, ROUND, "MATCH", pattern)
        members |= dict.fromkeys(member for member, _ in part)
        if cursor == b"0":
            return list(members)


def unshared(shard: Shard, uid: str, labels: set[bytes]) -> Op[set[bytes]]:
    """Those of these labels that no other session names, live or ended: a device may have its owner's name."""
    left = set(labels)
    if left:
        known = [field for label in left for field in (b"c" + label, b"a" + label)]
        [counts] = yield [command(shard.facets, "HMGET", shard.facets, *known, lenient=True)]
        used = {field[1:] for field, count in zip(known, counts or (), strict=False) if count}
        left -= used
    for key in (shard.ended, shard.sessions):
        cursor = b"0"
        while left:
            cursor, part = yield from scan_part("ZSCAN", key, cursor, ROUND // 2)
            records = [shard.record_prefix.encode() + ref for ref, _ in part if not _is_of(ref, uid)]
            calls = [command(shard.tag, "HGET", record, "c", lenient=True) for record in records]
            for core in (yield calls) if calls else ():
                left -= label_ids(core)
            if cursor == b"0":
                break
    return left
