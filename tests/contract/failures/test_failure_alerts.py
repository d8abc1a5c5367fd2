"""What a worker notes of the alerts on failed sign-ins, so that none is sent twice."""

from __future__ import annotations

import json
from typing import Any

from presence_core.operations.maintenance import failure_alerts
from tests.conftest import Bed, every_topology
from tests.support.facade import P


def _check(p: P, of_person: int | None, of_network: int | None) -> list[Any]:
    found: list[Any] = p.internal.run(failure_alerts.check_failures(p.context, of_person, of_network, p.clock.ms))
    return found


def _fail(p: P, uid: str, times: int, ip: str | None = None) -> None:
    for _ in range(times):
        p.login_failed(uid, why="wrong_password", is_uid=True, ip=ip)


@every_topology
def test_no_key_names_a_person_who_was_alerted_and_then_erased(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    _fail(p, "pat-quill", 3)
    assert [alert.uid for alert in _check(p, 2, None)] == ["pat-quill"]
    p.erase("pat-quill", by="sue", reason="asked")
    worker = p.context.keys.common.worker
    assert b"pat-quill" not in (bed.raw.hget(worker, "failure_alerts") or b"")
    assert [key for key, value in bed.dump().items() if b"pat-quill" in key + value] == []


def test_an_alert_that_an_older_version_has_noted_by_uid_is_erased_with_the_person(bed: Bed, p: P) -> None:
    p.freeze()
    p.login("pat-quill")
    worker, others = p.context.keys.common.worker, {"ada": p.clock.ms, "\n203.0.113.0/24": p.clock.ms}
    bed.raw.hset(worker, "failure_alerts", json.dumps({"pat-quill": p.clock.ms} | others))
    p.erase("pat-quill", by="sue", reason="asked")
    assert json.loads(bed.raw.hget(worker, "failure_alerts")) == others
    assert [key for key, value in bed.dump().items() if b"pat-quill" in key + value] == []


def test_a_person_is_alerted_again_after_a_day_also_if_the_key_of_the_digests_is_new(p: P) -> None:
    p.freeze()
    p.login("ada")
    _fail(p, "ada", 3)
    assert [alert.uid for alert in _check(p, 2, None)] == ["ada"]
    p.rotate_device_key(by="sue", reason="test")
    _fail(p, "ada", 1)
    assert _check(p, 2, None) == []
    p.advance(86_400)
    _fail(p, "ada", 1)
    assert [alert.uid for alert in _check(p, 2, None)] == ["ada"]


def test_what_is_noted_of_alerts_goes_when_it_is_out_of_date(p: P, bed: Bed) -> None:
    p.freeze()
    _fail(p, "ada", 3, ip="203.0.113.9")
    assert len(_check(p, 2, 2)) == 2
    p.advance(2 * 86_400)
    assert _check(p, 2, None) == []
    assert bed.raw.hget(p.context.keys.common.worker, "failure_alerts") == b"{}"


def test_networks_beyond_the_alerts_of_one_check_come_with_the_next(p: P) -> None:
    p.freeze()
    most = failure_alerts.MOST_SENT
    for number in range(most + 5):
        _fail(p, "ada", 3, ip=f"10.{number}.0.1")
    first, second = _check(p, None, 2), _check(p, None, 2)
    assert (len(first), len(second)) == (most, 5)
    assert len({alert.network for alert in (*first, *second)}) == most + 5
