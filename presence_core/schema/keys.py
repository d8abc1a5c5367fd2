"""Every family of keys: one row each. The keyspace, type checks, the reshard and ``erase`` follow this table. Tests
compare docs/keys.md, docs/run/privacy.md and the ACL users of docs/run/acl.md with it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

KeyType = Literal["ZSET", "HASH", "SET", "STREAM", "STRING"]

Copied = Literal["user", "record", "first", "by_ref", "by_uid", "shared", "final", "rebuilt", "no"]
"""How a reshard copies a key. ``user``, ``record``: as it is, to the shard of its user. ``first``: as it is, from the
first shard to the first. ``by_ref``, ``by_uid``: its members go to the shards of their users. ``shared``: where a
session names it. ``final``: at the end, while the shards are frozen. ``rebuilt``: afterwards. ``no``: it stays
behind."""

Personal = Literal["", "own", "entries", "texts"]
"""What ``erase`` does with a key. ``own``: removes it, because it is about one person. ``entries``: removes their
entries. ``texts``: puts a pseudonym into its texts."""


class Family(NamedTuple):
    """Keys of one kind."""

    key: str  #: the name behind the tag; with <…> there is one key for each
    type: KeyType
    copied: Copied
    person: Personal = ""
    writers: str = ""  #: the ACL users of docs/run/acl.md that may write it

    @property
    def prefix(self) -> str:
        """The name up to the part that differs."""
        return self.key.partition("<")[0]


_ENDING: Final = "site worker support"
"""What ends sessions, and so writes the keys of any end."""

SHARD: Final = (
    Family("sessions", "ZSET", "by_ref", "entries", writers=_ENDING),
    Family("deadlines", "ZSET", "by_ref", "entries", writers=_ENDING),
    Family("users", "ZSET", "by_uid", "entries", writers=_ENDING),
    Family("on_behalf", "ZSET", "final", "entries", writers=_ENDING),
    Family("user:<uid>", "SET", "user", "own", writers=_ENDING),
    Family("session:<uid>:<sid>", "HASH", "record", "own", writers=_ENDING),
    Family("rotated:<uid>:<sid>", "STRING", "no", "own", writers="site"),
    Family("devices:<uid>", "HASH", "user", "own", writers=_ENDING),
    Family("known:<uid>", "HASH", "user", "own", _ENDING),
    Family("place:<uid>", "STRING", "user", "own", writers="site"),
    Family("signins:<uid>", "STRING", "user", "own", writers="site worker"),
    Family("failed", "ZSET", "by_ref", "entries", writers="site"),
    Family("failed:<uid>", "HASH", "user", "own", writers="site"),
    Family("failed_names", "ZSET", "no", "entries", writers="site"),
    Family("failed_names:<digest>", "HASH", "no", "entries", writers="site"),
    Family("failed_from", "HASH", "no", writers="site"),
    Family("closing", "HASH", "final", "entries", writers=_ENDING),
    Family("labels", "HASH", "shared", "entries", writers="site"),
    Family("totals", "HASH", "final", writers=_ENDING),
    Family("events", "STREAM", "no", "entries", _ENDING),
    Family("meta", "HASH", "final", writers=_ENDING),
    Family("people", "ZSET", "by_uid", "entries", _ENDING),
    Family("person:<uid>", "HASH", "user", "own", _ENDING),
    Family("ended", "ZSET", "by_ref", "entries", _ENDING),
    Family("ended:<uid>", "ZSET", "user", "own", writers=_ENDING),
    Family("note:<id>", "STRING", "shared", "texts", writers=_ENDING),
    Family("words", "ZSET", "rebuilt", "entries", writers="site worker"),
    Family("ids", "HASH", "rebuilt", writers="site worker"),
    Family("addresses", "ZSET", "rebuilt", "entries", writers=_ENDING),
    Family("idp", "ZSET", "rebuilt", "entries", writers="site worker"),
    Family("facets", "HASH", "rebuilt", writers=_ENDING),
    Family("recount", "HASH", "rebuilt", writers=_ENDING),
    Family("counted", "SET", "rebuilt", "entries", writers=_ENDING),
    Family("audit", "STREAM", "final", "texts", _ENDING),
    Family("block:<uid>", "HASH", "user", "own", writers=_ENDING),
    Family("blocks", "ZSET", "by_uid", "entries", writers=_ENDING),
    Family("block_rules", "HASH", "final", "texts", writers=_ENDING),
    Family("remarks:<uid>", "HASH", "user", "own", writers="support"),
    Family("remarked", "ZSET", "by_uid", "entries", writers="support"),
    Family("notices:<uid>", "HASH", "user", "own", writers="site worker"),
    Family("notice_queue", "ZSET", "by_uid", "entries", writers="site worker"),
    Family("staff", "HASH", "first"),
    Family("saved", "HASH", "first", "texts", writers="support"),
    Family("approvals", "HASH", "first", "texts", writers="support"),
    Family("job:<id>", "HASH", "first", "texts", writers="worker support"),
    Family("jobs", "ZSET", "first", writers="worker support"),
    Family("running", "SET", "first", writers="worker support"),
    Family("moved", "HASH", "no", writers=_ENDING),
    Family("retold:<random>", "STREAM", "no"),
)
"""The families of each shard."""

COMMON: Final = (
    Family("viewers:<uid>", "HASH", "no", "own", writers="viewer support"),
    Family("denied", "HASH", "no", "texts", "worker viewer support"),
    Family("keys", "HASH", "no"),
    Family("logout:<digest>", "STRING", "no", writers="site"),
    Family("notice", "HASH", "no", writers="site worker"),
    Family("history:<step>:<period>", "STRING", "no", writers="worker"),
    Family("history:split:<day>", "HASH", "no", writers="worker"),
    Family("history", "HASH", "no", writers="worker"),
    Family("worker", "HASH", "no", writers="worker"),
    Family("top", "HASH", "no", "own", writers="worker"),
    Family("mirror", "HASH", "no", writers="site"),
    Family("layout", "HASH", "no", writers="site worker"),
    Family("moving", "HASH", "no"),
    Family("visitors", "ZSET", "no"),
    Family("visits:<minute>", "SET", "no"),
)
"""The families that a namespace has once; a reshard does not touch them.

