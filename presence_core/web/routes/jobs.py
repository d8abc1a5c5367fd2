"""Bulk kicks: looked at first, then run by a worker, watched and steered."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from fastapi import Query as InQuery
from starlette.exceptions import HTTPException

from presence_core.errors import InvalidArgument
from presence_core.models import Page
from presence_core.web.keys import Kicker, Reader, Staff
from presence_core.web.problems import not_found
from presence_core.web.routes import Store
from presence_core.web.schemas import JobAnswer, JobBody, Paged, PreviewAnswer, PreviewBody, answer

router = APIRouter(prefix="/v1", tags=["bulk kicks"])

_UNKNOWN = "No job has this id, or it is no longer kept"


@router.post("/kicks/preview", response_model=PreviewAnswer, dependencies=[Kicker])
async def preview(body: PreviewBody, presence: Store) -> Response:
    """What a bulk kick would hit, frozen to sessions that began before now: give `filter` and `total` to POST
    /v1/jobs."""
    return answer(await presence.preview_kick(body.filter.asked(), exclude=body.exclude))


@router.post("/jobs", status_code=202, response_model=JobAnswer)
async def start(body: JobBody, presence: Store, caller: Staff) -> Response:
    """End every session that matches. This writes the job; a worker (`presence worker`) does it."""
    job = await presence.start_kick(body.filter.asked(), by=caller.by, reason=body.reason, expected=body.expected,
                                    exclude=body.exclude, message=body.message, ticket=body.ticket,
                                    pace=body.pace)  # fmt: skip
    return answer(job, 202)


@router.get("/jobs", response_model=Page[JobAnswer], dependencies=[Reader])
async def jobs(asked: Annotated[Paged, InQuery()], presence: Store) -> Response:
    """Bulk kicks, the newest first."""
    return answer(await presence.jobs(limit=asked.limit, cursor=asked.cursor))


@router.get("/jobs/{id:quoted}", response_model=JobAnswer, dependencies=[Reader])
async def job(id: str, presence: Store) -> Response:
    """One bulk kick, and how far it is."""
    known = await presence.job(id)
    if known is None:
        raise not_found(_UNKNOWN)
    return answer(known)


@router.post("/jobs/{id:quoted}/{act}", response_model=JobAnswer)
async def steer(id: str, act: Literal["pause", "resume", "cancel"], presence: Store, caller: Staff) -> Response:
    """Let a bulk kick rest, go on, or end where it is. Once pause or cancel has answered, it ends no session. 409
    where it is over."""
    before = await presence.job(id)
    if before is None:
        raise not_found(_UNKNOWN)
    do = {"pause": presence.pause_job, "resume": presence.resume_job, "cancel": presence.cancel_job}[act]
    try:
        return answer(await do(id, by=caller.by))
    except InvalidArgument as error:
        if error.field == "job_id":
            raise HTTPException(409, "This job is over.") from None
        raise
