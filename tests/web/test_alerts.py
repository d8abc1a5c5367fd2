"""Alerts of a worker, to a real receiver: once above the limit, once when back below, and no sweep waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from presence_core import Worker
from presence_core.web.webhooks import AlertWebhook
from tests.conftest import on
from tests.support.facade import P
from tests.support.programs.webhook_receiver import SECRET, Receiver, until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.ready.set()
    running.close()


def samples(p: P, worker: Worker, number: int) -> None:
    """Let the worker take samples, each ten seconds later."""
    for _ in range(number):
        p.advance(10)
        worker._turn()
        assert worker.last_error is None


def begin(p: P, worker: Worker) -> None:
    """Take the samples of a first quiet minute."""
    p.set_now(p.clock.ms - p.clock.ms % 60_000 + 60_000)
    worker._turn()
    samples(p, worker, 6)


def _stored(p: P) -> list[tuple[int, int, int]]:
    """The counts above their limit, by the status of the worker."""
    status = p.worker_status()
    assert status is not None
    return [(alert.per_minute, alert.limit, round(alert.at.timestamp() * 1000)) for alert in status.alerts]


@on("valkey-sync", "cluster-sync")
def test_an_alert_is_sent_above_the_limit_and_one_when_it_is_back(p: P, receiver: Receiver) -> None:
    with AlertWebhook(receiver.url, SECRET, ends=2, logins=5) as alerts:
        worker = Worker(p, alerts=alerts)
        begin(p, worker)
        p.login_many({"uid": f"u{number}"} for number in range(5))
        samples(p, worker, 1)
        p.login("ada")
        samples(p, worker, 1)
        crossed = p.clock.ms
        until(lambda: alerts.delivered == 1)

        assert _stored(p) == [(6, 5, p.clock.ms)]

        worker._leave()
        successor = Worker(p, alerts=alerts)
        samples(p, successor, 6)
        until(lambda: alerts.delivered == 2)
        assert _stored(p) == []
        for number in range(3):
            p.kick(f"u{number}", by="sam", reason="stolen phone", ticket="T-1")
        samples(p, successor, 4)
        until(lambda: alerts.delivered == 3)
        assert _stored(p) == [(3, 2, p.clock.ms)]
        p.advance(60)
        assert _stored(p) == [], "no worker has checked the limits for a minute"
    found = [(alert["type"], alert["count"], alert["per_minute"]) for alert in receiver.taken]
    assert found == [("alert", "logins", 6), ("alert_ended", "logins", 0), ("alert", "ends", 3)]
    assert receiver.forged == 0
    first = receiver.taken[0]
    assert len(first.pop("id")) == 32
    assert first == {
        "type": "alert",
        "at": datetime.fromtimestamp(crossed / 1000, UTC).isoformat(timespec="milliseconds"),
        "namespace": p.settings.namespace,
        "count": "logins",
        "per_minute": 6,
        "limit": 5,
        "text": f"Alert: 6 logins per minute, limit 5 ({p.settings.namespace})",
    }


@on("valkey-sync")
def test_a_receiver_that_does_not_answer_delays_no_sweep(p: P, receiver: Receiver) -> None:
    receiver.ready.clear()
    receiver.answers = [503]
    with AlertWebhook(receiver.url, SECRET, logins=1, max_wait=0.05, timeout=60) as alerts:
        worker = Worker(p, alerts=alerts)
        begin(p, worker)
        p.login_many({"uid": f"u{number}", "idle_timeout": 15} for number in range(2))
        samples(p, worker, 1)
        for duty in worker._duties:
            duty.due = 0.0
        samples(p, worker, 1)
        assert p.counts().totals["expired"] == 2
        assert alerts.delivered == 0
        receiver.ready.set()
        until(lambda: alerts.delivered == 1)
    tries = [alert for _, alert in receiver.tries]
    assert tries[0] == tries[1], "an alert is tried again with the same id"


@on("valkey-sync")
def test_an_alert_to_an_unreachable_receiver_is_given_up(p: P) -> None:
    quick: dict[str, Any] = {"max_wait": 0.05, "timeout": 2, "give_up": 1}
    with AlertWebhook("http://127.0.0.1:1/", SECRET, logins=1, **quick) as alerts:
        worker = Worker(p, alerts=alerts)
        begin(p, worker)
        p.login_many({"uid": f"u{number}"} for number in range(2))
        samples(p, worker, 1)
        until(lambda: alerts.dropped == 1)


@on("valkey-sync", "cluster-sync")
def test_a_login_of_a_person_on_the_shared_watch_list_is_sent_once_also_by_the_next_worker(
    p: P, receiver: Receiver
) -> None:
    p.save_item("watch", "vip:1", "Ada", by="dana", shared=True)
    p.save_item("watch", "u9", "Bea", by="dana")  # her own list
    p.login("vip:1", name="Ada")  # before the first check
    p.advance(60)  # also if the test begins at the end of a minute
    with AlertWebhook(receiver.url, SECRET, people=True) as alerts:
        worker = Worker(p, alerts=alerts)
        begin(p, worker)
        first = p.login("vip:1", name="Ada", device="Phone").session
        p.login("u9", name="Bea")
        p.login("vip:1", on_behalf_by="dana", reason="test")
        p.advance(1)
        gone = p.login("vip:1", name="Ada").session
        p.logout("vip:1", gone.session_id)
        p.advance(1)
        samples(p, worker, 1)
        until(lambda: alerts.delivered == 2)
        samples(p, worker, 2)
        worker._leave()
        following = Worker(p, alerts=alerts)
        samples(p, following, 2)
        p.remove_item("watch", "vip:1", by="dana", shared=True)
        p.login("vip:1")
        samples(p, following, 2)
        assert alerts.delivered == 2
    assert [alert["session_id"] for alert in receiver.taken] == [first.session_id, gone.session_id]
    assert len(receiver.taken[0].pop("id")) == 32
    assert receiver.taken[0] == {
        "type": "login",
        "at": first.login_at.isoformat(timespec="milliseconds"),
        "namespace": p.settings.namespace,
        "uid": "vip:1",
        "session_id": first.session_id,
        "text": f"Login: Ada (vip:1) on Phone ({p.settings.namespace})",
    }


@on("valkey-sync", "cluster-sync")
def test_many_failed_sign_ins_of_a_person_and_from_a_network_are_sent_once(p: P, receiver: Receiver) -> None:
    with AlertWebhook(receiver.url, SECRET, failed=50, failed_of_person=3, failed_of_network=30) as alerts:
        worker = Worker(p, alerts=alerts)
        begin(p, worker)
        p.login("ada")
        for _ in range(4):
            p.login_failed("ada", why="wrong_password", ip="203.0.113.9")
        for number in range(60):
            p.login_failed(f"name-{number}", why="unknown_name", ip=f"198.51.100.{number}")
        samples(p, worker, 2)
        until(lambda: alerts.delivered == 3)
        samples(p, Worker(p, alerts=alerts), 1)
        worker._leave()
    found = {(alert["type"], alert.get("uid"), alert.get("network"), alert.get("count")) for alert in receiver.taken}
    network: int = next(alert["count"] for alert in receiver.taken if alert.get("network"))
    assert 30 < network <= 60
    assert found == {
        ("alert", None, None, "failed"),
        ("failures", "ada", None, 4),
        ("failures", None, "198.51.100.0/24", network),
    }
    assert len(receiver.taken) == 3
    said = next(alert["text"] for alert in receiver.taken if alert.get("uid"))
    assert said == f"Failed sign-ins: 4 of ada since their last login, limit 3 ({p.settings.namespace})"
