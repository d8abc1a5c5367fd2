"""The base of the histories: a namespace, its clients, its model, and the limits of what a step may change."""

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
from presence_core.scripts.calls import Call
from tests.properties.drawing import DECLARED, UIDS, Issued
from tests.properties.model import Model
from tests.properties.raw import Bench, Raw
from tests.properties.stays import Ref, Stay, said
from tests.support.facade import Clock
from tests.support.fair_clock import PATIENT

START: Final = (int(time.time()) // 86_400 + 2) * 86_400_000
"""Days in the future, so that TTLs of Redis do not expire during a history; not years, because the age of the audit
follows that clock."""

_namespaces = itertools.count(1)


def relay(calls: list[Call]) -> Generator[list[Call], list[Any], list[Any]]:
    """Some commands of an operation, as an operation of its own, so that a test decides what happens in between."""
    return (yield calls)


class Ground(RuleBasedStateMachine):
    """The rules are in the classes that follow."""

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
        silent = Settings(**usual | {"heal": False} | case.settings)  # uses the existing layout
        self.clock = Clock(lambda: START)
        self.clock.set(START)
        second = self.settings if case.heals else silent
        self.clients = [bench.connect(settings, self.clock) for settings in (self.settings, second)]
        for client in self.clients:
            client.context.new_id = self.new_id
            client.counts()  # writes the layout, which the next client uses
        self.reader = bench.connect(silent, self.clock)  #: only reads, and heals nothing
        self.model = Model(self.settings, case.shards, case.labels, START)
        self.before: Raw | None = None
        self.actors: set[str] = set(UIDS)  #: users whose keys the step may change
        self.clean: set[str] = set()  #: users with no session past its deadline in any list after the step
        self.reported: set[Ref] = set()  #: sessions reported as expired, which is recorded
        self.read = False  #: no session past its deadline was found, except by a revocation
        self.tidied = False  #: every ended session has a tombstone
        self.indexed = False  #: no index has an entry that it does not need
        self.layout_lost = False  #: in this or an earlier step; a note for health stays
        self.mixed = False  #: the step was several actions, so any of several names may have been kept
        self.counting = False  #: a recount of facets may be running
        self.unburied: set[Ref] = set()  #: users whose session was ended by a client that died before the tombstone
        self.cursor: str | None = None  #: cursor of the last event
        self.issued: list[Issued] = []
        self.page: tuple[str | None, tuple[int, bytes] | None] = None, None
        self.sound = True
        self.steps = 0
        self.ids = 0

    def new_id(self) -> str:
        """Looks random, but is the same when a history is played again."""
        self.ids += 1
        return urlsafe_b64encode(blake2b(b"%d" % self.ids, digest_size=16).digest()).rstrip(b"=").decode()

    def act(self, *who: str) -> None:
        """Begin a step that may change, of all users' keys, only those of these users."""
        self.sound = False
        self.actors = set(who)
        self.clean, self.read, self.tidied, self.indexed, self.mixed = set(), False, False, False, False
        self.reported = set()

    def swept(self) -> None:
        """A sweep has run to its end."""
        self.clean, self.tidied = set(UIDS), True
        self.model.swept_whole()

    def reindexed(self) -> None:
        """All indexes and counters were rebuilt."""
        self.counting = False
        self.model.rebuilt()

    def repaired(self) -> None:
        self.swept()
        self.reindexed()
        self.indexed = True
        self.model.labels_pruned()
        self.processes_restart()

    def processes_restart(self) -> None:
        """A process that has read a label's text remembers it, even if the table changes."""
        for client in [*self.clients, self.reader]:
            client.context.cache.labels.clear()

    def are(self, records: Iterable[Record], stays: list[Stay]) -> None:
        """The result has these sessions and no others, in this order, with all their fields."""
        found = list(records)
        assert [session.ref for session in found] == [stay.name for stay in stays]
        for record, stay in zip(found, stays, strict=True):
            facts = self.model.facts(stay)
            assert said(record, facts) == facts

    def note_reported(self, ended: Ended | None, stay: Stay) -> None:
        assert ended is not None
        facts = self.model.facts(stay) | self.model.end_facts(stay)
        assert said(ended, facts) == facts
        assert (ended.public.code, ended.public.message, ended.public.at) == (ended.reason, ended.message, ended.at)

    def tags(self) -> list[str]:
        return [shard.tag for shard in Keyspace(self.namespace, self.bench.case.shards).shards]

    def tag(self, uid: str) -> str:
        return self.tags()[self.model.shard(uid)]
