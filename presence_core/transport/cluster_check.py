"""On a cluster: is a node still the master that it was? Another master is asked, where it has not answered for a while.

A node that was stopped, and replaced meanwhile, serves what has queued up before it hears of that. A failover takes
longer than ``Many.is_fresh`` allows, so of a node that has just answered nothing needs to be asked.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import Any

from redis.exceptions import RedisError

from presence_core.transport.exchange import LOST, Many, Router

SHARE = 4
"""The other master has this part of the time limit; where it does not answer, the node is used as before."""


def suspect(router: Router, initialize: Any) -> dict[str, Any]:
    """The node to be asked last for the layout, as an option for redis-py; not every redis-py 8 can be given it."""
    option = "last_failed_node_name"
    if not isinstance(router, Many) or option not in inspect.signature(initialize).parameters:
        return {}
    return {option: router.suspect}


def confirm(transport: Any, many: Many, node: Any, until: float) -> None:
    """Raises a ConnectionError where another master says that this node was replaced."""
    if many.is_fresh(node):
        return
    for other in many.others(node):
        asked = time.monotonic()
        slots = _slots_in_time(transport, many, other, min(until, asked + (until - asked) / SHARE))
        if slots is not None:
            return many.compare(node, other, slots, asked)
        many.heard.pop(other.name, None)


def _slots_in_time(transport: Any, many: Many, node: Any, until: float) -> list[Any] | None:
    """By a thread: redis-py may take the time limit of a socket several times to make a connection."""
    if node.name in many.asking and many.asking[node.name].is_alive():
        return None
    answers: list[list[Any] | None] = []
    thread = threading.Thread(
        target=lambda: answers.append(_slots(transport, node, until)), name="presence-layout", daemon=True
    )
    many.asking[node.name] = thread
    try:
        thread.start()
    except RuntimeError:  # the interpreter is going down
        return None
    thread.join(max(0.0, until - time.monotonic()))
    return answers[0] if answers else None


def _slots(transport: Any, node: Any, until: float) -> list[Any] | None:
    at = None
    try:
        pool = transport._pool(node)
        at = pool, transport._take(pool, until)
        at[1].send_command("CLUSTER", "SLOTS")
        slots: list[Any] = at[1].read_response(disable_decoding=True, timeout=max(0.05, until - time.monotonic()))
    except (*LOST, RedisError):
        if at is not None:
            transport._give_back(at, broken=True)
        return None
    transport._give_back(at)
    return slots


async def confirm_async(many: Many, node: Any, until: float) -> None:
    """See ``confirm``."""
    if many.is_fresh(node):
        return
    for other in many.others(node):
        asked = time.monotonic()
        slots = await _slots_async(other, min(until, asked + (until - asked) / SHARE))
        if slots is not None:
            return many.compare(node, other, slots, asked)
        many.heard.pop(other.name, None)


async def _slots_async(node: Any, until: float) -> list[Any] | None:
    connection = None
    try:
        async with asyncio.timeout(max(0.05, until - time.monotonic())):
            connection = node.acquire_connection()
            await connection.connect()
            await connection.send_command("CLUSTER", "SLOTS")
            slots: list[Any] = await connection.read_response(disable_decoding=True)
        return slots
    except BaseException as error:
        if connection is not None:
            await connection.disconnect(nowait=True)
        if isinstance(error, (*LOST, RedisError)):
            return None
        raise
    finally:
        if connection is not None:
            node.release(connection)
