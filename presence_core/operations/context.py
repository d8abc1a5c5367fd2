"""What every operation needs to know, and the decoding that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from presence_core.keyspace import Keyspace, Shard
from presence_core.models import INLINE, NO_LABEL, NO_LABELS, Ended, Labels, Session
from presence_core.scripts import Call, Op, command
from presence_core.settings import INDEXES, Settings

UNKNOWN, LIVE, ENDED, DIRTY = range(4)
"""What a session is right now, as ``include/record.lua`` answers it."""

MAX_KNOWN_LABELS = 65_536

END_PLACE = {b"e": 8, b"ea": 9, b"ec": 10, b"eb": 11, b"en": 12, b"et": 13, b"em": 14, b"er": 15}


@dataclass(slots=True)
class Context:
    """Settings, the keyspace (known once the layout has been read), and what only a client may do."""

    settings: Settings
    is_cluster: bool
    new_id: Callable[[], str]  #: a session id: 22 URL-safe characters
    new_secret: Callable[[], bytes]  #: 256 random bits
    random: Callable[[], int]  #: where to look, never for secrets
    clock: Callable[[], float]  #: seconds, which never go back
    server_of: Callable[[str], str]  #: the address of the server that a key is on, as far as known
    now: str = ""  #: ms; only tests set it: scripts read the clock of Redis
    keyspace: Keyspace | None = None
    policy: bytes = b""
    indexes: frozenset[str] = frozenset()  #: what logins write: those that are asked for, and those that are in use
    complete: frozenset[str] = frozenset()  #: what queries may rely on
    is_guess: bool = False  #: the layout has not been written down yet
    look_at: float = 0.0  #: when to look at the layout again, by ``clock``
    held: dict[Any, Any] = field(default_factory=dict)  #: by name, see confirming.py
    not_held: int = 0  #: changes for which there was no room
    labels: dict[tuple[int, bytes], bytes] = field(default_factory=dict)  #: (shard, label id) → text, as once read

    @property
    def keys(self) -> Keyspace:
        assert self.keyspace is not None, "the client reads the layout first"
        return self.keyspace

    def adopt(self, shards: int, complete: bytes | None, *, is_guess: bool = False) -> None:
        """The layout is known; or guessed, by a reader that may not write it down, until the next call."""
        self.is_guess = is_guess
        self.know_indexes([complete or b""])
        if self.keyspace is not None and len(self.keyspace.shards) == shards:
            return
        self.labels.clear()  # they are named by shard
        self.keyspace = Keyspace(self.settings.namespace, shards)
        self.policy = self.settings.policy(shards)

    def know_indexes(self, stored: Iterable[bytes]) -> None:
        """Which indexes are whole: those that every shard says are."""
        self.complete = frozenset(INDEXES).intersection(*(one.decode().split(",") for one in stored))
        self.indexes = self.complete | set(self.settings.indexes)

    @property
    def audit_cap(self) -> int:
        """Staff actions that one shard keeps."""
        return max(1, self.settings.max_audit // len(self.keys.shards))

    def shard(self, uid: str) -> Shard:
        return self.keys.shard(uid)


def pairs(reply: Any) -> list[tuple[bytes, bytes]]:
    """A hash as it arrives: flat by RESP2, and from any script, a dict by RESP3."""
    return list(reply.items()) if isinstance(reply, dict) else list(zip(reply[::2], reply[1::2], strict=True))


def book(flat: Sequence[bytes | None]) -> Labels:
    """{id, text, id, text, …} as a mapping."""
    if not flat:
        return NO_LABELS
    return {key: value for key, value in zip(flat[::2], flat[1::2], strict=True) if key and value}


def with_end(row: Sequence[bytes | None], how: Sequence[bytes]) -> Sequence[bytes | None]:
    """A row whose tombstone is still to be written, with the end that `closing` holds for it."""
    full = [*row, *[None] * (16 - len(row))]
    for name, value in zip(how[::2], how[1::2], strict=True):
        full[END_PLACE[name]] = value if isinstance(value, bytes) else str(value).encode()
    return full


@dataclass(slots=True)
class Found:
    """One session as a read found it, not yet decoded."""

    uid: str
    session_id: str
    state: int
    row: Sequence[bytes | None]
    labels: Labels

    def session(self) -> Session:
        return Session.from_reply(self.uid, self.session_id, self.row, self.labels)

    def ended(self, notes: Labels) -> Ended:
        return Ended.from_reply(self.uid, self.session_id, self.row, self.labels, notes)


def found_rows(uid: str, reply: Sequence[Any]) -> list[Found]:
    """Decode what read.lua answers."""
    flat, labels = reply[0], book(reply[1])
    return [
        Found(uid, flat[i].decode("utf-8", "replace"), flat[i + 1], with_end(flat[i + 2], flat[i + 3]), labels)
        for i in range(0, len(flat), 4)
    ]


def label_texts(ctx: Context, rows: Sequence[tuple[Shard, Sequence[bytes | None]]]) -> Op[dict[Shard, Labels]]:
    """What the rows' label ids stand for. An id is made from its text, so what was read once holds; a round trip only
    for texts that this process has not met."""
    named: dict[Shard, dict[bytes, bytes]] = {shard: {} for shard, _ in rows}
    unknown: dict[Shard, list[bytes]] = {}
    for shard, row in rows:
        core = row[1] or b""
        for label in (core[32:36], core[36:40]):
            if label in (NO_LABEL, INLINE) or label in named[shard]:
                continue
            text = ctx.labels.get((shard.index, label))
            named[shard][label] = text or b""
            if text is None:
                unknown.setdefault(shard, []).append(label)
    if unknown:
        replies = yield [
            command(shard.labels, "HMGET", shard.labels, *ids, lenient=True) for shard, ids in unknown.items()
        ]
        if len(ctx.labels) > MAX_KNOWN_LABELS:
            ctx.labels.clear()
        for (shard, ids), texts in zip(unknown.items(), replies, strict=True):
            for label, text in zip(ids, texts or (), strict=False):
                if text:
                    named[shard][label] = ctx.labels[shard.index, label] = text
    return dict(named)


def read_notes(shard: Shard, rows: Iterable[Sequence[bytes | None]], *more: Call) -> Op[tuple[Labels, Sequence[Any]]]:
    """The texts that staff wrote, for those of the rows whose end names any, and the replies to ``more``. No round trip
    where there is nothing to ask."""
    ids = sorted({note for row in rows for note in (row[12], row[14]) if note})
    if not ids and not more:
        return NO_LABELS, ()
    keys = [shard.note(note.decode("ascii", "replace")) for note in ids]
    replies = yield [*(command(key, "GET", key) for key in keys), *more]
    texts = {note: value for note, value in zip(ids, replies, strict=False) if isinstance(value, bytes)}
    return texts, replies[len(ids) :]
