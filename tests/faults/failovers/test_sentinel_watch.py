"""A master that Sentinels have replaced is left at once, and is not trusted while they cannot be asked."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from presence_core import Presence, Settings, Unavailable
from presence_core.transport import sentinel_watch
from tests.conftest import Bed, one_mode
from tests.support.fair_clock import PATIENT
from tests.support.faults.failover_harness import (
    SETTINGS,
    Log,
    Trio,
    Validators,
    kick_each,
    live_after_kick,
    stopped,
    summary,
)
from tests.support.servers import HOST, SentinelProcess, Server, free_port, wait_for
from tests.support.soak import size

CONFIRMED = replace(SETTINGS, confirm_replicas=1)

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("sentinel-watch")]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Complete at the beginning of each test; the last test breaks it."""
    with Trio.start(tmp_path_factory.mktemp("trio"), proxies=True) as running:
        yield running


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "presence-sentinel"]


def _no_threads() -> None:
    wait_for("no thread for Sentinels", lambda: not _threads())


def _watch(presence: Any) -> Any:
    return presence._transport._watch


def test_clients_of_one_group_share_one_watch_that_ends_with_the_last(trio: Trio, anywhere: Bed) -> None:
    gc.collect()
    _no_threads()
    first, second = anywhere.connect_to(trio.url), anywhere.connect_to(trio.url)
    assert not _threads(), "nothing runs before the first call"
    first.counts()
    second.counts()
    with Presence.from_url(trio.url) as third:
        third.counts()
        assert len(_threads()) == 3
    assert all(thread.daemon for thread in _threads())
    first.close()
    assert len(_threads()) == 3
    second.counts()
    second.close()
    _no_threads()
    with Presence.from_url(trio.url) as fourth:
        fourth.counts()
        assert len(_threads()) == 3, "the first call after the last close begins a new watch"
    _no_threads()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its own connection is never closed
def test_a_client_dropped_without_close_leaves_no_thread(trio: Trio) -> None:
    presence = Presence.from_url(trio.url)
    presence.counts()
    assert _threads()
    del presence
    gc.collect()
    _no_threads()


def test_a_forked_child_starts_its_own_watch(trio: Trio) -> None:
    with Presence.from_url(trio.url, Settings(timeout=PATIENT)) as presence:
        presence.counts()
        child = os.fork()
        if not child:
            try:
                presence.counts()
                os._exit(0 if len(_threads()) == 3 else 1)
            finally:
                os._exit(2)
        presence.counts()
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        presence.counts()
        assert len(_threads()) == 3


@pytest.mark.parametrize("epoch", [0, 99])
def test_if_sentinels_disagree_the_highest_epoch_wins(trio: Trio, anywhere: Bed, tmp_path: Path, epoch: int) -> None:
    """With equal epochs, the majority. A failover raises the epoch, and a Sentinel that was cut off has not seen it."""
    name, binary = trio.sentinels.master_name, trio.first.binary
    file = tmp_path / "sentinel.conf"
    with Server.start(binary, tmp_path / "other", port=True) as other:
        lines = [f"sentinel monitor {name} {HOST} {other.port} 1", f"sentinel config-epoch {name} {epoch}"]
        file.write_text("\n".join(lines) + "\n")
        with SentinelProcess(binary, tmp_path, [str(file)], free_port()) as odd:
            odd._launch()
            hosts = ",".join(
                f"{HOST}:{port}" for port in (odd.port, *(sentinel.announced for sentinel in trio._majority()[1:]))
            )
            p = anywhere.connect_to(f"redis+sentinel://{hosts}/{name}", timeout=PATIENT)
            assert p.counts() is not None
            wait_for("all answers", lambda: len(_watch(p)._answers) == 3)
            keys = other.command("DBSIZE")  # the first two replies may have disagreed, and the layout been written here
            p.login("ada")
            assert _watch(p).master.address[1] == (other.port if epoch else trio.first.announced)
            p.login("bob")
            assert (other.command("DBSIZE") > keys) == bool(epoch)


