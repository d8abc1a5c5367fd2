"""What the facts that `health` has gathered mean, and what to do about them. Of each server: ``server_findings``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from presence_core.errors import CorruptData, PresenceError, Unavailable
from presence_core.models import LEVELS, Finding, Health, NodeHealth, SentinelHealth, Spread, WorkerStatus
from presence_core.operations.server_findings import of_sentinels, of_servers
from presence_core.settings import Settings

if TYPE_CHECKING:
    from datetime import datetime

LAG_SECONDS: Final = 60
WRITES: Final = (
    "evalsha", "expire", "hdel", "hincrby", "hset", "hsetnx", "persist", "pexpireat", "rename", "sadd", "set",
    "setrange", "srem", "unlink", "xadd", "xdel", "xsetid", "xtrim", "zadd", "zrem", "zremrangebyrank",
)  # fmt: skip
_PERMIT: Final = "Give the ACL user what docs/architecture.md lists under “The ACL of a site”."


@dataclass(slots=True)
class Known:
    """What has been found out so far."""

    settings: Settings
    is_cluster: bool
    nodes: list[NodeHealth] = field(default_factory=list)
    silent: dict[str, Unavailable] = field(default_factory=dict)  #: nodes that do not answer
    failure: PresenceError | None = None  #: what ended the questions early
    schema: int | None = None
    moving: int = 0  #: shards that a move which has not ended is to end with
    served: dict[int, str] = field(default_factory=dict)  #: shard → node
    lengths: dict[int, tuple[int, ...]] = field(default_factory=dict)  #: shard → sessions, deadlines, users; or -1
    keys: list[int] = field(default_factory=list)  #: of each shard; none where the server does not tell
    refused: dict[str, list[str]] = field(default_factory=dict)  #: tag → commands
    could_ask: bool = True  #: Redis tells what it permits
    users: int | None = None
    sessions: int | None = None
    indexes: tuple[str, ...] | None = None
    drifted: set[int] | None = None  #: shards whose facets do not add up
    worker: WorkerStatus | None = None
    knows_worker: bool = False
    lag: float | None = None
    swept_at: datetime | None = None
    sentinels: SentinelHealth | None = None
    ended_complete_since: datetime | None = None

    def lists_off(self) -> set[int]:
        """Shards whose lists cannot be of the same sessions."""
        return {
            shard
            for shard, (sessions, deadlines, users) in self.lengths.items()
            if min(sessions, deadlines, users) >= 0
            and (sessions != deadlines or users > sessions or (users > 0) != (sessions > 0))
        }


def judged(known: Known) -> Health:
    """The facts and what they mean."""
    served = list(known.served.values())
    nodes = tuple(replace(node, shards=served.count(node.address) if served else None) for node in known.nodes)
    known.nodes = list(nodes)
    found = [*of_servers(nodes, known.settings), *of_sentinels(nodes, known.sentinels), *_of_namespace(known)]
    return Health(
        nodes=nodes,
        findings=tuple(sorted(found, key=lambda one: -LEVELS.index(one.level))),
        schema=known.schema,
        shards=len(served) or None,
        users=known.users,
        sessions=known.sessions,
        sessions_per_shard=spread([some[0] for some in known.lengths.values() if some[0] >= 0]),
        keys_per_shard=spread(known.keys),
        shards_per_node=spread([node.shards for node in nodes if node.shards is not None]),
        indexes=known.indexes,
        indexes_wanted=known.settings.indexes,
        disagreeing=None if known.drifted is None else tuple(sorted(known.lists_off() | known.drifted)),
        worker=known.worker,
        lag_seconds=known.lag,
        swept_at=known.swept_at,
        sentinels=known.sentinels,
        ended_complete_since=known.ended_complete_since,
    )


def spread(numbers: Sequence[int]) -> Spread | None:
    """None of nothing."""
    return Spread(min(numbers), sum(numbers) / len(numbers), max(numbers)) if numbers else None


def _of_namespace(known: Known) -> Iterator[Finding]:
    for error in known.silent.values():
        yield Finding("error", "cluster", str(error), "Sessions of its shards cannot be reached until it is back.")
    yield from _permissions(known)
    if isinstance(known.failure, CorruptData):
        yield Finding("error", "data", str(known.failure), "See who else writes there; then run presence repair.")
    if known.moving:
        yield Finding(
            "warning",
            "data",
            f"They are being moved to {known.moving} shards, or that was begun and broke off.",
            f"Where nobody is at it, run presence migrate --shards {known.moving} again.",
        )
    yield from _agreement(known)
    if known.ended_complete_since is not None:
        yield Finding(
            "note",
            "ended sessions",
            f"Ended sessions are complete since {known.ended_complete_since:%Y-%m-%d %H:%M:%S} UTC.",
            "There were more than max_ended: older ones went before their time. Raise it if the memory allows.",
        )
    if known.knows_worker:
        yield from _worker(known)
    yield from _spread(known)


def _permissions(known: Known) -> Iterator[Finding]:
    settings = known.settings
    commands = sorted({one for some in known.refused.values() for one in some})
    if commands:
        only_writes = set(commands) <= set(WRITES) and not settings.heal
        on = ", ".join(list(known.refused)[:3]) + (", …" if len(known.refused) > 3 else "")
        text = f"The ACL user may not run {', '.join(commands)} on keys that begin with {on}."
        yield Finding("note" if only_writes else "error", "permissions", text, _PERMIT)
    elif isinstance(known.failure, Unavailable) and known.failure.code == "NOPERM":
        yield Finding("error", "permissions", str(known.failure), _PERMIT)
    elif not known.could_ask:
        yield Finding("note", "permissions", "The server does not tell which commands it permits.")
    elif known.lengths:
        yield Finding("ok", "permissions", "All commands that sessions need are permitted.")


def _agreement(known: Known) -> Iterator[Finding]:
    if known.indexes is None:
        return
    missing = [one for one in known.settings.indexes if one not in known.indexes]
    if missing:
        yield Finding(
            "warning",
            "indexes",
            f"Not whole: {', '.join(missing)}; searches by them walk the list.",
            "Run presence reindex.",
        )
    spare = [one for one in known.indexes if one not in known.settings.indexes]
    if spare:
        yield Finding(
            "note",
            "indexes",
            f"Kept, but not in these settings: {', '.join(spare)}.",
            "Give all processes the same PRESENCE_INDEXES; to drop it, run presence reindex.",
        )
    lists = known.lists_off()
    if lists:
        yield Finding(
            "warning", "indexes", f"The lists of {_shards(lists)} are not of the same sessions.", "Run presence repair."
        )
    off = (known.drifted or set()) - lists
    if off:
        cared_for = known.worker is not None and known.worker.alive and not known.worker.paused
        yield Finding(
            "note" if cared_for else "warning",
            "indexes",
            f"The facets of {_shards(off)} do not add up.",
            "The worker counts them anew within a minute." if cared_for else "Run presence repair.",
        )
    if not (missing or spare or lists or off or known.drifted is None):
        yield Finding("ok", "indexes", f"Whole and in agreement: {', '.join(known.indexes) or 'none is kept'}.")


def _shards(some: Iterable[int]) -> str:
    numbers = sorted(some)
    named = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    return f"shard{'' if len(numbers) == 1 else 's'} {named}"


def _worker(known: Known) -> Iterator[Finding]:
    worker, advice = known.worker, "Run presence worker, or Worker(presence) in a process of your own."
    idle = "sessions end on time, but memory, the count of users and the history wait"
    if worker is None:
        yield Finding("warning", "worker", f"No worker has ever run here: {idle}.", advice)
    elif not worker.alive:
        yield Finding(
            "warning",
            "worker",
            f"No worker runs, the last was heard of at {worker.beat:%Y-%m-%d %H:%M:%S} UTC: {idle}.",
            advice,
        )
    elif worker.paused:
        yield Finding(
            "error", "worker", worker.paused, "See which clock is right; then presence worker --accept-clock."
        )
    elif known.lag is not None and known.lag > LAG_SECONDS:
        yield Finding(
            "warning",
            "worker",
            f"{worker.leader} leads, but sweeps are {known.lag:,.0f} s behind.",
            "Look at its log, and at the load of Redis.",
        )
    else:
        yield Finding("ok", "worker", f"{worker.leader} leads, {known.lag or 0:.1f} s behind.")


def _spread(known: Known) -> Iterator[Finding]:
    if not known.is_cluster or not known.served:
        return
    empty = [node.address for node in known.nodes if node.shards == 0]
    number = len(known.served)
    if empty:
        yield Finding(
            "note",
            "spread",
            f"{', '.join(empty)} serves none of the {number} shards.",
            "More shards spread better; their number is fixed when a namespace begins.",
        )
    sizes = spread([some[0] for some in known.lengths.values()])
    if sizes and sizes.mean >= 100 and sizes.most > 2 * sizes.mean:
        yield Finding(
            "note",
            "spread",
            f"The largest shard has {sizes.most:,} sessions, {sizes.mean:,.0f} is the mean.",
            "See whether one user or one test has very many.",
        )
    elif not empty and sizes:
        yield Finding(
            "ok",
            "spread",
            f"{number} shards on {len(known.nodes)} nodes, {sizes.least:,} to {sizes.most:,} sessions each.",
        )
