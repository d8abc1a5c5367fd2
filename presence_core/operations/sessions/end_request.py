"""What sessions/end_sessions.lua is asked to do: end reason, author, texts, and what records it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from presence_core import validation as check
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

    @classmethod
    def kick(cls, by: object, reason: object, message: object, ticket: object, block_for: object = None) -> EndRequest:
        """A kick by staff. Raises InvalidArgument."""
        return cls(
            "kicked",
            "staff",
            check.actor(by),
            check.prose("reason", reason),
            check.optional_prose("message", message),
            check.short("ticket", ticket, 64) or "",
            "" if block_for is None else str(check.seconds("block_for", block_for)),
        )

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
    def texts(self) -> dict[str, str]:
        """What staff wrote, as scripts take it."""
        note_id = digest(self.note) if self.note else ""
        message_id = digest(self.message) if self.message else ""
        return {"note_id": note_id, "note": self.note, "message_id": message_id, "message": self.message,
                "ticket": self.ticket}  # fmt: skip

    def text_keys(self, shard: Shard) -> dict[str, str]:
        """The keys of note and message, as scripts name them."""
        texts = self.texts
        return {"note_key": shard.note(texts["note_id"]), "message_key": shard.note(texts["message_id"])}

    def _call(
        self, ctx: Context, shard: Shard, uid: str, began: int | str, mode: str, known: Sequence[str], keep: list[str]
    ) -> Call:
        named = END_SESSIONS.keys(
            audit=shard.audit, block=shard.block(uid), blocks=shard.blocks, **self.text_keys(shard)
        )
        records = [shard.record(uid, session_id) for session_id in known]
        keys = (*shard.lists, *shard.of_user(uid), *named, *records)
        return call_of(END_SESSIONS, keys, *known, *keep, given_now=ctx.now, packed_policy=ctx.cache.policy, uid=uid,
                       end_reason=self.end_reason, cause=self.cause, by=self.by, block_for=self.block_for,
                       recorded_by="silent" if self.silent else "audit", began=began, mode=mode,
                       number_of_records=len(known), **self.texts)  # fmt: skip
