"""What staff do to others' sessions, and what is written down of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Query as InQuery

from presence_core.models import AuditEntry, Block, Ended, Page
from presence_core.web.keys import Reader, Staff
from presence_core.web.problems import not_found
from presence_core.web.routes import Store
from presence_core.web.schemas import (
    AuditQuery,
    BlockBody,
    EndedQuery,
    KickAnswer,
    KickBody,
    Paged,
    RevocationBody,
    answer,
    moment,
)

router = APIRouter(prefix="/v1", tags=["staff"])


@router.post("/kicks", response_model=KickAnswer)
async def kick(body: KickBody, presence: Store, caller: Staff) -> Response:
    """End one session of a user, or all of them but `keep`. Once this has answered, no request of theirs passes."""
    result = await presence.kick(**dict(body), by=caller.by)
    return answer(
        {
            "kicked": result.kicked,
            "already_ended": result.already_ended,
            "count": result.count,
            "confirmed": result.confirmed,
            "block": result.block,
        }
    )


@router.post("/revocations", status_code=201, response_model=dict[str, int])
async def revoke(body: RevocationBody, presence: Store, caller: Staff) -> Response:
    """Sign everybody out whose session began before `at`, by default now."""
    count = await presence.revoke_before(
        moment("at", body.at), by=caller.by, reason=body.reason, message=body.message
    )  # fmt: skip
    return answer({"count": count}, 201)


@router.put("/users/{uid:quoted}/block", response_model=Block)
async def block(uid: str, body: BlockBody, presence: Store, caller: Staff) -> Response:
    """Let a user not log in. Live sessions go on: see kicks, and `block_for` there. A block that there is gets no
    shorter without `shorten`, and keeps its tickets; the answer is the block as it is now."""
    said = dict(body) | {"until": moment("until", body.until)}
    return answer(await presence.block(uid, **said, by=caller.by))


@router.delete("/users/{uid:quoted}/block", response_model=dict[str, bool])
async def unblock(uid: str, reason: str, presence: Store, caller: Staff) -> Response:
    """Let a user log in again. `unblocked` is false where they were not blocked."""
    return answer({"unblocked": await presence.unblock(uid, by=caller.by, reason=reason)})


@router.get("/users/{uid:quoted}/block", response_model=Block, dependencies=[Reader])
async def blocked(uid: str, presence: Store) -> Response:
    """Why this user may not log in, and until when."""
    held = await presence.blocked(uid)
    if held is None:
        raise not_found("This user is not blocked")
    return answer(held)


@router.get("/blocks", response_model=Page[Block], dependencies=[Reader])
async def blocks(asked: Annotated[Paged, InQuery()], presence: Store) -> Response:
    """Who may not log in, the latest blocked first."""
    return answer(await presence.blocks(limit=asked.limit, cursor=asked.cursor))


@router.get("/ended", response_model=Page[Ended], dependencies=[Reader])
async def ended(asked: Annotated[EndedQuery, InQuery()], presence: Store) -> Response:
    """Why sessions are over, the latest end first, as far as that is kept."""
    page = await presence.ended(asked.uid, reason=asked.reason, by=asked.by, **asked.period(), limit=asked.limit,
                                cursor=asked.cursor)  # fmt: skip
    return answer(page)


@router.get("/audit", response_model=Page[AuditEntry], dependencies=[Reader])
async def audit(asked: Annotated[AuditQuery, InQuery()], presence: Store) -> Response:
    """What staff did, newest first."""
    page = await presence.audit(uid=asked.uid, by=asked.by, **asked.period(), limit=asked.limit, cursor=asked.cursor)
    return answer(page)
