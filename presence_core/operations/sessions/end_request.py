"""What sessions/end_sessions.lua is asked to do: end reason, author, texts, and what records it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from presence_core.keyspace import Shard, digest
from presence_core.operations.context import Context
from presence_core.scripts.calls import Call, call_of
from presence_core.scripts.sessions import END_SESSIONS


@dataclass(slots=True)
class EndRequest:
    """Why sessions of a user end, and calls that end them."""

    end_reason: str
    cause: str
    by: str
    note: str = ""
    message: str = ""
    ticket: str = ""
    block_for: str = ""  #: seconds
    job: str = ""  #: the bulk kick that this is a part of: the job counts the end, in place of an audit entry for each
    epoch: int = 0  #: of that bulk kick
    silent: bool = False  #: no audit entry: the caller writes its own

    def end_one(self, ctx: Context, shard: Shard, uid: str, session_id: str, began: int | str = "") -> Call:
        """End this session; where ``began`` (login ms) is given, only if it began then."""
        return self._call(ctx, shard, uid, began, "one", [session_id], [])

    def end_all_but(self, ctx: Context, shard: Shard, uid: str, keep: list[str], known: Sequence[str] = ()) -> Call:
        """End all sessions of a user but those to keep. Those that are ``known`` get their tombstones, too."""
        return self._call(ctx, shard, uid, "", "all", known, keep)

    def without_job(self) -> EndRequest:
        """Copy without block and job, to apply again later."""
        return replace(self, job="", epoch=0, block_for="")

    def _call(
        self, ctx: Context, shard: Shard, uid: str, began: int | str, mode: str, known: Sequence[str], keep: list[str]
    ) -> Call:
        note_id = digest(self.note) if self.note else ""
        message_id = digest(self.message) if self.message else ""
        recorded_by = "silent" if self.silent else self.epoch if self.job else "audit"
        keys = (*shard.lists, *shard.of_user(uid), shard.audit, shard.note(note_id), shard.note(message_id),
                shard.block(uid), shard.blocks, shard.job(self.job),
                *(shard.record(uid, session_id) for session_id in known))  # fmt: skip
        texts = (note_id, self.note, message_id, self.message, self.ticket)
        return call_of(END_SESSIONS, keys, ctx.now, ctx.policy, uid, self.end_reason, self.cause, self.by, *texts,
                       self.block_for, recorded_by, began, mode, len(known), *known, *keep)  # fmt: skip
