"""Bulk kicks: preview, start, watch, pause, resume, cancel."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from fastapi import Query as InQuery
from starlette.exceptions import HTTPException

from presence_core.errors import InvalidArgument
from presence_core.models import Page
from presence_core.web.service.authorization import Kicker, Reader, Staff
from presence_core.web.service.json_format import json_response
from presence_core.web.service.problems import not_found
from presence_core.web.service.routes import Client
from presence_core.web.service.schemas import JobBody, JobResponse, Paged, PreviewBody, PreviewResponse

router = APIRouter(prefix="/v1", tags=["bulk kicks"])

_UNKNOWN = "There is no job with this id, or it is no longer kept"


@router.post("/kicks/preview", response_model=PreviewResponse, dependencies=[Kicker])
async def preview(body: PreviewBody, presence: Client) -> Response:
    """What a bulk kick would end. Pass `filter`, which is limited to sessions that began before now, and `total` to
    POST /v1/jobs."""
    return json_response(await presence.preview_kick(body.filter.to_filter(), exclude=body.exclude))


@router.post("/jobs", status_code=202, response_model=JobResponse)
async def start(body: JobBody, presence: Client, caller: Staff) -> Response:
    """End all sessions that match. This only writes the job; a worker (`presence worker`) runs it."""
    job = await presence.start_kick(body.filter.to_filter(), by=caller.by, reason=body.reason, expected=body.expected,
                                    exclude=body.exclude, message=body.message, ticket=body.ticket,
                                    pace=body.pace, delay=body.delay)  # fmt: skip
    return json_response(job, 202)


@router.get("/jobs", response_model=Page[JobResponse], dependencies=[Reader])
async def jobs(query: Annotated[Paged, InQuery()], presence: Client) -> Response:
    """Bulk kicks, newest first."""
    return json_response(await presence.jobs(limit=query.limit, cursor=query.cursor))


@router.get("/jobs/{id:quoted}", response_model=JobResponse, dependencies=[Reader])
async def job(id: str, presence: Client) -> Response:
    """One bulk kick and its progress."""
    kick_job = await presence.job(id)
    if kick_job is None:
        raise not_found(_UNKNOWN)
    return json_response(kick_job)


@router.post("/jobs/{id:quoted}/{act}", response_model=JobResponse)
async def steer(id: str, act: Literal["pause", "resume", "cancel"], presence: Client, caller: Staff) -> Response:
    """Pause, resume or cancel a bulk kick. After the response to pause or cancel it ends no more sessions. 409 if it
    has ended."""
    if await presence.job(id) is None:
        raise not_found(_UNKNOWN)
    steer_job = {"pause": presence.pause_job, "resume": presence.resume_job, "cancel": presence.cancel_job}[act]
    try:
        return json_response(await steer_job(id, by=caller.by))
    except InvalidArgument as error:
        if error.field == "job_id":
            raise HTTPException(409, "This job has ended.") from None
        raise
