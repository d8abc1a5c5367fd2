"""The link of a notice: it asks, takes one answer, and says the same about every link that opens nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from presence_core import Presence, Session, Settings
from presence_core.scripts.calls import Call, command
from presence_core.text.languages import LANGUAGES, tag_of
from presence_core.web.notices.link import LinkKeys, NoticeLink
from presence_core.web.rules import Rules
from presence_core.web.your_devices.options import DeviceOptions
from tests.conftest import Servers
from tests.contract.sessions.test_moves import CHROME, FIREFOX
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT
from tests.support.notices import queue_notice
from tests.support.programs.webhook_receiver import until
from tests.web.notices.mail_server import LINK
from tests.web.your_devices.device_sites import HOST, KEY, KINDS, DeviceSite, forms_of, make_site

RULES = Rules(secure=False, public=("/devices/notice",))


CALLS = ("notices_of", "sessions", "ended")


class Ground:
    """A site, and ada, who is signed in on a phone, and on a laptop that is new."""

    def __init__(self, presence: Presence, site: DeviceSite) -> None:
        self.presence, self.site = presence, site
        self.phone = presence.login("ada", device="phone", device_id="device-phone")
        until(lambda: presence.counts().as_of > self.phone.session.login_at)  # "not me" forgets devices by their time
        self.laptop = presence.login("ada", device="laptop", device_id="device-laptop").session

    def link(self, session: Session | None = None, at: datetime | None = None, link: NoticeLink = LINK) -> str:
        about = session or self.laptop
        return link.make(about.uid, about.session_id, at or about.login_at)

    def get(self, link: str, **headers: str) -> httpx.Response:
        return self.site.ask(link.removeprefix(f"{HOST}/devices/"), headers=headers)

    def post(self, link: str, answer: str = "not-me", **headers: str) -> httpx.Response:
        sent = {"origin": HOST, "sec-fetch-site": "same-origin"} | headers
        path = link.removeprefix(f"{HOST}/devices/")
        return self.site.ask(path, method="POST", data={"answer": answer}, headers=sent)

    def devices(self) -> set[str | None]:
        return {session.device for session in self.presence.sessions("ada")}


_numbers = iter(range(1_000_000))


def ground(kind: str, servers: Servers, loop: EventLoop, **given: Any) -> Iterator[Ground]:
    settings = Settings(namespace=f"notice-links-{next(_numbers)}", timeout=PATIENT)
    url = servers.url("valkey")
    options = DeviceOptions(key=KEY, sign_in_url="/sign-in", **given)
    site = make_site(kind, url, settings, loop, options, RULES)
    with Presence.from_url(url, settings) as presence:
        yield Ground(presence, site)
        site.close()


@pytest.fixture(params=KINDS)
def ada(request: pytest.FixtureRequest, servers: Servers, loop: EventLoop) -> Iterator[Ground]:
    yield from ground(request.param, servers, loop)


@pytest.fixture
def eve(servers: Servers, loop: EventLoop) -> Iterator[Ground]:
    """The same at a site of one kind."""
    yield from ground("wsgi", servers, loop)


def test_the_link_asks_first_and_not_me_ends_the_session_and_doubts_the_others(ada: Ground) -> None:
    page = ada.get(ada.link())
    assert (page.status_code, "Was this you?" in page.text, "<bdi>laptop</bdi>" in page.text) == (200, True, True)
    assert [form["answer"] for form in forms_of(page.text)] == ["not-me", "me"]
    assert "<script" not in page.text
    assert ada.laptop.session_id not in page.text
    said = ada.post(ada.link())
    assert (said.status_code, "The device has been signed out" in said.text) == (200, True)
    assert 'href="/sign-in"' in said.text
    [end] = ada.presence.ended("ada")
    assert (end.session_id, end.reason, end.cause, end.by) == (ada.laptop.session_id, "kicked", "denied", "ada")
    assert ada.devices() == {"phone"}
    assert ada.presence.validate(ada.phone.token).code == "sign_in_required"
    assert ada.presence.blocked("ada") is None
    acts = [(entry.action, entry.by, entry.session_id) for entry in ada.presence.audit(uid="ada")]
    assert acts == [("deny_login", "ada", ada.laptop.session_id), ("require_sign_in", "ada", None)]
    assert (ada.presence.notices().not_me_today, ada.presence.notices().counts["not_me"]) == (1, 1)
    assert ada.presence.login("ada", device_id="device-laptop").session.new_device, "it is reported again"


def test_the_link_outlives_its_session_and_not_me_denies_a_second_login_on_the_device(ada: Ground) -> None:
    ada.presence.logout("ada", ada.laptop.session_id)
    again = ada.presence.login("ada", device="laptop", device_id="device-laptop")
    assert not again.session.new_device, "so no second mail is sent"
    page = ada.get(ada.link())
    assert (page.status_code, "<bdi>laptop</bdi>" in page.text, "Signed in since" in page.text) == (200, True, False)
    assert ada.post(ada.link()).status_code == 200
    for token in (again.token, ada.phone.token):
        assert ada.presence.validate(token).code == "sign_in_required"
    acts = [(entry.action, entry.by, entry.session_id) for entry in ada.presence.audit(uid="ada")]
    assert acts == [("deny_login", "ada", ada.laptop.session_id), ("require_sign_in", "ada", None)]
    assert ada.presence.login("ada", device_id="device-laptop").session.new_device, "it is reported again"
    assert not ada.presence.login("ada", device_id="device-phone").session.new_device
    assert ada.post(ada.link()).status_code == 404, "it was used"


def test_the_link_of_a_mail_is_valid_also_when_nothing_is_kept_of_the_session(eve: Ground) -> None:
    queue_notice(eve.presence, eve.laptop)
    eve.presence.logout("ada", eve.laptop.session_id)
    run, context = eve.presence.internal.run, eve.presence.internal.context
    record = context.shard("ada").record("ada", eve.laptop.session_id)
    run(_one_call(command(record, "UNLINK", record)))
    assert "Unknown device" in eve.get(eve.link()).text
    assert eve.post(eve.link()).status_code == 200
    assert eve.presence.login("ada", device_id="device-laptop").session.new_device


def _one_call(call: Call) -> Any:
    return (yield [call])


def test_the_page_of_a_move_never_shows_the_users_own_device(eve: Ground) -> None:
    presence = eve.presence
    token = presence.login("ada", device="phone of ada", ip="192.0.2.7", user_agent=CHROME).token
    moved = presence.validate(token, ip="203.0.113.7", user_agent=FIREFOX).session
    assert moved is not None
    assert moved.move is not None
    link = eve.link(moved, moved.move.at)
    page = eve.get(link)
    assert "<bdi>Firefox on Linux</bdi>" in page.text
    assert presence.validate(token, ip="192.0.2.7", user_agent=CHROME)
    assert presence.validate(token, ip="198.51.100.7", user_agent="curl/8.7.1").moved
    again = eve.get(link)
    assert "<bdi>Unknown device</bdi>" in again.text
    for shown in (page, again):
        assert shown.status_code == 200
        assert "phone of ada" not in shown.text
        assert "Chrome" not in shown.text


def test_this_was_me_changes_no_session_and_is_in_the_audit(ada: Ground) -> None:
    said = ada.post(ada.link(), "me")
    assert (said.status_code, "Thank you" in said.text) == (200, True)
    assert ada.devices() == {"phone", "laptop"}
    assert ada.presence.validate(ada.phone.token)
    assert [entry.action for entry in ada.presence.audit(uid="ada")] == ["confirm_login"]
    [notice] = ada.presence.notices_of("ada")
    assert (notice.state, notice.answer) == ("link", "me")
    assert not ada.presence.login("ada", device_id="device-laptop").session.new_device


def test_a_program_that_follows_the_link_changes_nothing(ada: Ground) -> None:
    before = ada.presence.export_person("ada")
    for _ in range(3):
        assert ada.get(ada.link()).status_code == 200
        assert ada.site.ask(ada.link().removeprefix(f"{HOST}/devices/"), method="HEAD").status_code == 200
    after = ada.presence.export_person("ada")
    assert before | {"exported_at": ""} == after | {"exported_at": ""}
    assert ada.post(ada.link(), "me").status_code == 200


def test_every_link_that_opens_nothing_gets_the_same_answer(eve: Ground) -> None:
    foreign = eve.presence.login("mallory", device="laptop").session
    used = eve.presence.login("ada", device="watch").session
    assert eve.post(eve.link(used), "me").status_code == 200
    good = eve.link()
    token = good.rpartition("=")[2]
    links = {
        "used": eve.link(used),
        "lapsed": eve.link(at=datetime.now(UTC) - timedelta(days=LINK.days, seconds=1)),
        "of another key": eve.link(link=replace(LINK, key="another key of this site")),
        "of a foreign session": LINK.make("ada", foreign.session_id, foreign.login_at),
        "forged": good[:-1] + ("A" if good[-1] != "A" else "B"),
        "moved to another user": good.replace(token, "bWFsbG9yeQ" + token[token.index("."):]),
        "unknown user": LINK.make("nobody", eve.laptop.session_id, eve.laptop.login_at),
        "not one": f"{HOST}/devices/notice?t=..",
        "empty": f"{HOST}/devices/notice",
        "very long": f"{HOST}/devices/notice?t={'A' * 3000}.{'B' * 22}.1.1.{'C' * 43}",
        "with a strange user": f"{HOST}/devices/notice?t=____{token[token.index('.'):]}",
    }  # fmt: skip
    answers = {}
    for name, link in links.items():
        for said in (eve.get(link), eve.post(link), eve.post(link, "me")):
            answers[name] = (said.status_code, sorted(said.headers.items()), said.text)
            assert answers[name] == answers["used"], name
    assert answers["used"][0] == 404
    assert "This link can no longer be used" in answers["used"][2]
    assert 'href="/devices/"' in answers["used"][2]
    assert eve.devices() == {"phone", "laptop", "watch"}
    assert {session.uid for session in eve.presence.list_sessions()} == {"ada", "mallory"}


def test_a_forged_link_makes_the_calls_of_a_good_one(eve: Ground) -> None:
    """So that the time says nothing of whether a link was once good."""
    from presence_core.web.your_devices import notice_page

    def calls(link: str) -> list[str]:
        steps = notice_page.find(LinkKeys(LINK.secret), link.rpartition("=")[2])
        made: list[str] = []
        answer: Any = None
        try:
            while True:
                call = steps.send(answer)
                made.append(next(name for name in call.__code__.co_names if name in CALLS))
                answer = call(eve.presence)
        except StopIteration:
            return made

    good = eve.link()
    assert calls(good) == [*CALLS]
    for bad in (good + "A", f"{HOST}/?t=", eve.link(link=replace(LINK, key="another key of this site"))):
        assert calls(bad) == calls(good)


def test_of_many_answers_at_once_one_is_taken(eve: Ground) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda answer: eve.post(eve.link(), answer).status_code, ["me"] * 8))
    assert sorted(answers) == [200] + [404] * 7
    assert [entry.action for entry in eve.presence.audit(uid="ada")] == ["confirm_login"]


def test_a_post_of_another_site_or_without_an_answer_changes_nothing(eve: Ground) -> None:
    assert eve.post(eve.link(), **{"origin": "https://evil.example", "sec-fetch-site": "cross-site"}).status_code == 403
    assert eve.post(eve.link(), "maybe").status_code == 400
    path = eve.link().removeprefix(f"{HOST}/devices/")
    assert eve.site.ask(path, method="POST", content=b"x" * 5000).status_code == 400
    assert eve.site.ask(path, method="DELETE").status_code == 405
    assert eve.devices() == {"phone", "laptop"}
    assert eve.get(eve.link()).status_code == 200


def test_the_site_may_block_after_not_me(servers: Servers, loop: EventLoop) -> None:
    for site in ground("asgi", servers, loop, notice_block=3600):
        assert "cannot sign in again for some time" in site.get(site.link()).text
        assert site.post(site.link()).status_code == 200
        block = site.presence.blocked("ada")
        assert block is not None
        assert block.by == "ada"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_speaks_the_language_of_the_browser(eve: Ground, language: str) -> None:
    words = {"en": "This was not me", "de": "Das war ich nicht", "es": "No he sido yo", "fr": "Ce n’était pas moi",
             "ja": "心当たりがない", "zh_Hans": "不是我"}  # fmt: skip
    page = eve.get(eve.link(), **{"accept-language": tag_of(language)})
    assert words[language] in page.text
    assert page.headers["content-language"] == tag_of(language)


def test_a_link_is_signed_by_the_key_for_one_user_session_and_time() -> None:
    keys, now = LinkKeys(b"a secret of the site"), time.time()
    token = keys.make("ada", "session-1", 1000, round(now * 1000) + 5000)
    target = keys.read(token, now)
    assert target is not None
    assert (target.uid, target.at) == ("ada", 1000)
    assert keys.read(token, now + 6) is None
    assert LinkKeys(b"another secret").read(token, now) is None
    parts = token.split(".")
    for place in range(len(parts)):
        changed = [
            part[:-1] + ("0" if part[-1] != "0" else "1") if at == place else part for at, part in enumerate(parts)
        ]
        assert keys.read(".".join(changed), now) is None, place
    for uid in ("a:b", "ü😀", "x" * 500):
        odd = keys.read(keys.make(uid, "session-1", 1, round(now * 1000) + 5000), now)
        assert odd is not None
        assert odd.uid == uid
    for bad in ("", ".", token + "\n", token.upper(), "é" * 40):
        assert keys.read(bad, now) is None
