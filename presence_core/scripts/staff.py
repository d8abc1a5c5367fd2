"""Scripts on blocks, the audit and staff members; each with the decoder of its reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from presence_core.models import stored_number
from presence_core.scripts.calls import by_two
from presence_core.scripts.script import Script, as_sent

RELEASE_BLOCKS: Final = Script("staff/release_blocks", repeatable=True, reply=as_sent)
STORE_BLOCK_RULES: Final = Script("staff/store_block_rules", repeatable=False, reply=as_sent)
TRIM_AUDIT: Final = Script("staff/trim_audit", repeatable=True, reply=as_sent)
COUNT_DENIED: Final = Script("staff/count_denied", repeatable=False, fenced=False, shares=True, reply=as_sent)
WRITE_AUDIT: Final = Script("staff/write_audit", repeatable=False, shares=True, reply=as_sent)

RawBlock = Sequence[bytes | None]
"""The values of BLOCK_FIELDS, which ``Block.from_reply`` reads."""


def _decode_block(reply: Any) -> RawBlock | None:
    """Decode a reply of staff/block_user.lua: the block as it is now; None: nothing was done."""
    return reply or None


BLOCK_USER: Final = Script("staff/block_user", repeatable=False, shares=True, reply=_decode_block)


def _decode_unblock(reply: int) -> bool:
    """Decode a reply of staff/unblock_user.lua: whether the user was blocked."""
    return reply == 1


UNBLOCK_USER: Final = Script("staff/unblock_user", repeatable=False, shares=True, reply=_decode_unblock)


class ChangedSession(NamedTuple):
    """A session whose timeouts were changed."""

    session_id: str
    seen: bytes
    core: bytes


class TimeoutsReply(NamedTuple):
    """The timeouts of sessions of one user."""

    now: int
    changed: list[ChangedSession]
    longer: str = ""  #: the timeout that would be longer, so that nothing was changed
    is_fenced: bool = False  #: the epoch of the bulk job has ended, so nothing was changed


def _decode_timeouts(reply: Sequence[Any] | int) -> TimeoutsReply:
    """Decode a reply of staff/change_timeouts.lua."""
    if isinstance(reply, int):
        return TimeoutsReply(0, [], is_fenced=True)
    first, *rest = reply
    if not rest:
        return TimeoutsReply(0, [], first.decode())
    [flat] = rest
    rows = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return TimeoutsReply(first, [ChangedSession(session_id.decode(), seen, core) for session_id, seen, core in rows])


CHANGE_TIMEOUTS: Final = Script("staff/change_timeouts", repeatable=False, shares=True, reply=_decode_timeouts)


class BlockRead(NamedTuple):
    """The block of one user."""

    state: int  #: 0: no block; 1: blocked; 2: a block whose end is in the past
    row: RawBlock

    @property
    def blocks(self) -> bool:
        return self.state == 1

    @property
    def is_past(self) -> bool:
        return self.state == 2


def _decode_blocks(reply: Sequence[Any]) -> list[BlockRead]:
    return [BlockRead._make(block) for block in reply]


READ_BLOCKS: Final = Script("staff/read_blocks", repeatable=True, shares=True, reply=_decode_blocks)


class ShardRules(NamedTuple):
    """The block rules of one shard."""

    now: int  #: ms
    version: int  #: of the last change, ms; 0: there has never been a rule
    rules: dict[bytes, bytes]  #: field of the HASH → the rule as JSON


def _decode_rules(reply: Sequence[Any]) -> ShardRules:
    now, version, flat = reply
    return ShardRules(now, rules_version(version), dict(by_two(flat)))


READ_BLOCK_RULES: Final = Script("staff/read_block_rules", repeatable=True, reply=_decode_rules)


def rules_version(raw: bytes | None) -> int:
    """The field ``rules_version`` of T:meta; 0 where there is none."""
    return stored_number(raw) or 0


LAST_ADMIN, TOO_MANY_MEMBERS, HAS_ROLE_ALREADY = -1, -2, -3
"""Refusals of staff/set_member.lua."""


class MemberWrite(NamedTuple):
    """A staff member's record as it is now."""

    code: int  #: 1: written; 0: it was so already; or one of the three refusals
    record: bytes


