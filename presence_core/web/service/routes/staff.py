"""Staff actions: kicks, blocks, block rules and revocations; ended sessions and the audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi import Query as InQuery

from presence_core.errors import InvalidArgument
from presence_core.models import (
    AuditEntry,
    Block,
    BlockRule,
    BlockRulePreview,
    Ended,
    FailedLogin,
    FailedNetwork,
    Page,
    Session,
    SignInResult,
)
from presence_core.web.service import schemas
from presence_core.web.service.authorization import FailureReader, Kicker, Reader, Staff, authorize
from presence_core.web.service.json_format import json_response, parse_time
from presence_core.web.service.problems import not_found
from presence_core.web.service.routes import Client

router = APIRouter(prefix="/v1", tags=["staff"])


@router.post("/kicks", response_model=schemas.KickResponse)
async def kick(body: schemas.KickBody, presence: Client, caller: Staff) -> Response:
    """End one session of a user, or all but `keep`. After the response, no request with these sessions passes."""
    result = await presence.kick(**dict(body), by=caller.by)
    return json_response({name: getattr(result, name) for name in schemas.KickResponse.model_fields})


@router.post("/users/{uid:quoted}/require-sign-in", response_model=SignInResult)
async def require_sign_in(uid: str, body: schemas.SignInBody, presence: Client, caller: Staff) -> Response:
    """Require a new sign-in in one session of a user, or all but `keep`. They stay listed, but none of them is live for
    `validate` until its visitor has authenticated again."""
    return json_response(await presence.require_sign_in(uid, **dict(body), by=caller.by))


@router.post("/users/{uid:quoted}/timeouts", response_model=dict[str, list[Session]])
async def change_timeouts(
    uid: str, body: schemas.TimeoutsBody, request: Request, presence: Client, caller: Staff
) -> Response:
    """Change the timeouts of one live session of a user, or of all. A session that is older than its new timeout ends
    as expired. To make a timeout longer, the key also needs the scope `admin`."""
    may_lengthen = "admin" in caller.scopes
    try:
        changed = await presence.change_timeouts(uid, **dict(body), by=caller.by, only_shorten=not may_lengthen)
    except InvalidArgument as error:
        if error.code == "lengthens":
            await authorize(request, "admin")
        raise
    return json_response({"sessions": changed})


@router.post("/revocations", status_code=201, response_model=dict[str, int])
async def revoke(body: schemas.RevocationBody, presence: Client, caller: Staff) -> Response:
    """Sign out everyone whose session began before `at`, by default now."""
    count = await presence.revoke_before(
        parse_time("at", body.at), by=caller.by, reason=body.reason, message=body.message
    )  # fmt: skip
    return json_response({"count": count}, 201)


@router.put("/users/{uid:quoted}/block", response_model=Block)
async def block(uid: str, body: schemas.BlockBody, presence: Client, caller: Staff) -> Response:
    """Block a user: they may not log in. Live sessions continue; to end them use a kick with `block_for`. An existing
    block keeps its tickets and gets no shorter without `shorten`. The response is the resulting block."""
    options = dict(body) | {"until": parse_time("until", body.until)}
    return json_response(await presence.block(uid, **options, by=caller.by))


@router.delete("/users/{uid:quoted}/block", response_model=dict[str, bool])
async def unblock(uid: str, reason: str, presence: Client, caller: Staff) -> Response:
    """Unblock a user. `unblocked` is false if they were not blocked."""
    return json_response({"unblocked": await presence.unblock(uid, by=caller.by, reason=reason)})


@router.get("/users/{uid:quoted}/block", response_model=Block, dependencies=[Reader])
async def blocked(uid: str, presence: Client) -> Response:
    """The block of a user: why they may not log in, and until when."""
    record = await presence.blocked(uid)
    if record is None:
        raise not_found("This user is not blocked")
    return json_response(record)


@router.get("/blocks", response_model=Page[Block], dependencies=[Reader])
async def blocks(query: Annotated[schemas.Paged, InQuery()], presence: Client) -> Response:
    """Blocked users, the latest block first."""
    return json_response(await presence.blocks(limit=query.limit, cursor=query.cursor))


@router.post("/block-rules/preview", response_model=BlockRulePreview, dependencies=[Kicker])
async def preview_rule(body: schemas.RulePreviewBody, presence: Client) -> Response:
    """How many people and sessions a block rule would concern now. Pass `sessions` to POST /v1/block-rules."""
    return json_response(await presence.preview_block_rule(**dict(body)))


@router.post("/block-rules", status_code=201, response_model=BlockRule)
async def add_rule(body: schemas.RuleBody, presence: Client, caller: Staff) -> Response:
    """Refuse logins from a network or a country, or with a version of an app. Live sessions continue. After the
    response no such login begins. Behind carrier-grade NAT an address belongs to many people, and a client can lie
    about its version."""
    options = dict(body) | {"until": parse_time("until", body.until)}
    return json_response(await presence.add_block_rule(**options, by=caller.by), 201)


@router.get("/block-rules", response_model=list[BlockRule], dependencies=[Reader])
async def rules(presence: Client) -> Response:
    """The block rules in force, the latest first; at most 100."""
    return json_response(await presence.block_rules())


@router.delete("/block-rules/{id:quoted}", response_model=dict[str, bool])
async def remove_rule(id: str, reason: str, presence: Client, caller: Staff) -> Response:
    """Remove a block rule. `removed` is false if there is no such rule."""
    return json_response({"removed": await presence.remove_block_rule(id, by=caller.by, reason=reason)})


@router.get("/ended", response_model=Page[Ended], dependencies=[Reader])
async def ended(query: Annotated[schemas.EndedQuery, InQuery()], presence: Client) -> Response:
    """Ended sessions and why they ended, the latest end first, as far as they are kept."""
    page = await presence.ended(query.uid, reason=query.reason, cause=query.cause, by=query.by, **query.period(),
                                limit=query.limit, cursor=query.cursor)  # fmt: skip
    return json_response(page)


@router.get("/failed-logins", response_model=Page[FailedLogin], dependencies=[FailureReader])
async def failed_logins(query: Annotated[schemas.FailuresQuery, InQuery()], presence: Client) -> Response:
    """Sign-ins that failed, the latest first: a row for each person or typed name, reason and address."""
    page = await presence.failed_logins(query.uid, ip=query.ip, why=query.why, **query.period(),
                                        limit=query.limit, cursor=query.cursor)  # fmt: skip
    return json_response(page)


@router.get("/failed-logins/networks", response_model=list[FailedNetwork], dependencies=[FailureReader])
async def failed_networks(query: Annotated[schemas.NetworksQuery, InQuery()], presence: Client) -> Response:
    """The networks with the most failed sign-ins in the last hour or less."""
    return json_response(await presence.failed_networks(limit=query.limit))


@router.get("/audit", response_model=Page[AuditEntry], dependencies=[Reader])
async def audit(query: Annotated[schemas.AuditQuery, InQuery()], presence: Client) -> Response:
    """Audit entries: what staff did, newest first."""
    page = await presence.audit(uid=query.uid, by=query.by, **query.period(), limit=query.limit, cursor=query.cursor)
    return json_response(page)