The fields of hashes that several modules write (times in ms):

``meta``: ``swept``, when a sweep last finished. ``revoked``, the watermark of ``revoke_before``, with ``revoked_at``,
``_by``, ``_note``, ``_message``; on the first shard ``revoked_call``, the id of the latest call, so that a repeated one
is audited once. ``rules``, the kinds of fields in ``block_rules`` ("4/24 6/48 app"); ``rules_version``, their last
change. ``floor``: later logins get a later time; a bulk kick sets it. ``demanded``, the latest ``require_sign_in``.
``good_from``, ``good_until``, ``good_wall``: the clock that the worker has checked. ``indexes``, the complete ones with
the version of their fold. ``recount``: a rebuild of the facets is under way. ``confirmed``, a small write in front of
``WAIT``. ``retold``, how often an erasure has rewritten a stream. ``truncated``: addresses of earlier ends are
truncated. ``ended_from``, since when ``ended`` is complete. ``no_address``, ``no_address_at``: logins without an
address while a block rule names a network.

``layout``: ``schema``, ``shards``, ``born``, ``indexes``, ``was``, ``moved_at``, ``device_keys``
(operations/layout.py); ``lost``, when a client found another layout, and its shards; ``pseudonyms``, the secret behind
those of erased persons; of a reshard ``begun``, ``copy``, ``step``, ``from``, ``token``, ``sealed``, ``servers``.

``moved``: ``state`` (copying, frozen, coming, moved), ``token``, ``copy``; each changed key with the number of its
change, and ``changes``, the last number; ``there``, which a sweep writes while a slot moves.

``job``: JOB_FIELDS (models/staff.py); ``frozen``, ``exclude``, ``needs``, ``cursor``, ``missed``; the runner's
``owner``, ``beat``, ``epoch``; ``closed``: the audit has the final number. On every shard ``kicked`` and ``fence``.

``worker``: ``token``, ``who``, ``since``, ``beat``, ``ttl``; ``redis`` and ``wall``, the clocks when they last agreed;
``accepted``, ``last_run``, ``lag``, ``paused``; ``alerts``, ``failure_alerts``, JSON; ``people_at``.

``audit``, a stream: ``at``, ``by``, ``what``, ``uid``, ``session``, ``reason``, ``message``, ``ticket``; the result in
``facts``, ``outcome``, ``ended``, ``demanded``, ``until``, ``was``; ``filter`` of bulk changes; ``was_until``,
``was_by``, ``was_ticket``, ``tickets``, ``asked`` of an earlier block; ``again``: after a failover.
"""

_BY_PREFIX: Final = {family.prefix: family for family in (*SHARD, *COMMON)}


def family_of(name: str) -> Family | None:
    """The family of a key, by its name behind the tag; None for a key that is not ours."""
    head, colon, rest = name.partition(":")
    return _BY_PREFIX.get(f"{head}:{rest.partition(':')[0]}:") or _BY_PREFIX.get(head + colon)


def copied_as(*copied: Copied) -> tuple[str, ...]:
    """The prefixes of the families that a reshard copies in one of these ways."""
    return tuple(family.prefix for family in SHARD if family.copied in copied)
