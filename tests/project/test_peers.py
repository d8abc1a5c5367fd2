"""Small runs of the peers' benchmarks: all peers do the same work, and it is counted once.

The tests do not require Node and the Python peers. If they are not installed, their tests are skipped, in CI too.
`python -m benchmarks peers` installs them.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.peers import command, install
from benchmarks.peers.driver import PeerServer, programs
from benchmarks.peers.install import HERE, KINDS, Kind, installed
from benchmarks.peers.rounds import Rounds, WrongAnswer
from benchmarks.peers.table import _time, summary, tables
from benchmarks.stage import binaries
from tests.support.servers import missing

SIZE = 200
ROWS = 8
BY_KEY = {kind.key: kind for kind in KINDS}


def why_not(kind: Kind) -> str | None:
    """The reason why this peer cannot run here."""
    if kind.needs == "node" and not shutil.which("node"):
        return "there is no node here, which only these peers need"
    if not installed(kind.needs):
        return f"the {kind.needs} peers are not installed: python -m benchmarks peers does it"
    return None


@pytest.fixture(scope="module")
def server() -> str:
    return next(iter(binaries()), "") or missing("any Redis server")


@pytest.fixture(scope="module")
def measured(server: str) -> tuple[str, Any]:
    """One run with all installed peers; one call a turn."""
    return command.run(server, SIZE, [kind for kind in KINDS if not why_not(kind)], turn_us=0)


@pytest.mark.parametrize("key", BY_KEY)
def test_a_peer_gives_right_results_in_every_row_or_declares_that_it_cannot(
    key: str, measured: tuple[str, Any]
) -> None:
    if reason := why_not(BY_KEY[key]):
        pytest.skip(reason)
    _, document = measured
    cells = [row["peers"][key] for row in document["rows"]]
    able = [cell for cell in cells if "cannot" not in cell]
    assert len(cells) == ROWS
    assert len(able) == {"ours": 8, "redis-sessions": 8, "flask-session": 2}.get(key, 7)
    for cell in able:
        assert cell["how"]
        assert cell["calls"] == 5
        assert cell["p50_us"] >= cell["best_us"] > 0
        assert cell["server_commands_us"] > 0
    assert 100 < document["bytes_per_session"][key] < 10_000
    end = document["mass_expiry"][key]
    assert end["worst_block_ms"] >= end["longest_command_ms"]
    assert end["worst_ping_ms"] >= end["p99_ping_ms"] >= end["p50_ping_ms"] > 0
    assert document["peers"][key]


def test_the_pages_show_the_stored_run() -> None:
    document = json.loads(command.SHOWN.read_text("utf-8"))
    assert report.part_of(command.README, "peers") == summary(document).strip()
    shown = report.part_of(command.PAGE, "peers")
    assert shown.startswith(f"### {document['server']}, 100,000 sessions\n")
    [wall, *_] = shown.split("Server time in commands")
    lines = [line for line in wall.splitlines() if line.startswith("| ")][1:]
    for line, row in zip(lines, document["rows"], strict=True):
        assert line.split("|")[1].strip() == row["operation"]
        stored = [cell["p50_us"] for cell in row["peers"].values() if "p50_us" in cell]  # four digits of what was shown
        assert [us for us in stored if not any(_time(us * near) in line for near in (1, 0.9999, 1.0001))] == []


def test_the_table_marks_the_best_and_the_missing_figures(measured: tuple[str, Any]) -> None:
    text, document = measured
    titles = [BY_KEY[key].title for key in document["peers"]]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    shown = rows[1 : 1 + ROWS]
    assert rows[0][1:] == titles
    for cells, row in zip(shown, document["rows"], strict=True):
        assert cells[0] == row["operation"]
        winners = [title for title, cell in zip(titles, cells[1:], strict=True) if cell.startswith("**")]
        assert BY_KEY[row["fastest"]].title in winners
        for key, cell in zip(document["peers"], cells[1:], strict=True):
            assert (cell == "— (cannot)") == ("cannot" in row["peers"][key])
    assert shown[0][-1].strip("*").endswith("°"), "SCAN goes through everything"


def test_a_peer_with_a_different_result_stops_the_run(server: str, tmp_path: Path) -> None:
    with PeerServer(server, tmp_path) as stage, programs([BY_KEY["keys-get"]], stage) as peers:
        rounds = Rounds(stage, peers, 20, turn_us=0)
        rounds.load()
        peers[0].redis.set("sess:stray", "{}")
        with pytest.raises(WrongAnswer, match=r"KEYS \+ GET each, exact count of sessions: 21 is not 20"):
            rounds.run()


def test_a_program_that_dies_is_reported_and_the_others_continue(server: str, tmp_path: Path) -> None:
    with PeerServer(server, tmp_path) as stage, programs([BY_KEY["ours"], BY_KEY["keys-get"]], stage) as peers:
        rounds = Rounds(stage, peers, 20, turn_us=0)
        rounds.load()
        peers[1]._process.kill()
        lines = rounds.run()
    assert {line.cells["keys-get"].why for line in lines if line.cells["keys-get"].how is None} == {"died", "cannot"}
    assert all(not line.cells["keys-get"].us and len(line.cells["ours"].us) == 5 for line in lines)
    sizes = {"ours": 1.0, "keys-get": 1.0}
    text = tables({"server": "", "sessions": 20}, [BY_KEY["ours"], BY_KEY["keys-get"]], lines, sizes, {})
    assert "— (died)" in text


def test_commands_inside_a_script_or_transaction_are_counted_once(server: str, tmp_path: Path) -> None:
    with PeerServer(server, tmp_path) as stage, programs([BY_KEY["ours"]], stage) as peers:
        [peer] = peers
        rounds = Rounds(stage, peers, 20, turn_us=0)
        rounds.load()
        stage.learn(peer, "page", lambda: 1)
        assert peer.lua["page"]["hgetall"] == 1.0, "the records are read inside of it"
        before = stage.redis.info("commandstats")
        _, cost = stage.measured(peer, "page", [1] * 20)
        after = stage.redis.info("commandstats")
        spent = {name: stat["usec"] - before.get(name, {"usec": 0})["usec"] for name, stat in after.items()}
        names = [name for name in spent if re.match(r"cmdstat_(eval|z|h|s[a-z]+$|get|time|exists)", name)]
        assert spent["cmdstat_evalsha"] + spent.get("cmdstat_evalsha_ro", 0) <= cost.commands + 1
        assert cost.commands < sum(spent[name] for name in names), "with both counted it would be more"


def test_a_peer_that_cannot_be_installed_is_left_out_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "PLACE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    kinds = [BY_KEY["ours"], BY_KEY["redis-sessions"], BY_KEY["connect-redis"]]
    assert command.able(kinds) == kinds[:1]
    said = capsys.readouterr().err
    assert "'node' was not found" in said
    assert "Left out: redis-sessions, connect-redis." in said


def test_the_lock_files_have_digests_and_no_registry_address() -> None:
    packages = json.loads((HERE / "node" / "package-lock.json").read_text("utf-8"))["packages"]
    assert {"node_modules/redis-sessions", "node_modules/connect-redis"} <= packages.keys()
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-"), name
    lock = (HERE / "python" / "requirements.lock").read_text("utf-8")
    pinned = re.findall(r"^([\w-]+)==\S+ \\\n    --hash=sha256:", lock, re.M)
    assert {"django-redis", "flask-session", "redis"} <= set(pinned)
    assert "//" not in lock
    assert "index" not in lock
