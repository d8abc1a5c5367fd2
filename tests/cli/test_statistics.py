"""`presence stats`, `history` and `status`."""

from __future__ import annotations

import json

import pytest

from presence_core import Worker
from tests.cli.conftest import Run, table_of, without_times
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.workers import work

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@on("valkey-sync", "cluster-sync")
def test_stats_fit_on_one_screen(p: P, run: Run) -> None:
    code, out, _ = run("stats")
    assert (code, without_times(out)) == (
        0,
        "0 users online in 0 sessions, TIME UTC\n"
        "per minute   unknown: no worker has recorded samples recently\n"
        "totals       0 login, 0 logout, 0 expired, 0 kicked, 0 replaced, 0 new_device, 0 distant, "
        "0 after_failures, 0 moved, 0 failed\n"
        "worker       none has run here. Start one: presence worker\n\n",
    )
    worker = Worker(p)
    p.set_now(p.clock.ms - 30_000)
    worker._turn()
    p.login_many([{"uid": f"u{number}", "device": f"d{number % 7}", "app": "shop"} for number in range(20)])
    for device_id in ("the-laptop-of-u1", "the-phone-of-u1"):
        p.login("u1", session_id="session-1", device="d1", user_agent=FIREFOX, device_id=device_id)
    p.advance(10)
    worker._turn()
    p.clock.run_freely()
    worker._turn()
    code, out, _ = run("stats")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("20 users online in 21 sessions, 20")
    named = {line[:13].strip(): line[13:] for line in lines[1:-7]}
    # Two samples: two of the turns were in the same ten seconds. Four: a slow machine.
    by_samples = [f"{21 * 6 / samples:.1f} logins, 0.0 ends (last 10 minutes)" for samples in (2, 3, 4)]
    assert named["per minute"] in by_samples, "21 in the samples that there are"
    assert named["totals"] == (
        "21 login, 0 logout, 0 expired, 0 kicked, 0 replaced, "
        "1 new_device, 0 distant, 0 after_failures, 0 moved, 0 failed"
    )
    assert named["worker"].endswith(" leads, 0.0 s late")
    assert named.get("peak today", "21 sessions").startswith("21 sessions"), "none where the day has just begun"
    assert lines[-6].split() == ["DEVICE", "SESSIONS", "APP", "SESSIONS", "BROWSER", "SESSIONS"]
    assert lines[-5].split() == ["d1", "4", "shop", "20", "Firefox", "1"], "and five values at most"
    result = json.loads(run("stats", "--json")[1])
    assert list(result) == ["counts", "per_minute", "peak_today", "top", "worker"]
    assert result["counts"]["sessions"] == 21
    share = result["per_minute"]["new_devices"]  # of the samples, whose number may have grown since
    assert share in (6 / 2, 6 / 3, 6 / 4)
    assert result["per_minute"] == {
        "logins": 21 * share, "logouts": 0.0, "kicked": 0.0, "expired": 0.0, "replaced": 0.0, "new_devices": share,
        "distant_logins": 0.0,
    }  # fmt: skip
    assert result["top"]["app"] == {"shop": 20}


@on("valkey-sync")
def test_stats_repeat_until_ctrl_c(p: P, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.commands.statistics.time.sleep", sleep)
    code, out, err = run("stats", "--every", "2", "--json")
    assert (code, out.count("\n"), err, slept) == (130, 3, "", [2, 2, 2])
    assert run("stats", "--every", "0")[::2] == (2, "every must be a whole number from 1 to 3600.\n")


@on("valkey-sync")
def test_history_and_status(bed: Bed, run: Run) -> None:
    assert run("status") == (1, "No worker has ever run here. Start a worker: presence worker\n", "")
    assert run("history") == (1, "There are no samples of this period. Is a worker running?\n", "")
    p = bed.connect()
    worker = Worker(p)
    p.login("ada")
    work(worker)
    code, out, _ = run("status")
    leader = out.split()[0]
    assert (code, without_times(out)) == (0, f"{leader} leads since TIME UTC.\nLast sweep: TIME UTC, 0.0 s late.\n")
    code, out, _ = run("history", "--since", "30m", "--step", "60")
    assert code == 0
    heading, *lines = table_of(out)
    assert heading[:6] == ["FROM (UTC)", "USERS", "SESSIONS", "LEAST", "MEAN", "MOST"]
    assert heading[6:] == ["LOGINS", "LOGOUTS", "KICKED", "EXPIRED", "REPLACED", "NEW DEVICES", "DISTANT"]
    numbers = dict(zip(heading[1:], lines[-2][1:], strict=True))
    assert numbers == dict.fromkeys(heading[1:6], "1") | dict.fromkeys(heading[6:], "0")
    assert lines[-1] == ["The period of the last line has not ended yet."]
    code, out, _ = run("history", "--since", "2020-01-01", "--json")
    assert code == 0
    assert {sample["step"] for sample in json.loads(out)} == {86_400}
    worker._leave()
    code, out, _ = run("status")
    assert (code, without_times(out)) == (
        1, f"No worker leads. The last was {leader}, since TIME UTC.\nLast sweep: TIME UTC, 0.0 s late.\n"
    )  # fmt: skip
    assert json.loads(run("status", "--json")[1])["alive"] is False
    for wrong in ("soon", "", "xh", "9999999999d"):
        sentence = "since must be like 30m, 24h or 7d, or an ISO time.\n"
        assert run("history", "--since", wrong) == (2, "", sentence), wrong
