"""A dashboard process and its websocket, spoken to without a browser: what is sent, and all that comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from presence_dashboard import texts
from tests.support.servers import free_port, wait_for

ROOT = Path(__file__).parents[2]
KEEP = 0.3
"""Seconds for which a dashboard of these tests uses what it has read of a member of staff, or of the rows of a page; in
production 1 and 4.5 s."""
SCRIPT = f"""
from presence_dashboard.data import session_list
from presence_dashboard.gate import staff_sessions
session_list.KEEP = staff_sessions.KEEP = {KEEP}
"""


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def serve(environ: dict[str, str], log: Path, port: int | None = None) -> Iterator[str]:
    """The dashboard as people start it, with shorter times; its address."""
    port = port or free_port()
    script = log.with_suffix(".py")
    script.write_text(SCRIPT + (ROOT / "dashboard.py").read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    environ = os.environ | environ | {"PYTHONPATH": str(ROOT)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for("the dashboard", lambda: answers(url) or process.poll() is not None)
        assert process.poll() is None, log.read_text("utf-8")
        yield url
    finally:
        process.terminate()
        process.wait(30)


@dataclass
class Wire:
    """One open page, as its browser speaks with the server."""

    socket: ClientConnection
    page: str = ""
    heard: list[bytes] = field(default_factory=list)
    frames: list[ForwardMsg] = field(default_factory=list)  #: of the latest run
    _hash: str = ""

    @classmethod
    @contextmanager
    def open(cls, url: str, cookies: str = "", *, xsrf: str = "", **headers: str) -> Iterator[Wire]:
        """xsrf: the value of that cookie of Streamlit's, without which it believes no sign-in at a provider."""
        given = {"Cookie": cookies} | headers
        origin: Any = given.pop("Origin", url)
        with connect(
            f"{url.replace('http', 'ws', 1)}/_stcore/stream",
            subprotocols=["streamlit", *([xsrf] if xsrf else [])],  # type: ignore[list-item]
            origin=origin,
            additional_headers=given,
            max_size=None,
        ) as socket:
            yield cls(socket)

    def go(self, page: str = "", query: str = "") -> Wire:
        """Open a page, as its address does."""
        self.page, self._hash = page, ""
        return self.ask(query=query)

    def ask(self, *states: dict[str, Any], query: str = "") -> Wire:
        """Run the page again with these widget values, and collect all frames that it sends."""
        self.socket.send(self.wish(*states, query=query))
        return self.hear()

    def wish(self, *states: dict[str, Any], query: str = "") -> bytes:
        """The frame that ``ask`` sends."""
        asked = BackMsg()
        asked.rerun_script.query_string = query
        asked.rerun_script.page_name = self.page
        asked.rerun_script.page_script_hash = self._hash
        asked.rerun_script.context_info.timezone = "UTC"
        for state in states:
            asked.rerun_script.widget_states.widgets.add(**state)
        frame: bytes = asked.SerializeToString()
        return frame

    def hear(self) -> Wire:
        """All until the page has been drawn, also where it is drawn twice."""
        self.frames = []
        while True:
            frame = self.socket.recv(60)
            assert isinstance(frame, bytes)
            self.heard.append(frame)
            said = ForwardMsg.FromString(frame)
            self.frames.append(said)
            if said.WhichOneof("type") == "navigation":
                self._hash = said.navigation.page_script_hash
            if (
                said.WhichOneof("type") == "script_finished"
                and said.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN
            ):
                return self

    def elements(self) -> Iterator[Any]:
        """What the latest run drew."""
        for frame in self.frames:
            if frame.WhichOneof("type") == "delta" and frame.delta.WhichOneof("type") == "new_element":
                yield frame.delta.new_element

    def text(self) -> str:
        """The paragraphs that the latest run drew."""
        return "\n".join(frame.markdown.body for frame in self.elements() if frame.WhichOneof("type") == "markdown")

    def buttons(self) -> dict[str, str]:
        """Label → widget id."""
        return {
            frame.button.label: frame.button.id for frame in self.elements() if frame.WhichOneof("type") == "button"
        }

    def menus(self) -> list[str]:
        """The widget ids of the menus that read when they are opened."""
        deltas = [frame.delta for frame in self.frames if frame.WhichOneof("type") == "delta"]
        return [delta.add_block.popover.id for delta in deltas if delta.add_block.popover.id]

    def table(self) -> dict[str, Any] | None:
        """What the table of sessions was sent, with its widget id; None where there is none."""
        for frame in self.elements():
            if frame.WhichOneof("type") == "bidi_component":
                return {"id": frame.bidi_component.id, **json.loads(frame.bidi_component.json)}
        return None

    def kick(self, row: int = 0) -> dict[str, Any]:
        """The press of a row's kick button."""
        return self._pressed("kick", row)

    def open_person(self, row: int = 0) -> dict[str, Any]:
        return self._pressed("open", row)

    def _pressed(self, event: str, row: int) -> dict[str, Any]:
        shown = self.table()
        assert shown is not None
        return pressed(shown["id"], event, shown["rows"][row]["ref"])

    def fill(self) -> dict[str, Any]:
        """The reason, in the dialog that is open."""
        fields = {
            frame.text_area.label: frame.text_area.id
            for frame in self.elements()
            if frame.WhichOneof("type") == "text_area"
        }
        return {"id": fields[texts.REASON], "string_value": "forged"}

    def send_later(self, wish: bytes) -> None:
        """Once what was known of roles a moment ago has been forgotten."""
        time.sleep(KEEP + 0.1)
        self.heard.clear()
        self.socket.send(wish)
        self.hear()


def events_of(table: str) -> str:
    """The widget id of the events of a component."""
    return f"$$STREAMLIT_INTERNAL_KEY_{table}__events"


def pressed(table: str, event: str, ref: object) -> dict[str, Any]:
    """A button in a row of a table."""
    return {"id": events_of(table), "json_trigger_value": json.dumps([{"event": event, "value": ref}])}


def ticked(table: dict[str, Any], *refs: str) -> dict[str, Any]:
    """Ticks in a table."""
    ticks = {"list": table["list"], "sequence": table["sequence"] + 1, "refs": refs}
    return {"id": table["id"], "json_value": json.dumps({"ticks": ticks})}
