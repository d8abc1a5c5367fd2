"""No page takes uploads, so no one can fill the memory with them: in each mode, signed in or not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from presence_core import StaffRole
from tests.dashboard.gate.team_in_mode import MODES, TeamInMode, team_in_mode
from tests.dashboard.wire import Wire

FILE = {"file": ("a.bin", b"x" * 900_000)}


@pytest.fixture(scope="module", params=MODES)
def team(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamInMode]:
    with team_in_mode(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


def everyone(team: TeamInMode) -> list[dict[str, str]]:
    """The headers of a member of each role, and in mode oidc of a stranger, who gets a page too."""
    roles: tuple[StaffRole, ...] = ("stats", "admin")
    strangers = [stranger(team)] if team.mode == "oidc" else []
    return strangers + [team.headers(f"{role}@example.com", role) for role in roles]


def stranger(team: TeamInMode) -> dict[str, str]:
    return {"Cookie": f"_streamlit_xsrf={httpx.get(f'{team.url}/_stcore/health').cookies['_streamlit_xsrf']}"}


def streamlit_session(wire: Wire) -> str:
    [session] = {frame.new_session.initialize.session_id for frame in wire.frames if frame.HasField("new_session")}
    return session


def test_an_upload_is_refused_by_every_path_and_method(team: TeamInMode) -> None:
    for headers in everyone(team):
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
def test_no_address_of_streamlit_answers_that_no_page_reads(team: TeamInMode, path: str) -> None:
    for headers in everyone(team):
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            assert httpx.request(method, f"{team.url}/_stcore/{path}", headers=headers).status_code == 404


def test_a_page_that_asks_for_the_address_of_an_upload_gets_none(team: TeamInMode) -> None:
    for headers in everyone(team):
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
