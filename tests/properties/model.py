"""The promises of the library as plain dicts; a real server is compared with it.

The model does not predict two things. First, when a session past its deadline, or a revoked one, leaves the lists: a
sweep or any write may end it. So ``notice`` receives the listed sessions, and refuses the loss of one that has not
ended. Second, which of several names is kept of a person who leaves with several sessions at once: the machine reads
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from tests.properties.state import NO_NAME, State
from tests.properties.stays import REASONS, End, Hold, Ref, Revocation, Stay


@dataclass(slots=True)
class Model(State):
    """A namespace, and the changes to it."""

    # -- sessions begin -----------------------------------------------------------------------------------------------

    def log_in(
        self,
        uid: str,
        sid: str,
        token: str,
        given: dict[str, Any],
        login_at: int | None = None,
        last_seen: int | None = None,
    ) -> list[Stay] | str:
        """Returns the sessions that the login ends, oldest first, or the reason for a refusal."""
        given = dict(given)
        idle, absolute = self._timeouts(given.pop("idle_timeout", None), given.pop("absolute_timeout", None))
        staff, device_id = given.pop("on_behalf_by", None), given.pop("device_id", None)
        given.pop("reason", None)
        shard = self.shard(uid)
        begins = max(self.now, self.watermark(shard) + 1, self.floors.get(shard, 0))
        login = begins if login_at is None else min(self.now, login_at)
        seen = self.now if last_seen is None else max(login, min(self.now, last_seen))
        if self.is_held(uid):
            return "blocked"
        stay = self.stays.get((uid, sid))
        if stay:
            if not self.is_live(stay):
                return "ended"
            stay.token, stay.given, stay.last_ip, stay.device_id = token, given, None, device_id
            self._label(stay)
            self._see(stay, seen)
            self._note_staff(stay, staff)
            self._note_device(stay, device_id, is_imported=login_at is not None)
            return []
        stay = Stay(
            uid=uid, sid=sid, token=token, login=login, seen=seen, idle=idle, absolute=absolute, given=given,
            device_id=device_id,
        )  # fmt: skip
        if self.now >= stay.deadline or self.is_revoked(stay):
            return "expired"
        loses = [] if staff else self._over_limit(stay)
        if isinstance(loses, str):
            return loses
        self._label(stay)
        if not staff:
            self.people.pop(uid, None)
        self.stays[stay.ref] = stay
        self._note_staff(stay, staff)
        self._see(stay, seen)
        self._count(uid, "login")
        self.news.append(("login", uid, sid, login))
        self._note_device(stay, device_id, is_imported=login_at is not None)
        for other, cause in loses:
            self.end(other, End(reason="replaced", cause=cause, at=self.now, by=uid, replaced_by=sid))
        return [other for other, _ in loses]

    def _note_staff(self, stay: Stay, staff: str | None) -> None:
        if staff != stay.staff:
            self.audits[self.shard(stay.uid)] += 1
        stay.staff = staff

    def _note_device(self, stay: Stay, device_id: str | None, *, is_imported: bool) -> None:
        """A device is new if the user has others, and not this one. It is reported once."""
        if device_id is None:
            return
        known = self.devices.setdefault(stay.uid, {})
        if known and device_id not in known and not is_imported:
            stay.is_new_device = True
            self._count(stay.uid, "new_device")
            self.news.append(("new_device", *stay.ref, stay.login))
        known[device_id] = max(stay.login, known.get(device_id, 0))

    def _timeouts(self, idle: int | None, absolute: int | None) -> tuple[int, int]:
        """If one timeout is given, the default of the other is adjusted."""
        usual_idle, usual_absolute = self.settings.idle_timeout, self.settings.absolute_timeout
        if idle is None:
            return min(usual_idle, absolute or usual_absolute), absolute or usual_absolute
        return idle, max(idle, usual_absolute) if absolute is None else absolute

    def _label(self, stay: Stay) -> None:
        """Each text is stored once, as long as the table is not full. An address that was left behind may be its
        own again."""
        self._index_addresses(stay)
        table = self.labels.setdefault(self.shard(stay.uid), set())
        stored = self.labels_after.get(self.shard(stay.uid), table)
        is_full = len(stored) >= self.labels_kept
        stay.inline = frozenset(kind for kind, text in stay.texts.items() if is_full and text not in stored)
        table |= {text for kind, text in stay.texts.items() if kind not in stay.inline}

    def _over_limit(self, new: Stay) -> list[tuple[Stay, str]] | str:
        """The sessions that the limits end for the new one, and why; or the limit that refuses it."""
        live = self.own_live(new.uid)[::-1]
        room = self.settings.max_sessions - 1
        per_device = self.settings.max_sessions_per_device
        same = [stay for stay in live if stay.limited == new.limited] if per_device and any(new.limited) else []
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
        self._index_addresses(stay)

    def _index_addresses(self, stay: Stay) -> None:
        self.stale.get(self.shard(stay.uid), set()).difference_update(stay.addresses)

    def change(self, stay: Stay, changes: dict[str, Any]) -> None:
        """Attributes change; None removes one."""
        merged = (stay.given.get("attributes") or {}) | changes
        stay.given = stay.given | {"attributes": {name: value for name, value in merged.items() if value is not None}}

    def rename(self, stay: Stay, given: dict[str, Any]) -> None:
        """Name, aliases or the whole client change."""
        stay.given = stay.given | given
        if "device" in given:
            agent = stay.inline & {"agent"}
            self._label(stay)
            stay.inline = (stay.inline & {"client"}) | agent

    def rename_person(self, uid: str, names: dict[str, Any]) -> int:
        """All sessions in the list change, also those past their deadline; and what is kept, if the user is known.
        Returns how many live ones have changed."""
        if not (self.listed(uid) or uid in self.users or uid in self.people or uid in self.persons):
            return 0
        changed = [stay for stay in self.live(uid) if any(stay.given.get(field) != names[field] for field in names)]
        for stay in self.listed(uid):
            self.rename(stay, names)
        name, aliases = self.persons.get(uid, NO_NAME)
        self.persons[uid] = names.get("name", name), tuple(names.get("aliases", aliases))
        return len(changed)

    def _see(self, stay: Stay, at: int) -> None:
        stay.seen = max(stay.seen, at)
        if stay.staff is None:
            self.users[stay.uid] = max(self.users.get(stay.uid, 0), at)

    # -- sessions end -------------------------------------------------------------------------------------------------

    def end(self, stay: Stay, end: End, *, lost: bool = False) -> None:
        """The session ends, at once and once. ``lost``: there was no record for a tombstone."""
        assert stay.end is None
        uid, sid = stay.ref
        stay.end = end
        self._count(uid, end.reason)
        self.news.append((end.reason, uid, sid, end.at))
        if self.keep(end.reason):
            self.ended[stay.ref] = end.at
            of_user = self.ended_of.setdefault(uid, {})
            of_user[stay.ref] = end.at
            newest = sorted(of_user, key=lambda ref: (of_user[ref], ":".join(ref).encode()))[-100:]
            self.ended_of[uid] = {ref: of_user[ref] for ref in newest}
        if lost or not self.keep(end.reason):
            del self.stays[stay.ref]
        if not lost:
            self.leavers.append(stay)
        if stay.staff is None and not self.own(uid):
            self.people[uid] = self.users.pop(uid)

    def log_out(self, uid: str, sid: str) -> bool:
        stay = self.stays.get((uid, sid))
        if stay is None or not self.is_live(stay):
            return False
        self.end(stay, End(reason="logout", cause="user", at=self.now, by=uid))
        return True

    def kick(self, uid: str, stays: list[Stay], said: dict[str, Any]) -> None:
        """``said``: by, reason, and optionally message, ticket and the duration of a block."""
        self.audits[self.shard(uid)] += 1
        self._kick(stays, said)
        if "block_for" in said:
            self._hold(uid, said, said["block_for"])

    def kick_job(self, job_id: str, stays: list[Stay], said: dict[str, Any]) -> None:
        """A bulk kick, from its first audit entry to its second."""
        self.audits[0] += 2
        self.jobs.add(job_id)
        self._kick(stays, said)

    def ask_for_all(self) -> None:
        """A bulk kick ends the sessions that have begun; later ones have a later login time."""
        if self.newest >= self.now:
            self.floors |= {shard: max(self.newest + 1, self.floors.get(shard, 0)) for shard in range(self.shards)}

    def _kick(self, stays: list[Stay], said: dict[str, Any]) -> None:
        message = said.get("message")
        for stay in stays:
            if self.keep("kicked"):
                self.notes |= {(self.shard(stay.uid), text) for text in (said["reason"], message) if text}
            why = {"by": said["by"], "note": said["reason"], "message": message, "ticket": said.get("ticket")}
            self.end(stay, End(reason="kicked", cause="staff", at=self.now, **why))

    def require_sign_in(self, uid: str, stays: list[Stay], said: dict[str, Any]) -> None:
        shard, message = self.shard(uid), said.get("message")
        self.audits[shard] += 1
        for stay in stays:
            stay.demanded = self.demanded[shard] = self.now
            self.notes |= {(shard, message)} if message else set()
            self.news.append(("sign_in_required", *stay.ref, self.now))

    def change_timeouts(
        self, uid: str, stays: list[Stay], idle_timeout: int | None = None, absolute_timeout: int | None = None
    ) -> None:
        """A session that is older than its new timeout ends at this second."""
        self.audits[self.shard(uid)] += 1
        for stay in stays:
            absolute = absolute_timeout or stay.absolute
            if stay.staff and absolute_timeout:
                absolute = min(absolute, self.settings.on_behalf_timeout)
            stay.absolute = max(absolute, (self.now - stay.login) // 1000)
            stay.idle = max(min(idle_timeout or stay.idle, stay.absolute), (self.now - stay.seen) // 1000)

    def authenticate(self, stay: Stay, began: int | None) -> None:
        stay.authenticated = self.now
        if stay.demanded is not None and (began is None or stay.demanded < began):
            stay.demanded = None
            self.news.append(("reauthenticated", *stay.ref, self.now))

    def block(self, uid: str, said: dict[str, Any]) -> None:
        self.audits[self.shard(uid)] += 1
        self._hold(uid, said, said["duration"])

    def _hold(self, uid: str, said: dict[str, Any], seconds: int | None) -> None:
        until = None if seconds is None else self.now + seconds * 1000
        hold = Hold(
            by=said["by"], reason=said["reason"], message=said.get("message"), at=self.now, until=until,
            tickets=(said["ticket"],) if "ticket" in said else (), changed=self.now,
        )  # fmt: skip
        if self.is_held(uid):
            before = self.holds[uid]
            merged = hold.and_before(before)
            hold = replace(hold, tickets=merged.tickets) if said.get("shorten") else merged
        self.holds[uid] = hold

    def unblock(self, uid: str) -> bool:
        self.audits[self.shard(uid)] += 1
        was = self.is_held(uid)
        self.holds.pop(uid, None)
        return was

    def revoke(self, shard: int, upto: int, said: dict[str, Any]) -> int:
        """Returns how many listed sessions it ends; the watermark only rises."""
        before = self.watermark(shard)
        listed = [stay.login for stay in self.listed() if self.shard(stay.uid) == shard]
        if shard == 0:
            self.audits[0] += 1
        if upto <= before:
            return sum(login <= before for login in listed)
        message = said.get("message")
        self.revoked[shard] = Revocation(
            upto=upto, at=self.now, by=said["by"], note=said["reason"], message=message
        )  # fmt: skip
        self.notes |= {(shard, text) for text in (said["reason"], message) if text}
        return sum(before < login <= upto for login in listed)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    def notice(self, listed: Collection[Ref], users: dict[str, int]) -> None:
        """The current content of the lists: a session that left them must have ended."""
        for stay in self.listed():
            if stay.ref not in listed:
                assert not self.is_live(stay), f"{stay} is gone before its deadline"
                self.end(stay, self.ending(stay))
        # An import with a last seen in the past may bring back a user who left just before.
        for uid in self.users.keys() & users.keys():
            if max(stay.seen for stay in self.own(uid)) <= users[uid] <= self.users[uid]:
                self.users[uid] = users[uid]

    def swept_whole(self) -> None:
        """A sweep ran to its end: no session is past its deadline, and expired data were removed."""
        for stay in self.due():
            self.end(stay, self.ending(stay))
        for uid, seen in list(self.people.items()):
            if seen <= self.now - self.settings.keep_people * 1000:
                del self.people[uid]
                self.persons.pop(uid, None)
                self.forgotten.add(uid)
        for shard in range(self.shards):
            refs = [ref for ref in self.ended if self.shard(ref[0]) == shard]
            refs.sort(key=lambda ref: (self.ended[ref], ":".join(ref).encode()))
            for ref in refs[: max(0, len(refs) - self.settings.max_ended // self.shards)]:
                at = self.ended.pop(ref)
                if ref in self.stays and self.stays[ref].end:  # its retention had not ended
                    self.ended_from[shard] = max(self.ended_from.get(shard, 0), at + 1)
                    del self.stays[ref]
        shortest = min(keep for reason in REASONS if (keep := self.keep(reason)))
        for ref, at in list(self.ended.items()):
            if at <= self.now - shortest * 1000 and ref not in self.stays:
                del self.ended[ref]
        self.holds = {uid: hold for uid, hold in self.holds.items() if self.is_held(uid)}
        self.swept = dict.fromkeys(range(self.shards), self.now)

    def rebuilt(self) -> None:
        self.ghosts.clear()
        self.stale.clear()

    def labels_pruned(self) -> None:
        """Only the texts that a session or a listed tombstone uses are left."""
        for shard, table in self.labels.items():
            named = [stay for stay in self.stays.values() if self.shard(stay.uid) == shard]
            named = [stay for stay in named if stay.end is None or stay.ref in self.ended]
            table &= {text for stay in named for kind, text in stay.texts.items() if kind not in stay.inline}

    # -- what is lost -------------------------------------------------------------------------------------------------

    def lose_record(self, ref: Ref) -> None:
        """The key was deleted. A repair follows."""
        stay = self.stays[ref]
        if stay.end:
            del self.stays[ref]
            return
        shard = self.shard(stay.uid)
        self.ghosts.setdefault(shard, Counter()).update(self.counted([stay]))
        if stay.addresses:
            self.stale.setdefault(shard, set()).update(stay.addresses)
        self.end(stay, End(reason="expired", cause="lost", at=min(self.now, stay.deadline)), lost=True)

    def lose_totals(self, shard: int) -> None:
        self.totals.pop(shard, None)
        ends = sum(total[reason] for total in self.totals.values() for reason in REASONS)
        self.opening = len(self.listed()) - (self.total()["login"] - ends)

    def note_failure(self, uid: str) -> None:
        """The script that refuses a login counts it."""
        self._count(uid, "failed")

    def _count(self, uid: str, what: str) -> None:
        self.totals.setdefault(self.shard(uid), Counter())[what] += 1

    def total(self) -> Counter[str]:
        return sum(self.totals.values(), Counter())
