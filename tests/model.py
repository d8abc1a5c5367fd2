"""What the library promises, as plain dicts: test_properties.py holds a real server against it.

One thing it does not foretell: when a session past its deadline leaves the lists. A sweep or any write may end it, so
``notice`` is told who is still listed, and refuses to let anybody go who has not ended.
"""

from __future__ import annotations

from binascii import crc32
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from presence_core import Settings
from presence_core.models import Record, moment

DAY_MS = 86_400_000
REASONS = ("logout", "expired", "kicked", "replaced")

Ref = tuple[str, str]
"""uid, session id"""


@dataclass(slots=True, kw_only=True)
class End:
    """How a session ended."""

    reason: str
    cause: str
    at: int
    by: str | None = None
    note: str | None = None
    ticket: str | None = None
    message: str | None = None
    replaced_by: str | None = None


@dataclass(slots=True, kw_only=True)
class Stay:
    """One session, from its login until its tombstone is gone. Times are ms, timeouts s."""

    uid: str
    sid: str
    token: str  #: the one that opens it
    login: int
    seen: int
    idle: int
    absolute: int
    given: dict[str, Any]  #: the latest login's other arguments
    last_ip: str | None = None
    end: End | None = None

    @property
    def ref(self) -> Ref:
        return self.uid, self.sid

    @property
    def key(self) -> tuple[int, bytes]:
        """Its place in the list: the greatest comes first."""
        return self.login, f"{self.uid}:{self.sid}".encode()

    @property
    def deadline(self) -> int:
        return min(self.seen + self.idle * 1000, self.login + self.absolute * 1000)

    @property
    def device(self) -> str | None:
        device: str | None = self.given.get("device")
        return device

    def facts(self) -> dict[str, Any]:
        """What the library must answer about it."""
        plain = {field: self.given.get(field) for field in ("name", "device", "app", "app_version", "ip", "user_agent")}
        return plain | {
            "uid": self.uid,
            "session_id": self.sid,
            "aliases": tuple(self.given.get("aliases", ())),
            "attributes": self.given.get("attributes") or {},
            "last_ip": self.last_ip or self.given.get("ip"),
            "login_at": moment(self.login),
            "last_seen": moment(self.seen),
            "expires_at": moment(self.deadline),
            "idle_timeout": self.idle,
            "absolute_timeout": self.absolute,
        }

    def end_facts(self) -> dict[str, Any]:
        """What the library must answer about its end."""
        end = self.end or past_deadline(self)
        return {
            "reason": end.reason,
            "cause": end.cause,
            "at": moment(end.at),
            "by": end.by,
            "note": end.note,
            "ticket": end.ticket,
            "message": end.message,
            "replaced_by": end.replaced_by,
        }


def said(record: Record, facts: Iterable[str]) -> dict[str, Any]:
    """What the library does answer."""
    return {field: getattr(record, field) for field in facts}


def past_deadline(stay: Stay) -> End:
    absolute = stay.login + stay.absolute * 1000
    return End(reason="expired", cause="absolute" if stay.deadline == absolute else "idle", at=stay.deadline)


