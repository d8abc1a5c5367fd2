"""A login on a device that is new to its user is flagged and reported, once."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused, Session, SessionFilter
from presence_core.keyspace import layout_key
from presence_core.operations.known_devices import rotate_device_key
from presence_core.scripts.calls import Call, Op
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

DAY = 86_400
PHONE, LAPTOP, TABLET = "device-phone", "device-laptop", "device-tablet"


def _login(p: P, uid: str = "ada", device_id: str | None = PHONE, **given: Any) -> Session:
    session: Session = p.login(uid, device_id=device_id, **given).session
    return session


def _reported(p: P) -> list[tuple[str, str]]:
    return [(event.uid, event.session_id) for event in p.events(limit=1000) if event.kind == "new_device"]


def _known(bed: Bed, p: P, uid: str = "ada") -> dict[bytes, bytes]:
    known: dict[bytes, bytes] = bed.raw.hgetall(p.context.shard(uid).known(uid))
    return known


@every_backend
def test_a_second_device_is_new_and_the_first_and_known_ones_are_not(p: P) -> None:
    flags = [_login(p, device_id=device_id).new_device for device_id in (PHONE, PHONE, LAPTOP, LAPTOP, PHONE, None)]
    assert flags == [False, False, True, False, False, False]
    assert not _login(p, "bob", LAPTOP).new_device, "the first device of another user"
    [new] = p.list_sessions(SessionFilter(new_device=True)).items
    assert new.new_device
    assert _reported(p) == [("ada", new.session_id)]
    assert [event.kind for event in p.events(limit=1000) if event.session_id == new.session_id] == [
        "login", "new_device",
    ]  # fmt: skip


def test_every_reader_of_a_session_sees_that_its_device_was_new(p: P) -> None:
    p.logout("ada", _login(p).session_id)  # her phone stays known
    login = p.login("ada", device_id=LAPTOP, session_id="session-1")
    for session in (
        login.session, p.get("ada", "session-1"), p.validate(login.token).session, p.rotate(login.token).session,
        p.sessions("ada")[0], p.list_sessions().items[0], p.sessions_among(["ada:session-1"])["ada:session-1"],
        p.update_session("ada", "session-1", attributes={"a": 1}).session,
    ):  # fmt: skip
        assert session is not None
        assert session.new_device
    [kicked] = p.kick("ada", "session-1", by="sue", reason="not hers").kicked
    assert kicked.new_device
    assert p.ended("ada").items[0].new_device
    ended = p.validate_session("ada", "session-1").ended
    assert ended is not None
    assert ended.new_device


@every_topology
def test_of_many_logins_at_once_on_one_new_device_one_is_reported(bed: Bed) -> None:
    p = bed.connect()
    _login(p)
    barrier = threading.Barrier(8)
    flags: list[bool] = []
    clients = [bed.connect() for _ in range(8)]

    def log_in(client: P) -> None:
        barrier.wait()
        flags.extend(_login(client, device_id=LAPTOP).new_device for _ in range(25))

    threads = [threading.Thread(target=log_in, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(flags) == 200
    assert sum(flags) == 1
    assert len(_reported(p)) == 1


def test_a_login_that_is_repeated_stays_new_and_is_reported_once(p: P) -> None:
    _login(p)
    for _ in range(2):
        assert _login(p, device_id=LAPTOP, session_id="session-1").new_device
    assert _reported(p) == [("ada", "session-1")]


def test_a_refused_login_makes_no_device_known(p: P) -> None:
    _login(p)
    p.block("ada", by="sue", reason="test")
    with pytest.raises(LoginRefused):
        _login(p, device_id=LAPTOP)
    p.unblock("ada", by="sue", reason="test")
    assert _login(p, device_id=LAPTOP).new_device


def test_an_import_makes_devices_known_and_reports_none(p: P) -> None:
    rows = [{"uid": "ada", "device_id": device_id, "login_at": p.clock.ms / 1000 - 60} for device_id in (PHONE, LAPTOP)]
    p.login_many(rows, imported=True)
    assert not any(session.new_device for session in p.sessions("ada"))
    assert [_login(p, device_id=device_id).new_device for device_id in (LAPTOP, TABLET)] == [False, True]


def test_a_device_is_known_for_a_time_after_its_last_login(bed: Bed) -> None:
    p = bed.connect(keep_devices=10 * DAY)
    p.freeze()
    for device_id in (PHONE, LAPTOP):
        _login(p, device_id=device_id)
    p.advance(9 * DAY)
    assert not _login(p, device_id=LAPTOP).new_device
    p.advance(2 * DAY)
    assert not _login(p, device_id=LAPTOP).new_device
    assert len(_known(bed, p)) == 1, "the phone is not kept any more"
    assert _login(p, device_id=PHONE).new_device
    assert bed.raw.ttl(p.context.shard("ada").known("ada")) > 9 * DAY


def test_the_fifty_latest_devices_of_a_user_are_known(p: P, bed: Bed) -> None:
    p.freeze()
    for number in range(52):
        _login(p, device_id=f"device-{number}")
        p.advance(1)
    assert len(_known(bed, p)) == 50
    assert [_login(p, device_id=f"device-{number}").new_device for number in (51, 2, 0)] == [False, False, True]


def test_without_devices_to_keep_nothing_is_written(bed: Bed) -> None:
    p = bed.connect(keep_devices=0)
    assert not any(_login(p, device_id=device_id).new_device for device_id in (PHONE, LAPTOP))
    assert "known" not in bed.families()


def test_neither_a_device_nor_that_two_users_share_one_is_stored(p: P, bed: Bed) -> None:
    for uid in ("ada", "bob"):
        _login(p, uid)
    assert not any(PHONE.encode() in key or PHONE.encode() in (value or b"") for key, value in bed.dump().items())
    assert not _known(bed, p, "ada").keys() & _known(bed, p, "bob").keys()


@every_topology
def test_devices_stay_known_when_the_key_is_rotated_and_other_clients_have_the_old_one(bed: Bed) -> None:
    p, behind = bed.connect(), bed.connect()
    p.freeze()
    for device_id in (PHONE, LAPTOP):
        _login(behind, device_id=device_id)
    p.rotate_device_key(by="sue", reason="each year")
    assert p.audit().items[0].action == "rotate_device_key"
    _login(behind, device_id=TABLET)
    assert [_login(p, device_id=device_id).new_device for device_id in (PHONE, LAPTOP, TABLET)] == [False] * 3
    assert [_login(behind, device_id=device_id).new_device for device_id in (PHONE, LAPTOP, TABLET)] == [False] * 3
    p.advance(60)
    assert not any(_login(p, device_id=device_id).new_device for device_id in (PHONE, TABLET))
    p.rotate_device_key(by="sue", reason="each year")
    fresh = bed.connect()
    assert [_login(fresh, device_id=device_id).new_device for device_id in (PHONE, TABLET)] == [False] * 2
    assert _login(fresh, device_id="device-other").new_device


@on("valkey-sync", "cluster-async")
def test_a_rotation_that_breaks_off_at_any_call_is_in_the_audit_if_the_key_has_changed(p: P, bed: Bed) -> None:
    _login(p)
    key = layout_key(bed.namespace)
    before = bed.raw.hget(key, "device_keys")
    rotation = rotate_device_key(p.context, "sue", "each year")
    calls = next(rotation)
    with contextlib.suppress(StopIteration):
        while True:
            replies = p.internal.run(_send(calls))
            has_changed = bed.raw.hget(key, "device_keys") != before
            assert len(p.audit()) >= has_changed
            calls = rotation.send(replies)
    p.rotate_device_key(by="sue", reason="each year")
    assert has_changed
    assert [entry.action for entry in p.audit()] == ["rotate_device_key"], "the second one does nothing"


def _send(calls: list[Call]) -> Op[list[Any]]:
    return (yield calls)


def test_a_device_is_noted_once_after_a_rotation_too(p: P, bed: Bed) -> None:
    p.freeze()
    for number in range(50):
        _login(p, device_id=f"device-{number}")
        p.advance(1)
    p.rotate_device_key(by="sue", reason="each year")
    p.advance(60)
    assert not any(_login(p, device_id=f"device-{number}").new_device for number in reversed(range(50)))
    assert len(_known(bed, p)) == 50


def test_a_device_that_is_new_right_after_a_rotation_is_reported_once(bed: Bed) -> None:
    p, behind = bed.connect(), bed.connect()
    for client in (p, behind):
        _login(client)
    p.rotate_device_key(by="sue", reason="each year")
    assert [_login(client, device_id=LAPTOP).new_device for client in (p, behind, bed.connect())] == [
        True,
        False,
        False,
    ]
    assert len(_reported(p)) == 1


def test_rotations_at_once_count_as_one(bed: Bed) -> None:
    clients = [bed.connect() for _ in range(4)]
    for client in clients:
        _login(client)
    barrier = threading.Barrier(4)

    def rotate(client: P) -> None:
        barrier.wait()
        client.rotate_device_key(by="sue", reason="each year")

    threads = [threading.Thread(target=rotate, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    devices = [f"device-{number}" for number in range(4)]
    for client, device_id in zip(clients, devices, strict=True):
        assert _login(client, device_id=device_id).new_device
    fresh = bed.connect()
    assert not any(_login(fresh, device_id=device_id).new_device for device_id in (PHONE, *devices))


def test_a_key_of_a_foreign_type_stops_no_login(p: P, bed: Bed) -> None:
    _login(p)
    key = p.context.shard("ada").known("ada")
    bed.raw.delete(key)
    bed.raw.set(key, "foreign")
    assert not _login(p, device_id=LAPTOP).new_device
    assert bed.raw.get(key) == b"foreign"


def test_an_export_names_the_devices_and_an_erasure_removes_them(p: P, bed: Bed) -> None:
    p.freeze()
    for device_id in (PHONE, LAPTOP):
        _login(p, device_id=device_id)
    devices = p.export_person("ada")["devices"]
    assert [device["last_login"] for device in devices] == [p.clock.now.isoformat()] * 2
    p.erase("ada", by="sue", reason="asked")
    assert "known" not in bed.families()
    assert _reported(p) == []
    assert not _login(p, device_id=LAPTOP).new_device


@pytest.mark.parametrize("wrong", ["", "short", "with space 1", "x" * 129, 5, b"device-phone"], ids=repr)
def test_an_invalid_device_id_is_refused(p: P, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="device_id must be 8 to 128 characters"):
        p.login("ada", device_id=wrong)
