"""What the histories are played on: a namespace, its clients, its model, and what a step may do."""

from __future__ import annotations

import itertools
import time
from base64 import urlsafe_b64encode
from collections.abc import Generator, Iterable
from hashlib import blake2b
from typing import Any, Final

from hypothesis.stateful import RuleBasedStateMachine

from presence_core import Ended, Settings
from presence_core.keyspace import Keyspace
from presence_core.models import Record
from presence_core.scripts import Call
from tests.facade import Clock
from tests.fair_clock import PATIENT
from tests.properties.drawing import DECLARED, UIDS, Issued
from tests.properties.model import Model
from tests.properties.raw import Bench, Raw
from tests.properties.stays import Ref, Stay, said

START: Final = (int(time.time()) // 86_400 + 2) * 86_400_000
"""Days ahead, so that what Redis expires by its own clock stays; not years: an audit's age goes by that clock."""

_namespaces = itertools.count(1)


def relay(calls: list[Call]) -> Generator[list[Call], list[Any], list[Any]]:
    """Some commands of an operation, as an operation: whoever sends it decides what comes between."""
    return (yield calls)


class Ground(RuleBasedStateMachine):
    """Rules come with the classes that follow."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        bench.raw.flushall()
        self.bench = bench
        self.namespace = f"h{next(_namespaces)}"
        case = bench.case
        usual: dict[str, Any] = {"idle_timeout": 20, "absolute_timeout": 60, "namespace": self.namespace}
        usual |= {"timeout": PATIENT}
        usual |= {"facets": DECLARED}
        self.settings = Settings(**usual | {"shards": case.shards} | case.settings)
        silent = Settings(**usual | {"heal": False} | case.settings)  # goes by the layout that is there
        self.clock = Clock(lambda: START)
        self.clock.set(START)
        second = self.settings if case.heals else silent
        self.clients = [bench.connect(one, self.clock) for one in (self.settings, second)]
        for client in self.clients:
            client.context.new_id = self.new_id
            client.counts()  # writes down the layout, which the next one goes by
        self.reader = bench.connect(silent, self.clock)  #: looks, and mends nothing
        self.model = Model(self.settings, case.shards, case.labels, START)
        self.before: Raw | None = None
        self.actors: set[str] = set(UIDS)  #: whose keys the step may change
        self.clean: set[str] = set()  #: who has nothing past its deadline in any list after the step
        self.told: set[Ref] = set()  #: who was told that they expired, and it is written down
        self.read = False  #: nobody has, but who was signed out with everybody
        self.tidied = False  #: nobody has, and whoever ended has a tombstone
        self.indexed = False  #: no index holds what it need not
        self.mixed = False  #: the step was several acts: which of several names was kept, nobody knows
        self.counting = False  #: a recount of facets may be under way
        self.unburied: set[Ref] = set()  #: who ended by the hand of a client that died before the tombstone
        self.cursor: str | None = None  #: of the last event
        self.issued: list[Issued] = []
        self.page: tuple[str | None, tuple[int, bytes] | None] = None, None
        self.sound = True
        self.steps = 0
        self.ids = 0

    def new_id(self) -> str:
        """Random to the eye, the same when a history is played again."""
        self.ids += 1
        return urlsafe_b64encode(blake2b(b"%d" % self.ids, digest_size=16).digest()).rstrip(b"=").decode()

    def act(self, *who: str) -> None:
        """A step begins, and these users' keys are all of a user's that it may change."""
        self.sound = False
        self.actors = set(who)
        self.clean, self.read, self.tidied, self.indexed, self.mixed = set(), False, False, False, False
        self.told = set()

    def swept(self) -> None:
        """A sweep ran to its end."""
        self.clean, self.tidied = set(UIDS), True
        self.model.swept_whole()

    def reindexed(self) -> None:
        """Everything was indexed and counted anew."""
        self.counting = False
        self.model.indexed_anew()

    def repaired(self) -> None:
        self.swept()
        self.reindexed()
        self.indexed = True
        self.model.labels_pruned()
        self.processes_begin_anew()

    def processes_begin_anew(self) -> None:
        """One that has read a label's text goes on knowing it, whatever becomes of the table."""
        for one in [*self.clients, self.reader]:
            one.context.labels.clear()

    def are(self, records: Iterable[Record], stays: list[Stay]) -> None:
        """These and no others, in this order, with all that is to be said of them."""
        found = list(records)
        assert [one.ref for one in found] == [stay.name for stay in stays]
        for record, stay in zip(found, stays, strict=True):
            facts = self.model.facts(stay)
            assert said(record, facts) == facts

    def is_told(self, ended: Ended | None, stay: Stay) -> None:
        assert ended is not None
        facts = self.model.facts(stay) | self.model.end_facts(stay)
        assert said(ended, facts) == facts
        assert (ended.public.code, ended.public.message, ended.public.at) == (ended.reason, ended.message, ended.at)

    def tags(self) -> list[str]:
        return [shard.tag for shard in Keyspace(self.namespace, self.bench.case.shards).shards]

    def tag(self, uid: str) -> str:
        return self.tags()[self.model.shard(uid)]
