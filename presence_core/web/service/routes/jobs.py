"""Bulk kicks and bulk changes of timeouts: preview, start, watch, pause, resume, cancel. Kicks by ref."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from fastapi import Query as InQuery

from presence_core.client import AsyncPresence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import NO_RUNNER, Job, KickPreview, Page, TimeoutsPreview
from presence_core.web.service import schemas
from presence_core.web.service.authorization import Kicker, Reader, Staff, authorize
from presence_core.web.service.json_format import json_response, to_plain
from presence_core.web.service.problems import code_of, not_found, problem
from presence_core.web.service.routes import Client
from presence_core.web.service.schemas import (
    JobBody,
    KickRefsBody,
    KickRefsResponse,
    Paged,
    PreviewBody,
    TimeoutsWhereBody,
)

router = APIRouter(prefix="/v1", tags=["bulk kicks"])

_UNKNOWN = "There is no job with this id, or it is no longer kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResponse(Job):
    """A bulk job and its progress."""

    warning: str | None = None  #: why no worker runs it


async def _with_warning(presence: AsyncPresence, job: Job, status: int = 200) -> Response:
    """The job; with a warning, if no worker leads that would run it."""
    warning = None
    if job.state == "running":
        with contextlib.suppress(PresenceError):  # the job is there, also if no worker is known
            worker = await presence.worker_status()
            warning = (worker.paused or None) if worker is not None and worker.alive else NO_RUNNER
    return json_response(to_plain(job) | {"warning": warning}, status)


@router.post("/kicks/preview", response_model=KickPreview, dependencies=[Kicker])
async def preview(body: PreviewBody, presence: Client) -> Response:
    """What a bulk kick would end. Pass `filter`, which is limited to sessions that began before now, and `total` to
    POST /v1/jobs."""
    return json_response(await presence.preview_kick(body.filter.to_filter(), exclude=body.exclude))


@router.post("/kicks/refs", response_model=KickRefsResponse)
async def kick_refs(body: KickRefsBody, presence: Client, caller: Staff) -> Response:
    """End sessions of any users by ref. If a server of a cluster is away, `failed` has the refs of its sessions."""
    result = await presence.kick_refs(**dict(body), by=caller.by)
    response = {name: getattr(result, name) for name in KickRefsResponse.model_fields}
    return json_response(response | {"failed": {ref: code_of(error) for ref, error in result.failed.items()}})


@router.post("/jobs", status_code=202, response_model=JobResponse)
async def start(body: JobBody, presence: Client, caller: Staff) -> Response:
    """End all sessions that match. This only writes the job; a worker (`presence worker`) runs it. If none runs,
    `warning` says so."""
    job = await presence.start_kick(body.filter.to_filter(), by=caller.by, reason=body.reason, expected=body.expected,
                                    exclude=body.exclude, message=body.message, ticket=body.ticket,
                                    pace=body.pace, delay=body.delay)  # fmt: skip
    return await _with_warning(presence, job, 202)


@router.post("/timeouts/preview", response_model=TimeoutsPreview, dependencies=[Kicker])
async def preview_timeouts(body: schemas.TimeoutsPreviewBody, presence: Client) -> Response:
    """What a bulk change of timeouts would do. Pass `filter`, which is limited to sessions that began before now, and
    `total` to POST /v1/timeouts."""
    preview = await presence.preview_timeouts(
        body.filter.to_filter(), idle_timeout=body.idle_timeout, absolute_timeout=body.absolute_timeout
    )  # fmt: skip
    return json_response(preview)


@router.post("/timeouts", status_code=202, response_model=JobResponse)
async def start_timeouts(body: TimeoutsWhereBody, request: Request, presence: Client, caller: Staff) -> Response:
    """Change the timeouts of all sessions that match. This only writes the job; a worker (`presence worker`) runs it.
    If none runs, `warning` says so. To make a timeout longer, the key also needs the scope `admin`."""
    filter, idle, absolute = body.filter.to_filter(), body.idle_timeout, body.absolute_timeout
    may_lengthen = "admin" in caller.scopes
    if not (may_lengthen or body.only_shorten):
        preview = await presence.preview_timeouts(filter, idle_timeout=idle, absolute_timeout=absolute)
        filter = preview.filter
        if preview.lengthened:
            await authorize(request, "admin")
    job = await presence.start_timeouts(
        filter, idle_timeout=idle, absolute_timeout=absolute, by=caller.by, reason=body.reason, expected=body.expected,
        only_shorten=body.only_shorten or not may_lengthen, ticket=body.ticket, pace=body.pace,
    )  # fmt: skip
    return await _with_warning(presence, job, 202)


@router.get("/jobs", response_model=Page[Job], dependencies=[Reader])
async def jobs(query: Annotated[Paged, InQuery()], presence: Client) -> Response:
    """Bulk kicks and bulk changes of timeouts, newest first."""
    return json_response(await presence.jobs(limit=query.limit, cursor=query.cursor))


@router.get("/jobs/{id:quoted}", response_model=JobResponse, dependencies=[Reader])
async def job(id: str, presence: Client) -> Response:
    """One bulk job and its progress."""
    kick_job = await presence.job(id)
    if kick_job is None:
        raise not_found(_UNKNOWN)
    return await _with_warning(presence, kick_job)


@router.post("/jobs/{id:quoted}/{act}", response_model=JobResponse)
async def steer(id: str, act: Literal["pause", "resume", "cancel"], presence: Client, caller: Staff) -> Response:
    """Pause, resume or cancel a bulk job. After the response to pause or cancel it ends and changes no more sessions.
    409 if it has ended."""
    if await presence.job(id) is None:
        raise not_found(_UNKNOWN)
    steer_job = {"pause": presence.pause_job, "resume": presence.resume_job, "cancel": presence.cancel_job}[act]
    try:
        return await _with_warning(presence, await steer_job(id, by=caller.by))
    except InvalidArgument as error:
        if error.field == "job_id":
            return problem(409, "This job has ended.", code=error.code)
        raise
