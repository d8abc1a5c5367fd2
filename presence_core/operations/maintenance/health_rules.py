"""What the facts that ``health`` has read mean, and what to do. The rules for each server are in ``server_rules``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from presence_core.errors import RENAMED, CorruptData, PresenceError, Unavailable
from presence_core.models import (
    LEVELS,
    START_A_WORKER,
    Finding,
    Health,
    NodeHealth,
    NoticeReport,
    SentinelHealth,
    Spread,
    WorkerStatus,
    moment,
    no_worker,
)
from presence_core.operations.maintenance.acl_users import WORKER, WRITES, AclUser
from presence_core.operations.maintenance.notice_rules import of_notices
from presence_core.operations.maintenance.server_rules import of_sentinels, of_servers
from presence_core.settings import Settings

if TYPE_CHECKING:
    from datetime import datetime

LAG_SECONDS: Final = 60
LOSS_SHOWN: Final = 7 * 86_400_000
"""How long a loss of all data is reported, ms."""
_PERMIT: Final = "Give the ACL user the rights that docs/run/acl.md lists under “Who may do what”."


_GIVE_BACK: Final = "Remove its rename-command lines from the server's configuration, and restart it."


class ListLengths(NamedTuple):
    """The lengths of one shard's lists; -1 for a list that could not be read."""

    sessions: int
    deadlines: int
    users: int

    @property
    def disagree(self) -> bool:
        """They cannot be lists of the same sessions."""
        sessions, deadlines, users = self
        return min(self) >= 0 and (sessions != deadlines or users > sessions or (users > 0) != (sessions > 0))


@dataclass(slots=True)
class HealthFacts:
    """What has been read so far."""

    settings: Settings
    is_cluster: bool
    nodes: list[NodeHealth] = field(default_factory=list)
    refused_connections: Sequence[str] = ()  #: why servers let no new connection in
    silent: dict[str, Unavailable] = field(default_factory=dict)  #: by address: nodes that did not reply
    failure: PresenceError | None = None  #: the error that ended the reading early
    schema: int | None = None
    reshard_to: int = 0  #: the number of shards that a reshard which has not ended leads to
    lost_at: int | None = None  #: when a client found that the data it used is gone, ms
    lost_shards: int = 0  #: the number of shards that it used
    now: int | None = None  #: by the clock of Redis, ms
    records_looked_at: int = 0
    records_missing: int = 0  #: of these: the session is listed, and its record is gone
    common_tag: str = ""  #: of the keys that a namespace has once
    served: dict[int, str] = field(default_factory=dict)  #: shard → node
    lengths: dict[int, ListLengths] = field(default_factory=dict)  #: by shard
    keys: list[int] = field(default_factory=list)  #: of each shard; empty where the server does not report it
    refused: dict[str, set[str]] = field(default_factory=dict)  #: tag → commands that the ACL user may not run
    acl_users: Sequence[AclUser] = ()  #: those of docs/run/acl.md whose keys it may write
    missing: set[str] = field(default_factory=set)  #: commands that a server does not have
    could_ask: bool = True  #: Redis answers which commands it permits
    users: int | None = None
    sessions: int | None = None
    indexes: tuple[str, ...] | None = None
    drifted: set[int] | None = None  #: shards whose facets do not match their sessions
    worker: WorkerStatus | None = None
    knows_worker: bool = False
    lag: float | None = None
    swept_at: datetime | None = None
    sentinels: SentinelHealth | None = None
    ended_complete_since: datetime | None = None
    sign_ins_of: int = 0  #: how many users have a sign-in history, estimated
    sign_in_bytes: int = 0  #: what a history takes in memory, estimated
    notices: NoticeReport | None = None
    logins_without_address: int = 0  #: while a block rule named a network

    @property
    def disagreeing(self) -> set[int]:
        """Shards whose lists name different sessions."""
        return {shard for shard, lengths in self.lengths.items() if lengths.disagree}


def judge(facts: HealthFacts) -> Health:
    """The facts with their findings."""
    served = list(facts.served.values())
    nodes = tuple(replace(node, shards=served.count(node.address) if served else None) for node in facts.nodes)
    findings = [
        *of_servers(nodes, facts.settings),
        *of_sentinels(nodes, facts.sentinels),
        *_of_data(facts),
        *_of_worker(facts),
        *of_notices(facts.notices),
        *_of_spread(facts, nodes),
    ]
    return Health(
        nodes=nodes,
        findings=tuple(sorted(findings, key=lambda finding: -LEVELS.index(finding.level))),
        schema=facts.schema,
        shards=len(served) or None,
        users=facts.users,
        sessions=facts.sessions,
        sessions_per_shard=spread([lengths.sessions for lengths in facts.lengths.values() if lengths.sessions >= 0]),
        keys_per_shard=spread(facts.keys),
        shards_per_node=spread([node.shards for node in nodes if node.shards is not None]),
        indexes=facts.indexes,
        indexes_wanted=facts.settings.indexes,
        disagreeing=None if facts.drifted is None else tuple(sorted(facts.disagreeing | facts.drifted)),
        worker=facts.worker,
        lag_seconds=facts.lag,
        swept_at=facts.swept_at,
        sentinels=facts.sentinels,
        ended_complete_since=facts.ended_complete_since,
        sign_ins_memory=facts.sign_ins_of * facts.sign_in_bytes or None,
    )


