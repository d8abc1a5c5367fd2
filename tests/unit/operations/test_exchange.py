"""The exchange of a batch of calls, driven by hand: which calls are sent again, and which error a failure becomes."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import AskError, MovedError, ResponseError

from presence_core.errors import OutcomeUnknown, Unavailable
from presence_core.scripts.calls import Call, command, wait
from presence_core.transport.exchange import Failed, Pause, Send, Steps, exchange
from presence_core.transport.routing import new_outage_log


class Router:
    """One node, and the nodes that its replies name."""

    is_cluster = False
    is_ready = True
    tls = False
    outages = new_outage_log()

    def node(self, key: str) -> str:
        return "here"

    def node_at(self, host: str, port: int) -> str:
        return f"{host}:{port}"

    def name(self, node: str) -> str:
        return node

    def names(self) -> list[str]:
        return ["here"]


CHANGE = Call("k", ("INCR", "k"), False)
READ = command("k", "GET", "k")


def begin(*calls: Call) -> Steps[list[Any]]:
    """An exchange that has sent its calls to the only node."""
    steps = exchange(Router(), list(calls), 5.0)
    assert sent(next(steps)) == ("here", list(calls))
    return steps


def sent(step: Any) -> tuple[str, list[Call]]:
    assert isinstance(step, Send)
    [(node, calls)] = step.groups
    return node, calls


def finish(steps: Steps[list[Any]], replies: list[Any]) -> list[Any]:
    with pytest.raises(StopIteration) as end:
        steps.send([replies])
    final: list[Any] = end.value.value
    return final


@pytest.mark.parametrize(
    "code",
    ["TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "NOREPLICAS", "MISCONF"],
)
def test_a_change_that_redis_did_not_run_is_sent_again(code: str) -> None:
    steps = begin(CHANGE)
    assert isinstance(steps.send([[ResponseError(f"{code} try again")]]), Pause)
    assert sent(steps.send(None)) == ("here", [CHANGE])
    assert finish(steps, [1]) == [1]


def test_a_client_of_one_server_that_meets_a_cluster_says_at_once_what_to_use() -> None:
    steps = begin(CHANGE)
    with pytest.raises(Unavailable, match=r"here is part of a Redis Cluster: .* redis\+cluster://") as raised:
        steps.send([[MovedError("12 127.0.0.1:7001")]])
    assert (raised.value.code, raised.value.server) == ("MOVED", "here")


def test_a_call_to_a_slot_that_moves_goes_to_its_new_node() -> None:
    steps = begin(CHANGE)
    node, calls = sent(steps.send([[AskError("12 127.0.0.1:7001")]]))
    assert (node, [call.words for call in calls]) == ("127.0.0.1:7001", [("ASKING",), ("INCR", "k")])
    assert finish(steps, [b"OK", 1]) == [1]


def test_a_wait_after_a_change_that_was_sent_again_confirms_nothing() -> None:
    steps = begin(CHANGE, wait("k", 1, 100))
    assert isinstance(steps.send([[ResponseError("TRYAGAIN later"), 1]]), Pause)
    assert sent(steps.send(None)) == ("here", [CHANGE])
    assert finish(steps, [1]) == [1, 0]


def test_a_call_whose_reply_was_lost_is_sent_again_only_where_that_is_safe() -> None:
    steps = begin(READ)
    assert isinstance(steps.send([Failed(ConnectionResetError("gone"), may_have_run=True)]), Pause)
    assert sent(steps.send(None)) == ("here", [READ])
    assert finish(steps, [b"1"]) == [b"1"]
    steps = begin(READ, CHANGE)
    with pytest.raises(OutcomeUnknown):
        steps.send([Failed(ConnectionResetError("gone"), may_have_run=True)])
    steps = begin(CHANGE)
    assert isinstance(steps.send([Failed(ConnectionResetError("gone"), may_have_run=False)]), Pause)
    assert sent(steps.send(None)) == ("here", [CHANGE])


class TwoNodes(Router):
    """A cluster of two nodes, "a" and "b", each with the key of its name."""

    is_cluster = True

    def node(self, key: str) -> str:
        return key


def test_a_call_to_a_moved_slot_is_sent_again_after_the_layout_was_read() -> None:
    steps = exchange(TwoNodes(), [change("a")], 5.0)
    next(steps)
    pause = steps.send([[MovedError("12 127.0.0.1:7001")]])
    assert isinstance(pause, Pause)
    assert pause.refresh
    assert sent(steps.send(None)) == ("a", [change("a")])
    assert finish(steps, [1]) == [1]


def change(key: str) -> Call:
    return Call(key, ("INCR", key), False)


FULL = ResponseError("OOM command not allowed when used memory > 'maxmemory'.")
FROZEN = ResponseError("LAYOUT frozen")


@pytest.mark.parametrize("refusal", [FULL, FROZEN], ids=["full", "frozen"])
def test_a_batch_of_which_a_part_was_done_is_not_a_plain_failure(refusal: Exception) -> None:
    steps = exchange(Router(), [CHANGE, CHANGE], 0.0)
    next(steps)
    with pytest.raises(OutcomeUnknown, match="A part of the change may be done: check before you repeat it") as failure:
        steps.send([[1, refusal]])
    assert failure.value.code in ("OOM", "LAYOUT")
    assert failure.value.server == "here"


@pytest.mark.parametrize("refused", ["a", "b"])
def test_a_batch_of_which_another_node_did_a_part_is_not_a_plain_failure(refused: str) -> None:
    steps = exchange(TwoNodes(), [change("a"), change("b")], 5.0)
    next(steps)
    with pytest.raises(OutcomeUnknown, match="out of memory"):
        steps.send([[FULL if node == refused else 1] for node in "ab"])


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_batch_of_which_one_node_may_have_done_a_part_is_not_a_plain_failure(lost: str) -> None:
    steps = exchange(TwoNodes(), [change("a"), change("b")], 5.0)
    next(steps)
    with pytest.raises(OutcomeUnknown):
        steps.send(
            [Failed(ConnectionResetError("gone"), may_have_run=True) if node == lost else [FULL] for node in "ab"]
        )


@pytest.mark.parametrize("replies", [[b"1", FULL], [FULL, FULL]])
def test_a_batch_of_which_nothing_was_done_is_a_plain_failure(replies: list[Any]) -> None:
    steps = exchange(Router(), [READ, CHANGE], 5.0)
    next(steps)
    with pytest.raises(Unavailable) as failure:
        steps.send([replies])
    assert type(failure.value) is Unavailable