@dataclass(slots=True)
class Model:
    """A namespace. Everything is here that may be known of it from outside."""

    settings: Settings
    shards: int
    now: int  #: ms
    stays: dict[Ref, Stay] = field(default_factory=dict)  #: live, past their deadline but not yet ended, or tombstones
    forsaken: set[Ref] = field(default_factory=set)  #: those of them that ended, and their tombstone was lost
    users: dict[str, int] = field(default_factory=dict)  #: uid → last seen, of those with a session in the lists
    people: dict[str, int] = field(default_factory=dict)  #: uid → last seen, of those who left
    ended: dict[Ref, int] = field(default_factory=dict)  #: the list of ends: when, ms
    totals: dict[int, Counter[str]] = field(default_factory=dict)  #: by shard
    opening: int = 0  #: sessions that the totals know only as ended: they began before totals were lost
    audits: Counter[int] = field(default_factory=Counter)
    texts: set[tuple[int, str]] = field(default_factory=set)  #: what staff wrote, by shard
    news: list[tuple[str, str, str, int]] = field(default_factory=list)  #: events not yet read: kind, uid, sid, at
    swept: int | None = None

    # -- what is there ------------------------------------------------------------------------------------------------

    def shard(self, uid: str) -> int:
        return crc32(uid.encode()) % self.shards

    def listed(self, uid: str | None = None) -> list[Stay]:
        """Not ended, in the order of the list. Some may be past their deadline."""
        found = [stay for stay in self.stays.values() if stay.end is None and uid in (None, stay.uid)]
        return sorted(found, key=lambda stay: stay.key, reverse=True)

    def live(self, uid: str | None = None) -> list[Stay]:
        return [stay for stay in self.listed(uid) if self.now < stay.deadline]

    def due(self, uid: str | None = None) -> list[Stay]:
        return [stay for stay in self.listed(uid) if self.now >= stay.deadline]

    def find(self, uid: str, sid: str, token: str | None = None) -> Stay | None:
        """Whoever comes with the wrong token learns nothing."""
        stay = self.stays.get((uid, sid))
        return stay if stay and token in (None, stay.token) and stay.ref not in self.forsaken else None

    def is_live(self, stay: Stay | None) -> bool:
        return stay is not None and stay.end is None and self.now < stay.deadline

    def keep(self, reason: str) -> int:
        """Seconds."""
        seconds: int = getattr(self.settings, f"keep_{reason}")
        return seconds

    # -- what happens -------------------------------------------------------------------------------------------------

    def log_in(
        self,
        uid: str,
        sid: str,
        token: str,
        given: dict[str, Any],
        login_at: int | None = None,
        last_seen: int | None = None,
    ) -> list[Stay] | str:
        """Answers whom the login ends, oldest first, or why it is refused."""
        given = dict(given)
        idle, absolute = self._timeouts(given.pop("idle_timeout", None), given.pop("absolute_timeout", None))
        login = self.now if login_at is None else min(self.now, login_at)
        seen = self.now if last_seen is None else max(login, min(self.now, last_seen))
        stay = self.stays.get((uid, sid))
        if stay:
            if not self.is_live(stay):
                return "ended"
            stay.token, stay.given, stay.last_ip = token, given, None
            self._see(stay, seen)
            return []
        stay = Stay(uid=uid, sid=sid, token=token, login=login, seen=seen, idle=idle, absolute=absolute, given=given)
        if self.now >= stay.deadline:
            return "expired"
        loses = self._over_limit(stay)
        if isinstance(loses, str):
            return loses
        self.people.pop(uid, None)
        self.stays[stay.ref] = stay
        self._see(stay, seen)
        self._count(uid, "login")
        self.news.append(("login", uid, sid, login))
        for other, cause in loses:
            self.end(other, End(reason="replaced", cause=cause, at=self.now, by=uid, replaced_by=sid))
        return [other for other, _ in loses]

    def _timeouts(self, idle: int | None, absolute: int | None) -> tuple[int, int]:
        """With one given, the other's default is clamped."""
        usual_idle, usual_absolute = self.settings.idle_timeout, self.settings.absolute_timeout
        if idle is None:
            return min(usual_idle, absolute or usual_absolute), absolute or usual_absolute
        return idle, max(idle, usual_absolute) if absolute is None else absolute

    def _over_limit(self, new: Stay) -> list[tuple[Stay, str]] | str:
        """Whom the limits end for the new one, and why; or by which limit it is refused."""
        live = self.live(new.uid)[::-1]
        room = self.settings.max_sessions - 1
        per_device = self.settings.max_sessions_per_device
        same = [stay for stay in live if stay.device == new.device] if per_device and new.device else []
        too_many = len(same) - (per_device or 0) + 1 if same else 0
        if self.settings.on_limit == "reject":
            return "limit" if len(live) > room else "device_limit" if too_many > 0 else []
        loses = [(stay, "device_limit") for stay in same[: max(0, too_many)]]
        gone = [stay for stay, _ in loses]
        rest = [stay for stay in live if stay not in gone]
        return loses + [(stay, "limit") for stay in rest[: max(0, len(rest) - room)]]

    def touch(self, stay: Stay, ip: str | None = None) -> None:
        self._see(stay, self.now)
        stay.last_ip = ip or stay.last_ip

    def _see(self, stay: Stay, at: int) -> None:
        stay.seen = max(stay.seen, at)
        self.users[stay.uid] = max(self.users.get(stay.uid, 0), at)

    def end(self, stay: Stay, end: End, *, lost: bool = False) -> None:
        """It has ended: at once, and once. ``lost``: of its record nothing was left to keep."""
        assert stay.end is None
        uid, sid = stay.ref
        stay.end = end
        self._count(uid, end.reason)
        self.news.append((end.reason, uid, sid, end.at))
        if self.keep(end.reason):
            self.ended[stay.ref] = end.at
        if lost or not self.keep(end.reason):
            del self.stays[stay.ref]
        if not self.listed(uid):
            self.people[uid] = self.users.pop(uid)

    def log_out(self, uid: str, sid: str) -> bool:
        stay = self.stays.get((uid, sid))
        if stay is None or not self.is_live(stay):
            return False
        self.end(stay, End(reason="logout", cause="user", at=self.now, by=uid))
        return True

    def kick(self, uid: str, stays: list[Stay], said: dict[str, Any]) -> None:
        """``said``: by, reason and perhaps message and ticket."""
        self.audits[self.shard(uid)] += 1
        message, ticket = said.get("message"), said.get("ticket")
        if stays and self.keep("kicked"):
            self.texts |= {(self.shard(uid), text) for text in (said["reason"], message) if text}
        for stay in stays:
            why = {"by": said["by"], "note": said["reason"], "message": message, "ticket": ticket}
            self.end(stay, End(reason="kicked", cause="staff", at=self.now, **why))

    def notice(self, listed: Collection[Ref], users: dict[str, int]) -> None:
        """What the lists hold now: those past their deadline who are gone have expired; nobody else may be."""
        for stay in self.listed():
            if stay.ref not in listed:
                assert self.now >= stay.deadline, f"{stay} is gone before its deadline"
                self.end(stay, past_deadline(stay))
        # An import may bring back, with a last seen in the past, whoever left a moment before.
        for uid in self.users.keys() & users.keys():
            if max(stay.seen for stay in self.listed(uid)) <= users[uid] <= self.users[uid]:
                self.users[uid] = users[uid]

    def swept_whole(self) -> None:
        """A sweep ran to its end: nothing is past its deadline, and what is kept for a while only was forgotten."""
        for stay in self.due():
            self.end(stay, past_deadline(stay))
        for uid, seen in list(self.people.items()):
            if seen <= self.now - self.settings.keep_people * 1000:
                del self.people[uid]
        for shard in range(self.shards):
            refs = [ref for ref in self.ended if self.shard(ref[0]) == shard]
            refs.sort(key=lambda ref: (self.ended[ref], ":".join(ref).encode()))
            for ref in refs[: max(0, len(refs) - self.settings.max_ended // self.shards)]:
                del self.ended[ref]
                if ref in self.stays and self.stays[ref].end:
                    del self.stays[ref]
        shortest = min(keep for reason in REASONS if (keep := self.keep(reason)))
        for ref, at in list(self.ended.items()):
            if at <= self.now - shortest * 1000 and ref not in self.stays:
                del self.ended[ref]
        self.swept = self.now

    def lose_record(self, ref: Ref) -> None:
        """Its key was deleted. A repair follows."""
        stay = self.stays[ref]
        if stay.end:
            del self.stays[ref]
        else:
            self.end(stay, End(reason="expired", cause="lost", at=min(self.now, stay.deadline)), lost=True)

    def lose_totals(self, shard: int) -> None:
        self.totals.pop(shard, None)
        self.opening = len(self.listed()) - sum(
            total["login"] - (sum(total.values()) - total["login"]) for total in self.totals.values()
        )

    def _count(self, uid: str, what: str) -> None:
        self.totals.setdefault(self.shard(uid), Counter())[what] += 1

    def total(self) -> Counter[str]:
        return sum(self.totals.values(), Counter())
