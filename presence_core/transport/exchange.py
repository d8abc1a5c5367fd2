"""Exchange batches of calls with the servers: decide what is sent where, and what may be sent again.

These are generators that both drivers follow. They yield a step, receive its result, and do no I/O themselves:

- ``Connect``: read the layout of the cluster for the first time.
- ``Send``: send each node its calls. The result is, for each node, a list of replies or a ``Failed``.
- ``Pause``: wait, and perhaps read the layout again.

A call may be sent again in three cases: it was never written to a socket; Redis replied without running it (MOVED,
TRYAGAIN, LOADING, …); it is ``repeatable``. If the reply to any other call was lost, the batch ends as OutcomeUnknown.
So does a batch of which a part was done.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import Any, Final, TypeVar

from redis.exceptions import (
    AskError,
    AuthenticationError,
    MaxConnectionsError,
    MovedError,
    NoScriptError,
    RedisClusterException,
    SlotNotCoveredError,
)

from presence_core.errors import CorruptData, OutcomeUnknown, PresenceError, Unavailable
from presence_core.scripts import EVERY
from presence_core.scripts.calls import Call, Op, command
from presence_core.scripts.script import AnyScript
from presence_core.transport import tls
from presence_core.transport.errors import (
    AWAY,
    LOST,
    NOT_RUN,
    code_of,
    explained,
    is_frozen,
    is_unnamed,
    needs_cluster,
    outcome_unknown,
    type_checks,
    with_key_name,
)
from presence_core.transport.routing import Router, group_by_node, server_of

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2)
"""Seconds between attempts. Where time alone ends them (``gives_up``), the last one repeats."""

_NO_REPLY: Final = object()

T = TypeVar("T")


@dataclass(slots=True)
class Failed:
    """A node did not reply. ``may_have_run``: False where certainly none of the calls has run."""

    error: BaseException
    may_have_run: bool


@dataclass(slots=True)
class Connect:
    """Read the layout of the cluster for the first time. Raises Unavailable."""


@dataclass(slots=True)
class Send:
    """Send each node its calls. The result has, in the same order, a list of replies or a Failed for each."""

    groups: list[tuple[Any, list[Call]]]
    until: float  #: monotonic
    first: bool = False  #: the first attempt: the time limit of the socket is that of the call


@dataclass(slots=True)
class Pause:
    """Wait. Then, with ``refresh``, read the cluster's layout or find the master again, as far as time allows."""

    seconds: float
    refresh: bool
    until: float  #: monotonic


Step = Connect | Send | Pause
Steps = Generator[Step, Any, T]


def run_operation(router: Router, operation: Op[T], timeout: float) -> Steps[T]:
    """Exchange each batch of an operation and return the operation's result. Errors are thrown into the operation."""
    try:
        calls = next(operation)
        while True:
            try:
                replies = yield from exchange(router, calls, timeout)
            except PresenceError as error:
                if isinstance(error, Unavailable) and error.code in AWAY:
                    router.outages.failed(error, error.server)
                calls = operation.throw(error)
            else:
                if router.outages:
                    _note_replies(router, calls)
                calls = operation.send(replies)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _note_replies(router: Router, calls: list[Call]) -> None:
    """During an outage: note the servers that have answered these calls."""
    for server in {"", *(call.at or server_of(router, call.key) for call in calls)}:
        router.outages.worked(server)


def exchange(router: Router, calls: list[Call], timeout: float) -> Steps[list[Any]]:
    """Send a batch and return its replies, in order. Raises what the first failed call means."""
    if not calls:
        return []
    if not router.is_ready:
        yield Connect()
    until = time.monotonic() + timeout
    answers = None
    if len(calls) == 1 and not router.is_cluster:  # nearly every call: nothing to group, and seldom anything to decide
        answers = yield Send([(router.node(""), calls)], until, True)
        if type(answers[0]) is list and not isinstance(answers[0][0], Exception):
            replies: list[Any] = answers[0]
            return replies
    batch = _Batch(router, calls, until)
    attempts = 0
    try:
        while True:
            yield from batch.send(answers, is_first=attempts == 0)
            answers = None
            if batch.retry is None:
                return batch.all_replies()
            if batch.gives_up(attempts):
                raise batch.retry.explained() from batch.retry.error
            yield batch.pause(attempts)
            batch.prepare_retry()
            attempts += 1
    except (CorruptData, Unavailable) as error:
        if isinstance(error, OutcomeUnknown) or not batch.is_begun():
            raise
        sentence = f"A part of the change may be done: check before you repeat it. {error}"
        server, code = (error.server, error.code) if isinstance(error, Unavailable) else ("", "")
        raise OutcomeUnknown(sentence, server, code) from error


