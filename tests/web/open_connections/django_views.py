"""The views of a Django site: sign in, and event streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.contrib.auth import authenticate, login
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path

seen: list[str] = []


def sign_in(request: Any) -> HttpResponse:
    if request.method == "POST":
        login(request, authenticate(request, username=request.POST["who"], password=request.POST["password"]))
    return HttpResponse(" ".join(seen))


async def _news(pause: float) -> AsyncIterator[str]:
    try:
        while True:
            yield "data: news\n\n"
            await asyncio.sleep(pause)
    finally:
        seen.append("stopped")


def _plain_news() -> Iterator[str]:
    try:
        while True:
            yield "data: news\n\n"
            time.sleep(0.02)
    finally:
        seen.append("stopped")


async def quiet_events(request: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(_news(3600), content_type="text/event-stream")


async def few_events(request: Any) -> StreamingHttpResponse:
    async def few() -> AsyncIterator[str]:
        for _ in range(3):
            yield "data: news\n\n"

    return StreamingHttpResponse(few(), content_type="text/event-stream")


def plain_events(request: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(_plain_news(), content_type="text/event-stream")


urlpatterns = [
    path("sign-in", sign_in),
    path("quiet-events", quiet_events),
    path("few-events", few_events),
    path("events", plain_events),
]
