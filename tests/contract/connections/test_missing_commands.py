"""A command that the server does not have (rename-command), or that the ACL user may not run: no call begins what it
may not finish, and Health names the command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from presence_core import OutcomeUnknown, PresenceError, SessionFilter, Unavailable
from presence_core.operations.maintenance.health import COMMANDS
from tests.conftest import Bed, on, together
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.monitor import Monitor
from tests.support.servers import Server, redis_binary, valkey_binary
from tests.support.soak import size

SAID: dict[str, Any] = {"by": "sam", "reason": "test"}
ASKED = SessionFilter(device="phone")

CALLS: dict[str, Callable[[P, str], Any]] = {
    "login": lambda p, t: p.login("eve", name="Eve", device="phone", user_agent="curl/8", ip="192.0.2.9"),
    "login again": lambda p, t: p.login("ada", session_id="session-1", name="New", device="desk", user_agent="x"),
    "login at the limit": lambda p, t: p.login("bob", session_id="session-9", device="phone", name="Bob"),
    "login with a device id": lambda p, t: p.login("dan", device_id="device-1", ip="192.0.2.9"),
    "login on behalf": lambda p, t: p.login("dan", on_behalf_by="sam", reason="test"),
    "login_many": lambda p, t: p.login_many([{"uid": f"m{n}", "name": "New", "device": "phone"} for n in range(3)]),
    "validate": lambda p, t: p.validate(t, ip="192.0.2.77"),
    "validate again": lambda p, t: p.validate_session("ada", "session-1"),
    "heartbeat": lambda p, t: p.heartbeat("ada", "session-1"),
    "heartbeats": lambda p, t: p.heartbeats(["ada:session-1", "bob:session-2", "bob:session-3"]),
    "update": lambda p, t: p.update(t, attributes={"plan": "pro"}),
    "update_session": lambda p, t: p.update_session("ada", "session-1", name="New", device="watch", attributes={}),
    "update_person": lambda p, t: p.update_person("bob", name="Bob", aliases=["bob@example.org"]),
    "require_sign_in": lambda p, t: p.require_sign_in("cat", message="hello", **SAID),
    "answer_notice": lambda p, t: p.answer_notice("bob", "session-3", 1.0, "me", until=4e9),
    "deny a notice": lambda p, t: p.answer_notice("bob", "session-3", 2.0, "not_me", until=4e9),
    "change_timeouts": lambda p, t: p.change_timeouts("bob", idle_timeout=60, **SAID),
    "change_timeouts_where": lambda p, t: p.change_timeouts_where(
        SessionFilter(uid="bob"), idle_timeout=60, expected=9, **SAID
    ),
    "block": lambda p, t: p.block("dan", duration=60, message="hello", **SAID),
    "unblock": lambda p, t: p.unblock("fay", **SAID),
    "block rule": lambda p, t: p.add_block_rule(network="198.51.100.0/24", expected=0, **SAID),
    "audit note": lambda p, t: p.audit_note(by="sam", what="export", outcome="1 session exported"),
    "denied": lambda p, t: p.denied(by="sam", what="kick"),
    "staff": lambda p, t: p.set_staff("root", "admin", by="sam"),
    "saved item": lambda p, t: p.save_item("view", "mine", "q=a", by="root"),
    "approval request": lambda p, t: p.ask_approval(filter=SessionFilter(uid="bob"), sessions=1, **SAID),
    "viewer": lambda p, t: p.note_viewer("ada", by="root"),
    "remark": lambda p, t: p.add_remark("ada", "refunds", by="root"),
    "logout": lambda p, t: p.logout("ada", "session-1"),
    "kick one": lambda p, t: p.kick("bob", "session-2", message="hello", **SAID),
    "kick": lambda p, t: p.kick("bob", message="hello", ticket="T-1", **SAID),
    "kick and block": lambda p, t: p.kick("cat", message="hello", block_for=60, **SAID),
    "erase": lambda p, t: p.erase("gus", **SAID),
    "kick_where": lambda p, t: p.kick_where(SessionFilter(uid="hal"), expected=1, **SAID),
    "sweep": lambda p, t: p.sweep(),
    "repair": lambda p, t: p.repair(),
    "revoke_before": lambda p, t: p.revoke_before(**SAID),
    "audit": lambda p, t: p.audit(),
    "block rules": lambda p, t: p.block_rules(),
    "blocks": lambda p, t: p.blocks(),
    "counts": lambda p, t: p.counts(),
    "events": lambda p, t: p.events(),
    "facets": lambda p, t: p.facets("device"),
    "list_sessions": lambda p, t: p.list_sessions(ASKED),
    "people": lambda p, t: p.people("bob"),
    "remarks": lambda p, t: p.remarks(),
    "top_people": lambda p, t: p.top_people(),
    "remarks_among": lambda p, t: p.remarks_among(["ada"]),
    "notices": lambda p, t: p.notices(),
    "notices_of": lambda p, t: p.notices_of("bob"),
    "names_of": lambda p, t: p.names_of(["bob"]),
    "did_you_mean": lambda p, t: p.did_you_mean("bobb"),
    "online_users": lambda p, t: p.online_users(),
    "sessions": lambda p, t: p.sessions("bob"),
    "export_person": lambda p, t: p.export_person("bob"),
}  # fmt: skip


def _story(p: P) -> str:
    p.freeze()
    token = p.login(
        "ada", session_id="session-1", name="Ada", device="phone", user_agent="curl/8", ip="192.0.2.1"
    ).token
    for number in (2, 3):
        p.login("bob", session_id=f"session-{number}", device="phone", user_agent="curl/8", attributes={"plan": "free"})
        p.advance(1)
    for uid in ("cat", "dan", "gus", "hal"):
        p.login(uid, session_id="session-1", device="desk", name=uid, ip="192.0.2.2", user_agent="curl/8")
    p.login("ian", session_id="session-1", idle_timeout=3, name="Ian", device="desk")
    p.block("fay", **SAID)
    p.advance(5)
    return token


def _values(bed: Bed, raw: Any) -> dict[bytes, Any]:
    """Every key but the layout, in which a login notes the secrets behind digests of devices. A stream by its entries:
    one that was added and removed again leaves a trace in the stream's dump."""
    keys = sorted(raw.scan_iter(match=f"{{{bed.namespace}:*", count=5000))
    kinds = together(raw, [("type", key) for key in keys])
    reads = [("xrange", key) if kind == b"stream" else ("dump", key) for key, kind in zip(keys, kinds, strict=True)]
    times = together(raw, [("pttl", key) for key in keys])
    return {key: (value, ms > 0) for key, value, ms in zip(keys, together(raw, reads), times, strict=True)}


