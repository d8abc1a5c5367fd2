"""Conditions that hold after every step: every key agrees with the model."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections import Counter

from hypothesis.stateful import invariant

from presence_core.keyspace import digest, split_ref
from presence_core.models import CORE
from presence_core.operations.sessions.validate import secret_digest
from presence_core.text.search_text import BEFORE, id_digest
from tests.properties.answers import Answers
from tests.properties.drawing import UIDS
from tests.properties.raw import Raw
from tests.properties.state import NO_NAME
from tests.properties.stays import DAY_MS, Ref, Stay


class Agreement(Answers):
    """Keys and replies agree with the model; and at the end of a history no data are left."""

    @invariant()
    def everything_agrees(self) -> None:
        self.sound = False
        self.steps += 1
        raw = Raw.look(self.bench.look)
        if self.before is not None:
            for uid in set(UIDS) - self.actors:
                assert raw.of(uid) == self.before.of(uid), f"another's action changed what belongs to {uid}"
        self.before = raw
        closing = self.notice(raw)
        for uid in self.clean:
            assert self.model.due(uid) == [], "this is past its deadline and still in a list"
        for ref in self.reported:
            assert ref not in self.model.stays or self.model.stays[ref].end, (
                f"{ref} was reported as expired, and may be live again"
            )
        assert not self.read or all(map(self.model.is_revoked, self.model.due()))
        assert closing <= self.unburied, "these have no tombstone"
        assert not (self.tidied and closing), "a whole sweep left these without a tombstone"
        self.persons_agree(raw, closing)
        self.unburied = closing
        self.keys_agree(raw)
        for index, tag in enumerate(self.tags()):
            self.shard_agrees(raw, index, tag)
            self.indexes_agree(raw, index, tag)
        for uid in UIDS:
            self.user_agrees(raw, uid)
        for stay in self.model.stays.values():
            self.record_agrees(raw, stay)
        self.reads_agree()
        if self.steps % 2:  # in half of the cases they are, and their data have just been checked
            self.searches_agree()
        self.sound = True

    def notice(self, raw: Raw) -> set[Ref]:
        """Update the model with the sessions that are still in the lists. Returns those without a written tombstone."""
        sessions: set[Ref] = set()
        closing: set[Ref] = set()
        users: dict[str, int] = {}
        for tag in self.tags():
            sessions |= {split_ref(ref) for ref in raw.values.get(f"{tag}:sessions", {})}
            closing |= {split_ref(ref) for ref in raw.values.get(f"{tag}:closing", {})}
            users |= raw.values.get(f"{tag}:users", {})
        self.model.notice(sessions, users)
        return closing

    def persons_agree(self, raw: Raw, closing: set[Ref]) -> None:
        """A user whose session was ended has left a name, if it had one."""
        model = self.model
        before = [model.stays[ref] for ref in self.unburied if ref in model.stays]
        buried = [stay for stay in {id(stay): stay for stay in before + model.leavers}.values()
                  if stay.ref not in closing | model.forsaken]  # fmt: skip
        model.leavers = [stay for stay in model.leavers if stay.ref in closing and stay.ref not in model.stays]
        for uid in UIDS:
            plates = [stay.plate for stay in buried if stay.uid == uid and stay.end is not None]
            kept = [plate for plate in plates if plate != NO_NAME]
            known = model.persons.get(uid)
            key = f"{self.tag(uid)}:person:{uid}"
            values = raw.hash(key)
            found = (values.get("n"), tuple(filter(None, values.get("a", "").split("\n")))) if values else None
            # The latest value of those who left; otherwise the stored one.
            mine = [stay.plate for stay in model.stays.values() if stay.uid == uid] + plates
            before_it = NO_NAME if known is None else known
            for place in (0, 1):
                may = {plate[place] for plate in mine} | {before_it[place], NO_NAME[place]}
                assert (found or NO_NAME)[place] in may, f"{uid} is kept under another name"
                given = kept and all(plate[place] for plate in plates)
                if given and uid not in model.forgotten and not self.mixed:
                    assert (found or NO_NAME)[place], f"{uid} left without a name"
            if found is None:
                model.persons.pop(uid, None)
            else:
                model.persons[uid] = found
                assert 0 < raw.expires[key] - raw.at * 1000 <= (self.settings.keep_people + 86_400) * 1000 + 1000
        model.forgotten.clear()

    def keys_agree(self, raw: Raw) -> None:
        """Every existing key is one that must exist, or one that may exist."""
        model = self.model
        must = {f"{{{self.namespace}}}:layout"}
        names = ["labels", "events", "meta", "moved", "words", "ids", "addresses", "idp", "facets", "on_behalf"]
        names += ["recount", "counted"] if self.counting else []
        may = {f"{tag}:{name}" for tag in self.tags() for name in names}
        may |= {f"{tag}:{name}" for tag in self.tags() for name in ("failed", "failed_from", "totals")}
        may |= {f"{self.tag(uid)}:failed:{uid}" for uid in UIDS}
        may |= {f"{tag}:job:{job}" for job in model.jobs for tag in self.tags()}
        must |= {f"{self.tags()[0]}:job:{job}" for job in model.jobs} | {f"{self.tags()[0]}:jobs" for _ in model.jobs}
        for uid in UIDS:
            tag = self.tag(uid)
            if model.listed(uid):
                must |= {f"{tag}:sessions", f"{tag}:deadlines", f"{tag}:user:{uid}"}
                must |= {f"{tag}:users" for _ in model.own(uid)}
                if self.settings.max_sessions_per_device and any(any(stay.limited) for stay in model.listed(uid)):
                    must.add(f"{tag}:devices:{uid}")
            if uid in model.people:
                must.add(f"{tag}:people")
            if uid in model.holds:  # an expired block may have been removed
                (must if model.is_held(uid) else may).update({f"{tag}:block:{uid}", f"{tag}:blocks"})
        must |= {f"{self.tag(uid)}:known:{uid}" for uid in model.devices}
        must |= {f"{self.tag(uid)}:person:{uid}" for uid in model.persons}
        must |= {f"{self.tag(uid)}:ended:{uid}" for uid in model.ended_of}
        must |= {f"{self.tag(uid)}:closing" for uid, _ in self.unburied}
        must |= {f"{self.tag(uid)}:ended" for uid, _ in model.ended}
        must |= {f"{self.tag(uid)}:session:{uid}:{sid}" for uid, sid in model.stays}
        must |= {f"{self.tags()[shard]}:note:{digest(text)}" for shard, text in model.notes}
        must |= {f"{self.tags()[shard]}:audit" for shard, number in model.audits.items() if number}
        must |= {f"{self.tags()[shard]}:totals" for shard, totals in model.totals.items() if totals}
        there = set(raw.values)
        assert must - there == set(), "these are missing"
        assert there - must - may == set(), "these should not be here"

    def shard_agrees(self, raw: Raw, index: int, tag: str) -> None:
        model = self.model
        listed = [stay for stay in model.listed() if model.shard(stay.uid) == index]

        def here(table: dict[str, int]) -> dict[str, int]:
            return {uid: at for uid, at in table.items() if model.shard(uid) == index}

        for name, expected in (
            ("sessions", {stay.name: stay.login for stay in listed}),
            ("deadlines", {stay.name: stay.deadline for stay in listed}),
            ("users", here(model.users)),
            ("people", here(model.people)),
            ("ended", {f"{uid}:{sid}": at for (uid, sid), at in model.ended.items() if model.shard(uid) == index}),
        ):
            assert raw.values.get(f"{tag}:{name}", {}) == expected, name
            assert raw.expires.get(f"{tag}:{name}", -1) == -1, name
        totals = {what: int(number) for what, number in raw.hash(f"{tag}:totals").items()}
        assert totals == dict(model.totals.get(index, {}))
        assert raw.values.get(f"{tag}:audit", 0) == model.audits[index]
        meta = {} if index not in model.swept else {"swept": str(model.swept[index])}
        if index in model.revoked:
            revocation = model.revoked[index]
            message = digest(revocation.message) if revocation.message else ""
            meta |= {"revoked": str(revocation.upto), "revoked_at": str(revocation.at), "revoked_by": revocation.by,
                     "revoked_note": digest(revocation.note), "revoked_message": message}  # fmt: skip
        if index in model.demanded:
            meta["demanded"] = str(model.demanded[index])
        if index in model.floors:
            meta["floor"] = str(model.floors[index])
        if index in model.ended_from:
            meta["ended_from"] = str(model.ended_from[index])
        if index in model.vouched:
            good, until = model.vouched[index]
            meta |= {"good_from": str(good), "good_wall": str(good), "good_until": str(until)}
        indexes = "uid.5,name.5,alias.5,ip.2,idp.1"
        about = raw.hash(f"{tag}:meta")
        assert about.pop("indexes", indexes) == indexes
        assert (about.pop("revoked_call", None) is not None) <= (index in model.revoked)
        assert about.pop("recount", None) in ("1" if self.counting else None, None)
        assert about == meta
        layout = {"schema": "1", "shards": str(self.bench.case.shards), "indexes": indexes}
        stored = raw.hash(f"{{{self.namespace}}}:layout")
        assert (stored.pop("device_keys", None) is not None) >= bool(model.devices)
        assert stored.pop("born", "").isdigit()
        assert stored.pop("lost", None) is None or self.layout_lost
        assert stored == layout
        for shard, text in model.notes:
            assert raw.values[f"{self.tags()[shard]}:note:{digest(text)}"] == text.encode()
        assert raw.values.get(f"{tag}:labels", {}) == model.label_ids(index)

    def indexes_agree(self, raw: Raw, index: int, tag: str) -> None:
        """No entry is missing in an index; counters are exact; and only lost keys leave extra entries."""
        model = self.model
        kept = [
            stay
            for stay in model.stays.values()
            if model.shard(stay.uid) == index and (stay.end is None or stay.ref in self.unburied)
        ]
        found = set(raw.values.get(f"{tag}:words", ()))
        missing = model.words_needed(index, kept) - found
        assert not [entry for entry in missing if not _has_longer(found, entry)], "these are not found"
        if self.indexed:
            assert found == found & model.words_backed(index, kept), "an entry of no user"
        ids = raw.values.get(f"{tag}:ids", {})
        shards, live = self.bench.case.shards, [stay for stay in kept if stay.end is None]
        assert all(_is_indexed(ids, stay, shards) for stay in live), "a session is not found by its id"
        addresses = {entry for stay in kept for entry in stay.addresses}
        assert set(raw.values.get(f"{tag}:addresses", ())) == addresses | model.stale.get(index, set())
        assert raw.counters(f"{tag}:facets") == model.counted(kept) + model.ghosts.get(index, Counter())
        counted = [stay for stay in kept if stay.name in raw.values.get(f"{tag}:counted", ())]
        assert raw.counters(f"{tag}:recount") == model.counted(counted)
        for name in ("words", "ids", "addresses", "facets", "recount", "counted", "labels", "blocks"):
            assert raw.expires.get(f"{tag}:{name}", -1) == -1, name

    def user_agrees(self, raw: Raw, uid: str) -> None:
        model, tag = self.model, self.tag(uid)
        listed = model.listed(uid)
        assert raw.values.get(f"{tag}:user:{uid}", set()) == {stay.sid for stay in listed}
        assert len(model.own_live(uid)) <= self.settings.max_sessions
        known = raw.values.get(f"{tag}:known:{uid}", {})
        assert sorted(map(int, known.values())) == sorted(model.devices.get(uid, {}).values())
        devices, key = raw.values.get(f"{tag}:devices:{uid}", {}), f"{tag}:devices:{uid}"
        if self.settings.max_sessions_per_device:
            counted = {stay.sid: stay.limited for stay in listed if any(stay.limited)}
            assert devices.keys() == counted.keys()
            named = {(devices[sid], limited) for sid, limited in counted.items()}
            assert len(named) == len(set(devices.values())) == len(set(counted.values())), "a name for each device"
            assert all(name == label.encode() for name, (_, label) in named if label)
            if devices and raw.expires[key] != -1:
                left = max(stay.login + stay.absolute * 1000 for stay in listed if any(stay.limited)) - model.now
                assert raw.expires[key] - raw.at * 1000 >= left, "a session's device is forgotten before its end"
        else:
            assert devices == {}
        key = f"{tag}:ended:{uid}"
        ends = {f"{owner}:{sid}": at for (owner, sid), at in model.ended_of.get(uid, {}).items()}
        assert raw.values.get(key, {}) == ends
        if ends:
            longest = max(map(model.keep, ("kicked", "replaced", "expired", "logout")))
            assert 0 < raw.expires[key] - raw.at * 1000 <= longest * 1000 + 1000
        hold, key = model.holds.get(uid), f"{tag}:block:{uid}"
        if hold and (model.is_held(uid) or key in raw.values):
            assert raw.hash(key) == hold.stored
            assert raw.values[f"{tag}:blocks"][uid] == hold.at
            assert raw.expires[key] == (-1 if hold.until is None else hold.until + 60_000)
        else:
            assert uid not in raw.values.get(f"{tag}:blocks", {})
            model.holds.pop(uid, None)

    def record_agrees(self, raw: Raw, stay: Stay) -> None:
        key = f"{self.tag(stay.uid)}:session:{stay.name}"
        record, end = raw.values[key], stay.end
        login, idle, absolute, secret, _, _ = CORE.unpack_from(record["c"])
        assert (login, idle, absolute) == (stay.login, stay.idle, stay.absolute)
        assert secret == secret_digest(urlsafe_b64decode(stay.token.rpartition(".")[2] + "="))
        assert int(record["s"]) == stay.seen
        for field, at in (("h", stay.authenticated), ("q", stay.demanded)):
            assert (int.from_bytes(record[field][:8], "big") if field in record else None) == at
        ending = {name: record[name].decode() for name in ("e", "ea", "ec", "eb", "en", "et", "em", "er")
                  if name in record}  # fmt: skip
        if end is None or stay.ref in self.unburied | self.model.forsaken:
            assert ending == {}
            assert raw.expires[key] == stay.login + stay.absolute * 1000 + DAY_MS
        else:
            texts = {name: text and digest(text) for name, text in (("en", end.note), ("em", end.message))}
            known = texts | {"e": end.reason, "ea": str(end.at), "ec": end.cause, "eb": end.by, "et": end.ticket,
                             "er": end.replaced_by}  # fmt: skip
            assert ending == {name: value for name, value in known.items() if value is not None}
            assert 0 < raw.expires[key] - raw.at * 1000 <= self.model.keep(end.reason) * 1000 + 1000

    def teardown(self) -> None:
        try:
            if self.sound:
                self.everything_has_an_end()
        finally:
            for client in [*self.clients, self.reader]:
                client.close()

    def everything_has_an_end(self) -> None:
        """At the end only the retained data of ended sessions remain, and no token is valid."""
        for issued in self.issued:
            self.token_agrees(issued)
        self.act(*UIDS)
        self.model.now += 40_000_000_000
        self.clock.set(self.model.now)
        self.clients[0].repair()
        self.repaired()
        self.everything_agrees()
        assert self.model.listed() == []
        assert self.before is not None
        left = {key.partition("}:")[2] for key in self.before.values}
        assert not left & {"words", "addresses", "recount", "counted"}
        for issued in self.issued:
            self.token_agrees(issued)


def _has_longer(found: set[bytes], entry: bytes) -> bool:
    """Whether an entry of this user begins with the text of this one, so that a search finds it. An alias may be found
    by the entry of a name."""
    text, before, uid = _parts(entry)
    kinds = b"na" if entry[:1] == b"a" else entry[:1]
    return any(
        other[0] in kinds and other_text.startswith(text) and before in (b"", other_before) and other_uid == uid
        for other, (other_text, other_before, other_uid) in ((other, _parts(other)) for other in found)
    )


def _parts(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """The text of an entry of the index of words, what stands before it in the name, and the uid."""
    all_text, _, uid = entry[1:].partition(b"\0")
    text, _, before = all_text.partition(BEFORE)
    return text, before, uid


def _is_indexed(ids: dict[bytes, bytes], stay: Stay, shards: int) -> bool:
    """Whether the index of session ids has the session: lua/include/search/session_ids.lua describes its form."""
    digest = id_digest(stay.sid, shards)
    bucket, entry = ids.get(digest[:2], b""), digest[2:] + struct.pack(">Q", stay.login)[2:]
    return entry in [bucket[at : at + 8] for at in range(0, len(bucket), 8)]
