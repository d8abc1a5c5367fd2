"""Every key name, the hash tag, the choice of shard, and the ``uid:session`` codec."""

from __future__ import annotations

from binascii import crc32, crc_hqx
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from presence_core.schema.keys import SHARD, copied_as, family_of

EVEN: Final = (
    45866, 44962, 10902, 11806, 16792, 17696, 27559, 47080, 18122, 19026, 48734, 49630, 41033, 12529, 11625, 10721,
    10831, 11935, 45955, 44851, 22318, 48824, 20110, 21014, 48607, 49703, 17986, 16882, 11716, 10612, 41100, 17368,
    13286, 12382, 43490, 23149, 18789, 13868, 29542, 28446, 16139, 40351, 11443, 10547, 18344, 19240, 26818, 49456,
    57290, 26708, 20376, 21272, 29471, 28575, 68226, 20998, 11570, 10474, 13778, 18899, 48461, 49565, 18277, 19373,
)  # fmt: skip
"""The numbers in the tags of 64 shards: one in each 64th of a cluster's slots, so that 3 to 16 masters with even ranges
have as many shards as one another, give or take one. Plain numbers gave some of 16 masters one shard and others eight.

CRC16 is linear: the text before the number flips the same bits of every slot. The slots of these numbers agree in the
low eight bits and differ in the upper six, for every namespace.
"""


_CHECKS: Final = {
    "ZSET": ("ZCARD",), "HASH": ("HLEN",), "SET": ("SCARD",), "STREAM": ("XLEN",), "STRING": ("GETRANGE", "0", "0"),
}  # fmt: skip
"""By type: a read-only command, and what follows its key."""


def length_of(key: str) -> tuple[str, ...]:
    """A read-only command that fails where this key is of a foreign type; () for other programs' keys."""
    family = family_of(key.partition("}:")[2])
    if family is None:
        return ()
    word, *rest = _CHECKS[family.type]
    return word, key, *rest


def split_ref(ref: str) -> tuple[str, str]:
    """``uid:session`` → its two parts. The LAST colon divides: session ids have none, uids may."""
    uid, _, session_id = ref.rpartition(":")
    return uid, session_id


def digest(value: str, size: int = 8) -> str:
    """A short name for a long text, hex."""
    return blake2b(value.encode(), digest_size=size).hexdigest()


def hashed(key: str) -> str:
    """The part of a key that decides its node on a cluster: the text in its first pair of braces, else all of it."""
    begin = key.find("{")
    end = key.find("}", begin + 1) if begin >= 0 else -1
    return key[begin + 1 : end] if end > begin + 1 else key


def slot(key: str) -> int:
    """The slot of a key, one of a cluster's 16,384."""
    return crc_hqx(hashed(key).encode(), 0) % 16_384


_ONCE: Final = tuple(family.key for family in SHARD if "<" not in family.key)
"""The keys that a shard has once."""