def spread(numbers: Sequence[int]) -> Spread | None:
    """None for no numbers."""
    return Spread(min(numbers), sum(numbers) / len(numbers), max(numbers)) if numbers else None


def _of_data(facts: HealthFacts) -> Iterator[Finding]:
    for error in facts.silent.values():
        yield Finding("error", "cluster", str(error), "Sessions of its shards are unavailable until it is back.")
    for reason in facts.refused_connections:
        text = f"A new connection is refused, and calls work only on those that are open: {reason}"
        yield Finding("error", "connections", text, "Give every process the password that the server has now.")
    yield from _of_permissions(facts)
    if isinstance(facts.failure, CorruptData):
        advice = "Find the other program that writes there; then run presence repair."
        yield Finding("error", "data", str(facts.failure), advice)
    if facts.reshard_to:
        text = f"Data of two layouts: a reshard to {facts.reshard_to} shards is running, or was interrupted."
        advice = f"If no process runs it, run presence reshard --shards {facts.reshard_to} again."
        yield Finding("warning", "data", text, advice)
    yield from _of_losses(facts)
    yield from _of_addresses(facts)
    yield from _of_sign_ins(facts)
    if facts.indexes is not None:
        yield from _of_indexes(facts, facts.indexes)
    if facts.ended_complete_since is not None:
        text = f"Ended sessions are complete since {facts.ended_complete_since:%Y-%m-%d %H:%M:%S} UTC."
        advice = "Older ones were removed early, because there were more than max_ended. Raise it if memory allows."
        yield Finding("note", "ended sessions", text, advice)


def _of_addresses(facts: HealthFacts) -> Iterator[Finding]:
    if facts.logins_without_address:
        yield Finding(
            "warning",
            "addresses",
            f"{facts.logins_without_address:,} logins came without a readable address, the latest within a day: block "
            "rules of networks could not match them.",
            "Set trusted_proxies and address_from of the site's Rules, or no_address to refuse such logins.",
        )


def _of_sign_ins(facts: HealthFacts) -> Iterator[Finding]:
    if facts.sign_ins_of:
        megabytes = facts.sign_ins_of * facts.sign_in_bytes / 1e6
        yield Finding(
            "ok",
            "sign-ins",
            f"The sign-in histories of about {facts.sign_ins_of:,} users take about {megabytes:,.1f} MB, "
            f"{facts.sign_in_bytes:,} bytes each.",
        )


def _of_losses(facts: HealthFacts) -> Iterator[Finding]:
    if facts.lost_at is not None and facts.now is not None and facts.now - facts.lost_at < LOSS_SHOWN:
        at, shards = f"{moment(facts.lost_at):%Y-%m-%d %H:%M:%S} UTC", len(facts.served)
        changed = f", and then it had {shards} shards instead of {facts.lost_shards}"
        text = (
            f"At {at} all data of this namespace was gone{changed if shards != facts.lost_shards else ''} (FLUSHDB, a "
            "restart without persistence, or a snapshot): users are signed out, and blocks, jobs and history are lost."
        )
        yield Finding("warning", "data", text, "Find out what removed it, and set blocks again.")
    if facts.records_missing > facts.records_looked_at // 10:
        text = (
            f"{facts.records_missing} of {facts.records_looked_at} listed sessions have lost their record: Redis "
            "deleted it (its clock was ahead by more than a day, or keys were evicted), and these users are signed out."
        )
        yield Finding("error", "data", text, "Run presence repair. docs/run/worker.md says how to prevent it.")


def _of_permissions(facts: HealthFacts) -> Iterator[Finding]:
    if facts.missing:
        text = f"The server does not have {', '.join(sorted(facts.missing))}: a call that needs one changes nothing."
        yield Finding("error", "permissions", text, _GIVE_BACK)
    if facts.refused:
        finding = _of_refused(facts)
        yield finding
        if finding.level == "error":
            return
    if facts.missing:
        return
    if isinstance(facts.failure, Unavailable) and facts.failure.code == "NOPERM":
        text = str(facts.failure)
        yield Finding("error", "permissions", text, _GIVE_BACK if RENAMED in text else _PERMIT)
    elif not facts.could_ask:
        yield Finding("note", "permissions", "The server does not report which commands it permits.")
    elif facts.lengths and not facts.refused:
        yield Finding("ok", "permissions", "All commands that sessions need are permitted.")


