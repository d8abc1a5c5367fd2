"""Who is there, how many, since when."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Query as InQuery

from presence_core.models import Counts, Person, Sample
from presence_core.web.keys import Reader
from presence_core.web.routes import Store
from presence_core.web.schemas import HistoryQuery, PeopleQuery, answer

router = APIRouter(prefix="/v1", tags=["numbers"], dependencies=[Reader])


@router.get("/people", response_model=dict[str, list[Person]])
async def people(asked: Annotated[PeopleQuery, InQuery()], presence: Store) -> Response:
    """People whose uid, or a word of whose name or alias, starts with `text`, online or gone not too long ago."""
    return answer({"items": await presence.people(asked.text, limit=asked.limit)})


@router.get("/counts", response_model=Counts)
async def counts(presence: Store) -> Response:
    """How many users and sessions are online, and totals by reason."""
    return answer(await presence.counts())


@router.get("/facets/{field:quoted}", response_model=dict[str, dict[str, int]])
async def facets(field: str, presence: Store) -> Response:
    """Live sessions by value, the most frequent first: device, app, app_version, os, browser, or a declared
    attribute."""
    return answer({"values": await presence.facets(field)})


@router.get("/history", response_model=dict[str, list[Sample]])
async def history(asked: Annotated[HistoryQuery, InQuery()], presence: Store) -> Response:
    """Counts over time, oldest first, in at most 1000 buckets."""
    return answer({"items": await presence.history(**asked.period(), step=asked.step)})
