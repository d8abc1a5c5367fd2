"""API keys: made, listed and removed on the command line, stored as digests, known to a running service in seconds."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from presence_core import Presence, Settings, Unavailable, cli
from presence_core.web.service import api_keys as web_keys
from presence_core.web.service.api_keys import StoredKeys, digest, list_keys, make_key, remove_key
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT
from tests.support.server_line import without_server_line
from tests.web.service.process import problem, served, service

everywhere = on("valkey-sync", "redis7-sync", "cluster-sync")
once = on("valkey-async")


@pytest.fixture
def environ(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}.items():
        monkeypatch.setenv(name, value)


@everywhere
@pytest.mark.usefixtures("environ")
def test_keys_are_added_listed_and_removed(bed: Bed, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[int, str, str]:
        code = cli.main(["keys", *words])
        caught = capsys.readouterr()
        return code, caught.out, without_server_line(caught.err)

    assert said("list") == (0, "There are no API keys.\n", "")
    code, out, _ = said("add", "site", "--scope", "record", "--scope", "read")
    secret = out.splitlines()[0]
    assert code == 0
    assert len(secret) == len("presence_") + 43
    made = json.loads(said("add", "desk", "--scope", "kick", "--json")[1])
    assert set(made) == {"name", "scopes", "created", "key"}
    assert [line.split()[2:] for line in said("list")[1].splitlines()[1:]] == [
        ["desk", "kick"],
        ["site", "record,", "read"],
    ]
    assert [key["name"] for key in json.loads(said("list", "--json")[1])] == ["desk", "site"]
    stored = bed.raw.hgetall(f"{{{bed.namespace}}}:keys")
    assert secret.encode() not in b"".join(stored.values())
    assert json.loads(stored[b"site"])["digest"] == digest(secret)
    assert said("add", "site", "--scope", "read") == (2, "", "name must be new: a key has this name.\n")
    assert said("add", "other")[0] == 2
    assert said("add", "--scope", "read")[2] == "name must be given to add a key.\n"
    assert said("add", "a b", "--scope", "read")[2].startswith("name must be 1 to 64 characters")
    assert said("add", "x", "--scope", "everything")[0] == 2
    assert said("remove", "site")[:2] == (0, "Removed. It stops working within 5 seconds.\n")
    assert said("remove", "site")[:2] == (1, "There is no API key site.\n")


@once
def test_a_stored_key_allows_its_scopes_until_it_is_removed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_keys, "CACHE_SECONDS", 0.0)
    s = service(bed)
    s.app.state.keys = StoredKeys(s.app.state.presence)
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT)) as p:
        _, secret = make_key(p, "reader", ["read"])
        s.headers = {"Authorization": f"bearer  {secret} "}
        assert s.get("/v1/counts")["sessions"] == 0
        problem(s.ask("POST", "/v1/kicks", {"uid": "ada", "reason": "x"}), 403)
        problem(s.ask("GET", "/v1/counts", headers={"Authorization": f"Basic {secret}"}), 401)
        for wrong in (secret[:-1], secret + "x", secret.swapcase(), "", "\x00", "x" * 5000):
            problem(s.ask("GET", "/v1/counts", headers={"Authorization": f"Bearer {wrong}"}), 401)
        assert remove_key(p, "reader")
        problem(s.ask("GET", "/v1/counts"), 401)
        bed.raw.hset(f"{{{bed.namespace}}}:keys", "broken", "no JSON")
        bed.raw.hset(f"{{{bed.namespace}}}:keys", "broken2", '{"digest": 5, "scopes": 7, "created": "x"}')
        assert list_keys(p) == []
        problem(s.ask("GET", "/v1/counts"), 401)


@once
def test_a_kick_with_a_key_without_that_scope_is_in_the_audit(bed: Bed) -> None:
    s = service(bed)
    tries: list[tuple[str, str, bytes | None]] = [
        ("POST", "/v1/kicks", None), ("POST", "/v1/kicks", b"sam@support"), ("POST", "/v1/kicks", b"\xff"),
        ("PUT", "/v1/users/a%2Fb/block", b"x" * 128), ("POST", "/v1/jobs/%00/cancel", None),
        ("PUT", "/v1/users/%00/block", b"kim"),
    ]  # fmt: skip
    for method, path, actor in tries:
        headers = {"Authorization": "Bearer key.record+read"} | ({"X-Actor": actor} if actor else {})
        problem(s.ask(method, path, {"uid": "ada"}, headers=headers), 403)
    problem(s.ask("GET", "/v1/counts", headers={"Authorization": "Bearer key.record"}), 403)
    found = {entry.outcome.partition(" refused")[0]: entry for entry in s.p.audit() if entry.outcome}
    assert {(name, entry.action, entry.by, entry.count) for name, entry in found.items()} == {
        ("POST /v1/kicks", "denied", "key", 3), ("PUT /v1/users/{uid}/block", "denied", "key", 2),
        ("POST /v1/jobs/{id}/{act}", "denied", "key", 1),
    }  # fmt: skip
    s.ask("POST", "/v1/kicks", headers={"Authorization": "Bearer key.read", "X-Actor": "sam@support"})
    s.ask("PUT", "/v1/users/a%2Fb/block", headers={"Authorization": "Bearer key.read"})
    found = {entry.outcome.partition(" refused")[0]: entry for entry in s.p.audit() if entry.outcome}
    assert found["POST /v1/kicks"].reason == "for sam@support"
    assert found["PUT /v1/users/{uid}/block"].uid == "a/b"


@once
def test_the_answer_is_no_even_if_it_cannot_be_recorded(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s = service(bed)

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(s.app.state.presence, "denied", away)
    problem(s.ask("POST", "/v1/kicks", headers={"Authorization": "Bearer key.read"}), 403)


@once
def test_stored_keys_are_read_at_most_once_in_five_seconds(bed: Bed) -> None:
    s = service(bed)
    stored = StoredKeys(s.app.state.presence)
    s.app.state.keys = stored
    reads = []
    run = s.app.state.presence.internal.run

    async def counted(op: object) -> object:
        reads.append(op)
        return await run(op)

    s.app.state.presence.internal.run = counted
    for _ in range(20):
        problem(s.ask("GET", "/v1/counts", headers={"Authorization": "Bearer guess"}), 401)
    assert len(reads) == 1


@once
def test_requests_that_wait_for_the_keys_wait_no_longer_than_one_read(bed: Bed) -> None:
    """While Redis hangs each read lasts as long as the time limit: requests must not wait in line for one each."""
    s = service(bed)
    presence = s.app.state.presence
    stored = StoredKeys(presence)
    reads = []

    async def hangs(op: object) -> object:
        reads.append(op)
        await asyncio.sleep(0.05)
        raise Unavailable("away")

    presence.internal.run = hangs

    async def ask() -> None:
        with pytest.raises(Unavailable):
            await stored.find("x")

    async def run() -> None:
        await asyncio.gather(*(ask() for _ in range(20)))
        assert len(reads) == 1
        await ask()
        assert len(reads) == 2, "who comes later looks for themselves"

    bed.loop.run(run())


# -- presence serve ---------------------------------------------------------------------------------------------------


@on("valkey-sync")
@pytest.mark.usefixtures("environ")
def test_the_service_listens_on_a_network_only_with_keys(bed: Bed, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: str) -> str:
        assert cli.main(["serve", *words]) == 2
        return without_server_line(capsys.readouterr().err)

    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        said = refused("--host", host)
        assert said == "host must be 127.0.0.1 as long as there is no API key: presence keys add NAME.\n", host
    make_key(bed.connect(), "any", ["read"])
    for host in ("192.0.2.1", "nowhere.invalid"):
        said = refused("--host", host, "--port", "0")
        assert said.startswith(f"Cannot listen on {host}:0: ")
        assert said.count(host) == 1, "not the message of Python, with the address once more"
    assert refused("--port", "70000") == "port must be a whole number from 0 to 65535.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--origins nonsense", "origins must be like https://shop.example: "),
        ("--origins https://Shop.example:443", "origins must be like https://shop.example: "),
        ("--origins https://shop.example --friends-key friends", "friends_key must hold {uid}."),
        ("--origins https://shop.example --cookie a;b", "cookie must be 1 to 128 characters"),
        ("--origins --proxies here", "trusted_proxies must be a list"),
        ("--origins --proxies 10.0.0.0/8 --address-from a:b", "address_from must be the name of a header"),
        ("--origins --address-from forwarded", "--proxies must be given for --address-from: others could write any"),
        *((words, "--origins must be given for the options of a site's own pages: it turns them on.")
          for words in ("--friends-key friends:{uid}", "--public", "--cookie sid", "--proxies 10.0.0.0/8",
                        "--address-from forwarded")),
    ],
)  # fmt: skip
@on("valkey-sync")
@pytest.mark.usefixtures("environ")
def test_wrong_options_for_pages_end_the_command_before_it_listens(
    capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    assert cli.main(["serve", "--port", "0", "--worker", *words.split()]) == 2
    said = capsys.readouterr()
    assert (said.out, without_server_line(said.err)[: len(sentence)]) == ("", sentence)


@pytest.mark.parametrize(
    ("words", "variable", "address"),
    [
        ("--proxies 127.0.0.0/8", "", "192.0.2.1"),
        ("--proxies 127.0.0.0/8 --address-from Forwarded", "x-real-ip", "192.0.2.2"),
        ("--proxies 127.0.0.0/8", "X-Real-IP", "192.0.2.3"),
        ("--proxies 10.0.0.0/8 --address-from x-real-ip", "", "127.0.0.1"),
    ],
)
@on("valkey-sync")
def test_the_service_reads_the_address_of_a_visitor_where_trusted_proxies_report_it(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, words: str, variable: str, address: str
) -> None:
    monkeypatch.setenv("PRESENCE_ADDRESS_FROM", variable)
    p = bed.connect()
    headers = {
        "X-Forwarded-For": "203.0.113.9, 192.0.2.1:51008",
        "Forwarded": 'for=203.0.113.9, for="192.0.2.2:443";proto=https',
        "X-Real-IP": "192.0.2.3",
        "Authorization": f"Bearer {p.login('ada').token}",
    }
    with served(bed.url, bed.namespace, "--origins", *words.split()) as at:
        httpx.post(f"{at}/visit", headers=headers).raise_for_status()
    assert p.sessions("ada")[0].last_ip == address


@on("valkey-sync")
def test_the_service_serves_and_stops_on_a_signal(bed: Bed) -> None:
    with (
        served(bed.url, bed.namespace, "--origins", "https://shop.example", "--worker") as at,
        httpx.Client() as client,
    ):
        made = client.post(f"{at}/v1/sessions", json={"uid": "a/b"}).json()
        assert client.get(f"{at}/v1/users/a%2Fb/sessions").json()["items"] == [made["session"]]
        assert client.post(f"{at}/visit", headers={"Origin": "https://shop.example"}).json() == {"online": 1}
        assert client.get(f"{at}/counter").json() == {"online": 1}
        assert client.get(f"{at}/readyz").json()["status"] == "ok"
        with client.stream("GET", f"{at}/v1/events") as stream:  # an open reader does not keep it from stopping
            assert stream.headers["content-type"].startswith("text/event-stream")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{at}/healthz")
