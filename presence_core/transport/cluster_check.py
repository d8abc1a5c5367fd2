"""Check on a cluster that a node is still the master: ask another master, if the node has been silent for a while.

``routing.Cluster`` says why. A node that has replied recently is not checked.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from redis.exceptions import RedisError

from presence_core.transport.errors import LOST
from presence_core.transport.pools import read_within
from presence_core.transport.routing import Cluster

SHARE = 4
"""Each other master gets this part of the time left. If none replies, the node is used all the same."""


class Lender(Protocol):
    """What lends connections: a SyncTransport."""

    def borrow(self, node: Any, until: float) -> Any: ...
    def give_back(self, borrowed: Any, *, is_broken: bool = False) -> None: ...


def layout_options(cluster: Cluster | None, initialize: Any) -> dict[str, Any]:
    """The node to ask last for the layout, as an option of redis-py. Not every redis-py has this option."""
    option = "last_failed_node_name"
    if cluster is None or option not in inspect.signature(initialize).parameters:
        return {}
    return {option: cluster.suspect}


def confirm_master(transport: Lender, cluster: Cluster, node: Any, until: float) -> None:
    """Raise ConnectionError if another master says that this node was replaced."""
    if cluster.is_fresh(node):
        return
    for witness in cluster.witnesses(node):
        asked = time.monotonic()
        slots = _slots_in_time(transport, cluster, witness, min(until, asked + (until - asked) / SHARE))
        if slots is not None:
            return cluster.check_layout(node, witness, slots, asked)
        cluster.last_reply.pop(witness.name, None)


def _slots_in_time(transport: Lender, cluster: Cluster, node: Any, until: float) -> list[Any] | None:
    """CLUSTER SLOTS of a node, read in a thread: to connect, redis-py may take the time limit of a socket several
    times."""
    if node.name in cluster.checks and cluster.checks[node.name].is_alive():
        return None
    answers: list[list[Any] | None] = []
    thread = threading.Thread(
        target=lambda: answers.append(_slots(transport, node, until)), name="presence-layout", daemon=True
    )
    cluster.checks[node.name] = thread
    try:
        thread.start()
    except RuntimeError:  # the interpreter is shutting down
        return None
    thread.join(max(0.0, until - time.monotonic()))
    return answers[0] if answers else None


def _slots(transport: Lender, node: Any, until: float) -> list[Any] | None:
    borrowed = None
    try:
        borrowed = transport.borrow(node, until)
        connection = borrowed.connection
        connection.send_command("CLUSTER", "SLOTS")
        left = max(0.05, until - time.monotonic())
        slots: list[Any] = read_within(left, connection, connection.read_response, disable_decoding=True)
    except (*LOST, RedisError):
        if borrowed is not None:
            transport.give_back(borrowed, is_broken=True)
        return None
    transport.give_back(borrowed)
    return slots


Slots = Callable[[Any, float], Awaitable[list[Any] | None]]
"""Returns a node's reply to CLUSTER SLOTS; None if there is none until the time limit."""


async def confirm_master_async(read_slots: Slots, cluster: Cluster, node: Any, until: float) -> None:
    """See ``confirm_master``."""
    for witness in cluster.witnesses(node):
        asked = time.monotonic()
        slots = await read_slots(witness, min(until, asked + (until - asked) / SHARE))
        if slots is not None:
            return cluster.check_layout(node, witness, slots, asked)
        cluster.last_reply.pop(witness.name, None)