def _of_refused(facts: HealthFacts) -> Finding:
    needed = {tag: names for tag, refused in facts.refused.items() if (names := refused - _not_needed(facts, tag))}
    if needed:
        tags = ", ".join(list(needed)[:3]) + (", …" if len(needed) > 3 else "")
        text = f"The ACL user may not run {_names(needed)} on keys that begin with {tags}."
        return Finding("error", "permissions", text, _PERMIT)
    users = " and ".join(f"presence-{user.name}" for user in facts.acl_users)
    commands = _names({tag: refused for tag, refused in facts.refused.items() if tag != facts.common_tag})
    changes = "" if WORKER in facts.acl_users else "changes of the worker's keys"
    left_out = ", ".join(filter(None, (commands, changes)))
    return Finding("note", "permissions", f"Checked as {users}. Not permitted, nor needed there: {left_out}.")


def _not_needed(facts: HealthFacts, tag: str) -> frozenset[str]:
    """The commands that none of the tasks of this user runs on keys of the tag."""
    if not facts.acl_users:
        return frozenset()
    not_needed = frozenset.intersection(*(user.not_needed for user in facts.acl_users))
    return not_needed | WRITES if tag == facts.common_tag and WORKER not in facts.acl_users else not_needed


def _names(refused: Mapping[str, set[str]]) -> str:
    return ", ".join(sorted(set().union(*refused.values())))


def _of_indexes(facts: HealthFacts, complete: tuple[str, ...]) -> Iterator[Finding]:
    wanted = facts.settings.indexes
    missing = [name for name in wanted if name not in complete]
    unused = [name for name in complete if name not in wanted]
    if missing:
        text = f"Index incomplete: {', '.join(missing)}. Searches that need it scan all sessions."
        yield Finding("warning", "indexes", text, "Run presence reindex.")
    if unused:
        advice = "Set the same PRESENCE_INDEXES in every process. To remove the index, run presence reindex."
        yield Finding("note", "indexes", f"Index not in these settings: {', '.join(unused)}.", advice)
    if facts.disagreeing:
        text = f"The lists of {_shards(facts.disagreeing)} name different sessions."
        yield Finding("warning", "indexes", text, "Run presence repair.")
    off = (facts.drifted or set()) - facts.disagreeing
    if off:
        text = f"The facets of {_shards(off)} do not match the sessions."
        if facts.worker is not None and facts.worker.alive and not facts.worker.paused:
            yield Finding("note", "indexes", text, "The worker counts them again within a minute.")
        else:
            yield Finding("warning", "indexes", text, "Run presence repair.")
    if not (missing or unused or facts.disagreeing or off or facts.drifted is None):
        yield Finding("ok", "indexes", f"Complete and consistent: {', '.join(complete) or 'no index'}.")


def _shards(numbers: Iterable[int]) -> str:
    ordered = sorted(numbers)
    named = ", ".join(map(str, ordered[:5])) + (", …" if len(ordered) > 5 else "")
    return f"shard{'' if len(ordered) == 1 else 's'} {named}"


def _of_worker(facts: HealthFacts) -> Iterator[Finding]:
    if not facts.knows_worker:
        return
    worker = facts.worker
    if worker is None or not worker.alive:
        yield Finding("warning", "worker", no_worker(worker.beat if worker else None), START_A_WORKER)
    elif worker.paused:
        advice = "Check which clock is right; then run presence worker --accept-clock."
        yield Finding("error", "worker", worker.paused, advice)
    elif facts.lag is not None and facts.lag > LAG_SECONDS:
        text = f"{worker.leader} leads, but sweeps are {facts.lag:,.0f} s behind."
        yield Finding("warning", "worker", text, "Check its log, and the load of Redis.")
    else:
        yield Finding("ok", "worker", f"{worker.leader} leads, {facts.lag or 0:.1f} s behind.")


def _of_spread(facts: HealthFacts, nodes: Sequence[NodeHealth]) -> Iterator[Finding]:
    if not facts.is_cluster or not facts.served:
        return
    number, empty = len(facts.served), [node.address for node in nodes if node.shards == 0]
    if empty:
        text = f"{', '.join(empty)} serves none of the {number} shards."
        yield Finding("note", "spread", text, "More shards spread better: presence reshard changes their number.")
    sizes = spread([lengths.sessions for lengths in facts.lengths.values()])
    if sizes and sizes.mean >= 100 and sizes.most > 2 * sizes.mean:
        text = f"The largest shard has {sizes.most:,} sessions, the mean is {sizes.mean:,.0f}."
        yield Finding("note", "spread", text, "Check whether one user or one test has very many.")
    elif not empty and sizes:
        text = f"{number} shards on {len(nodes)} nodes, {sizes.least:,} to {sizes.most:,} sessions each."
        yield Finding("ok", "spread", text)
