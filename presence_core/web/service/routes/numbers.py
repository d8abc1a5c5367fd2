"""People, counts, facets and history."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Query as InQuery

from presence_core.models import Counts, Person, Sample
from presence_core.web.service.authorization import Reader
from presence_core.web.service.json_format import json_response
from presence_core.web.service.routes import Client
from presence_core.web.service.schemas import HistoryQuery, PeopleQuery

router = APIRouter(prefix="/v1", tags=["numbers"], dependencies=[Reader])


@router.get("/people", response_model=dict[str, list[Person]])
async def people(query: Annotated[PeopleQuery, InQuery()], presence: Client) -> Response:
    """People, online or recently seen, whom `text` finds by uid, name or alias."""
    return json_response({"items": await presence.people(query.text, limit=query.limit)})


@router.get("/counts", response_model=Counts)
async def counts(presence: Client) -> Response:
    """The number of users and sessions online, and totals of logins, of ends by reason and of odd logins."""
    return json_response(await presence.counts())


@router.get("/facets/{field:quoted}", response_model=dict[str, dict[str, int]])
async def facets(field: str, presence: Client) -> Response:
    """Live sessions by value, most frequent first: device, app, app_version, os, browser, country,
    network, or a declared attribute."""
    return json_response({"values": await presence.facets(field)})


@router.get("/history", response_model=dict[str, list[Sample]])
async def history(query: Annotated[HistoryQuery, InQuery()], presence: Client) -> Response:
    """Counts over time, oldest first, in at most 1000 buckets."""
    return json_response({"items": await presence.history(**query.period(), step=query.step)})