def _half_done(p: P, bed: Bed, raw: Any, token: str, missing: str) -> Iterator[str]:
    """What each call that failed has written, and errors that do not name the command that is missing."""
    for name, call in CALLS.items():
        p.advance(1)
        before = _values(bed, raw)
        try:
            call(p, token)
        except Unavailable as error:
            if isinstance(error, OutcomeUnknown) or error.code != "NOPERM":
                yield f"{name} raised {error!r}"
            elif not re.search(rf"['+(]{missing}\b", str(error), re.IGNORECASE):
                yield f"{name} does not name {missing}: {error}"
        except PresenceError as error:
            yield f"{name} raised {error!r}"
        else:
            continue
        after = _values(bed, raw)
        changed = {key.decode().partition("}:")[2] for key in before | after if before.get(key) != after.get(key)}
        if changed and name != "sweep":  # its steps are changes of their own
            yield f"{name} wrote {sorted(changed)}"


NAMES = size(
    ("evalsha", "unlink", "expire", "xadd", "srem", "zadd", "hset", "sadd", "pexpireat", "hincrby", "scard", "rename",
     "hgetall", "hmget", "xlen", "xrevrange", "zcard"),
    [name for name in COMMANDS if " " not in name and name != "evalsha_ro"],
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@on("valkey-sync", "redis7-async", soak=("cluster-sync",))
def test_without_the_right_to_a_command_no_call_begins_what_it_may_not_finish(bed: Bed, raw: Any, name: str) -> None:
    limits: dict[str, Any] = {"shards": 1, "max_sessions": 2, "facets": ("plan",)}
    token = _story(bed.connect(**limits))
    rules = ("ACL", "SETUSER", "site", "reset", "on", ">s3cret", "~*", "+@all", f"-{name}")
    raw.execute_command(*rules, **({"target_nodes": "all"} if bed.is_cluster else {}))
    p = bed.connect_to(bed.url.replace("://", "://site:s3cret@"), timeout=PATIENT, **limits)
    mistakes = list(_half_done(p, bed, raw, token, name))
    assert not mistakes, "\n".join(mistakes)
    [finding] = [finding for finding in p.health().findings if finding.subject == "permissions"]
    assert (finding.level, name in finding.text) == ("error", True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "xrange"])  # _values needs it
@on("valkey-sync", soak=("redis7-async",))
def test_without_a_renamed_command_no_call_begins_what_it_may_not_finish(
    bed: Bed, raw: Any, tmp_path: Path, name: str
) -> None:
    limits: dict[str, Any] = {"shards": 1, "max_sessions": 2, "facets": ("plan",)}
    token = _story(bed.connect(**limits))
    binary = valkey_binary() if bed.backend.server == "valkey" else redis_binary()
    assert binary
    with Server.start(binary, tmp_path, "--rename-command", name, "") as server, server.client() as renamed:
        for key in [key for keys in bed.families().values() for key in keys]:
            renamed.restore(key, max(0, raw.pttl(key)), raw.dump(key))
        p = bed.connect_to(server.url, timeout=PATIENT, **limits)
        mistakes = list(_half_done(p, bed, renamed, token, name))
        assert not mistakes, "\n".join(mistakes)
        [finding] = [finding for finding in p.health().findings if finding.subject == "permissions"]
        assert (finding.level, name in finding.text.lower()) == ("error", True)
        assert "rename-command" in str(finding.advice)
        bed.close()


@on("valkey-sync")
def test_health_runs_evalsha_which_a_proxy_may_refuse(p: P, bed: Bed, raw: Any) -> None:
    p.counts()
    before = bed.dump()
    with Monitor(raw) as monitor:
        p.health()
    assert [line.words[0] for line in monitor.lines if not line.by_script].count(b"EVALSHA") == 1
    assert bed.dump() == before


@pytest.mark.parametrize("name", ["evalsha_ro", "script", "time"])
@on("valkey-sync", soak=("redis7-async",))
def test_a_server_without_a_command_that_every_call_needs_is_named(bed: Bed, tmp_path: Path, name: str) -> None:
    binary = valkey_binary() or redis_binary()
    assert binary
    with Server.start(binary, tmp_path, "--rename-command", name, "") as server:
        p = bed.connect_to(server.url, timeout=PATIENT)
        [finding] = [finding for finding in p.health().findings if finding.subject == "permissions"]
        assert (finding.level, name in finding.text.lower()) == ("error", True)
        bed.close()