@dataclass(slots=True)
class _Retry:
    """Why calls are sent again."""

    error: BaseException
    server: str = ""
    tls: bool | None = None  #: for a failure to connect: whether by TLS
    refresh: bool = True  #: the node may not be the right one any more

    @property
    def is_crowded(self) -> bool:
        """The server is well; all connections of the pool are in use."""
        return isinstance(self.error, MaxConnectionsError)

    def explained(self) -> PresenceError:
        return explained(self.error, self.server, tls=self.tls)


class _Batch:
    """The calls of one exchange, by place, and the replies to them so far."""

    __slots__ = ("_calls", "_pending", "_replies", "_router", "_shared", "_until", "retry")

    def __init__(self, router: Router, calls: list[Call], until: float) -> None:
        self._router = router
        self._calls = calls
        self._until = until
        self._replies: list[Any] = [_NO_REPLY] * len(calls)
        self._pending = list(range(len(calls)))
        self._shared: dict[int, int] = {}  # a WAIT or INFO that is not sent → the one whose reply it shares
        self.retry: _Retry | None = None

    def send(self, answers: list[Any] | None, *, is_first: bool) -> Steps[None]:
        """Send what is pending, unless its answers are given. Afterwards ``retry`` says why some is pending again."""
        self.retry = None
        try:
            groups = group_by_node(self._router, self._calls, self._pending)
        except (SlotNotCoveredError, RedisClusterException) as error:
            self.retry = _Retry(error)
            return
        if self._calls and self._calls[-1].waits:
            self._share_waits(groups)
        self._pending = []
        sent = [(node, [self._calls[place] for place in places]) for node, places in groups]
        if answers is None:
            answers = yield Send(sent, self._until, is_first)
        # Every answer is taken before one of them may raise: is_begun asks for all.
        unsettled = [
            (node, places, answer)
            for (node, places), answer in zip(groups, answers, strict=True)
            if self._take_answer(node, places, answer)
        ]
        for node, places, answer in unsettled:
            if isinstance(answer, Failed):
                self._take_failure(node, places, answer)
            else:
                yield from self._settle(node, places)

    def is_begun(self) -> bool:
        """Whether a change that must not run twice was answered without an error."""
        replies = zip(self._calls, self._replies, strict=True)
        return any(
            not (call.repeatable or reply is _NO_REPLY or isinstance(reply, Exception)) for call, reply in replies
        )

    def all_replies(self) -> list[Any]:
        for place, sent in self._shared.items():
            self._replies[place] = self._replies[sent]
        return self._replies

    def gives_up(self, attempts: int) -> bool:
        """Whether the error is final. On a cluster, or while the server is well, only time ends the attempts."""
        assert self.retry is not None
        if time.monotonic() >= self._until:
            return True
        is_patient = self._router.is_cluster or self.retry.is_crowded or is_frozen(self.retry.error)
        return attempts >= len(_PAUSES) and not is_patient

    def pause(self, attempts: int) -> Pause:
        assert self.retry is not None
        left = max(0.0, self._until - time.monotonic())
        seconds = min(_PAUSES[min(attempts, len(_PAUSES) - 1)], left)
        return Pause(seconds, self.retry.refresh and not self.retry.is_crowded, self._until)

    def prepare_retry(self) -> None:
        """Calls that are sent again may go to another node: WAITs that were not sent count for nothing."""
        for place in self._shared:
            self._replies[place] = 0
        self._shared.clear()

    # -- one attempt --------------------------------------------------------------------------------------------------

    def _share_waits(self, groups: list[tuple[Any, list[int]]]) -> None:
        """Send each node one WAIT: it covers every write before it, on all shards. Several would wait in sequence. So
        does one INFO."""
        for _, places in groups:
            by_command: dict[Any, list[int]] = {}
            for place in places:
                if self._calls[place].waits:
                    by_command.setdefault(self._calls[place].words[0], []).append(place)
            for alike in by_command.values():
                self._shared.update(dict.fromkeys(alike[:-1], alike[-1]))
            places[:] = [place for place in places if place not in self._shared]

    def _send_again(self, places: list[int], retry: _Retry) -> None:
        self._pending += places
        if self.retry is not None:
            retry.refresh = retry.refresh or self.retry.refresh
        self.retry = retry

    def _take_answer(self, node: Any, places: list[int], answer: list[Any] | Failed) -> bool:
        """Keep the replies of a node; whether anything failed. Raises if a write may have run."""
        if not isinstance(answer, Failed):
            return self._take_replies(places, answer)
        if answer.may_have_run and not all(self._calls[place].repeatable for place in places):
            raise outcome_unknown(answer.error, self._router.name(node)) from answer.error
        return True

    def _take_failure(self, node: Any, places: list[int], failed: Failed) -> None:
        """Send the calls again, or raise if that is useless."""
        server, error = self._router.name(node), failed.error
        is_refusal = tls.is_refusal(error)
        retry = _Retry(error, server, self._router.tls if is_refusal or not failed.may_have_run else None)
        if is_refusal or isinstance(error, AuthenticationError):
            raise retry.explained() from error
        self._send_again(places, retry)

    def _take_replies(self, places: list[int], replies: list[Any]) -> bool:
        """Keep the replies; whether any of them is an error."""
        has_errors = False
        for place, reply in zip(places, replies, strict=True):
            self._replies[place] = reply
            has_errors = has_errors or isinstance(reply, Exception)
        return has_errors

    def _settle(self, node: Any, places: list[int]) -> Steps[None]:
        """Handle the error replies of one node: recover, ignore, send again, or raise."""
        error = yield from self._recover(node, places)
        if error is not None:
            failed = [place for place in places if isinstance(self._replies[place], Exception)]
            self._send_again(failed, _Retry(error, self._router.name(node), refresh=not is_frozen(error)))

    def _recover(self, node: Any, places: list[int]) -> Steps[BaseException | None]:
        """The error for which calls are to be sent again; None when every reply is final."""
        if any(isinstance(self._replies[place], NoScriptError) for place in places):
            lost = yield from self._load_scripts(node, places)
            if lost is not None:
                return lost
        yield from self._follow_asks(places)
        for place in places:
            call, reply = self._calls[place], self._replies[place]
            if not isinstance(reply, Exception):
                continue
            if call.lenient and "WRONGTYPE" in str(reply):
                self._replies[place] = None
            elif call.waits:  # the write itself has succeeded
                self._replies[place] = 0
            elif code_of(reply) == "MOVED" and not self._router.is_cluster:
                raise needs_cluster(self._router.name(node), tls=self._router.tls) from reply
            elif _may_be_sent_again(call, reply):
                self._void_waits(places)
                return reply
            else:
                named = (yield from self._with_key_name(node, call)) if is_unnamed(reply) else reply
                raise explained(named, self._router.name(node), call=call) from reply
        return None

    def _void_waits(self, places: list[int]) -> None:
        """Some of these calls went to another node, or go again: this node's replicas say nothing about them."""
        for place in places:
            if self._calls[place].waits:
                self._replies[place] = 0

    # -- recovery from one kind of error reply -------------------------------------------------------------------------

    def _load_scripts(self, node: Any, places: list[int]) -> Steps[BaseException | None]:
        """Load the scripts and send again what did not run. Repeats, within the time limit, while another program
        flushes them. Returns the error of a lost connection, if all that is left may be sent again."""
        # Load all of them: with only some, a read in front of a write would be sent again behind it.
        scripts: list[AnyScript] = list(EVERY)
        part = waiting = self._not_run(places)
        has_waits_elsewhere = waiting[0] != places[0]  # another master may have answered the calls before
        while True:
            loads = [command("", "SCRIPT", "LOAD", script.text) for script in scripts]
            [answer] = yield Send([(node, [*loads, *(self._calls[place] for place in part)])], self._until)
            if isinstance(answer, Failed):
                if answer.may_have_run and not all(self._calls[place].repeatable for place in part):
                    raise outcome_unknown(answer.error, self._router.name(node)) from answer.error
                for place in waiting:
                    self._replies[place] = answer.error
                return answer.error
            self._take_replies(part, answer[len(loads) :])
            for reply in answer[: len(loads)]:
                if isinstance(reply, Exception):
                    raise explained(reply, self._router.name(node)) from reply
            waiting = self._not_run(part) + waiting[len(part) :]
            if not waiting:
                if has_waits_elsewhere:
                    self._void_waits(places)
                return None
            # They were flushed again. From now on load each script right before its own calls, because a flush hardly
            # ever comes between the two; one script at a time, so that no call overtakes another.
            has_waits_elsewhere = True
            scripts, part = self._next_part(waiting)
            if time.monotonic() >= self._until:
                flushed = NoScriptError("No matching script")
                raise explained(flushed, self._router.name(node)) from flushed

    def _next_part(self, waiting: list[int]) -> tuple[list[AnyScript], list[int]]:
        """The script of the first call that waits, and the calls from there on that need no other script."""
        script = self._calls[waiting[0]].script
        part = list(takewhile(lambda place: self._calls[place].script in (script, None), waiting))
        return ([] if script is None else [script]), part

    def _not_run(self, places: list[int]) -> list[int]:
        """The places from the first call on whose script was unknown. Calls behind it rely on it, such as the clean-up
        behind a kick, so they are sent again, too, where that is safe."""
        behind = dropwhile(lambda place: not isinstance(self._replies[place], NoScriptError), places)
        return [
            place
            for place in behind
            if self._calls[place].repeatable or isinstance(self._replies[place], NoScriptError)
        ]

    def _follow_asks(self, places: list[int]) -> Steps[None]:
        """Send calls whose keys are being moved to the node that has them now."""
        for place in places:
            reply = self._replies[place]
            if not isinstance(reply, AskError) or isinstance(reply, MovedError):  # redis-py derives one from the other
                continue
            self._void_waits(places)
            script = self._calls[place].script
            if script is not None and script.derives:
                continue
            target = self._router.node_at(reply.host, reply.port)
            if target is not None:  # a node that has just joined is in no layout yet
                self._replies[place] = yield from self._ask(target, self._calls[place])

    def _ask(self, target: Any, call: Call) -> Steps[Any]:
        """Send one call with ASKING. A node that has just joined has no scripts yet."""
        loads: list[Call] = []
        while True:
            [answer] = yield Send([(target, [*loads, command("", "ASKING"), call])], self._until)
            if isinstance(answer, Failed):
                if answer.may_have_run and not call.repeatable:
                    raise outcome_unknown(answer.error, self._router.name(target)) from answer.error
                return answer.error
            reply = answer[-1]
            if call.script is None or not isinstance(reply, NoScriptError) or time.monotonic() >= self._until:
                return reply
            others = [script for script in EVERY if script is not call.script]
            scripts = (*others, call.script)  # its own last: a flush hardly ever comes between the two
            loads = [command("", "SCRIPT", "LOAD", script.text) for script in scripts]

    def _with_key_name(self, node: Any, call: Call) -> Steps[Exception]:
        """Redis does not say which key of this call has a foreign type: ask for each."""
        checks = type_checks(call)
        [answer] = (yield Send([(node, checks)], self._until)) if checks else [[]]
        return with_key_name(call, checks, [] if isinstance(answer, Failed) else answer)


def _may_be_sent_again(call: Call, reply: Exception) -> bool:
    was_not_run = isinstance(reply, AskError) or code_of(reply) in NOT_RUN or is_frozen(reply)
    return was_not_run or (isinstance(reply, LOST) and call.repeatable)
