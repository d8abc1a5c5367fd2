"""What a browser may cost the dashboard: in each mode, signed in or not.

No page takes uploads, so no one can fill the memory with them. Messages are limited, and so are websockets without a
sign-in.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack, nullcontext

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from presence_dashboard import texts
from presence_dashboard.gate.limits.socket_limits import LARGEST_MESSAGE, OPEN_BY_ADDRESS
from tests.dashboard.gate.conftest import TeamInMode, stranger
from tests.dashboard.wire import Wire
from tests.support.fair_clock import ends

pytestmark = pytest.mark.xdist_group("gate")

FILE = {"file": ("a.bin", b"x" * 900_000)}


def streamlit_session(wire: Wire) -> str:
    [session] = {frame.new_session.initialize.session_id for frame in wire.frames if frame.HasField("new_session")}
    return session


def test_an_upload_is_refused_by_every_path_and_method(team: TeamInMode, everyone: list[dict[str, str]]) -> None:
    for headers in everyone:
        with team.page(headers) as wire, httpx.Client(base_url=team.url, headers=headers) as browser:
            session = streamlit_session(wire.go())
            xsrf = headers.get("Cookie", "").partition("_streamlit_xsrf=")[2].partition(";")[0]
            if not xsrf:
                xsrf = browser.get("/_stcore/health").cookies["_streamlit_xsrf"]
            for method in ("PUT", "POST", "DELETE", "OPTIONS", "PATCH"):
                for path in (
                    f"/_stcore/upload_file/{session}/{uuid.uuid4()}",
                    f"/_stcore/%75pload_file/{session}/{uuid.uuid4()}",
                    f"/_stcore/upload_file/{session}/{uuid.uuid4()}?x=/_stcore/health",
                ):
                    files = FILE if method in ("PUT", "POST", "PATCH") else None
                    answer = browser.request(method, path, files=files, headers={"X-Xsrftoken": xsrf})
                    assert answer.status_code == 404, (method, path)


@pytest.mark.parametrize(
    "path",
    ["metrics", "agent/interact", "agent/openapi.json", "agent/mcp", "script-health-check", "upload_file/a/b", ""],
)
def test_no_address_of_streamlit_answers_that_no_page_reads(
    team: TeamInMode, everyone: list[dict[str, str]], path: str
) -> None:
    for headers in everyone:
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            assert httpx.request(method, f"{team.url}/_stcore/{path}", headers=headers).status_code == 404


def test_a_page_that_asks_for_the_address_of_an_upload_gets_none(
    team: TeamInMode, everyone: list[dict[str, str]]
) -> None:
    for headers in everyone:
        with team.page(headers) as wire:
            session = streamlit_session(wire.go())
            asked = BackMsg()
            asked.file_urls_request.request_id = "1"
            asked.file_urls_request.session_id = session
            asked.file_urls_request.file_names.append("a.bin")
            wire.socket.send(asked.SerializeToString())
            other = BackMsg()
            other.backend_operation_request.request_id = "2"
            other.backend_operation_request.session_id = session
            other.backend_operation_request.install_skills.SetInParent()
            wire.socket.send(other.SerializeToString())
            wire.socket.send(BackMsg(app_heartbeat=True).SerializeToString())
            kinds: list[str] = []
            while "heartbeat_ack" not in kinds:
                frame = wire.socket.recv(30)
                assert isinstance(frame, bytes)
                kinds.append(str(ForwardMsg.FromString(frame).WhichOneof("type")))
            assert not {*kinds} & {"file_urls_response", "backend_operation_response"}


def _send_and_hear(wire: Wire, message: bytes | list[bytes]) -> None:
    wire.socket.send(message)
    wire.hear()


@pytest.mark.parametrize("parts", [1, 30])
def test_no_message_is_collected_that_is_longer_than_those_of_pages(
    team: TeamInMode, everyone: list[dict[str, str]], parts: int
) -> None:
    for headers in everyone:
        with team.page(headers) as wire:
            message = b"x" * 3_000_000
            wire.go()
            with pytest.raises(ConnectionClosed) as closed:
                _send_and_hear(wire, message if parts == 1 else [message[::parts]] * parts)
            received = closed.value.rcvd  # none if the server has gone before it read the rest
            assert received is None or received.code == 1009


def test_a_member_may_send_longer_messages_than_a_stranger(team: TeamInMode, everyone: list[dict[str, str]]) -> None:
    long = {"id": "unknown", "string_value": "x" * (LARGEST_MESSAGE + 1)}
    for headers in everyone:
        with team.page(headers) as wire:
            wire.go()
            if "_streamlit_user" in headers.get("Cookie", "") or team.mode != "oidc":
                wire.ask(long)
            else:
                with pytest.raises(ConnectionClosed) as closed:
                    wire.ask(long)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009


def test_strangers_close_no_page_of_a_member(team: TeamInMode) -> None:
    headers = team.headers("dana@example.com", "support")
    with ExitStack() as stack, team.page(headers) as page:
        page.go()
        if team.mode != "oidc":  # the gate refuses who has no sign-in; on this machine, everyone is the operator
            refused = pytest.raises(InvalidStatus) if team.mode != "open" else nullcontext()
            with refused, Wire.open(team.url):
                pass
            return
        strangers = [stack.enter_context(Wire.open(team.url)) for _ in range(OPEN_BY_ADDRESS + 3)]
        for wire in strangers[:3]:
            with pytest.raises(ConnectionClosed) as closed:
                wire.socket.recv(30)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
        assert texts.SIGN_IN_BUTTON in strangers[-1].go().buttons()
        assert texts.SIGN_IN_BUTTON not in page.ask().buttons()


def test_strangers_that_have_left_delay_no_sign_in(team: TeamInMode) -> None:
    if team.mode != "oidc":  # the others refuse who has no sign-in; in mode open, everyone is the operator
        return

    url, run = f"{team.url.replace('http', 'ws', 1)}/_stcore/stream", BackMsg()
    run.rerun_script.SetInParent()

    async def send_and_leave(address: str) -> None:
        async with connect(url, origin=team.url, local_addr=(address, 0), close_timeout=0.1) as socket:  # type: ignore[arg-type]
            await socket.send(run.SerializeToString())

    async def flood() -> None:
        for _ in range(55):
            await asyncio.gather(*[send_and_leave(f"127.0.1.{address + 1}") for address in range(12)])

    asyncio.run(flood())
    with ends(within=10), team.page(stranger(team)) as page:  # their turns take 30 seconds
        assert texts.SIGN_IN_BUTTON in page.go().buttons()
