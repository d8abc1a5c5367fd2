"""The command ``presence mirror``: what ``--look`` says, ``--once``, map files, and the fixtures of Spring Session."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from presence_core.cli import main
from presence_core.errors import InvalidArgument
from presence_core.mirror.digests import read_key
from presence_core.web.rules import hashed_id
from tests.contract.mirror.conftest import ALL, Site, scan, until
from tests.support.fair_clock import PATIENT
from tests.support.servers.waiting import wait_for

LONG = bytes.fromhex(
    "aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a6176612e6c616e67"
    "2e4e756d62657286ac951d0b94e08b0200007870"
)
INTEGER = bytes.fromhex(
    "aced0005737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c"
    "616e672e4e756d62657286ac951d0b94e08b0200007870"
)
INDEX = "org.springframework.session.FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME"


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("PRESENCE_REDIS_URL", site.server.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", "mirrored")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["mirror", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_look_says_what_is_there_with_masked_examples_and_the_command(site: Site, run: Any) -> None:
    for number in range(5):
        site.sign_in("ada", f"secret{number}", user={"name": "Ada Lovelace", "email": "ada@example.com"})
    site.redis.set("shop:sess:x", '{"cookie": {"originalMaxAge": null}, "views": 7}', ex=60)
    site.redis.set(f":1:django.contrib.sessions.cached_db{'a' * 32}", b"x")
    code, out, _ = run("--look", "--from", site.url)
    assert code == 0
    assert "express-session with connect-redis: 5 keys, beginning with 'sess:'" in out
    assert out.count("user a… (3) in userId; name A… (12); email a… (15)") == 3
    assert f"mirror it: presence mirror --store express --from {site.url}" in out
    assert "presence mirror --store express --prefix shop:sess: --from" in out
    assert "no user; has cookie, views" in out
    assert "comes back from the database" in out
    assert "Keyspace notifications are off" in out
    for secret in ("secret", "Lovelace", "ada@example.com"):
        assert secret not in out
    assert site.presence.counts().sessions == 0
    code, out, _ = run("--look", "--from", site.url.removesuffix("1") + "5")
    assert code == 1
    assert "No sessions of a store that is known were found" in out


@pytest.mark.parametrize("store", ["express", "redis-sessions", "spring"])
def test_the_acl_line_of_look_is_enough_to_mirror_and_to_kick(site: Site, run: Any, store: str) -> None:
    site.notify(ALL)
    keys = {"express": lambda: site.sign_in("ada", "a1"), "redis-sessions": lambda: _redis_session(site, "ada"),
            "spring": lambda: _spring_session(site, "ada")}  # fmt: skip
    key = keys[store]()
    _, out, _ = run("--look", "--store", store, "--from", site.url)
    [line] = re.findall(r"its ACL user: (.+)", out)
    if "redis_version:7.0" in str(site.server.command("INFO", "server")):
        line = line.replace(" +client|setinfo", "")  # Redis 7.2
    site.server.command(*line.replace("PASSWORD", "secret").split())
    try:
        limited = site.url.replace("redis://", "redis://presence-mirror:secret@")
        site.access = limited
        mirror = site.mirror(store)
        scan(mirror)
        assert mirror.hears == "notifications"
        assert len(site.presence.sessions("ada")) == 1
        site.presence.kick("ada", by="sam", reason="test")
        until(mirror, lambda: not site.redis.exists(key))
        assert mirror.problem == ""
    finally:
        site.server.command("ACL", "DELUSER", "presence-mirror")


def _redis_session(site: Site, uid: str) -> str:
    key = f"rs:shop:{'x' * 55}Zabc123"
    site.redis.hset(key, mapping={"id": uid, "ip": "203.0.113.9", "la": int(time.time()), "ttl": 3600, "d": "{}"})
    return key


def _spring_session(site: Site, principal: str, sid: str = "33fdd1b6-b496-4b33-9f7d-df96679d32fe") -> str:
    """As the documentation of RedisIndexedSessionRepository prints it, with the bytes that the default serializer
    (Java's) writes for its values."""
    now = round(time.time() * 1000)
    key = f"spring:session:sessions:{sid}"
    values = {
        "creationTime": LONG + struct.pack(">q", now - 60_000),
        "maxInactiveInterval": INTEGER + struct.pack(">i", 1800),
        "lastAccessedTime": LONG + struct.pack(">q", now - 10_000),
        f"sessionAttr:{INDEX}": b"\xac\xed\x00\x05t" + struct.pack(">H", len(principal)) + principal.encode(),
        "sessionAttr:other": b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16`\xd1",
    }
    site.redis.hset(key, mapping=values)
    site.redis.expire(key, 2100)
    site.redis.set(f"spring:session:sessions:expires:{sid}", "", ex=1800)
    site.redis.sadd(f"spring:session:index:{INDEX}:{principal}", sid)
    return key


def test_spring_sessions_are_listed_and_kicked_with_their_index(site: Site) -> None:
    site.notify(ALL)
    key = _spring_session(site, "ada")
    _spring_session(site, "eve", "11111111-b496-4b33-9f7d-df96679d32fe")
    mirror = site.mirror("spring")
    scan(mirror)
    [session] = site.presence.sessions("ada")
    assert 59 < time.time() - session.login_at.timestamp() < 70
    assert 9 < time.time() - session.last_seen.timestamp() < 20
    site.presence.kick("ada", by="sam", reason="test")
    until(mirror, lambda: not site.redis.exists(key))
    assert sorted(site.redis.keys("*expires*")) == [
        b"spring:session:sessions:expires:11111111-b496-4b33-9f7d-df96679d32fe"
    ]
    assert site.redis.keys("*index*:ada") == []
    assert site.redis.scard(f"spring:session:index:{INDEX}:eve") == 1
    assert mirror.reconciler.skipped == {}


def test_once_imports_with_the_ids_of_the_middleware_and_deletes_nothing(site: Site, run: Any) -> None:
    key = site.sign_in("ada", "a1", left=1000)
    site.redis.set("sess:none", '{"cookie": {}}', ex=60)
    site.redis.set("sess:bad", "x", ex=60)
    code, out, _ = run("--store", "express", "--once", "--from", site.url)
    assert (code, out.splitlines()) == (0, ["Imported 1 session.", "Without a user: 1.", "Skipped 1: no JSON."])
    [session] = site.presence.sessions("ada")
    assert session.session_id == hashed_id("a1")
    assert abs(session.expires_at.timestamp() - time.time() - 1000) < 5
    site.presence.kick("ada", by="sam", reason="test")
    code, out, _ = run("--store", "express", "--once", "--from", site.url)
    assert (code, "Skipped 1: refused: ended." in out) == (0, True)
    assert site.redis.exists(key)


MAP = """
prefix = "app:"
encoding = "json"
uid = ["account.id", "u"]
name = [["full.name"]]
login = "at"
same_login = "end"
"""


def test_a_map_file_describes_a_store(site: Site, run: Any, tmp_path: Path) -> None:
    site.redis.set("app:1", '{"account": {"id": 7}, "full.name": "Ada", "at": 1700000000}')
    file = tmp_path / "map.toml"
    file.write_text(MAP)
    code, out, _ = run("--map", str(file), "--once", "--from", site.url)
    assert (code, out) == (0, "Imported 1 session.\n")
    [session] = site.presence.sessions("7")
    assert (session.name, session.login_at.timestamp()) == ("Ada", 1_700_000_000)
    for wrong, sentence in (
        ("uid = 5", "path like"), ('uid = "a"\nsame_login = "x"', '"end" or "new"'), ("x = 1", "must not have 'x'"),
        ("[", "a file of TOML"), ('uid = "a"', "must have prefix"), ('encoding = "xml"', "one of json, pickle"),
    ):  # fmt: skip
        file.write_text(wrong)
        code, _, err = run("--map", str(file), "--once", "--from", site.url)
        assert (code, sentence in err) == (2, True), err
    file.write_text(MAP.replace('same_login = "end"', ""))
    code, _, err = run("--map", str(file), "--from", site.url)
    assert (code, "same_login must be given" in err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [[], ["--store", "x", "--from", "redis://h"], ["--store", "express"], ["--store", "express", "--from", "x"]],
)
def test_wrong_options_get_a_sentence(run: Any, words: list[str]) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_the_program_mirrors_until_it_is_stopped_and_says_so(site: Site, tmp_path: Path) -> None:
    site.sign_in("ada", "a1")
    url = tmp_path / "url"
    url.write_text(site.url)
    environ = {
        **os.environ, "PRESENCE_REDIS_URL": site.server.url, "PRESENCE_NAMESPACE": "mirrored",
        "XDG_STATE_HOME": str(tmp_path), "PRESENCE_MIRROR_FROM_FILE": str(url),
    }  # fmt: skip
    words = [sys.executable, "-m", "presence_core", "mirror", "--store", "express", "--notify"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == (
            "Mirroring express-session with connect-redis; hears of changes at once.\n"
        )
        wait_for("the session is listed", lambda: site.presence.sessions("ada"))
        site.presence.kick("ada", by="sam", reason="test")
        wait_for("it is deleted", lambda: not site.redis.exists("sess:a1"))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENT)
    assert "Traceback" not in err
    assert "a1" not in err
    [status] = site.presence.mirrors()
    assert not status.alive
    [key] = tmp_path.glob("presence-mirror.key")
    assert key.stat().st_mode & 0o077 == 0
    assert "K" in str(Redis.from_url(site.url).config_get("notify-keyspace-events"))


def test_the_commands_that_kick_say_what_is_left_to_do_at_the_site(
    site: Site, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    site.sign_in("ada", "a1")
    site.presence.login("own")
    mirror = site.mirror()
    scan(mirror)
    words = ["--by", "sam", "--reason", "test"]
    for command, who, note in (
        ("kick", "own", ""),
        ("kick", "ada", "The mirror deletes the site's own session next, usually within a second.\n"),
    ):
        assert main([command, who, *words]) == 0
        assert capsys.readouterr().out == f"Kicked 1 session of {who}.\n{note}"
    site.sign_in("eve", "e1")
    scan(mirror)
    mirror._report(stopped=True)
    main(["kick-refs", site.presence.sessions("eve")[0].ref, *words])
    assert "has not ended yet: it ends when presence mirror works again." in capsys.readouterr().out


def test_the_digest_key_is_made_once_or_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = read_key({})
    assert (len(made), read_key({})) == (32, made)
    file = tmp_path / "key"
    file.write_text("A" * 43 + "=\n")
    assert read_key({"PRESENCE_MIRROR_KEY_FILE": str(file)}) == bytes(32)
    for wrong in ("short", "?" * 44, "A" * 20):
        with pytest.raises(InvalidArgument, match="32 random bytes") as refused:
            read_key({"PRESENCE_MIRROR_KEY": wrong})
        assert wrong not in str(refused.value)
    (tmp_path / "state" / "presence-mirror.key").write_bytes(b"\xff")
    with pytest.raises(InvalidArgument, match="not text"):
        read_key({})