def test_without_a_majority_of_sentinels_no_call_is_answered(trio: Trio, anywhere: Bed) -> None:
    p = anywhere.connect_to(trio.worker_url, timeout=PATIENT)
    hurried = anywhere.connect_to(trio.worker_url, timeout=0.2)
    token = p.login("ada").token
    assert hurried.validate(token)
    with trio.silenced(2):
        assert p.validate(token), "before down-after: a short pause has no effect"

        def refused() -> bool:
            try:
                return not hurried.validate(token)
            except Unavailable as error:
                return "Only 1 of 3 Sentinels of mymaster answer" in str(error)

        wait_for("a refusal", refused)
        for call in (
            lambda: hurried.validate(token, touch=False),
            hurried.counts,
            lambda: hurried.kick("ada", by="staff", reason="test"),
        ):
            with pytest.raises(Unavailable, match="majority"):
                call()
    assert p.validate(token), "no kick came through, and a patient caller waits for them"


def test_sentinels_with_a_password_or_without_announcements_work(trio: Trio, anywhere: Bed, tmp_path: Path) -> None:
    name, file = trio.sentinels.master_name, tmp_path / "sentinel.conf"
    lines = [f"sentinel monitor {name} {HOST} {trio.first.announced} 1", "user default on >s3cret +@all resetchannels"]
    file.write_text("\n".join(lines) + "\n")
    with SentinelProcess(trio.first.binary, tmp_path, [str(file)], free_port()) as alone:
        alone._launch()
        url = f"redis+sentinel://{HOST}:{alone.port}/{name}"
        p = anywhere.connect_to(f"{url}?sentinel_password=s3cret", timeout=PATIENT)
        assert p.counts() is not None
        since = _watch(p)._answers[0].asked
        wait_for("the next answer", lambda: _watch(p)._answers[0].asked > since)
        with pytest.raises(Unavailable, match="no Sentinel names a master"):
            anywhere.connect_to(url, timeout=0.2).counts()


@one_mode("sync")
def test_a_client_closes_while_a_sentinel_is_being_asked(
    trio: Trio, anywhere: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = threading.Event()

    def converse(
        watch: sentinel_watch.SentinelWatch,
        number: int,
        sentinel: Any,
        over: threading.Event,
        begin: Callable[..., None] = sentinel_watch.SentinelWatch._converse,
    ) -> None:
        if number == 2:
            closing.wait(PATIENT)
        begin(watch, number, sentinel, over)

    def shut(connection: object, at_once: Callable[[object], None] = sentinel_watch._shut) -> None:
        closing.set()
        threading.Event().wait(0.2)  # the last one begins in between
        at_once(connection)

    monkeypatch.setattr(sentinel_watch.SentinelWatch, "_converse", converse)
    monkeypatch.setattr(sentinel_watch, "_shut", shut)
    p = anywhere.connect_to(trio.url, timeout=PATIENT)
    p.counts()
    p.close()


def test_a_worker_cut_off_with_the_old_master_accepts_no_kicked_session(trio: Trio) -> None:
    trio.sentinels.wait_ok()
    logins, log = trio.logins(30), Log()
    with Validators(trio.worker_url, logins, log) as validators:
        trio.partition(sentinels=1)
        trio.wait_switched()
        kick_each(trio.majority_url, logins[:20], log, CONFIRMED)
        validators.seconds(size(0.5, 2))
    assert log.wrong == []
    assert log.unavailable
    assert len(log.confirmed) == 20, "or nothing was tested"
    assert live_after_kick(log) == [], summary(log)


def test_a_master_that_wakes_after_it_was_replaced_accepts_no_kicked_session(tmp_path: Path) -> None:
    with Trio.start(tmp_path) as trio:
        logins, log = trio.logins(30), Log()
        with Validators(trio.url, logins, log) as busy, Validators(trio.url, logins, log) as quiet:
            with quiet.resting(), stopped(trio.first):
                trio.wait_switched()
                kick_each(trio.url, logins[:20], log, CONFIRMED)
            asked = len(log.checks)
            wait_for("an answer about each, of each client", lambda: len(log.checks) > asked + 30 * 4)
            assert trio.first.command("ROLE")[0] == "master", "it still does not know"
            busy.seconds(0.5)
    assert log.wrong == []
    assert len(log.confirmed) == 20, "or nothing was tested"
    assert live_after_kick(log) == [], summary(log)
