"""A FastAPI site with websockets and event streams, for ``uvicorn``; SITE_CLIENT names the class of its client."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, WebSocket
from fastapi.responses import StreamingResponse

import presence_core
from presence_core.web.fastapi import CurrentSession, add_presence, lifespan
from presence_core.web.rules import Rules

presence = getattr(presence_core, os.environ["SITE_CLIENT"]).from_env()
app = FastAPI(lifespan=lifespan(presence))
rules = Rules(
    mode=os.environ.get("SITE_MODE", "enforce"),  # type: ignore[arg-type]
    public=("/sign-in", "/seen"),
    anonymous="pass",
    keep_open=("/kept", "/kept-events"),
    passive=("/passive",),
    heartbeat=1,
)
add_presence(app, presence, rules=rules)

gc.disable()  # what only a garbage collection would end must not pass as ended

seen: list[str] = []
"""What happened to the applications, oldest first."""


@app.get("/sign-in")
async def ready() -> str:
    return "ready"


@app.get("/seen")
async def what_was_seen() -> dict[str, Any]:
    """What the applications have noted, and whether something watches for ends."""
    tasks = [task for task in asyncio.all_tasks() if "_LoopWatch" in repr(task.get_coro())]
    threads = [thread for thread in threading.enumerate() if thread.name == "presence-ends"]
    return {"seen": seen, "watchers": len(tasks) + len(threads)}


@app.websocket("/echo")
@app.websocket("/kept")
@app.websocket("/passive")
async def echo(websocket: WebSocket) -> None:
    """Answers each message."""
    await websocket.accept()
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            seen.append(f"disconnect {message.get('code')} {message.get('reason')}")
            return
        await websocket.send_text(message["text"])


@app.websocket("/pushes")
async def pushes(websocket: WebSocket) -> None:
    """Sends and never receives, so that it does not read the disconnect."""
    await websocket.accept()
    try:
        while True:
            await websocket.send_text("news")
            await asyncio.sleep(0.02)
    finally:
        seen.append("pushes stopped")


@app.websocket("/tasks")
async def tasks(websocket: WebSocket) -> None:
    """Sends and receives in two tasks, and leaves the disconnect to the server."""

    async def receive() -> None:
        while True:
            await websocket.receive_text()

    async def send() -> None:
        while True:
            await websocket.send_text("news")
            await asyncio.sleep(0)

    await websocket.accept()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(receive())
            group.create_task(send())
    finally:
        seen.append("tasks stopped")


@app.websocket("/deaf")
async def deaf(websocket: WebSocket) -> None:
    """Neither sends nor receives, for longer than it takes to close the socket."""
    await websocket.accept()
    await asyncio.sleep(2)
    seen.append("deaf woke up")


@app.websocket("/slow")
async def slow(websocket: WebSocket) -> None:
    """Accepts late, when its session has ended already."""
    seen.append("slow begins")
    await asyncio.sleep(0.5)
    await websocket.accept()
    seen.append(str((await websocket.receive())["type"]))


async def _news(pause: float, user: str) -> AsyncIterator[str]:
    try:
        while True:
            yield "data: news\n\n"
            await asyncio.sleep(pause)
    finally:
        seen.append(f"events of {user} stopped")


@app.get("/events")
@app.get("/kept-events")
async def events(session: CurrentSession) -> StreamingResponse:
    return StreamingResponse(_news(0.02, session.uid), media_type="text/event-stream; charset=utf-8")


@app.get("/quiet-events")
async def quiet_events(session: CurrentSession) -> StreamingResponse:
    """One event, then silence: it sends nothing that could fail."""
    return StreamingResponse(_news(3600, session.uid), media_type="text/event-stream")


@app.get("/download")
async def download(session: CurrentSession) -> StreamingResponse:
    """A long response that is no event stream."""
    return StreamingResponse(_news(0.02, session.uid), media_type="text/plain")
