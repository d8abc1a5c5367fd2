"""The state of the model, and its consequences: live sessions, expected replies, expected index entries."""

from __future__ import annotations

from binascii import crc32
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from presence_core import Settings
from presence_core.models import moment
from tests.properties.stays import AGENTS, End, Hold, NamePlate, Ref, Revocation, Stay, label, words
from tests.support.expected.oracle import folded, found_by, some_word_starts_with

NO_NAME: NamePlate = (None, ())


@dataclass(slots=True)
class State:
    """A namespace, with everything that a client can know of it."""

    settings: Settings
    shards: int
    labels_kept: int  #: texts that a shard keeps once
    now: int  #: ms
    stays: dict[Ref, Stay] = field(default_factory=dict)  #: live, past their deadline but not yet ended, or tombstones
    forsaken: set[Ref] = field(default_factory=set)  #: those of them that ended, and whose tombstone was lost
    users: dict[str, int] = field(default_factory=dict)  #: uid → last seen, of users with a session of their own
    devices: dict[str, dict[str, int]] = field(default_factory=dict)  #: uid → device id → last login on it, ms
    people: dict[str, int] = field(default_factory=dict)  #: uid → last seen, of users who left
    persons: dict[str, NamePlate] = field(default_factory=dict)  #: the stored names of users who left
    ended: dict[Ref, int] = field(default_factory=dict)  #: the list of ends: time, ms
    ended_of: dict[str, dict[Ref, int]] = field(default_factory=dict)  #: the same by user
    totals: dict[int, Counter[str]] = field(default_factory=dict)  #: by shard
    opening: int = 0  #: sessions that the totals have only as ended: they began before totals were lost
    audits: Counter[int] = field(default_factory=Counter)
    notes: set[tuple[int, str]] = field(default_factory=set)  #: audit entries of staff, by shard
    jobs: set[str] = field(default_factory=set)  #: bulk kicks
    labels: dict[int, set[str]] = field(default_factory=dict)  #: texts that are stored once, by shard
    labels_after: dict[int, set[str]] = field(default_factory=dict)  #: the same after a login_many: users have no order
    holds: dict[str, Hold] = field(default_factory=dict)  #: blocked users; some blocks may have expired
    revoked: dict[int, Revocation] = field(default_factory=dict)  #: the watermark of each shard
    ended_from: dict[int, int] = field(default_factory=dict)  #: since then the cap has removed no end of a shard
    floors: dict[int, int] = field(default_factory=dict)  #: no session of a shard began before this time
    vouched: dict[int, tuple[int, int]] = field(default_factory=dict)  #: a worker vouches for the clock
    news: list[tuple[str, str, str, int]] = field(default_factory=list)  #: events not yet read: kind, uid, sid, at
    demanded: dict[int, int] = field(default_factory=dict)  #: the latest required sign-in, by shard
    swept: dict[int, int] = field(default_factory=dict)  #: time, by shard
    leavers: list[Stay] = field(default_factory=list)  #: sessions that ended in this step and need a tombstone
    forgotten: set[str] = field(default_factory=set)  #: users erased in this step
    ghosts: dict[int, Counter[bytes]] = field(default_factory=dict)  #: counters of records lost since the last recount
    stale: dict[int, set[bytes]] = field(default_factory=dict)  #: addresses of the same

    # -- what is there ------------------------------------------------------------------------------------------------

    def shard(self, uid: str) -> int:
        return crc32(uid.encode()) % self.shards

    def listed(self, uid: str | None = None) -> list[Stay]:
        """Sessions that have not ended, in the order of the list. Some may be past their deadline."""
        found = [stay for stay in self.stays.values() if stay.end is None and uid in (None, stay.uid)]
        return sorted(found, key=lambda stay: stay.key, reverse=True)

    def live(self, uid: str | None = None) -> list[Stay]:
        return [stay for stay in self.listed(uid) if self.is_live(stay)]

    def own(self, uid: str) -> list[Stay]:
        """The listed sessions that the user began, not staff on their behalf."""
        return [stay for stay in self.listed(uid) if stay.staff is None]

    def own_live(self, uid: str) -> list[Stay]:
        return [stay for stay in self.own(uid) if self.is_live(stay)]

    def due(self, uid: str | None = None) -> list[Stay]:
        return [stay for stay in self.listed(uid) if not self.is_live(stay)]

    def find(self, uid: str, sid: str, token: str | None = None) -> Stay | None:
        """A wrong token gets no information."""
        stay = self.stays.get((uid, sid))
        return stay if stay and token in (None, stay.token) and stay.ref not in self.forsaken else None

    def is_live(self, stay: Stay | None) -> bool:
        return stay is not None and stay.end is None and self.now < stay.deadline and not self.is_revoked(stay)

    def is_revoked(self, stay: Stay) -> bool:
        revoked = self.revoked.get(self.shard(stay.uid))
        return revoked is not None and stay.login <= revoked.upto

    def watermark(self, shard: int) -> int:
        return self.revoked[shard].upto if shard in self.revoked else -1

    @property
    def newest(self) -> int:
        """The latest login time in any list."""
        return max((stay.login for stay in self.listed()), default=-1)

    def signed_out_up_to(self, ago: int | None) -> int:
        """The expected watermark of a revocation."""
        if ago is not None:
            return self.now - ago - 1
        return max(self.now, self.newest, *(self.watermark(shard) + 1 for shard in range(self.shards)))

    def is_vouched(self, uid: str) -> bool:
        """Whether a read may end sessions that are past their deadline."""
        first, last = self.vouched.get(self.shard(uid), (0, 0))
        return first <= self.now <= last

    def draining(self, shard: int | None = None) -> bool:
        return any(self.is_revoked(stay) for stay in self.listed() if shard in (None, self.shard(stay.uid)))

    def keep(self, reason: str) -> int:
        """Now, in seconds."""
        seconds: int = getattr(self.settings, f"keep_{reason}")
        return seconds

    def is_held(self, uid: str) -> bool:
        hold = self.holds.get(uid)
        return hold is not None and (hold.until is None or self.now < hold.until)

    # -- what must be answered ----------------------------------------------------------------------------------------

    def facts(self, stay: Stay) -> dict[str, Any]:
        """The expected fields of a session. A label whose text was lost is empty."""
        known = {
            kind
            for kind, text in stay.texts.items()
            if kind in stay.inline or text in self.labels.get(self.shard(stay.uid), ())
        }
        client = {
            field: stay.given.get(field) if "client" in known else None for field in ("device", "app", "app_version")
        }
        agent = stay.given.get("user_agent") if "agent" in known else None
        return client | {
            "uid": stay.uid,
            "session_id": stay.sid,
            "name": stay.plate[0],
            "aliases": stay.plate[1],
            "ip": stay.given.get("ip"),
            "last_ip": stay.last_ip or stay.given.get("ip"),
            "user_agent": agent,
            "os": AGENTS[agent][0],
            "browser": AGENTS[agent][1],
            "attributes": stay.given.get("attributes") or {},
            "login_at": moment(stay.login),
            "last_seen": moment(stay.seen),
            "new_device": stay.is_new_device,
            "idp": stay.given.get("idp"),
            "on_behalf_by": stay.staff,
            "authenticated_at": moment(stay.login if stay.authenticated is None else stay.authenticated),
            "expires_at": moment(stay.deadline),
            "idle_timeout": stay.idle,
            "absolute_timeout": stay.absolute,
        }

    def ending(self, stay: Stay) -> End:
        """How it ended, or will have ended: by the earliest cause."""
        if stay.end:
            return stay.end
        revoked = self.revoked.get(self.shard(stay.uid))
        if revoked and self.is_revoked(stay) and revoked.at < stay.deadline:
            return revoked.end
        absolute = stay.login + stay.absolute * 1000
        return End(reason="expired", cause="absolute" if stay.deadline == absolute else "idle", at=stay.deadline)

    def end_facts(self, stay: Stay) -> dict[str, Any]:
        """The expected fields of its end."""
        end = self.ending(stay)
        return {name: getattr(end, name) for name in End.__slots__} | {"at": moment(end.at)}

    def matching(self, asked: dict[str, Any]) -> list[Stay]:
        """Sessions that ``SessionFilter(**asked)`` finds, in order."""
        return [stay for stay in self.live() if found_by(self._searched(stay), self.now, asked)]

    def _searched(self, stay: Stay) -> Any:
        demanded_at = None if stay.demanded is None else moment(stay.demanded)
        return SimpleNamespace(**self.facts(stay), sign_in_required_at=demanded_at)

    def waiting(self, uid: str) -> list[Stay]:
        """This user's sessions that wait for a sweep, in the order in which it ends them."""
        found = [stay for stay in self.listed(uid) if not self.is_live(stay) and stay.ref not in self.forsaken]
        revoked = {id(stay): self.ending(stay).cause == "revoked" for stay in found}
        return sorted(found, key=lambda stay: (
            revoked[id(stay)], stay.login if revoked[id(stay)] else stay.deadline, stay.sid
        ))  # fmt: skip

    def people_called(self, wanted: str) -> list[tuple[tuple[bool, bool, int], tuple[Any, ...]]]:
        """People that ``people`` finds, with the values that order them, and their fields."""
        found = []
        for uid in self.users.keys() | self.people.keys():
            live, seen = self.own_live(uid), self.users.get(uid, self.people.get(uid, 0))
            name, aliases = self.persons.get(uid, NO_NAME)
            if live:
                names = list(dict.fromkeys(stay.plate[0] for stay in live if stay.plate[0]))
                name = names[0] if names else None
                aliases = (*dict.fromkeys(alias for stay in live for alias in stay.plate[1]), *names[1:])
            elif uid in self.users:
                for stay in self.waiting(uid):
                    name, aliases = stay.plate[0] or name, stay.plate[1] or aliases
            if uid == wanted or folded(uid).startswith(folded(wanted)) or any(
                some_word_starts_with(text, wanted) for text in (name or "", *aliases)
            ):  # fmt: skip
                last = max((stay.seen for stay in live), default=seen)
                facts = (uid, name, aliases, bool(live), moment(last), len(live))
                found.append(((uid == wanted, bool(live), seen), facts))
        return found

    # -- what the indexes must hold -----------------------------------------------------------------------------------

    def words_needed(self, shard: int, kept: list[Stay]) -> set[bytes]:
        """``kept``: the shard's sessions that still have a record. The name and the aliases of a person may be of two
        sessions, each with its entries."""
        needed: set[bytes] = set()
        for stay in kept:
            needed |= words(stay.uid, stay.plate)
        for uid in self.people:
            if self.shard(uid) == shard:
                name, aliases = self.persons.get(uid, NO_NAME)
                needed |= words(uid, (name, ())) | words(uid, (None, aliases))
        return needed

    def words_backed(self, shard: int, kept: list[Stay]) -> set[bytes]:
        """After a rebuild there are no other entries."""
        backed = self.words_needed(shard, kept)
        for uid in self.users | self.people:
            if self.shard(uid) == shard:
                backed |= words(uid, self.persons.get(uid, NO_NAME))
        return backed

    def counted(self, kept: Collection[Stay]) -> Counter[bytes]:
        return Counter(member for stay in kept for member in stay.counted_as(self.settings.facets))

    def label_ids(self, shard: int) -> dict[bytes, bytes]:
        return {label(text): text.encode() for text in self.labels.get(shard, ())}
