"""The HTTP service, address by address: its responses, its scopes, and uids that look like paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from presence_core import AsyncPresence, CorruptData, KickResult, OutcomeUnknown, Presence, Settings, Worker
from presence_core.web.service.authorization import LOCAL
from tests.conftest import Bed, on
from tests.support.expected.bad_input import nested
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.web.service.process import HOSTILE, SCOPES, Service, problem, service

everywhere = on("valkey-async", "redis7-async", "cluster-async")
once = on("valkey-async")

SID = "session-1"

# method, path, scope, body, status with this scope
ROUTES: list[tuple[str, str, str, Any, int]] = [
    ("POST", "/v1/sessions", "record", {"uid": "ada"}, 201),
    ("POST", "/v1/validate", "record", {"token": "x"}, 200),
    ("POST", "/v1/reauthenticate", "record", {"token": "x"}, 409),
    ("POST", "/v1/users/ada/sessions/session-1/reauthenticate", "record", {}, 200),
    ("POST", "/v1/users/nobody/require-sign-in", "kick", {"reason": "test"}, 200),
    ("POST", "/v1/users/nobody/timeouts", "kick", {"idle_timeout": 60, "reason": "test"}, 200),
    ("POST", "/v1/timeouts/preview", "kick", {"filter": {"device": "x"}, "idle_timeout": 60}, 200),
    (
        "POST",
        "/v1/timeouts",
        "kick",
        {"filter": {"device": "x"}, "idle_timeout": 60, "reason": "test", "expected": 0},
        202,
    ),
    ("POST", "/v1/heartbeats", "record", {"refs": ["ada:session-1"]}, 200),
    ("PATCH", "/v1/users/ada/sessions/session-1", "record", {"attributes": {"a": 1}}, 200),
    ("PATCH", "/v1/users/ada", "record", {"name": "Ada"}, 200),
    ("DELETE", "/v1/users/ada/sessions/session-9", "record", None, 200),
    ("POST", "/v1/users/nobody/sessions/session-9/logout-others", "record", {}, 200),
    ("POST", "/v1/failed-logins", "record", {"who": "ada", "why": "locked"}, 204),
    ("GET", "/v1/failed-logins", "failures", None, 200),
    ("GET", "/v1/failed-logins/networks", "failures", None, 200),
    ("GET", "/v1/sessions", "read", None, 200),
    ("GET", "/v1/users/ada/sessions", "read", None, 200),
    ("GET", "/v1/users/ada/sessions/session-1", "read", None, 200),
    ("GET", "/v1/users/ada/sign-ins", "read", None, 200),
    ("GET", "/v1/users/ada/sessions/session-1/previous-login", "record", None, 200),
    ("GET", "/v1/people?text=ada", "read", None, 200),
    ("GET", "/v1/counts", "read", None, 200),
    ("GET", "/v1/facets/device", "read", None, 200),
    ("GET", "/v1/history?since=1700000000", "read", None, 200),
    ("GET", "/v1/ended", "read", None, 200),
    ("GET", "/v1/blocks", "read", None, 200),
    ("GET", "/v1/users/ada/block", "read", None, 404),
    ("GET", "/v1/audit", "read", None, 200),
    ("GET", "/v1/jobs", "read", None, 200),
    ("GET", "/v1/jobs/12345678", "read", None, 404),
    ("GET", "/v1/events?after=nonsense", "read", None, 422),
    ("GET", "/metrics", "read", None, 200),
    ("POST", "/v1/kicks", "kick", {"uid": "nobody", "reason": "test"}, 200),
    ("POST", "/v1/kicks/preview", "kick", {"filter": {"device": "x"}}, 200),
    ("POST", "/v1/kicks/refs", "kick", {"refs": [], "reason": "test"}, 200),
    ("POST", "/v1/jobs", "kick", {"filter": {"device": "x"}, "reason": "test", "expected": 0}, 202),
    ("POST", "/v1/jobs/12345678/pause", "kick", None, 404),
    ("POST", "/v1/jobs/12345678/resume", "kick", None, 404),
    ("POST", "/v1/jobs/12345678/cancel", "kick", None, 404),
    ("PUT", "/v1/users/bob/block", "kick", {"reason": "test"}, 200),
    ("DELETE", "/v1/users/bob/block?reason=test", "kick", None, 200),
    ("GET", "/v1/block-rules", "read", None, 200),
    ("POST", "/v1/block-rules/preview", "kick", {"network": "203.0.113.0/24"}, 200),
    ("POST", "/v1/block-rules", "kick", {"network": "203.0.113.0/24", "reason": "test", "expected": 0}, 201),
    ("DELETE", "/v1/block-rules/12345678?reason=test", "kick", None, 200),
    ("POST", "/v1/revocations", "kick", {"reason": "test", "at": 1700000000}, 201),
]


def _template(path: str) -> str:
    parts = path.partition("?")[0].split("/")
    if parts[2:3] == ["users"]:
        parts[3] = "{uid}"
        if len(parts) >= 6:
            parts[5] = "{session_id}"
    elif parts[2:3] == ["jobs"] and len(parts) > 3:
        parts[3:] = ["{id}", "{act}"][: len(parts) - 3]
    elif parts[2:3] == ["block-rules"] and parts[3:] not in ([], ["preview"]):
        parts[3] = "{id}"
    elif parts[2:3] == ["facets"]:
        parts[3] = "{field}"
    return "/".join(parts)


@once
def test_every_address_requires_its_scope_and_accepts_no_other(bed: Bed) -> None:
    s = service(bed)
    s.p.login("ada", session_id=SID)
    for method, path, scope, body, status in ROUTES:
        asked = f"{method} {path}"
        without = s.ask(method, path, body, headers={"Authorization": ""})
        assert problem(without, 401)["detail"].startswith("An API key is required"), asked
        assert without.headers["www-authenticate"].startswith("Bearer")
        problem(s.ask(method, path, body, headers={"Authorization": "Bearer wrong"}), 401)
        others = "+".join(other for other in SCOPES if other != scope)
        refused = problem(s.ask(method, path, body, headers={"Authorization": f"Bearer key.{others}"}), 403)
        assert refused["detail"] == f"This API key lacks the scope {scope}.", asked
        allowed = s.ask(method, path, body, headers={"Authorization": f"Bearer key.{scope}"})
        assert allowed.status_code == status, (asked, allowed.text)
        assert allowed.headers["cache-control"] == "no-store"
        assert allowed.headers["x-frame-options"] == "DENY"


@once
def test_every_address_is_in_this_table_and_the_schema_names_its_scope(bed: Bed) -> None:
    s = service(bed)
    schema = s.get("/openapi.json")
    documented = {
        (method.upper(), path): [
            scope for requirement in operation.get("security", ()) for scope in requirement["API key"]
        ]
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    ours = {(method, _template(path)): [scope] for method, path, scope, _, _ in ROUTES if path != "/metrics"}
    assert documented == ours | {("GET", "/healthz"): [], ("GET", "/readyz"): []}
    for answer in (s.ask("GET", "/healthz", headers={"Authorization": ""}), s.ask("GET", "/readyz")):
        assert answer.json()["status"] == "ok"
    page = s.ask("GET", "/docs").text
    assert all(f"{method} {path}" in page for method, path in documented)
    assert "<script" not in page


@everywhere
def test_a_new_device_and_a_session_of_staff_are_shown_and_found(bed: Bed) -> None:
    s = service(bed)
    for device_id in ("device-1", "device-2"):
        made = s.ask("POST", "/v1/sessions", {"uid": "ada", "device_id": device_id}).json()["session"]
    given = {"uid": "ada", "on_behalf_by": "sam", "reason": "ticket 7"}
    of_staff = s.ask("POST", "/v1/sessions", given).json()["session"]
    assert (made["new_device"], of_staff["on_behalf_by"]) == (True, "key (sam)")
    [entry] = s.get("/v1/audit")["items"]
    assert (entry["action"], entry["by"]) == ("login_on_behalf", "key (sam)"), "no key can write another name"
    demand = {"reason": "lost", "session_id": made["session_id"]}
    assert s.ask("POST", "/v1/users/ada/require-sign-in", demand).status_code == 200
    demand["session_id"] = of_staff["session_id"]
    refused = s.ask("POST", "/v1/users/ada/require-sign-in", demand)
    assert problem(refused, 422)["detail"].startswith("session_id must not be of a session of staff")
    queries = (("new_device=true", made), ("on_behalf=true", of_staff), ("sign_in_required=true", made))
    for query, expected in queries:
        assert [session["ref"] for session in s.get(f"/v1/sessions?{query}")["items"]] == [expected["ref"]]


@everywhere
def test_places_are_shown_found_and_counted(bed: Bed, tmp_path: Path) -> None:
    s = service(bed, place_file=str(write_place_file(tmp_path / "places.mmdb")))
    near, far = (
        s.ask("POST", "/v1/sessions", {"uid": "ada", "ip": ip}).json()["session"] for ip in ("192.0.2.7", "203.0.113.7")
    )
    assert near["place"] == {
        "country": "FR", "city": "Lyon", "network": "Example Telecom", "asn": 64500, "latitude": 46, "longitude": 5,
    }  # fmt: skip
    assert (near["distant"], near["previous_place"], far["distant"]) == (False, None, True)
    assert far["previous_place"]["city"] == "Lyon"
    for query, expected in (("country=FR", near), ("network=as64510", far), ("distant=true", far)):
        assert [session["ref"] for session in s.get(f"/v1/sessions?{query}")["items"]] == [expected["ref"]]
    assert s.get("/v1/facets/country") == {"values": {"FR": 1, "JP": 1}}
    assert s.ask("GET", "/v1/sessions?country=FRA").json()["field"] == "country"


@on("valkey-async", "cluster-async")
@pytest.mark.parametrize("form", ["token", "tokens", "uid"])
def test_a_request_from_elsewhere_moves_a_session(bed: Bed, form: str) -> None:
    s = service(bed)
    made = s.ask("POST", "/v1/sessions", {"uid": "ada", "ip": "192.0.2.7", "user_agent": "curl/8"}).json()
    session = {"uid": "ada", "session_id": made["session"]["session_id"]}
    named = {"token": {"token": made["token"]}, "tokens": {"tokens": [made["token"]]}, "uid": session}[form]
    elsewhere = {"ip": "203.0.113.7", "user_agent": "Wget/1.21"}
    found = s.ask("POST", "/v1/validate", named | elsewhere).json()["session"]
    assert (found["moved"], found["distant"], found["move"]["before"]["network"]) == (True, False, "192.0.0.0/16")
    assert found["move"]["after"] == {"place": None, "network": "203.0.0.0/16", "os": None, "browser": "Wget"}
    assert [item["ref"] for item in s.get("/v1/sessions?moved=true")["items"]] == [found["ref"]]
    assert s.get("/v1/counts")["odd_logins"]["moved"] == 1


@everywhere
def test_a_session_begins_is_seen_and_ends(bed: Bed) -> None:
    s = service(bed, max_sessions=2)
    given = {"uid": "ada", "name": "Ada", "aliases": ["ada@example.org"], "device": "phone", "ip": "192.0.2.7",
             "attributes": {"floor": 3}, "session_id": SID, "user_agent": "curl/8"}  # fmt: skip
    made = s.ask("POST", "/v1/sessions", given)
    assert made.status_code == 201
    login = made.json()
    assert login["replaced"] == []
    assert login["session"]["ref"] == "ada:session-1"
    assert {name: login["session"][name] for name in given} == given
    live = s.ask("POST", "/v1/validate", {"token": login["token"], "ip": "192.0.2.8"}).json()
    assert live["live"]
    assert live["ended"] is None
    assert s.get("/v1/users/ada/sessions/session-1")["last_ip"] == "192.0.2.8"
    s.ask("POST", "/v1/sessions", {"uid": "ada", "session_id": "session-2"})
    third = s.ask("POST", "/v1/sessions", {"uid": "ada"}).json()
    assert [session["session_id"] for session in third["replaced"]] == [SID]
    ended = s.ask("POST", "/v1/validate", {"token": login["token"]}).json()
    assert (ended["live"], ended["session"]) == (False, None)
    assert set(ended["ended"]) == {"code", "message", "at", "block"}
    assert ended["ended"]["code"] == "replaced"
    assert s.ask("POST", "/v1/validate", {"token": "nonsense"}).json() == {
        "live": False, "session": None, "ended": None, "code": "unknown", "message": None, "refused": None,
    }  # fmt: skip
    beats = s.ask("POST", "/v1/heartbeats", {"refs": ["ada:session-1", "ada:session-2"]}).json()
    assert beats == {"offline": ["ada:session-1"]}
    place = "/v1/users/ada/sessions/session-2"
    s.ask("PATCH", place, {"attributes": {"cart": 1, "coupon": "X"}})
    assert s.ask("PATCH", place, {"attributes": {"cart": 2, "coupon": None}}).json()["attributes"] == {"cart": 2}
    assert s.get(place)["attributes"] == {"cart": 2}
    problem(s.ask("PATCH", place, {"attributes": {"a": "x" * 4096}}), 422)
    problem(s.ask("PATCH", place, {}), 422)
    changes = {"name": "Bea", "aliases": ["bea@example.org"], "device": "desk", "app": None}
    changed = s.ask("PATCH", place, changes).json()
    assert {name: changed[name] for name in changes} == changes
    assert changed["attributes"] == {"cart": 2}
    assert s.ask("PATCH", place, {"aliases": None}).json()["aliases"] == []
    assert s.get("/v1/people?text=bea")["items"][0]["uid"] == "ada"
    assert s.ask("PATCH", "/v1/users/ada", {"name": "Cat"}).json() == {"changed": 2}
    assert problem(s.ask("PATCH", "/v1/users/ada", {"name": 5}), 422)["field"] == "name"
    assert s.ask("PATCH", "/v1/users/ada", {"name": "\n", "aliases": ["cat@example.org"]}).json() == {"changed": 2}
    assert s.get(place)["name"] is None, "what does not fit is left out, as at a login"
    assert s.ask("PATCH", "/v1/users/nobody", {"name": "Cat"}).json() == {"changed": 0}
    problem(s.ask("PATCH", "/v1/users/ada", {}), 422)
    problem(s.ask("PATCH", "/v1/users/ada", {"device": "desk"}), 422)
    problem(s.ask("PATCH", "/v1/users/ada/sessions/session-1", {"attributes": {"cart": 3}}), 404)
    assert s.ask("DELETE", "/v1/users/ada/sessions/session-2").json() == {"ended": True}
    assert s.ask("DELETE", "/v1/users/ada/sessions/session-2").json() == {"ended": False}
    assert [session["session_id"] for session in s.get("/v1/users/ada/sessions")["items"]] == [
        third["session"]["session_id"]
    ]
    problem(s.ask("GET", "/v1/users/ada/sessions/session-2"), 404)
    here, other = (s.p.login("eve", session_id=sid).session for sid in ("session-here", "session-away"))
    place = f"/v1/users/eve/sessions/{here.session_id}/logout-others"
    assert s.ask("POST", place, {"other": "no-such-session"}).json() == {"ended": []}
    assert [session["ref"] for session in s.ask("POST", place, {}).json()["ended"]] == [other.ref]
    assert [(end["reason"], end["cause"]) for end in s.get("/v1/ended?uid=eve")["items"]] == [("logout", "self")]
    problem(s.ask("POST", place, {"other": here.session_id}), 422)


@everywhere
def test_of_several_tokens_the_first_live_session_counts_and_a_kick_before_all(bed: Bed) -> None:
    s = service(bed)
    s.p.freeze()
    first, second, ended, kicked = (s.p.login(uid) for uid in ("ada", "ada", "ada", "eve"))
    s.p.logout("ada", ended.session.session_id)
    s.p.kick("eve", by="sue", reason="test", message="Please call us.")

    def ask(*tokens: str, **options: Any) -> Any:
        return s.ask("POST", "/v1/validate", {"tokens": tokens} | options).json()

    s.p.advance(60)
    for tokens, session in (
        ((ended.token, first.token, second.token), first.session),
        (("", "junk", second.token), second.session),
        ((second.token,), second.session),
    ):
        answer = ask(*tokens, ip="192.0.2.9")
        assert (answer["live"], answer["session"]["session_id"]) == (True, session.session_id)
        assert answer["session"]["last_ip"] == "192.0.2.9"
    seen = [session.last_seen for session in s.p.sessions("ada")]
    assert {(at - first.session.last_seen).total_seconds() for at in seen} == {60}
    s.p.advance(60)
    assert ask("junk", first.token, touch=False)["live"]
    assert [session.last_seen for session in s.p.sessions("ada")] == seen
    for several in ((kicked.token, first.token), (first.token, ended.token, kicked.token)):
        answer = ask(*several)
        assert (answer["live"], answer["ended"]["code"], answer["ended"]["message"]) == (
            False,
            "kicked",
            "Please call us.",
        )
    assert ask(ended.token, "junk")["ended"]["code"] == "logout"
    assert ask()["code"] == ask("junk")["code"] == "unknown"


@everywhere
def test_a_session_must_sign_in_again_and_has(bed: Bed) -> None:
    s = service(bed)
    given = {"uid": "ada", "session_id": SID, "methods": ["pwd"]}
    login = s.ask("POST", "/v1/sessions", given).json()
    assert (login["session"]["methods"], login["session"]["mfa"]) == (["pwd"], False)
    fresh = s.ask("POST", "/v1/validate", {"token": login["token"], "max_age": 300}).json()
    assert (fresh["live"], fresh["code"]) == (True, "live")
    problem(s.ask("POST", "/v1/validate", {"token": login["token"], "max_age": 0}), 422)
    texts = {"reason": "odd login", "message": "Is it you?"}
    demanded = s.ask("POST", "/v1/users/ada/require-sign-in", texts).json()
    [session] = demanded["sessions"]
    assert (session["session_id"], demanded["confirmed"]) == (SID, None)
    assert s.get("/v1/users/ada/sessions")["items"] == [session]
    refused = s.ask("POST", "/v1/validate", {"token": login["token"]}).json()
    assert refused == {
        "live": False, "session": None, "ended": None, "code": "sign_in_required", "message": "Is it you?",
        "refused": session,
    }  # fmt: skip
    update = problem(s.ask("PATCH", f"/v1/users/ada/sessions/{SID}", {"attributes": {"a": 1}}), 409)
    assert update["code"] == "sign_in_required"
    done = s.ask("POST", "/v1/reauthenticate", {"token": login["token"], "methods": ["hwk"], "mfa": True})
    assert (done.json()["session"]["methods"], done.json()["session"]["mfa"]) == (["hwk"], True)
    assert s.ask("POST", "/v1/validate", {"token": done.json()["token"]}).json()["live"]
    assert problem(s.ask("POST", "/v1/reauthenticate", {"token": login["token"]}), 409)["code"] == "ended"
    began = {"began": session["sign_in_required_at"]}
    s.ask("POST", "/v1/users/ada/require-sign-in", texts | {"session_id": SID})
    kept = s.ask("POST", f"/v1/users/ada/sessions/{SID}/reauthenticate", began).json()
    assert kept["sign_in_required_at"] is not None
    assert s.ask("POST", f"/v1/users/ada/sessions/{SID}/reauthenticate", {}).json()["sign_in_required_at"] is None
    assert s.get("/v1/audit?uid=ada")["items"][0]["action"] == "require_sign_in"


@everywhere
def test_only_a_key_with_the_scope_admin_makes_timeouts_longer(bed: Bed) -> None:
    s = service(bed)
    support = {"Authorization": "Bearer key.kick", "X-Actor": "Sam"}
    admin = {"Authorization": "Bearer key.kick+admin", "X-Actor": "Mia"}
    s.ask("POST", "/v1/sessions", {"uid": "a/b", "session_id": SID, "idle_timeout": 600, "max_sessions": 1})
    path, shorter = "/v1/users/a%2Fb/timeouts", {"idle_timeout": 60, "session_id": SID, "reason": "kiosk"}
    [session] = s.ask("POST", path, shorter, headers=support).json()["sessions"]
    assert (session["idle_timeout"], session) == (60, s.get("/v1/users/a%2Fb/sessions")["items"][0])
    longer = shorter | {"idle_timeout": 7200, "absolute_timeout": 7200}
    assert problem(s.ask("POST", path, longer, headers=support), 403)["detail"] == "This API key lacks the scope admin."
    assert s.p.sessions("a/b")[0].idle_timeout == 60
    assert problem(s.ask("POST", path, longer, headers={"Authorization": "Bearer key.admin"}), 403)
    [session] = s.ask("POST", path, longer | {"absolute_timeout": 90_000}, headers=admin).json()["sessions"]
    assert (session["idle_timeout"], session["absolute_timeout"]) == (7200, 90_000)
    assert problem(s.ask("POST", path, {"reason": "kiosk"}), 422)["field"] == "idle_timeout"
    assert s.ask("POST", "/v1/users/nobody/timeouts", longer, headers=support).json() == {"sessions": []}
    done = [(entry["action"], entry["by"], entry["uid"]) for entry in s.get("/v1/audit")["items"]]
    assert [entry for entry in done if entry[2] == "a/b" and entry[0] == "change_timeouts"] == [
        ("change_timeouts", "key (Mia)", "a/b"), ("change_timeouts", "key (Sam)", "a/b"),
    ]  # fmt: skip
    assert "POST /v1/users/{uid}/timeouts refused" in [
        entry.outcome.partition(" refused")[0] + " refused" for entry in s.p.audit() if entry.action == "denied"
    ]


@everywhere
def test_the_identity_provider_sets_the_end_of_a_session(bed: Bed) -> None:
    s = service(bed)
    at = "2100-01-31T12:00:00+00:00"
    given = {"uid": "ada", "session_id": SID, "expires_at": at, "idp": {"iss": "https://idp.example.com", "sub": "1"}}
    session = s.ask("POST", "/v1/sessions", given).json()["session"]
    assert (session["idp_expires_at"], session["idp"]) == (at, given["idp"])
    assert session == s.get("/v1/users/ada/sessions")["items"][0]
    assert problem(s.ask("POST", "/v1/sessions", {"uid": "eve", "expires_at": 1}), 409)["code"] == "expired"
    for wrong, field in (({"expires_at": "soon"}, "expires_at"), ({"idp": {"iss": "i"}}, "idp")):
        assert problem(s.ask("POST", "/v1/sessions", {"uid": "eve"} | wrong), 422)["field"] == field


@everywhere
def test_timeouts_of_all_that_match_are_previewed_and_changed(bed: Bed) -> None:
    s = service(bed)
    support = {"Authorization": "Bearer key.kick", "X-Actor": "Sam"}
    for uid, seconds in (("ada", 60), ("bob", 600)):
        s.ask("POST", "/v1/sessions", {"uid": uid, "device": "kiosk", "idle_timeout": seconds})
    s.ask("POST", "/v1/sessions", {"uid": "cyd", "device": "phone"})
    wanted = {"filter": {"device": "kiosk"}, "idle_timeout": 300}
    preview = s.ask("POST", "/v1/timeouts/preview", wanted, headers=support).json()
    assert [preview[name] for name in ("total", "shortened", "lengthened", "ended")] == [2, 1, 1, 0]
    change = wanted | {"filter": preview["filter"], "expected": 2, "reason": "kiosks"}
    refused = problem(s.ask("POST", "/v1/timeouts", change, headers=support), 403)
    assert refused["detail"] == "This API key lacks the scope admin."
    answer = problem(s.ask("POST", "/v1/timeouts", change | {"expected": 1, "only_shorten": True}), 422)
    assert (answer["field"], "must be at least 2" in answer["detail"]) == ("expected", True)
    job = s.ask("POST", "/v1/timeouts", change | {"only_shorten": True, "ticket": "T-1"}, headers=support)
    assert (job.status_code, job.json()["kind"], job.json()["state"]) == (202, "timeouts", "running")
    assert "No worker" in job.json()["warning"]
    assert s.p.run_job(job.json()["id"]).count == 1
    assert {session.uid: session.idle_timeout for session in s.p.iter_sessions()}["ada"] == 60
    admin = {"Authorization": "Bearer key.kick+admin", "X-Actor": "Mia"}
    s.p.run_job(s.ask("POST", "/v1/timeouts", change, headers=admin).json()["id"])
    assert {session.uid: session.idle_timeout for session in s.p.iter_sessions()} == {
        "ada": 300, "bob": 300, "cyd": 1800,
    }  # fmt: skip
    assert [entry.by for entry in s.p.audit() if entry.action == "change_timeouts_where"] == ["key (Mia)", "key (Sam)"]
    assert "POST /v1/timeouts refused once" in [entry.outcome for entry in s.p.audit()]


@everywhere
def test_the_list_takes_every_filter_and_pages(bed: Bed) -> None:
    s = service(bed)
    p = s.p
    p.freeze()
    p.login("ada", name="Ada Lovelace", aliases=["ada@example.org"], device="phone", ip="192.0.2.7",
            methods=["pwd", "otp"])  # fmt: skip
    p.advance(10)
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
    p.login("lin", app="shop", app_version="2.1", user_agent=agent, attributes={"tenant": "navy", "floor": 3})
    at = p.sessions("lin")[0].login_at
    asked = {
        "text=love": ["ada"], "uid=lin": ["lin"], "name_prefix=lov": ["ada"], "name_contains=lace": ["ada"],
        "ip=192.0.2.0/24": ["ada"], "device=phone": ["ada"], "app=shop&app_version=2.1": ["lin"],
        "os=Linux&browser=Firefox": ["lin"], f"logged_in_after={at.timestamp()}": ["lin"],
        f"logged_in_before={at.isoformat()}": ["ada"], f"logged_in_before={quote(at.isoformat())}": ["ada"],
        "idle_for=5": ["ada"], "attribute=tenant%3Dnavy&attribute=floor%3D3": ["lin"], "attribute=floor%3D4": [],
        "seen_within=5": ["lin"], "app_version_below=2.10": ["lin"], "app_version_below=2.1": [],
        "method=pwd&method=otp": ["ada"], "mfa=true": ["ada"], "mfa=false": ["lin"],
        "without=device%3Dphone": ["lin"], "without=method%3Dpwd&without=mfa%3Dtrue": ["lin"],
        f"without=logged_in_after%3D{at.timestamp()}&without=attribute%3Dfloor%3D3": ["ada"],
        "": ["lin", "ada"],
    }  # fmt: skip
    for query, uids in asked.items():
        assert [session["uid"] for session in s.get(f"/v1/sessions?{query}")["items"]] == uids, query
    first = s.get("/v1/sessions?limit=1")
    assert first["total"] == 2
    second = s.get(f"/v1/sessions?limit=1&cursor={first['next_cursor']}")
    assert [session["uid"] for session in first["items"] + second["items"]] == ["lin", "ada"]
    p.advance(1)
    p.heartbeat("ada", p.sessions("ada")[0].session_id)
    by_last_seen = s.get("/v1/sessions?order=last_seen&limit=1")
    rest = s.get(f"/v1/sessions?order=last_seen&cursor={by_last_seen['next_cursor']}")
    assert [session["uid"] for session in by_last_seen["items"] + rest["items"]] == ["ada", "lin"]
    assert problem(s.ask("GET", "/v1/sessions?order=seen"), 422)["field"] == "order"
    foreign = problem(s.ask("GET", f"/v1/sessions?uid=ada&cursor={first['next_cursor']}"), 422)
    assert foreign["field"] == "cursor"


@once
def test_a_filter_of_a_bulk_kick_takes_lists_and_a_filter_that_excludes(bed: Bed) -> None:
    s = service(bed)
    for uid, version, methods in (("ada", "2.9", ["pwd"]), ("lin", "2.9", ["pwd", "otp"]), ("eve", "2.10", ["pwd"])):
        s.p.login(uid, app_version=version, methods=methods, attributes={"plan": uid})
    asked = {
        "app_version_below": "2.10", "methods": ["pwd"],
        "without": {"mfa": True, "methods": ["otp"], "attributes": {"plan": "lin"}},
    }  # fmt: skip
    preview = s.ask("POST", "/v1/kicks/preview", {"filter": asked}).json()
    assert preview["total"] == 1
    assert {name: preview["filter"][name] for name in asked} == asked, "as a request would send it"
    job = s.ask("POST", "/v1/jobs", {"filter": preview["filter"], "expected": 1, "reason": "old"}).json()
    assert job["filter"]["without"] == asked["without"]
    for wrong, field, sentence in (
        ({"without": {"without": {"uid": "ada"}}}, "filter.without.without", "The body has no such field."),
        ({"without": {}}, "without", "without must have at least one field: else no session matches."),
        ({"without": {"idle_for": -1}}, "without.idle_for",
         "without.idle_for must be a whole number from 0 to 315360000."),
        ({"mfa": "yes"}, "filter.mfa", "filter.mfa: input should be a valid boolean."),
    ):  # fmt: skip
        refused = problem(s.ask("POST", "/v1/kicks/preview", {"filter": wrong}), 422)
        assert (refused["field"], refused["detail"]) == (field, sentence)
    for query, field in (("without=colour%3Dred", "without"), ("method=PWD", "methods"), ("mfa=perhaps", "mfa")):
        assert problem(s.ask("GET", f"/v1/sessions?{query}"), 422)["field"] == field


@once
def test_an_unconfirmed_kick_is_reported(bed: Bed) -> None:
    s = service(bed, confirm_replicas=1, confirm_timeout=20, confirm_hold=0)
    s.p.login("ada")
    kicked = s.ask("POST", "/v1/kicks", {"uid": "ada", "reason": "stolen"}).json()
    assert (kicked["count"], kicked["confirmed"]) == (1, False)


@once
def test_a_kick_by_ref_separates_what_ended_what_had_ended_and_what_is_unknown(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = service(bed)
    refs = [s.p.login(uid, session_id=SID).session.ref for uid in ("ada", "bob")]
    s.p.logout("bob", SID)
    body = {"refs": [*refs, "eve:session-9"], "reason": "shared", "message": "Call us.", "ticket": "T-1"}
    answer = s.ask("POST", "/v1/kicks/refs", body, headers={"X-Actor": "Sam"}).json()
    assert [session["ref"] for session in answer["kicked"]] == refs[:1]
    assert [(ended["ref"], ended["reason"]) for ended in answer["already_ended"]] == [(refs[1], "logout")]
    assert (answer["not_found"], answer["failed"], answer["count"]) == (["eve:session-9"], {}, 1)
    assert [entry["uid"] for entry in s.get("/v1/audit?by=key%20(Sam)")["items"]] == ["ada"]
    too_many = problem(s.ask("POST", "/v1/kicks/refs", {"refs": refs[:1] * 1001, "reason": "x"}), 422)
    assert (too_many["field"], too_many["code"]) == ("refs", "too_many")

    async def half(*_: object, **__: object) -> KickResult:
        return KickResult([], [], failed={"a:session-1": OutcomeUnknown("x"), "b:session-2": CorruptData("y")})

    monkeypatch.setattr(AsyncPresence, "kick_refs", half)
    failed = s.ask("POST", "/v1/kicks/refs", {"refs": refs, "reason": "x"}).json()["failed"]
    assert failed == {"a:session-1": "outcome_unknown", "b:session-2": "corrupt"}


@everywhere
def test_staff_can_kick_and_block_and_the_audit_has_it(bed: Bed) -> None:
    s = service(bed)
    token = s.p.login("ada", session_id=SID).token
    s.p.login("ada", session_id="session-2")
    body = {"uid": "ada", "reason": "stolen", "message": "Call us.", "ticket": "T-1", "keep": ["session-2"]}
    kicked = s.ask("POST", "/v1/kicks", body, headers={"X-Actor": "Zoë".encode()}).json()
    assert kicked["count"] == 1
    assert [session["session_id"] for session in kicked["kicked"]] == [SID]
    ended = s.ask("POST", "/v1/validate", {"token": token}).json()["ended"]
    assert (ended["code"], ended["message"]) == ("kicked", "Call us.")
    assert kicked["confirmed"] is None, "the replicas were not asked"
    again = s.ask("POST", "/v1/kicks", {"uid": "ada", "session_id": SID, "reason": "x", "block_for": 60}).json()
    assert (again["count"], again["already_ended"][0]["by"]) == (0, "key (Zoë)")
    held = s.get("/v1/users/ada/block")
    assert held["until"]
    refused = problem(s.ask("POST", "/v1/sessions", {"uid": "ada"}), 409)
    assert refused["code"] == "blocked"
    assert set(refused["block"]) == {"message", "until"}
    assert [block["uid"] for block in s.get("/v1/blocks")["items"]] == ["ada"]
    assert s.ask("DELETE", "/v1/users/ada/block", params={"reason": "over"}).json() == {"unblocked": True}
    put = s.ask("PUT", "/v1/users/ada/block", {"reason": "x", "message": "m", "duration": 5, "ticket": "T"}).json()
    assert (put["by"], put["message"], put["ticket"]) == ("key", "m", "T")
    assert [entry["action"] for entry in s.get("/v1/audit?uid=ada")["items"]][:2] == ["block", "unblock"]
    assert [entry["by"] for entry in s.get("/v1/audit?by=key%20(Zo%C3%AB)")["items"]] == ["key (Zoë)"]
    assert [ended["note"] for ended in s.get("/v1/ended?uid=ada&reason=kicked")["items"]] == ["stolen"]
    assert s.ask("POST", "/v1/revocations", {"reason": "leak"}).json() == {"count": 1}
    assert s.get("/v1/counts")["sessions"] == 0


@everywhere
def test_block_rules_are_looked_at_added_enforced_and_removed(bed: Bed) -> None:
    s = service(bed)
    s.p.login("ada", ip="198.51.100.7")
    match = {"network": "198.51.100.7/24"}
    shown = s.ask("POST", "/v1/block-rules/preview", match).json()
    assert (shown["network"], shown["sessions"], shown["people"]) == ("198.51.100.0/24", 1, 1)
    body = match | {"reason": "attack", "message": "Call us.", "ticket": "T-1", "duration": 60}
    few = problem(s.ask("POST", "/v1/block-rules", body | {"expected": 0}), 422)
    assert few["field"] == "expected"
    added = s.ask("POST", "/v1/block-rules", body | {"expected": shown["sessions"]})
    assert added.status_code == 201
    rule = added.json()
    assert (rule["kind"], rule["by"], rule["everywhere"]) == ("network", "key", True)
    refused = problem(s.ask("POST", "/v1/sessions", {"uid": "eve", "ip": "198.51.100.9"}), 409)
    assert (refused["code"], refused["block"]["message"]) == ("block_rule", "Call us.")
    assert refused["block"]["until"] == rule["until"]
    assert [listed["id"] for listed in s.get("/v1/block-rules")] == [rule["id"]]
    wide = problem(s.ask("POST", "/v1/block-rules", {"network": "::/0", "reason": "x", "expected": 9}), 422)
    assert wide["field"] == "confirm_wide"
    gone = s.ask("DELETE", f"/v1/block-rules/{rule['id']}", params={"reason": "over"})
    assert gone.json() == {"removed": True}
    assert s.ask("POST", "/v1/sessions", {"uid": "eve", "ip": "198.51.100.9"}).status_code == 201


@everywhere
def test_bulk_kicks_are_previewed_started_paused_and_resumed(bed: Bed) -> None:
    s = service(bed)
    s.p.login("ada", device="phone")
    shown = s.ask("POST", "/v1/kicks/preview", {"filter": {"device": "phone", "text": "ad"}}).json()
    assert shown["total"] == 1
    job = s.ask("POST", "/v1/jobs", {"filter": shown["filter"], "expected": 1, "reason": "old", "pace": 10}).json()
    assert (job["state"], job["by"], job["filter"]) == ("running", "key", shown["filter"])
    assert job["warning"].startswith("No worker runs, so this job waits until one does (presence worker)")
    assert s.get(f"/v1/jobs/{job['id']}")["warning"] == job["warning"]
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
        Worker(presence)._beat()
    assert s.get(f"/v1/jobs/{job['id']}")["warning"] is None
    for act, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert s.ask("POST", f"/v1/jobs/{job['id']}/{act}").json()["state"] == state
    problem(s.ask("POST", f"/v1/jobs/{job['id']}/pause"), 409)
    problem(s.ask("POST", f"/v1/jobs/{job['id']}/destroy"), 422)
    assert s.get(f"/v1/jobs/{job['id']}")["state"] == "cancelled"
    assert [job["id"] for job in s.get("/v1/jobs")["items"]] == [job["id"]]
    everything = problem(s.ask("POST", "/v1/kicks/preview", {"filter": {}}), 422)
    assert everything["field"] == "filter"
    assert problem(s.ask("POST", "/v1/jobs", {"filter": {"device": "x", "b": 1}}), 422)["field"] == "filter.b"


@everywhere
def test_people_numbers_and_metrics(bed: Bed) -> None:
    s = service(bed)
    s.p.login("ada", name="Ada", device="phone")
    s.p.logout("ada", s.p.login("ada", device="desk").session.session_id)
    s.p.sweep()
    assert [person["uid"] for person in s.get("/v1/people?text=ad&limit=3")["items"]] == ["ada"]
    pasted = "%0AINFO%09signed in uid=ada " + "and so on, " * 300
    assert [person["uid"] for person in s.get(f"/v1/people?text={pasted}")["items"]] == ["ada"]
    assert [session["uid"] for session in s.get(f"/v1/sessions?text={pasted}")["items"]] == ["ada"]
    assert s.get("/v1/facets/device") == {"values": {"phone": 1}}
    assert (s.get("/v1/counts")["users"], s.get("/v1/counts")["totals"]["logout"]) == (1, 1)
    assert s.get("/v1/history?since=2026-01-01T00:00:00%2B00:00&step=86400") == {"items": []}
    s.ask("GET", "/no/such/address")
    s.ask("POST", "/v1/validate", {"token": "x"})
    s.ask("PROPFIND", "/v1/facets/device")
    metrics = s.ask("GET", "/metrics").text
    for line in ("presence_up 1.0", "presence_users 1.0", "presence_sessions 1.0", "presence_logins_total 2.0",
                 'presence_ends_total{reason="logout"} 1.0', "presence_events_clients 0.0",
                 'presence_request_seconds_count{method="GET",route="/v1/facets/{field}",status="200"} 1.0',
                 'presence_request_seconds_count{method="POST",route="/v1/validate",status="200"} 1.0',
                 'presence_request_seconds_count{method="any",route="none",status="404"} 1.0',
                 'presence_request_seconds_count{method="any",route="/v1/facets/{field}",status="405"} 1.0',
                 'presence_redis_seconds_count{operation="validate"} 1.0',
                 'presence_redis_seconds_count{operation="facets"} 1.0'):  # fmt: skip
        assert line in metrics
    assert "ada" not in metrics


@everywhere
def test_a_uid_may_have_any_characters(bed: Bed) -> None:
    s = service(bed)
    for uid in HOSTILE:
        place = f"/v1/users/{quote(uid, safe='')}"
        if uid not in (".", ".."):  # clients normalize these parts of a path, however they are written
            s.ask("POST", "/v1/sessions", {"uid": uid, "session_id": SID})
            s.ask("POST", "/v1/sessions", {"uid": uid, "session_id": "sessions"})
            assert len(s.get(f"{place}/sessions")["items"]) == 2, uid
            assert s.get(f"{place}/sessions/{SID}")["uid"] == uid
            assert s.get(f"{place}/sessions/sessions")["uid"] == uid
            assert s.ask("DELETE", f"{place}/sessions/{SID}").json() == {"ended": True}
            assert s.ask("PUT", f"{place}/block", {"reason": "x"}).json()["uid"] == uid
            assert s.get(f"{place}/block")["uid"] == uid
            assert s.ask("DELETE", f"{place}/block?reason=x").json() == {"unblocked": True}
        else:
            s.ask("POST", "/v1/sessions", {"uid": uid})
        assert s.get("/v1/sessions", params={"uid": uid})["total"] == 1
        assert s.ask("POST", "/v1/kicks", {"uid": uid, "reason": "x"}).json()["count"] == 1
    assert s.p.counts().sessions == 0


# -- without keys -----------------------------------------------------------------------------------------------------


def _asked(s: Service, **headers: str) -> int:
    return s.ask("POST", "/v1/kicks", {"uid": "ada", "reason": "x"}, headers=headers).status_code


@once
def test_without_keys_only_this_machine_is_served(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s = service(bed, local=True)
    assert _asked(s) == 200
    assert _asked(s, Origin="http://localhost:8000") == 200
    for name, value in (("Origin", "https://evil.example"), ("Origin", "null"), ("X-Forwarded-For", "127.0.0.1"),
                        ("Forwarded", "for=127.0.0.1"), ("Host", "evil.example"), ("Host", "localhost.evil.example"),
                        ("Host", "[")):  # fmt: skip
        assert _asked(s, **{name: value}) == 403, (name, value)
    s.peer = "192.0.2.7"
    assert _asked(s) == 403
    assert [entry.by for entry in s.p.audit()] == [LOCAL, LOCAL]


@everywhere
def test_attributes_nested_too_deep_are_refused_and_begin_no_session(bed: Bed) -> None:
    s = service(bed)
    for depth in (33, 64, 400):
        body = {"uid": "ada", "session_id": SID, "attributes": nested(depth)}
        said = problem(s.ask("POST", "/v1/sessions", body), 422)
        assert said["detail"] == "attributes must be nested at most 32 levels deep."
    assert s.p.counts().sessions == 0
    assert s.ask("POST", "/v1/sessions", {"uid": "ada", "session_id": SID, "attributes": nested(32)}).status_code == 201
    change = ("PATCH", f"/v1/users/ada/sessions/{SID}")
    assert problem(s.ask(*change, {"attributes": {"b": nested(32)}}), 422)["detail"] == (
        "attributes must be nested at most 32 levels deep."
    )
    assert s.ask(*change, {"attributes": {"b": nested(31)}}).status_code == 200
    held = nested(32) | {"b": nested(31)}
    assert s.get("/v1/sessions")["items"][0]["attributes"] == held
    for body in ({"filter": {"attributes": nested(33)}}, {"filter": {"attributes": {"a": nested(32)}}}):
        assert "32 levels" in problem(s.ask("POST", "/v1/kicks/preview", body), 422)["detail"]
    assert s.ask("POST", "/v1/kicks", {"uid": "ada", "reason": "test"}).json()["kicked"][0]["attributes"] == held
    assert s.get("/v1/ended")["items"][0]["attributes"] == held
