"""Keys are also lost: live and ended sessions are stored twice, so a repair restores either copy."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from presence_core.keyspace import split_ref
from tests.properties.drawing import UIDS, arguments, clients, logins
from tests.properties.machine import History, New
from tests.properties.stays import Ref
from tests.support.facade import P

LISTS: Final = ("sessions", "deadlines", "users", "user", "devices")
INDEXES: Final = ("words", "ids", "addresses", "facets", "labels", "person")
REST: Final = ("layout", "people", "totals", "meta", "moved", "ended", "block", "known")

places = st.integers(0, 9)
pauses = st.sampled_from([0, 2000, 5000, 21_000])
looks = st.sampled_from(["nothing", "a sweep", "a look at the list", "looks at the users", "requests"])


class Losses(History):
    """After the loss of any one key, a repair makes all data consistent.

    Some data are stored only once, and lost with their key: the last seen and the names of people who left, the texts
    of labels, totals, the watermark of a revocation, blocks, and the lists of ends.
    """

    @rule(client=clients, family=st.sampled_from(LISTS), which=places, ms=pauses, first=looks)
    def a_list_is_lost(self, client: int, family: str, which: int, ms: int, first: str) -> None:
        self.lose(client, family, which, ms, first)

    @rule(client=clients, family=st.sampled_from(INDEXES), which=places, ms=pauses, first=looks)
    def an_index_is_lost(self, client: int, family: str, which: int, ms: int, first: str) -> None:
        self.lose(client, family, which, ms, first)

    @rule(client=clients, which=places, ms=pauses, first=looks)
    def a_record_is_lost(self, client: int, which: int, ms: int, first: str) -> None:
        self.lose(client, "session", which, ms, first)

    @rule(client=clients, family=st.sampled_from(REST), which=places, ms=pauses, first=looks)
    def something_else_is_lost(self, client: int, family: str, which: int, ms: int, first: str) -> None:
        self.lose(client, family, which, ms, first)

    def lose(self, client: int, family: str, which: int, ms: int, first: str) -> None:
        self.time_passes(ms)
        self.act(*UIDS)
        self.mixed = True
        key = self.some_key(family, which)
        if key is None:
            return
        shard, at = self.place(key)
        if family == "devices" and not all(self.is_labelled(ref) for ref in self.model.stays if ref[0] == at):
            return  # that would be the second loss
        self.bench.raw.delete(key)
        self.layout_lost = self.layout_lost or family == "layout"
        forgotten = self.forget(family, shard, at)
        self.look_first(self.clients[client], first)
        self.clients[client].repair()
        self.repaired()
        for uid in forgotten:  # their names expire by TTL in a week; until then they might return without one
            del self.model.people[uid]
            self.bench.raw.delete(f"{self.tag(uid)}:person:{uid}")
            self.model.persons.pop(uid, None)
            self.model.forgotten.add(uid)

    def forget(self, family: str, shard: int, at: str) -> set[str]:
        """The part of the model that is lost with a key. Returns the users whose time of leaving is unknown."""
        model = self.model
        here = {uid for uid in UIDS if model.shard(uid) == shard}
        if family == "session":
            model.lose_record(split_ref(at))
        elif family == "totals":
            model.lose_totals(shard)
        elif family == "meta":  # revoked sessions that were not yet drained become live again
            model.revoked.pop(shard, None)
            model.floors.pop(shard, None)
            model.ended_from.pop(shard, None)
            model.vouched.pop(shard, None)
            model.swept.pop(shard, None)
            model.demanded.pop(shard, None)
        elif family == "person":
            del model.persons[at]
        elif family == "block":
            del model.holds[at]
        elif family == "known":
            del model.devices[at]
        elif family == "layout":  # with the secret behind the digests of devices
            model.devices.clear()
            for stay in model.stays.values():
                stay.device_id = stay.device_id and f"{stay.device_id} by a lost key"
            for client in self.clients:
                client.context.cache.device_keys = ()
            for key in self.bench.raw.keys("*}:known:*"):
                self.bench.raw.delete(key)
        elif family == "ended" and at:
            del model.ended_of[at]
        elif family == "ended":
            model.ended = {ref: when for ref, when in model.ended.items() if ref[0] not in here}
        elif family == "labels":
            model.labels[shard].clear()
            self.processes_restart()
        elif family == "people":
            return here & model.people.keys()
        elif family == "users":  # the next read will find that they left
            return {uid for uid in here & model.users.keys() if not model.own_live(uid)}
        return set()

    @rule(target=logins, client=clients, which=places, given=arguments)
    def a_record_is_lost_and_its_login_repeated(self, client: int, which: int, given: dict[str, Any]) -> New:
        """The earlier session with this id has expired. Its end is not listed, because the id belongs to another
        session now."""
        key = self.some_key("session", which)
        stay = self.model.stays[split_ref(self.place(key)[1])] if key else None
        if key is None or stay is None or stay in self.model.due() or self.model.is_held(stay.uid):
            return multiple()
        self.bench.raw.delete(key)
        ended, of_user = dict(self.model.ended), dict(self.model.ended_of.get(stay.uid, {}))
        self.model.lose_record(stay.ref)
        self.model.ended = ended
        if of_user:
            self.model.ended_of[stay.uid] = of_user
        else:
            self.model.ended_of.pop(stay.uid, None)
        return self.a_user_logs_in(client, stay.uid, stay.sid, given)

    def some_key(self, family: str, which: int) -> str | None:
        assert self.before is not None
        keys = sorted(key for key in self.before.values if key.partition("}:")[2].split(":")[0] == family)
        return keys[which % len(keys)] if keys else None

    def place(self, key: str) -> tuple[int, str]:
        """A key's shard, and the part after its family."""
        tag, _, rest = key.partition("}:")
        return self.tags().index(tag + "}") if ":" in tag else 0, rest.partition(":")[2]

    def is_labelled(self, ref: Ref) -> bool:
        stay = self.model.stays[ref]
        return stay.device_id is None and bool(self.model.facts(stay)["device"] == stay.device)

    def look_first(self, client: P, first: str) -> None:
        """While a key is missing some data are unknown, but no ended session is shown as live."""
        if first == "a sweep":
            client.sweep()
        elif first == "a look at the list":
            assert {session.ref for session in client.iter_sessions()} <= {stay.name for stay in self.model.live()}
        elif first == "looks at the users":
            for uid in UIDS:
                assert {session.session_id for session in client.sessions(uid)} <= {
                    stay.sid for stay in self.model.live(uid)
                }
        elif first == "requests":
            for login in self.issued:
                stay = self.model.find(login.uid, login.sid, login.token)
                assert not client.validate(login.token, touch=False) or self.model.is_live(stay)
