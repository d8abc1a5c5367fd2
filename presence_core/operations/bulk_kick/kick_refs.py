"""Kick sessions that staff name by ref, of any users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from presence_core.errors import CorruptData, OutcomeUnknown, PresenceError, Unavailable, foreign_data
from presence_core.models import Ended, KickResult, Session, login_ms
from presence_core.operations.bulk_kick.kick_call import kick_calls
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import (
    Replicas,
    check_capacity,
    read_confirmations,
    wait_calls,
)
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.held_ends import hold_end
from presence_core.operations.sessions.settle import Pair
from presence_core.operations.sessions.tombstones import check_refs, sessions_of_refs
from presence_core.scripts.bulk_kick import FOREIGN, KICKED
from presence_core.scripts.calls import CHECKED, Op, checked_first

BATCH: Final = 200
"""Sessions that one round trip ends, at most, so that other clients do not wait long."""


@checked_first
def kick_refs(
    ctx: Context, refs: object, *, by: object, reason: object, message: object, ticket: object
) -> Op[KickResult]:
    pairs = check_refs(refs)
    request = EndRequest.kick(by, reason, message, ticket)
    yield CHECKED
    check_capacity(ctx)
    kick = _Kick(ctx, request, Replicas(True if ctx.settings.confirm_replicas else None, {}))
    parts: dict[str, list[Pair]] = {}  # by server: one that is away must not take the replies of the others with it
    for pair in pairs:
        parts.setdefault(ctx.server_of(ctx.shard(pair[0]).tag), []).append(pair)
    for part in parts.values():
        yield from kick.end(part)
    return kick.result([":".join(pair) for pair in pairs])


@dataclass(slots=True)
class _Kick:
    """One call of ``kick_refs``."""

    ctx: Context
    request: EndRequest
    replicas: Replicas
    outcomes: dict[str, Session | Ended | PresenceError | None] = field(default_factory=dict)
    """By ref: the session that was kicked; how it had ended before; why it may still be live; None: not found."""

    def end(self, pairs: list[Pair]) -> Op[None]:
        """End these sessions of one server."""
        try:
            live = yield from self._read(pairs)
            ended_meanwhile: list[Pair] = []
            for first in range(0, len(live), BATCH):
                ended_meanwhile += yield from self._end_batch(live[first : first + BATCH])
            yield from self._read(ended_meanwhile)
        except (Unavailable, CorruptData) as error:
            if isinstance(error, Unavailable) and error.code == "LAYOUT":
                self.ctx.cache.look_at = 0.0  # the next call reads the layout again
            for pair in pairs:
                self.outcomes.setdefault(":".join(pair), error)

    def _read(self, pairs: list[Pair]) -> Op[list[Session]]:
        """The live sessions among these. How the others have ended is their outcome."""
        states = yield from sessions_of_refs(self.ctx, pairs)
        live = [state for state in states.values() if isinstance(state, Session)]
        ended = {":".join(pair): states.get(":".join(pair)) for pair in pairs}
        self.outcomes |= {ref: state for ref, state in ended.items() if not isinstance(state, Session)}
        unconfirmed = Replicas(None if self.replicas.confirmed is None else False, {})
        for state in ended.values():
            if isinstance(state, Ended):  # perhaps by an earlier call, whose reply was lost
                self._hold(state, unconfirmed)
        return live

    def _end_batch(self, sessions: list[Session]) -> Op[list[Pair]]:
        """End these sessions. Returns those that had ended."""
        parts, calls = kick_calls(self.ctx, sessions, self.request, "", "")
        shards = [shard for shard, _ in parts]
        try:
            replies = yield [*calls, *wait_calls(self.ctx, shards)]
        except Unavailable as error:
            sentence = f"Some of these sessions may have ended: call again. {error}"
            raise OutcomeUnknown(sentence, error.server, error.code) from error
        replicas = read_confirmations(self.ctx, shards, replies)
        self.replicas &= replicas
        had_ended = []
        for (_, some), reply in zip(parts, replies, strict=False):
            for session, result in zip(some, [FOREIGN] * len(some) if reply is None else reply, strict=True):
                if result == FOREIGN:
                    self.outcomes[session.ref] = foreign_data(f"A key of {session.ref}")
                    continue
                self._hold(session, replicas)
                if result == KICKED:
                    self.outcomes[session.ref] = session
                else:
                    had_ended.append((session.uid, session.session_id))
        return had_ended

    def _hold(self, session: Session | Ended, replicas: Replicas) -> None:
        hold_end(self.ctx, replicas, self.request, session.uid, session.session_id, login_ms(session))

    def result(self, refs: list[str]) -> KickResult:
        """The outcomes of these refs, in this order. Raises the first error if there is nothing else."""
        found = {ref: self.outcomes[ref] for ref in refs}
        failed = {ref: outcome for ref, outcome in found.items() if isinstance(outcome, PresenceError)}
        if failed and len(failed) == len(found):
            raise next(iter(failed.values()))
        return KickResult(
            [outcome for outcome in found.values() if isinstance(outcome, Session)],
            [outcome for outcome in found.values() if isinstance(outcome, Ended)],
            confirmed=self.replicas.confirmed,
            not_found=[ref for ref, outcome in found.items() if outcome is None],
            failed=failed,
        )
