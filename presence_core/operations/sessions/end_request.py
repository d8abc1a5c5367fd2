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
    silent: bool = False  #: no audit entry: the caller writes its own

    def end_one(self, ctx: Context, shard: Shard, uid: str, session_id: str, began: int | str = "") -> Call:
        """End this session; where ``began`` (login ms) is given, only if it began then."""
        return self._call(ctx, shard, uid, began, "one", [session_id], [])

    def end_all_but(self, ctx: Context, shard: Shard, uid: str, keep: list[str], known: Sequence[str] = ()) -> Call:
        """End all sessions of a user but those to keep. Those that are ``known`` get their tombstones, too."""
        return self._call(ctx, shard, uid, "", "all", known, keep)

    def without_block(self) -> EndRequest:
        """A copy to apply again later."""
        return replace(self, block_for="")

    @property
    def texts(self) -> tuple[str, str, str, str, str]:
        """Note id, note, message id, message and ticket, as scripts take them."""
        note_id = digest(self.note) if self.note else ""
        message_id = digest(self.message) if self.message else ""
        return note_id, self.note, message_id, self.message, self.ticket

    def text_keys(self, shard: Shard) -> tuple[str, str]:
        """The keys of note and message."""
        note_id, _, message_id, *_ = self.texts
        return shard.note(note_id), shard.note(message_id)

    def _call(
        self, ctx: Context, shard: Shard, uid: str, began: int | str, mode: str, known: Sequence[str], keep: list[str]
    ) -> Call:
        keys = (*shard.lists, *shard.of_user(uid), shard.audit, *self.text_keys(shard), shard.block(uid), shard.blocks,
                *(shard.record(uid, session_id) for session_id in known))  # fmt: skip
        return call_of(END_SESSIONS, keys, ctx.now, ctx.policy, uid, self.end_reason, self.cause, self.by, *self.texts,
                       self.block_for, "silent" if self.silent else "audit", began, mode, len(known), *known,
                       *keep)  # fmt: skip