class Shard:
    """The keys of one shard. All of them carry one hash tag, so a script may touch any of them on a cluster."""

    __slots__ = (*_ONCE, "index", "lists", "record_prefix", "tag", "user_prefix")
    sessions: str
    deadlines: str
    users: str
    on_behalf: str
    people: str
    closing: str
    failed: str
    failed_names: str
    failed_from: str
    ended: str
    events: str
    audit: str
    meta: str
    moved: str
    totals: str
    labels: str
    words: str
    addresses: str
    idp: str
    facets: str
    ids: str
    recount: str
    counted: str
    blocks: str
    block_rules: str
    jobs: str
    running: str
    remarked: str
    notice_queue: str
    staff: str
    saved: str
    approvals: str

    def __init__(self, namespace: str, shards: int, index: int) -> None:
        even = shards > 1 and len(EVEN) % shards == 0
        tag = f"{{{namespace}:{shards}:{EVEN[index * (len(EVEN) // shards)] if even else index}}}"
        self.index = index
        self.tag = tag
        for name in _ONCE:
            setattr(self, name, f"{tag}:{name}")
        self.lists = (self.sessions, self.deadlines, self.users, self.people, self.closing, self.ended, self.events,
                      self.totals, self.meta, self.addresses, self.facets, self.recount, self.counted)  # fmt: skip
        self.user_prefix = f"{tag}:user:"
        self.record_prefix = f"{tag}:session:"

    def user(self, uid: str) -> str:
        """SET: the user's live session ids."""
        return f"{self.user_prefix}{uid}"

    def record(self, uid: str, session_id: str) -> str:
        """HASH: the session's record; after its end, the tombstone."""
        return f"{self.record_prefix}{uid}:{session_id}"

    def rotated(self, uid: str, session_id: str) -> str:
        """STRING: the nonces of the session's latest secrets, as long as a grace lasts."""
        return f"{self.tag}:rotated:{uid}:{session_id}"

    def note(self, note_id: str) -> str:
        """STRING: a text that staff wrote, kept once however many ends share it."""
        return f"{self.tag}:note:{note_id}"

    def block(self, uid: str) -> str:
        """HASH: the block of this user."""
        return f"{self.tag}:block:{uid}"

    def job(self, job_id: str) -> str:
        """HASH: how many sessions of this shard a bulk kick has ended; on the first shard the job itself, too."""
        return f"{self.tag}:job:{job_id}"

    def retold(self, token: str) -> str:
        """STREAM: a copy of a stream without a person, until it replaces the stream."""
        return f"{self.tag}:retold:{token}"

    def person(self, uid: str) -> str:
        """HASH: name and aliases of a person who is offline."""
        return f"{self.tag}:person:{uid}"

    def known(self, uid: str) -> str:
        """HASH: digest of a device → the user's last login on it."""
        return f"{self.tag}:known:{uid}"

    def place(self, uid: str) -> str:
        """STRING: time and place of the user's last login with a known place."""
        return f"{self.tag}:place:{uid}"

    def sign_ins(self, uid: str) -> str:
        """STRING: the user's latest sign-ins."""
        return f"{self.tag}:signins:{uid}"

    def failures(self, uid: str) -> str:
        """HASH: the failed sign-ins of this user, by reason and address."""
        return f"{self.tag}:failed:{uid}"

    def failures_of_name(self, name_digest: str) -> str:
        """HASH: those of a text that is no uid of a known person, by its digest."""
        return f"{self.tag}:failed_names:{name_digest}"

    def remarks(self, uid: str) -> str:
        """HASH: id → a remark of staff on this user."""
        return f"{self.tag}:remarks:{uid}"

    def notices(self, uid: str) -> str:
        """HASH: id → a notice to this user about a login."""
        return f"{self.tag}:notices:{uid}"

    def ended_of(self, uid: str) -> str:
        """ZSET: the user's ended sessions by time of end."""
        return f"{self.tag}:ended:{uid}"

    def every_of_user(self, uid: str) -> list[str]:
        """All keys of this user but the records."""
        return [f"{self.tag}:{prefix}{uid}" for prefix in copied_as("user")]

    def of_user(self, uid: str) -> tuple[str, str, str, str]:
        """Keys that any end of one of the user's sessions may touch: live ids, devices, ended ids, person."""
        tag = self.tag
        return f"{self.user_prefix}{uid}", f"{tag}:devices:{uid}", f"{tag}:ended:{uid}", f"{tag}:person:{uid}"


class Common:
    """The keys that a namespace has once. They carry one tag of their own, ``{<namespace>}``."""

    __slots__ = (
        "api_keys", "denied", "history", "logouts", "mirror", "moving", "notice", "tag", "top", "visitors",
        "visits", "worker",
    )  # fmt: skip

    def __init__(self, namespace: str) -> None:
        self.tag = tag = f"{{{namespace}}}"
        self.history = f"{tag}:history"
        self.worker = f"{tag}:worker"
        self.top = f"{tag}:top"
        self.mirror = f"{tag}:mirror"
        self.denied = f"{tag}:denied"
        self.moving = f"{tag}:moving"
        self.api_keys = f"{tag}:keys"
        self.notice = f"{tag}:notice"
        self.logouts = f"{tag}:logout"  # a prefix
        self.visitors = f"{tag}:visitors"  # of the service's /counter, and of its /visit: a prefix
        self.visits = f"{tag}:visits"

    def samples(self, step: int, period: int) -> str:
        """STRING: packed samples of ``step`` seconds, one place for each slot of this period."""
        return f"{self.history}:{step}:{period}"

    def viewers(self, uid: str) -> str:
        """HASH: the staff members who have this user open."""
        return f"{self.tag}:viewers:{uid}"

    def split(self, day: int) -> str:
        """HASH: sessions per app and per device, by hour of this day."""
        return f"{self.history}:split:{day}"


class Keyspace:
    """A namespace's shards. The tag has no uid in it. The shard count keeps layouts apart."""

    __slots__ = ("common", "layout", "namespace", "shards")

    def __init__(self, namespace: str, shards: int) -> None:
        self.namespace = namespace
        self.layout = layout_key(namespace)
        self.common = Common(namespace)
        self.shards = tuple(Shard(namespace, shards, index) for index in range(shards))

    def shard(self, uid: str) -> Shard:
        """The shard of all keys of this user."""
        if len(self.shards) == 1:
            return self.shards[0]
        return self.shards[crc32(uid.encode()) % len(self.shards)]


@lru_cache(maxsize=4096)
def fence_of(key: str) -> str:
    """HASH on the shard of a key: whether the shard is being moved to another layout, or has been."""
    return f"{key[: key.index('}') + 1]}:moved"


def layout_key(namespace: str) -> str:
    """HASH: schema version and shard count, written once by the first client."""
    return f"{{{namespace}}}:layout"