SET_MEMBER: Final = Script("staff/set_member", repeatable=False, reply=MemberWrite._make)


class AuditChunk(NamedTuple):
    """A part of one shard's audit."""

    now: int  #: ms
    total: int  #: entries of this shard
    entries: list[tuple[bytes, dict[bytes, bytes]]]  #: stream id and fields, newest first


def _decode_audit(reply: Sequence[Any]) -> AuditChunk:
    now, total, entries = reply
    return AuditChunk(now, total, [(stream_id, dict(by_two(flat))) for stream_id, flat in entries])


READ_AUDIT: Final = Script("staff/read_audit", repeatable=True, reply=_decode_audit)


TOO_MANY_ITEMS, TOO_MANY_BYTES, TOO_MANY_LISTS = -1, -2, -3
"""Refusals of staff/save_item.lua."""


class SavedChange(NamedTuple):
    """The result of a change of a list of saved items."""

    code: int  #: 1: done; 0: there was none to remove; or one of the three refusals
    at: int  #: ms


def _decode_saved(reply: Sequence[Any]) -> SavedChange:
    code, at = reply
    return SavedChange(code, int(at))


SAVE_ITEM: Final = Script("staff/save_item", repeatable=False, reply=_decode_saved)


TOO_MANY_REMARKS, TOO_MANY_REMARKED = -1, -2
"""Refusals of staff/remarks/write_remark.lua."""


class RemarkChange(NamedTuple):
    """The result of a change of the remarks on a person."""

    code: int  #: 1: done; 0: there was none to remove; or one of the two refusals
    at: int  #: ms


def _decode_remark(reply: Sequence[Any]) -> RemarkChange:
    code, at = reply
    return RemarkChange(code, int(at))


WRITE_REMARK: Final = Script("staff/remarks/write_remark", repeatable=False, reply=_decode_remark)


class RemarksRead(NamedTuple):
    """The remarks on some people."""

    now: int  #: ms
    remarks: list[list[tuple[bytes, bytes]]]  #: of each person: id, and what is stored


def _decode_remarks(reply: Sequence[Any]) -> RemarksRead:
    now, found = reply
    return RemarksRead(int(now), [list(by_two(flat)) for flat in found])


READ_REMARKS: Final = Script("staff/remarks/read_remarks", repeatable=True, reply=_decode_remarks)


def _decode_viewers(reply: Sequence[bytes]) -> list[tuple[bytes, int]]:
    """Decode a reply of staff/note_viewer.lua: name, and since when, ms."""
    return [(name, int(since)) for name, since in by_two(reply)]


NOTE_VIEWER: Final = Script("staff/note_viewer", repeatable=True, fenced=False, reply=_decode_viewers)


TOO_MANY_OPEN, TOO_MANY_OWN = -1, -2
"""Refusals of staff/approvals/ask_approval.lua."""

UNKNOWN, OWN, NOT_OWN = 0, -2, -3
"""Refusals of staff/approvals/answer_request.lua, with -1: not possible from its state."""


class RequestChange(NamedTuple):
    """A new request, or a change of its state."""

    code: int  #: 1: done; or why not
    record: bytes  #: the request as JSON


ASK_APPROVAL: Final = Script("staff/approvals/ask_approval", repeatable=True, reply=RequestChange._make)
ANSWER_REQUEST: Final = Script("staff/approvals/answer_request", repeatable=False, reply=RequestChange._make)


class StoredRequests(NamedTuple):
    """All requests as they are stored."""

    now: int  #: ms
    rows: list[tuple[bytes, bytes]]  #: id and JSON


def _decode_requests(reply: Sequence[Any]) -> StoredRequests:
    now, flat = reply
    return StoredRequests(now, list(by_two(flat)))


READ_REQUESTS: Final = Script("staff/approvals/read_requests", repeatable=True, reply=_decode_requests)
