"""An identity provider sends logout tokens: right ones end sessions in each framework, wrong ones end none."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import http.server
import json
import random
import string
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from presence_core import AsyncPresence, InvalidArgument, Presence, Settings
from presence_core.drive_generators import drive
from presence_core.web.backchannel_logout import Issuer, LogoutReceiver, read_issuers
from presence_core.web.backchannel_logout import signing_keys as keys_module
from presence_core.web.backchannel_logout.asgi import BackchannelLogout as AsgiLogout
from presence_core.web.backchannel_logout.receiver import LogoutResponse
from presence_core.web.backchannel_logout.wsgi import BackchannelLogout as WsgiLogout
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.programs.oidc_provider import CLIENT, Provider
from tests.support.servers import free_port, wait_for
from tests.support.soak import size
from tests.web.service.process import service

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as made:
        yield made


def _issuer(provider: Provider, **given: Any) -> Issuer:
    return Issuer(provider.url, CLIENT, f"{provider.url}/jwks", **{"name": "Okta"} | given)


def _send(presence: Presence, receiver: LogoutReceiver, token: str) -> LogoutResponse:
    body = urlencode({"logout_token": token}).encode()
    return drive(receiver.answer("POST", FORM, body), lambda step: step(presence))


def _with_clock(provider: Provider) -> tuple[LogoutReceiver, list[float]]:
    """A receiver whose keys have a clock of ours: its time, s."""
    receiver, now = LogoutReceiver([_issuer(provider)]), [1000.0]
    for keys in receiver._keys.values():
        keys._clock = lambda: now[0]
    return receiver, now


def _encoded(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _link(provider: Provider, sub: str = "ada", sid: str = "sid-1") -> dict[str, str]:
    return {"iss": provider.url, "sub": sub, "sid": sid}


@on("valkey-sync", "cluster-sync")
def test_a_logout_token_ends_the_session_that_it_names(p: P, provider: Provider) -> None:
    receiver = LogoutReceiver([_issuer(provider)])
    tokens = [p.login("ada", idp=_link(provider, sid=f"sid-{n}")).token for n in range(3)]
    response = _send(p, receiver, provider.logout_token(sub="ada", sid="sid-1"))
    assert (response.status, dict(response.headers)["Cache-Control"]) == (200, "no-store")
    assert [bool(p.validate(token)) for token in tokens] == [True, False, True]
    ended = p.validate(tokens[1]).ended
    assert ended is not None
    assert (ended.reason, ended.cause, ended.by) == ("logout", "idp_logout", "Okta")
    assert _send(p, receiver, provider.logout_token(sub="ada")).status == 200
    assert not any(map(p.validate, tokens))


WRONG: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"typ": "JWT"}, {}), ({"typ": None}, {}), ({"kid": "other"}, {}), ({"crit": ["x"], "x": 1}, {}),
    ({}, {"iss": "https://other.example"}), ({}, {"iss": None}), ({}, {"aud": "other"}), ({}, {"aud": None}),
    ({}, {"aud": [["dashboard"]]}), ({}, {"iat": None}), ({}, {"iat": time.time() + 3600, "exp": time.time() + 7200}),
    ({}, {"exp": None}), ({}, {"exp": time.time() - 61, "iat": time.time() - 100}), ({}, {"exp": time.time() + 90_000}),
    ({}, {"exp": "soon"}), ({}, {"exp": True}), ({}, {"jti": None}), ({}, {"jti": ""}), ({}, {"jti": 5}),
    ({}, {"events": None}), ({}, {"events": {}}), ({}, {"events": []}), ({}, {"nonce": "n"}), ({}, {"nonce": ""}),
    ({}, {"events": {"http://schemas.openid.net/event/backchannel-logout": True}}), ({}, {"sub": None}),
    ({}, {"sub": ["ada"]}), ({}, {"sub": "a\nb"}), ({}, {"sub": "x" * 256}), ({}, {"sid": 7}),
]  # fmt: skip


@on("valkey-sync")
@pytest.mark.parametrize(("header", "claims"), WRONG)
def test_a_wrong_token_is_400_and_ends_nothing(
    p: P, provider: Provider, header: dict[str, Any], claims: dict[str, Any]
) -> None:
    login = p.login("ada", idp=_link(provider)).token
    token = provider.logout_token(header, **{"sub": "ada"} | claims)
    response = _send(p, LogoutReceiver([_issuer(provider)]), token)
    assert response.status == 400
    assert json.loads(response.body)["error"] == "invalid_request"
    assert token not in response.body.decode()
    assert p.validate(login)


@on("valkey-sync")
def test_a_provider_may_send_tokens_without_a_type_if_the_site_says_so(p: P, provider: Provider) -> None:
    """Keycloak before 25 and others send "JWT"."""
    receiver = LogoutReceiver([_issuer(provider, typed=False)])
    for kind, status in ((None, 200), ("JWT", 200), ("logout+jwt", 200), ("at+jwt", 400), (7, 400)):
        assert _send(p, receiver, provider.logout_token({"typ": kind}, sub="ada")).status == status
    for wrong in ({"nonce": "n"}, {"events": None}):  # an ID token is none
        assert _send(p, receiver, provider.logout_token({"typ": "JWT"}, sub="ada", **wrong)).status == 400


@on("valkey-sync")
def test_a_signature_of_another_key_or_with_a_shared_secret_does_not_count(p: P, provider: Provider) -> None:
    receiver, login = LogoutReceiver([_issuer(provider)]), p.login("ada", idp=_link(provider)).token
    with Provider() as thief:
        assert _send(p, receiver, provider.logout_token(key=thief._key, sub="ada")).status == 400
    head, body, _ = provider.logout_token(sub="ada").split(".")
    shared = _encoded({"typ": "logout+jwt", "alg": "HS256", "kid": "one"})
    for secret in (b"secret", httpx.get(f"{provider.url}/jwks").content):  # the public key as a secret
        made = hmac.digest(secret, f"{shared}.{body}".encode(), "sha256")
        signature = urlsafe_b64encode(made).decode().rstrip("=")
        assert _send(p, receiver, f"{shared}.{body}.{signature}").status == 400
    none = _encoded({"typ": "logout+jwt", "alg": "none", "kid": "one"})
    number = _encoded({"typ": "logout+jwt", "alg": "RS256", "kid": 7})
    for token in (
        f"{none}.{body}.",
        f"{none}.{body}.AAAA",
        f"{number}.{body}.AAAA",
        f"{head}.{body}.",
        f"{head}.{body}",
    ):
        assert _send(p, receiver, token).status == 400
    assert p.validate(login)


@on("valkey-sync")
def test_mutated_tokens_end_nothing_and_never_fail(p: P, provider: Provider) -> None:
    receiver, draw = LogoutReceiver([_issuer(provider)], alert_above=10**6), random.Random(19)
    login, seen = p.login("ada", idp=_link(provider)).token, set[int]()
    letters = string.ascii_letters + string.digits + "-_.=+/\0é "
    whole = provider.logout_token(sub="ada", sid="sid-1")
    for _ in range(size(1_000, 10_000)):
        token = list(whole)
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(len(token))
            match draw.randrange(3):
                case 0:
                    token[place] = draw.choice(letters)
                case 1:
                    del token[place]
                case 2:
                    token.insert(place, draw.choice(letters))
        if (mutated := "".join(token)) != whole and not _same_bits(mutated, whole):
            seen.add(_send(p, receiver, mutated).status)
    assert seen == {400}
    assert p.validate(login)


def _same_bits(mutated: str, token: str) -> bool:
    """The last letter of base64 may have bits that do not count."""
    return mutated.rpartition(".")[0] == token.rpartition(".")[0] and mutated[:-1] == token[:-1]


@on("valkey-sync", "cluster-sync")
def test_a_token_that_comes_twice_is_400_and_ends_no_newer_session(p: P, provider: Provider) -> None:
    receiver, token = LogoutReceiver([_issuer(provider)]), provider.logout_token(sub="ada", sid="sid-1")
    assert [_send(p, receiver, token).status for _ in range(2)] == [200, 400]
    assert not p.validate(p.login("ada", idp=_link(provider)).token), "its session was signed out"


@on("valkey-sync")
def test_a_new_key_is_fetched_once_and_an_unknown_one_at_most_once_a_minute(
    p: P, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, now = _with_clock(provider)
    before = provider.fetches
    assert _send(p, receiver, provider.logout_token(sub="ada")).status == 200
    assert _send(p, receiver, provider.logout_token(sub="ada")).status == 200
    assert provider.fetches == before + 1
    now[0] += 61
    provider.use_new_key("two")
    try:
        assert _send(p, receiver, provider.logout_token(sub="ada")).status == 200
        assert provider.fetches == before + 2
        for number in range(20):
            assert _send(p, receiver, provider.logout_token({"kid": f"k{number}"}, sub="ada")).status == 400
        assert provider.fetches == before + 2
        now[0] += 61
        assert _send(p, receiver, provider.logout_token({"kid": "k"}, sub="ada")).status == 400
        assert provider.fetches == before + 3
    finally:
        provider.use_new_key("one")


@on("valkey-sync")
def test_a_token_of_a_new_key_is_tried_again_when_the_keys_may_be_fetched_again(p: P, provider: Provider) -> None:
    """Someone without a key cannot use up the one fetch in a minute."""
    receiver, now = _with_clock(provider)
    login = p.login("ada", idp=_link(provider)).token
    with Provider() as thief:
        for number in range(101):
            junk = thief.logout_token({"kid": f"k{number}"}, iss=provider.url, sub="ada")
            assert _send(p, receiver, junk).status == 400
            if number == 50:
                provider.use_new_key("two")
                assert _send(p, receiver, provider.logout_token(sub="ada")).status == 400
    try:
        assert len(receiver._held) == 102
        assert drive(receiver.retry(), lambda step: step(p)), "not before a minute"
        assert p.validate(login)
        now[0] += 61
        before = provider.fetches
        assert not drive(receiver.retry(), lambda step: step(p))
        assert not p.validate(login)
        assert provider.fetches == before + 1
    finally:
        provider.use_new_key("one")


@on("valkey-sync")
def test_a_token_waits_on_while_the_keys_or_redis_are_away(p: P, provider: Provider) -> None:
    receiver, now = _with_clock(provider)
    [keys] = receiver._keys.values()
    login = p.login("ada", idp=_link(provider)).token
    away = Presence.from_url(f"redis://127.0.0.1:{free_port()}", Settings(timeout=0.2))
    assert _send(p, receiver, provider.logout_token(sub="eve")).status == 200, "the keys are known now"
    provider.use_new_key("two")
    try:
        now[0] += 61
        keys._uri, uri = f"http://127.0.0.1:{free_port()}/jwks", keys._uri
        assert _send(p, receiver, provider.logout_token(sub="ada")).status == 400, "the fetch has failed"
        keys._uri = uri
        now[0] += 61
        assert drive(receiver.retry(), lambda step: step(away)), "Redis is away"
        assert p.validate(login)
        assert not drive(receiver.retry(), lambda step: step(p))
        assert not p.validate(login)
    finally:
        provider.use_new_key("one")


@on("valkey-sync")
def test_two_keys_of_one_id_are_both_tried(p: P, provider: Provider) -> None:
    first = provider._key
    with Provider() as other:
        provider.published = [(first, "one"), (other._key, "one")]
        try:
            receiver = LogoutReceiver([_issuer(provider)])
            for key in (first, other._key):
                assert _send(p, receiver, provider.logout_token(key=key, sub="ada")).status == 200
            with Provider() as thief:
                assert _send(p, receiver, provider.logout_token(key=thief._key, sub="ada")).status == 400
        finally:
            provider.published = []


@on("valkey-async")
def test_requests_that_wait_for_a_slow_issuer_hold_one_thread(bed: Bed, provider: Provider) -> None:
    receiver, threads = LogoutReceiver([_issuer(provider)]), threading.active_count()

    async def run() -> None:
        async with AsyncPresence.from_url(bed.url, Settings(namespace=bed.namespace)) as presence:
            transport = httpx.ASGITransport(AsgiLogout(presence, receiver))
            async with httpx.AsyncClient(transport=transport) as client:
                provider.slow = 0.3
                sent = [
                    asyncio.create_task(
                        client.post("http://site/", data={"logout_token": provider.logout_token(sub="ada")})
                    )
                    for _ in range(20)
                ]
                await asyncio.sleep(0.1)
                assert threading.active_count() - threads <= 2, "of the fetch, and of the provider"
                assert [(await request).status_code for request in sent] == [200] * 20

    before = provider.fetches
    try:
        asyncio.run(run())
    finally:
        provider.slow = 0.0
    assert provider.fetches == before + 1


@on("valkey-sync")
def test_a_logout_in_the_spool_that_cannot_be_done_holds_up_no_other(
    p: P, provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, login = tmp_path / "spool", p.login("ada", idp=_link(provider, sid="sid-9")).token
    folder.mkdir()
    logout = {"issuer": provider.url, "subject": "ada", "session": "sid-9", "token_id": "t", "issued_at": time.time(),
              "seconds": 300}  # fmt: skip
    for name, kept in (
        ("a", {"logout": logout | {"seconds": -1}, "by": "Okta"}),
        ("b", {"logout": {"surprise": 1}, "by": "Okta"}),
        ("c", ["no", "logout"]),
        ("d", {"logout": logout, "by": "Okta"}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(kept))
    receiver = LogoutReceiver([_issuer(provider)], spool=str(folder))
    assert receiver.waits
    assert not drive(receiver.retry(), lambda step: step(p))
    assert not p.validate(login)
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.json.failed" for name in "abc"]
    assert caplog.text.count("is set aside") == 3


@on("valkey-sync")
def test_a_token_of_an_issuer_that_is_not_configured_causes_no_request(p: P, provider: Provider) -> None:
    with Provider() as other:
        for header in ({}, {"jku": f"{other.url}/jwks"}, {"x5u": f"{other.url}/jwks"}):
            token = other.logout_token(header, sub="ada")
            assert _send(p, LogoutReceiver([_issuer(provider)]), token).status == 400
        assert other.fetches == 0


@on("valkey-sync")
def test_without_keys_the_answer_is_503(p: P, provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    gone = Issuer(provider.url, CLIENT, f"http://127.0.0.1:{free_port()}/jwks", "Okta")
    response = _send(p, LogoutReceiver([gone]), token := provider.logout_token(sub="ada"))
    assert (response.status, dict(response.headers)["Retry-After"]) == (503, "5")
    assert token not in caplog.text
    assert "Okta" in [getattr(record, "presence_issuer", "") for record in caplog.records]


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"keys": 5}', b"x" * 300_000, b'{"keys": [{"kty": "oct", "k": "c2Vj"}]}']
)
def test_what_is_no_key_set_gives_no_keys(body: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        keys = keys_module.SigningKeys(f"http://127.0.0.1:{server.server_address[1]}/jwks")
        with contextlib.suppress(keys_module.KeysUnavailable):
            keys.fetch("one")
        assert keys.find("one") == []
        server.shutdown()


@on("valkey-sync")
def test_while_redis_is_away_nothing_is_200_unless_the_spool_has_it(
    bed: Bed, provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(timeout=0.2)
    away = Presence.from_url(f"redis://127.0.0.1:{free_port()}", settings)
    token = provider.logout_token(sub="ada", sid="sid-7")
    assert _send(away, LogoutReceiver([_issuer(provider)]), token).status == 503
    assert token not in caplog.text
    receiver = LogoutReceiver([_issuer(provider)], spool=str(tmp_path / "spool"))
    assert receiver.spool is not None
    assert _send(away, receiver, token).status == 200
    assert receiver.spool.waiting == 1
    assert drive(receiver.retry(), lambda step: step(away))
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace)) as back:
        login = back.login("ada", idp=_link(provider, sid="sid-7")).token
        again = LogoutReceiver([_issuer(provider)], spool=str(tmp_path / "spool"))
        WsgiLogout(back, again)  # a process that starts tries what waits
        wait_for("the spool", lambda: not again.waits)
        assert not back.validate(login)


@on("valkey-sync")
@pytest.mark.parametrize("kind", ["asgi", "asgi-sync", "wsgi"])
def test_it_is_mounted_in_each_kind_of_application(kind: str, bed: Bed, provider: Provider) -> None:
    settings = Settings(namespace=bed.namespace)
    receiver = LogoutReceiver([_issuer(provider)])

    async def run() -> None:
        async with AsyncPresence.from_url(bed.url, settings) as presence:
            login = await presence.login("ada", idp=_link(provider))
            with Presence.from_url(bed.url, settings) as sync:
                transport: Any
                if kind == "wsgi":
                    client: Any = httpx.Client(transport=httpx.WSGITransport(WsgiLogout(sync, receiver)))
                    post, get = client.post, client.get
                else:
                    app = AsgiLogout(sync if kind == "asgi-sync" else presence, receiver)
                    transport = httpx.ASGITransport(app)
                    asynchronous = httpx.AsyncClient(transport=transport)
                    post, get = asynchronous.post, asynchronous.get

                async def ask(asked: Any, **given: Any) -> httpx.Response:
                    done = asked("http://site/backchannel-logout", **given)
                    response: httpx.Response = await done if asyncio.iscoroutine(done) else done
                    return response

                assert (await ask(get)).status_code == 405
                assert (await ask(post, json={"logout_token": "x"})).status_code == 400
                assert (await ask(post, data={"logout_token": "x" * 40_000})).status_code == 400
                assert await presence.validate(login.token)
                token = provider.logout_token(sub="ada")
                assert (await ask(post, data={"logout_token": token})).status_code == 200
                assert not await presence.validate(login.token)

    asyncio.run(run())


@on("valkey-async")
def test_the_service_receives_it_without_an_api_key(bed: Bed, provider: Provider) -> None:
    s = service(bed, logouts=LogoutReceiver([_issuer(provider)]))
    login = s.p.login("ada", idp=_link(provider)).token
    form: dict[str, Any] = {
        "content": urlencode({"logout_token": provider.logout_token(sub="ada")}),
        "headers": {"Content-Type": FORM, "Authorization": ""},
    }
    assert s.ask("POST", "/backchannel-logout", **form).status_code == 200
    assert not s.p.validate(login)


@on("valkey-sync")
def test_a_flood_of_an_issuer_is_an_alert_and_nothing_is_dropped(
    p: P, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = LogoutReceiver([_issuer(provider)], alert_above=3)
    assert {_send(p, receiver, provider.logout_token(sub="ada")).status for _ in range(6)} == {200}
    assert caplog.text.count("logouts in a minute") == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"jwks_uri": "http://idp.example.com/jwks"}, "jwks_uri must be an https URL; http only of this machine"),
        (
            {"jwks_uri": "https://user:pass@idp.example.com/"},
            "jwks_uri must be an https URL; http only of this machine",
        ),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri must be an https URL; http only of this machine"),
        ({"algorithms": ("HS256",)}, "algorithms must be some of RS256"),
        ({"algorithms": ("none",)}, "algorithms must be some of RS256"),
        ({"algorithms": ()}, "algorithms must be some of RS256"),
        ({"typed": 1}, "typed must be True or False"),
        ({"audience": ""}, "audience must be text of 1 to 255 bytes"),
    ],
)
def test_an_issuer_is_checked(given: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    full = {"issuer": "https://idp.example.com", "audience": "shop", "jwks_uri": "https://idp.example.com/jwks"} | given
    with pytest.raises(InvalidArgument) as refused:
        Issuer(**full)
    assert str(refused.value).startswith(sentence)
    file = tmp_path / "issuers.json"
    file.write_text(json.dumps([full]))
    with pytest.raises(InvalidArgument) as refused:
        read_issuers(str(file))
    assert str(refused.value).startswith(f"issuer 1: {sentence}")


def test_a_file_of_issuers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "issuers.json"
    file.write_text(
        '[{"issuer": "https://idp.example.com/", "audience": "shop", "jwks_uri": "https://idp.example.com/k"}]'
    )
    assert [issuer.name for issuer in read_issuers(str(file))] == ["idp.example.com"]
    for text in ("{}", "[]", "[5]", "x", '[{"issuer": "i"}]'):
        file.write_text(text)
        with pytest.raises(InvalidArgument):
            read_issuers(str(file))
