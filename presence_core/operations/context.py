"""The context of every operation, and the texts of sessions that several operations read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from presence_core.keyspace import Keyspace, Shard
from presence_core.models import NO_LABELS, Ended, Labels, Session
from presence_core.models.sessions import label_ids
from presence_core.operations.visitor_fields import VisitorFields
from presence_core.schema.record import SessionRow
from presence_core.scripts.calls import Call, Op, command
from presence_core.scripts.sessions import READ_SESSIONS
from presence_core.settings import INDEXES, Settings
from presence_core.text.search_text import FOLD

MAX_KNOWN_LABELS = 65_536

T = TypeVar("T")


def stored_name(index: str) -> str:
    """An index as the state of a shard names it. Those of words have the version of their entries, so that a client of
    another version scans instead: uid.5, name.5, alias.5, ip.2 (with the latest address), idp.1."""
    return {"ip": "ip.2", "idp": "idp.1"}.get(index) or f"{index}.{FOLD}"


def stored_names(indexes: Collection[str]) -> str:
    """These indexes as the state of a shard names them."""
    return ",".join(stored_name(name) for name in INDEXES if name in indexes)


@dataclass(slots=True)
class Cache:
    """What the client has read from Redis, and when to read it again. Nothing here is lost with it."""

    keyspace: Keyspace | None = None
    policy: bytes = b""  #: of the settings, for this number of shards
    device_keys: tuple[bytes, ...] = ()  #: the secrets behind digests of devices, that of today first
    device_key_at: int = 0  #: when the first of them was made by a rotation, ms
    indexes: frozenset[str] = frozenset()  #: the indexes that logins write: configured, or in use
    complete: frozenset[str] = frozenset()  #: the indexes that queries may use
    is_guess: bool = False  #: the layout is not stored yet
    born: bytes | None = None  #: when the layout was written, as it says itself
    look_at: float = 0.0  #: when to read the layout again, by ``clock``
    worker_at: float = 0.0  #: when to read again whether a worker leads, by ``clock``
    labels: dict[tuple[int, bytes], bytes] = field(default_factory=dict)  #: (shard, label id) → text, as read before


@dataclass(slots=True)
class Context:
    """What the client is given: settings, clock, randomness; what it has read (``cache``), and the changes that it
    holds."""

    settings: Settings
    is_cluster: bool
    new_id: Callable[[], str]  #: a session id: 22 URL-safe characters
    new_secret: Callable[[], bytes]  #: 256 random bits
    random: Callable[[], int]  #: a place to begin at; never for secrets
    clock: Callable[[], float]  #: seconds, monotonic
    server_of: Callable[[str], str]  #: the address of the server that a key is on, as far as known
    now: str = ""  #: ms; only tests and the demo's history set it: scripts read the clock of Redis
    visitor: VisitorFields = field(default_factory=VisitorFields)  #: reads what describes a visitor
    on_no_address: Callable[[], object] = lambda: None  #: called for a login that no rule of a network could match
    place_of: Callable[[bytes], bytes] = lambda _: b""  #: the packed place of a packed address; empty if not known
    on_worker: Callable[[str], object] = lambda _: None  #: called about once a minute: a sentence if no worker leads
    on_layout: Callable[[], object] = lambda: None  #: called when the layout has been read, before the first change
    cache: Cache = field(default_factory=Cache, init=False)
    held: dict[Any, Any] = field(default_factory=dict, init=False)  #: by name: see durability/held_changes.py
    not_held: int = field(default=0, init=False)  #: changes that were not held because too many are

    @property
    def keys(self) -> Keyspace:
        keyspace = self.cache.keyspace
        assert keyspace is not None, "the client reads the layout first"
        return keyspace

    def adopt(self, shards: int, complete: bytes | None, *, is_guess: bool = False) -> None:
        """Use this layout. ``is_guess``: only until the next call, by a reader that may not store it."""
        cache = self.cache
        cache.is_guess = is_guess
        self.know_indexes([complete or b""])
        if cache.keyspace is not None and len(cache.keyspace.shards) == shards:
            return
        cache.labels.clear()  # they belong to shards
        cache.keyspace = Keyspace(self.settings.namespace, shards)
        cache.policy = self.settings.policy(shards)

    def know_indexes(self, stored: Collection[bytes]) -> None:
        """Use the indexes that are complete on every shard, as this version writes them. ``stored``: what each shard
        says."""
        self.cache.complete = frozenset(
            name for name in INDEXES if all(stored_name(name).encode() in names.split(b",") for names in stored)
        )
        self.cache.indexes = self.cache.complete | set(self.settings.indexes)

    def know_device_keys(self, stored: bytes | None) -> None:
        """Use these secrets, as the layout has them: digests of devices begin with the first."""
        first, *others = (stored or b"").split(b",")
        self.cache.device_key_at = int(others[1]) if len(others) > 1 else 0  # first: another thread may be logging in
        self.cache.device_keys = (first, *others[:1]) if first else ()

    @property
    def audit_cap(self) -> int:
        """Staff actions that one shard keeps."""
        return max(1, self.settings.max_audit // len(self.keys.shards))

    @property
    def events_cap(self) -> int:
        """Events that one shard keeps."""
        return max(1, self.settings.max_events // len(self.keys.shards))

    def shard(self, uid: str) -> Shard:
        return self.keys.shard(uid)

    def parts(self, items: Iterable[T], uid_of: Callable[[T], str], size: int) -> list[tuple[Shard, list[T]]]:
        """The items by the shard of their user, in parts of at most ``size``."""
        groups: dict[Shard, list[T]] = {}
        for item in items:
            groups.setdefault(self.shard(uid_of(item)), []).append(item)
        return [(shard, some[at : at + size]) for shard, some in groups.items() for at in range(0, len(some), size)]


@dataclass(slots=True)
class FoundSession:
    """A session as a read found it, not yet decoded."""

    uid: str
    session_id: str
    state: int
    row: SessionRow
    labels: Labels

    def session(self) -> Session:
        return Session.from_reply(self.uid, self.session_id, self.row, self.labels)

    def ended(self, notes: Labels) -> Ended:
        return Ended.from_reply(self.uid, self.session_id, self.row, self.labels, notes)


def found_rows(uid: str, reply: Any) -> list[FoundSession]:
    """The sessions of a reply of sessions/read_sessions.lua."""
    sessions, labels = READ_SESSIONS.reply(reply)
    return [FoundSession(uid, session_id, state, row, labels) for session_id, state, row in sessions]


def known_label_texts(ctx: Context, shard: Shard, core: bytes) -> Labels | None:
    """The texts of the label ids in one core; None where this process has not met one of them."""
    texts = {}
    for label in label_ids(core):
        text = ctx.cache.labels.get((shard.index, label))
        if text is None:
            return None
        texts[label] = text
    return texts


def label_texts(ctx: Context, cores: Sequence[tuple[Shard, bytes | None]]) -> Op[dict[Shard, Labels]]:
    """The texts of the label ids in these cores.

    An id is made from its text, so a text that was read once stays valid. One round trip, only where this process has
    not met a text before.
    """
    named: dict[Shard, dict[bytes, bytes]] = {shard: {} for shard, _ in cores}
    unknown: dict[Shard, list[bytes]] = {}
    for shard, core in cores:
        texts = named[shard]
        for label in label_ids(core):
            if label not in texts:
                text = ctx.cache.labels.get((shard.index, label))
                texts[label] = text or b""
                if text is None:
                    unknown.setdefault(shard, []).append(label)
    if unknown:
        replies = yield [
            command(shard.labels, "HMGET", shard.labels, *ids, lenient=True) for shard, ids in unknown.items()
        ]
        if len(ctx.cache.labels) > MAX_KNOWN_LABELS:
            ctx.cache.labels.clear()
        for (shard, ids), found in zip(unknown.items(), replies, strict=True):
            for label, text in zip(ids, found or (), strict=False):
                if text:
                    named[shard][label] = ctx.cache.labels[shard.index, label] = text
    return dict(named)


def read_notes(shard: Shard, rows: Iterable[SessionRow], *more: Call) -> Op[tuple[Labels, Sequence[Any]]]:
    """The texts that staff wrote about the ends of these rows, and the replies to ``more``. No round trip where there
    is nothing to read."""
    ids = sorted({note for row in rows for note in (row.note, row.message) if note})
    if not ids and not more:
        return NO_LABELS, ()
    keys = [shard.note(note.decode("ascii", "replace")) for note in ids]
    replies = yield [*(command(key, "GET", key) for key in keys), *more]
    texts = {note: value for note, value in zip(ids, replies, strict=False) if isinstance(value, bytes)}
    return texts, replies[len(ids) :]
