"""Mails to users about odd logins, to a real mail server: once each, in the user's language, through outages."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from presence_core import InvalidArgument, Presence, Settings, Unavailable
from presence_core.operations.notices import queue
from presence_core.operations.notices.queue import HOLD
from presence_core.text.languages import LANGUAGES
from presence_core.web.notices import sender
from presence_core.web.notices.kinds import KINDS
from presence_core.web.notices.mail import NoticeMail, NotSent
from presence_core.web.notices.sender import NoticeSender
from presence_core.web.notices.smtp import SmtpServer
from tests.conftest import Bed, on
from tests.contract.sessions.test_moves import CHROME, PLACES
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.support.programs.webhook_receiver import until
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary
from tests.web.notices.mail_server import LINK, SENDER, MailServer, mail_server, part

ROOT = Path(__file__).parents[3]

FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(sender, "MOST_PAUSE", 0.1)


def sending(p: Presence, send: Any, **given: Any) -> NoticeSender:
    """A sender that runs while the body of its ``with`` does. It begins before what the test does next."""
    options: dict[str, Any] = {"address_of": lambda uid: (f"{uid}@mail.example", "en"), "site": "Paperboat"}
    made = NoticeSender(p, link=LINK, send=send, interval=0.02, **options | given)
    p.internal.run(queue.read_position(p.internal.context))
    return made


def new_device(p: Presence, uid: str = "ada", device: str = "device-laptop", **given: Any) -> Any:
    """A login on a device that is new to the user, after one on another."""
    p.login(uid, device_id="device-phone-of-the-user")
    return p.login(uid, device_id=device, **given).session


@on("valkey-sync", "cluster-sync")
def test_a_login_on_a_new_device_is_mailed_with_a_link_in_text_and_html(p: P, mails: MailServer) -> None:
    with sending(p, mails.send):
        login = new_device(p, user_agent=FIREFOX)
        until(lambda: p.notices().counts["sent"])
    [mail] = mails.mails
    assert mails.recipients == ["ada@mail.example"]
    assert (mail["From"], mail["To"], mail["Auto-Submitted"]) == (SENDER, "ada@mail.example", "auto-generated")
    assert mail["Subject"] == "Was this you? A sign-in to your account at Paperboat"
    text, html = part(mail, "plain"), part(mail, "html")
    link = LINK.make("ada", login.session_id, login.login_at)
    for words in ("Firefox on Windows", f"{login.login_at:%Y-%m-%d %H:%M} UTC", "on a device that is new"):
        assert words in text
        assert words in html
    assert text.rstrip().endswith(link)
    assert re.findall(r'href="([^"]*)"', html) == [link]
    assert login.session_id not in text + html, "a site's own id may be a credential"
    [notice] = p.notices_of("ada")
    assert (notice.state, notice.kinds, notice.session_id) == ("sent", ("new_device",), login.session_id)
    assert (p.notices().waiting, p.notices().oldest) == (0, None)


@on("valkey-sync")
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_mail_is_in_the_language_that_the_site_names(p: P, language: str) -> None:
    taken: list[NoticeMail] = []
    tag = {"zh_Hans": "zh-CN", "de": "de-AT"}.get(language, language)
    with sending(p, taken.append, address_of=lambda uid: ("ada@mail.example", tag)):
        new_device(p)
        until(lambda: taken)
    [mail] = taken
    words = {"en": "new to your account", "de": "neu", "es": "nuevo", "fr": "nouvel", "ja": "新しい", "zh_Hans": "新"}
    assert mail.language == language
    assert words[language] in mail.text
    assert "\ufffd" not in mail.text + mail.html + mail.subject


@on("valkey-sync")
def test_a_login_that_is_odd_in_two_ways_is_one_mail(bed: Bed, mails: MailServer, tmp_path: Any) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    with sending(p, mails.send):
        p.login("ada", device_id="device-phone", ip="192.0.2.7")
        p.login("ada", device_id="device-laptop", ip="203.0.113.7")
        until(lambda: p.notices().counts["sent"])
        time.sleep(0.1)
    [mail] = mails.mails
    text = part(mail, "plain")
    assert "new to your account" in text
    assert "far from the place" in text
    assert "Place: Tokyo, JP" in text
    assert set(p.notices_of("ada")[0].kinds) == set(KINDS) & {"new_device", "distant"}


@on("valkey-sync")
def test_a_login_after_failed_ones_is_mailed(p: P, mails: MailServer) -> None:
    p.login("ada")
    with sending(p, mails.send):
        for _ in range(5):
            p.login_failed("ada", why="wrong_password")
        assert p.login("ada").session.after_failures
        until(lambda: mails.mails)
    assert "Several sign-ins to your account had failed before it." in part(mails.mails[0], "plain")


@on("valkey-sync")
def test_a_session_that_moves_is_mailed_with_where_it_is_used_now(bed: Bed, mails: MailServer, tmp_path: Any) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    login = p.login("ada", ip="192.0.2.7")
    with sending(p, mails.send):
        p.advance(60)
        assert p.validate(login.token, ip="203.0.113.7", user_agent=FIREFOX).moved
        until(lambda: p.notices().counts["sent"])
    [mail] = mails.mails
    assert mail["Subject"] == "Was this you? Your account at Paperboat is used from elsewhere"
    text = part(mail, "plain")
    assert "from another country" in text
    assert "Device: Firefox" in text
    assert "Place: Tokyo, JP" in text
    assert "Someone signed in" not in text


@on("valkey-sync")
def test_a_session_that_moves_on_at_once_is_one_mail_and_never_has_the_users_own_device(
    bed: Bed, mails: MailServer, tmp_path: Any
) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb", PLACES)))
    login = p.login("ada", ip="192.0.2.7", user_agent=CHROME, device="phone of ada")
    with sending(p, mails.send) as running:
        running.close()
        for number, (ip, agent) in enumerate((("203.0.113.7", FIREFOX), ("100.65.0.7", "curl/8.7.1")), 1):
            p.advance(60 * number)
            assert p.validate(login.token, ip=ip, user_agent=agent).moved
        running.start()
        until(lambda: mails.mails)
        time.sleep(0.1)
    [mail] = mails.mails
    text = part(mail, "plain")
    assert "Your account at Paperboat is used from somewhere else" in text
    for wrong in ("Device:", "Place:", "Chrome", "Lyon", "phone"):
        assert wrong not in text, "of the first move nothing is known any more"


@on("valkey-sync")
def test_the_mail_of_a_move_has_where_it_led_also_if_the_session_moves_on_before_it_is_sent(
    bed: Bed, mails: MailServer, tmp_path: Any
) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb", PLACES)))
    login = p.login("ada", ip="192.0.2.7", user_agent=CHROME)
    mails.stop()
    with sending(p, mails.send):
        p.advance(60)
        assert p.validate(login.token, ip="203.0.113.7", user_agent=FIREFOX).moved
        until(lambda: p.notices().failing_since is not None)
        p.advance(60)
        assert p.validate(login.token, ip="100.65.0.7", user_agent="curl/8.7.1").moved
        mails.start()
        until(lambda: mails.mails)
        time.sleep(0.1)
    [mail] = mails.mails
    text = part(mail, "plain")
    assert "Device: Firefox on Windows" in text
    assert "Place: Tokyo, JP" in text
    [notice] = p.notices_of("ada")
    assert notice.after is not None
    assert (notice.after.browser, notice.after.os) == ("Firefox", "Windows")


@on("valkey-sync", "cluster-sync")
def test_several_senders_send_one_mail_for_each_event(p: P, mails: MailServer) -> None:
    uids = [f"u{number}" for number in range(20)]
    with ExitStack() as senders:
        for _ in range(3):
            senders.enter_context(sending(p, mails.send))
        for uid in uids:
            new_device(p, uid)
        until(lambda: p.notices().counts["sent"] == len(uids))
        time.sleep(0.1)
    assert sorted(mails.recipients) == sorted(f"{uid}@mail.example" for uid in uids)


@on("valkey-sync")
def test_mails_wait_while_the_mail_server_is_away_and_health_says_so(
    p: P, mails: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="presence_core")
    mails.stop()
    with sending(p, mails.send):
        for uid in ("ada", "eve", "bob"):
            new_device(p, uid)
        until(lambda: p.notices().failing_since is not None and p.notices().waiting == 3)
        assert p.notices().failure == "Connection refused"
        assert any(finding.subject == "notices" and finding.level == "warning" for finding in p.health().findings)
        mails.start()
        until(lambda: p.notices().counts["sent"] == 3)
        until(lambda: p.notices().failing_since is None)
    assert sorted(mails.recipients) == ["ada@mail.example", "bob@mail.example", "eve@mail.example"]
    said = [record.getMessage() for record in caplog.records if record.name.startswith("presence_core.web.notices")]
    assert said == ["notices wait: Connection refused", "notices are sent again"]
    assert any(finding.subject == "notices" and finding.level == "ok" for finding in p.health().findings)


@on("valkey-sync")
def test_the_queue_outlives_its_senders_and_is_bounded_in_age(bed: Bed, mails: MailServer) -> None:
    p = bed.connect()
    p.freeze()
    mails.stop()
    with sending(p, mails.send, give_up=3600):
        new_device(p, "ada")
        until(lambda: p.notices().waiting == 1)
    p.advance(3599)
    with sending(p, mails.send, give_up=3600):
        new_device(p, "eve")
        until(lambda: p.notices().waiting == 2)
    p.advance(1)
    mails.start()
    with sending(p, mails.send, give_up=3600):
        until(lambda: p.notices().counts["sent"])
        until(lambda: p.notices().counts["dropped"])
    assert mails.recipients == ["eve@mail.example"]
    assert [notice.state for notice in p.notices_of("ada")] == ["dropped"]


@on("valkey-sync")
def test_the_queue_is_bounded_in_number(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MAX_WAITING", 1)

    def away(mail: NoticeMail) -> None:
        raise NotSent("away")

    with sending(p, away):
        new_device(p, "ada")
        until(lambda: p.notices().waiting == 1)
        new_device(p, "ben")
        new_device(p, "ada", "device-tablet")
        until(lambda: p.notices().counts["dropped"] == 1)
        until(lambda: len(p.notices_of("ada")) == 2)
    assert (p.notices().waiting, p.notices_of("ben")) == (1, [])


@on("valkey-sync")
def test_a_user_gets_at_most_so_many_mails_in_a_day(p: P, mails: MailServer) -> None:
    p.freeze()
    with sending(p, mails.send, per_day=2):
        for number in range(5):
            new_device(p, device=f"device-number-{number}")
            p.advance(1)
        new_device(p, "eve")
        until(lambda: p.notices().counts["sent"] == 3)
        until(lambda: p.notices().counts["limited"] == 3)
        assert sorted(mails.recipients) == ["ada@mail.example"] * 2 + ["eve@mail.example"]
        p.advance(86_400)
        new_device(p, device="device-of-the-next-day")
        until(lambda: p.notices().counts["sent"] == 4)


@on("valkey-sync")
def test_a_user_without_an_address_gets_no_mail_and_aliases_are_never_used(p: P, mails: MailServer) -> None:
    found = {"ada": None, "eve": ("eve@mail.example\r\nBcc: all@mail.example", "en"), "bob": ("bob@mail.example", None)}
    with sending(p, mails.send, address_of=found.get):
        for uid in ("ada", "eve", "bob"):
            new_device(p, uid, aliases=["mallory@mail.example"])
        until(lambda: (p.notices().counts["skipped"], p.notices().counts["sent"]) == (2, 1))
    assert mails.recipients == ["bob@mail.example"]


@on("valkey-sync")
def test_an_address_with_dots_in_a_row_gets_its_mail(p: P, mails: MailServer) -> None:
    """Japanese mobile providers gave out such addresses."""
    found = {"ada": "a..b@docomo.example", "eve": "eve.@docomo.example"}
    with sending(p, mails.send, address_of=lambda uid: (found[uid], "ja")):
        for uid in found:
            new_device(p, uid)
        until(lambda: p.notices().counts["sent"] == 2)
    assert sorted(mails.recipients) == sorted(found.values())
    assert sorted(mail["To"] for mail in mails.mails) == sorted(found.values())


@on("valkey-sync")
def test_a_recipient_that_the_server_refuses_delays_no_other(p: P, mails: MailServer) -> None:
    answers = {"ada@mail.example": "550 5.1.1 no such user", "eve@mail.example": "451 greylisted"}
    mails.on_rcpt = answers.get
    with sending(p, mails.send):
        for uid in ("ada", "eve", "bob"):
            new_device(p, uid)
        until(lambda: (p.notices().counts["refused"], p.notices().counts["sent"]) == (1, 1))
        assert (mails.recipients, p.notices().waiting) == (["bob@mail.example"], 1)
        del answers["eve@mail.example"]
        until(lambda: p.notices().counts["sent"] == 2)


@on("valkey-sync")
@pytest.mark.parametrize(
    ("step", "answer", "status"),
    [
        ("rcpt", "554 5.7.1 relay access denied", "status 554 5.7.1"),
        ("rcpt", "550 relay not permitted", "status 550"),
        ("rcpt", "451 4.3.0 local error", "status 451 4.3.0"),
        ("data", "554 message rejected: email address is not verified", "status 554"),
        ("rcpt", "530 5.7.0 authentication required", "status 530 5.7.0"),
    ],
)  # fmt: skip
def test_a_server_that_takes_no_mail_of_anyone_loses_none_and_health_says_so(
    p: P, mails: MailServer, step: str, answer: str, status: str
) -> None:
    setattr(mails, f"on_{step}", lambda *given: answer)
    uids = [f"u{number}" for number in range(4)]
    with sending(p, mails.send):
        for uid in uids:
            new_device(p, uid)
        until(lambda: p.notices().failing_since)
        assert p.notices().failure == status
        [finding] = [found for found in p.health().findings if found.subject == "notices"]
        assert (finding.level, status in finding.text) == ("warning", True)
        setattr(mails, f"on_{step}", lambda *given: None)
        until(lambda: p.notices().counts["sent"] == len(uids))
        until(lambda: p.notices().failing_since is None)
    assert sorted(mails.recipients) == [f"{uid}@mail.example" for uid in uids]


@on("valkey-sync")
def test_a_server_that_begins_to_refuse_everyone_is_noticed_after_three_mails(p: P, mails: MailServer) -> None:
    with sending(p, mails.send):
        new_device(p, "ada")
        until(lambda: p.notices().counts["sent"] == 1)
        mails.on_rcpt = lambda address: "550 relay not permitted"
        for number in range(5):
            new_device(p, f"u{number}")
        until(lambda: p.notices().failing_since)
        mails.on_rcpt = lambda address: None
        until(lambda: p.notices().waiting == 0)
    assert p.notices().counts["refused"] == 2
    assert len(mails.recipients) == 4


@on("valkey-sync")
def test_a_notice_that_is_refused_for_now_waits_longer_each_time(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "MOST_PAUSE", 60)
    tries: list[float] = []

    def not_now(mail: NoticeMail) -> None:
        tries.append(time.time())
        raise NotSent("later", only_this=True)

    p.freeze()
    with sending(p, not_now):
        new_device(p)
        for minutes in (1, 2, 4, 8, 16, 32, 60, 60):
            until(lambda: tries and p.notices_of("ada")[0].state == "waiting")
            report = p.notices()
            assert report.oldest is not None
            assert (report.oldest - report.as_of).total_seconds() == 60 * minutes
            tries.clear()
            p.advance(60 * minutes)


@on("valkey-sync")
def test_a_mail_that_may_have_been_sent_is_not_sent_again(p: P, caplog: pytest.LogCaptureFixture) -> None:
    tries: list[str] = []

    def break_off(mail: NoticeMail) -> None:
        tries.append(mail.to)
        raise ConnectionResetError

    with sending(p, break_off):
        new_device(p)
        until(lambda: p.notices().counts["unsure"])
        time.sleep(0.1)
    assert tries == ["ada@mail.example"]
    assert p.notices().unsure_at is not None
    [finding] = [found for found in p.health().findings if found.subject == "notices"]
    assert (finding.level, "may be missing" in finding.text) == ("warning", True)
    assert [record.getMessage() for record in caplog.records] == ["a notice may be missing: an error while it was sent"]


@on("valkey-sync")
def test_while_redis_is_away_nothing_is_lost_and_nothing_is_sent_twice(
    p: P, mails: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis goes away at each of the calls of a turn, once."""
    real, broken = p.internal.run, set[str]()

    def run(operation: Any) -> Any:
        name = operation.__qualname__
        if name in ("claim", "finish", "queue", "due", "read_position", "note_turn") and name not in broken:
            broken.add(name)
            operation.close()
            raise Unavailable("away")
        return real(operation)

    made = sending(p, mails.send)
    monkeypatch.setattr(p.internal, "run", run)
    monkeypatch.setattr(made._stopping, "wait", lambda seconds: time.sleep(min(seconds, 0.02)))
    with made:
        new_device(p)
        until(lambda: len(broken) == 6)
        until(lambda: p.notices_of("ada")[0].state == "sent")
        time.sleep(0.1)
    assert mails.recipients == ["ada@mail.example"]


@on("valkey-sync")
def test_what_another_program_adds_to_the_events_stops_no_mail(p: P, raw: Any, mails: MailServer) -> None:
    with sending(p, mails.send):
        for ref in ("", "ada", "ada:short", f"{'x' * 300}:session-1", "a\nb:session-1"):
            raw.xadd(
                p.internal.context.keys.shards[0].events, {"k": "new_device", "r": ref, "a": round(time.time() * 1000)}
            )
        new_device(p, "eve")
        until(lambda: mails.mails)
    assert mails.recipients == ["eve@mail.example"]


@on("valkey-sync")
@pytest.mark.parametrize("waits", [False, True])
def test_what_another_program_writes_under_a_key_of_a_user_stops_no_mail_of_others(
    p: P, raw: Any, mails: MailServer, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    running = sending(p, mails.send)
    new_device(p, "ada")
    if waits:
        running._read_events()
    key = p.internal.context.shard("ada").notices("ada")
    raw.delete(key)
    raw.set(key, "x")
    new_device(p, "eve")
    for _ in range(3):
        running._turn()
    assert mails.recipients == ["eve@mail.example"]
    assert p.notices().turn_at is not None
    assert p.notices().failing_since is None
    if waits:
        assert sum(key in record.getMessage() for record in caplog.records) == 1, "logged once"
    else:
        assert p.notices().counts["dropped"] == 1


@on("valkey-sync")
def test_what_another_program_writes_while_a_mail_is_sent_stops_no_mail_of_others(
    p: P, raw: Any, mails: MailServer
) -> None:
    p.counts()  # it reads the layout
    key = p.internal.context.shard("ada").notices("ada")

    def damage() -> None:
        mails.on_data = lambda: None
        raw.delete(key)
        raw.set(key, "x")

    mails.on_data = damage
    with sending(p, mails.send):
        new_device(p, "ada")
        until(lambda: mails.mails)
        new_device(p, "eve")
        until(lambda: p.notices().counts["sent"] == 2)
    assert mails.recipients == ["ada@mail.example", "eve@mail.example"]


@on("valkey-sync")
def test_a_session_that_has_ended_is_mailed_with_its_link(p: P, mails: MailServer) -> None:
    """An attacker may sign out and in again; the device is known by then, so there is no second mail."""
    with sending(p, mails.send) as running:
        running.close()
        login = new_device(p)
        p.logout("ada", login.session_id)
        assert not new_device(p).new_device
        running.start()
        until(lambda: mails.mails)
    [mail] = mails.mails
    link = LINK.make("ada", login.session_id, login.login_at)
    assert part(mail, "plain").rstrip().endswith(link)
    assert link in part(mail, "html")
    assert "signed out" not in part(mail, "plain")


@on("valkey-sync")
def test_nothing_that_a_visitor_wrote_makes_a_link_or_a_header(p: P, mails: MailServer) -> None:
    evil = "http://evil.example\r\nBcc: all@mail.example\u202e <a href='http://evil.example'>+33 6 12 34 56 78</a>"
    agents = [evil.replace("\r\n", " "), "EvilBot.example/1.0 (www.evil.example)", "evil。example/5 ＠"]
    with sending(p, mails.send, per_day=20):
        for number, agent in enumerate(agents):
            p.login("ada", device_id="device-phone-of-ada")
            p.login("ada", device_id=f"device-number-{number}", name=evil.replace("\r\n", " "), user_agent=agent,
                    device=evil.replace("\r\n", " ")[:60], app="evil.example")  # fmt: skip
        until(lambda: len(mails.mails) == len(agents))
    assert set(mails.recipients) == {"ada@mail.example"}
    for mail in mails.mails:
        text, html = part(mail, "plain"), part(mail, "html")
        assert "Bcc" not in mail
        assert mail.keys().count("Subject") == 1
        assert "evil" not in mail.as_string().replace("Evil", "evil").partition("\n\n")[0]
        assert len(re.findall("https?:", text)) == 1
        assert re.search(r"evil\W?\.|\.\W?evil|@evil|www", text, re.IGNORECASE) is None
        assert re.search(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]", text + html) is None
        assert len(re.findall("<a ", html)) == 1
        assert "12 34" not in text + html


async def answers_later(*given: Any) -> None:
    """A hook that the sender would have to await."""


class AnswersLater:
    async def __call__(self, *given: Any) -> None: ...


@pytest.mark.parametrize("hook", [answers_later, AnswersLater(), partial(answers_later, 1)])
@pytest.mark.parametrize("name", ["address_of", "send"])
def test_a_hook_that_must_be_awaited_is_refused_in_a_sentence(anywhere: Bed, name: str, hook: Any) -> None:
    options: dict[str, Any] = {"link": LINK, "address_of": dict.get, "send": print, "site": "Shop"}
    with Presence.from_url("redis://127.0.0.1:1") as presence, pytest.raises(InvalidArgument) as refused:
        NoticeSender(presence, **options | {name: hook})
    assert str(refused.value) == f"{name} must be a plain function: async functions are not awaited."


@on("valkey-sync")
def test_a_mail_that_would_have_to_be_awaited_is_not_counted_as_sent(p: P) -> None:
    with sending(p, lambda mail: answers_later(mail)):
        new_device(p)
        until(lambda: p.notices().failing_since)
    assert p.notices().failure == "send must be a plain function: async functions are not awaited"
    assert (p.notices().counts["sent"], p.notices().counts["unsure"], p.notices().waiting) == (0, 0, 1)


@on("valkey-sync")
def test_an_address_that_would_have_to_be_awaited_sends_nothing(p: P, mails: MailServer) -> None:
    with sending(p, mails.send, address_of=lambda uid: answers_later(uid)):
        new_device(p)
        until(lambda: p.notices().failing_since)
    assert p.notices().failure == "address_of must be a plain function: async functions are not awaited"
    assert (mails.mails, p.notices().waiting) == ([], 1)


def test_wrong_options_are_refused_in_a_sentence(anywhere: Bed) -> None:
    def make(**given: Any) -> NoticeSender:
        options: dict[str, Any] = {"link": LINK, "address_of": dict.get, "send": print, "site": "Shop"}
        with Presence.from_url("redis://127.0.0.1:1") as presence:
            return NoticeSender(**{"presence": presence} | options | given)

    for given, field in (
        ({"presence": None}, "presence"), ({"link": "http://x"}, "link"), ({"address_of": None}, "address_of"),
        ({"send": "smtp://x"}, "send"), ({"site": "a\nb"}, "site"), ({"kinds": ["login"]}, "kinds"),
        ({"kinds": "distant"}, "kinds"), ({"per_day": 0}, "per_day"), ({"give_up": 59}, "give_up"),
        ({"interval": 0}, "interval"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument) as refused:
            make(**given)
        assert refused.value.field == field
    for url in ("", "http://mail.example", "smtp://", "smtps://mail.example/path", "smtp://mail:port", None):
        with pytest.raises(InvalidArgument, match="url must be like smtps:"):
            SmtpServer(url, SENDER)  # type: ignore[arg-type]
    for address in ("", "Shop", "Shop <no-reply>", "a@b.example\nBcc: c@d.example", None):
        with pytest.raises(InvalidArgument, match="sender must be an address"):
            SmtpServer("smtp://mail.example", address)  # type: ignore[arg-type]
    assert "hunter2" not in repr(SmtpServer("smtps://shop:hunter2@mail.example", SENDER))


def test_when_redis_dies_while_a_mail_is_sent_it_is_sent_once_and_what_follows_is_sent_later(
    mails: MailServer, tmp_path: Path
) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, tmp_path, *KEEPS_ALL) as server,
        Presence.from_url(server.url, Settings(timeout=1)) as p,
    ):

        def die() -> None:
            mails.on_data = lambda: None
            server.kill()

        with sending(p, mails.send):
            mails.on_data = die
            new_device(p, "ada")
            until(lambda: mails.mails)
            server.restart()
            new_device(p, "eve")
            until(lambda: len(mails.mails) == 2)
            until(lambda: [notice.state for notice in p.notices_of("ada")] == ["sent"])
        assert mails.recipients == ["ada@mail.example", "eve@mail.example"]


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from presence_core import Presence, Settings
from presence_core.client.internal import operation_name
from presence_core.web.notices.sender import NoticeSender
from presence_core.web.notices.smtp import SmtpServer
from tests.web.notices.mail_server import LINK, SENDER

url, namespace, port, step = sys.argv[1:]

@contextmanager
def around(operation):
    name = operation_name(operation)
    if step == f"before {name}":
        os.kill(os.getpid(), signal.SIGKILL)
    yield
    if step == f"after {name}":
        os.kill(os.getpid(), signal.SIGKILL)

presence = Presence.from_url(url, Settings(namespace))
presence.internal.around = around
NoticeSender(presence, link=LINK, address_of=lambda uid: (f"{uid}@mail.example", "en"), site="Paperboat",
             send=SmtpServer(f"smtp://127.0.0.1:{port}", SENDER)).run()
"""


def test_after_a_kill_of_sender_and_redis_between_two_steps_no_mail_is_sent_twice_and_none_that_waited_is_missing(
    mails: MailServer, tmp_path: Path
) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path, "--appendonly", "yes", "--appendfsync", "everysec") as server:
        for step, state in (
            ("after queue", "waiting"),
            ("after claim", "sending"),
            ("before finish", "sending"),
            ("after finish", "sent"),
        ):
            mails.recipients.clear()
            ends = _ends_after_a_kill(server, mails, step, state)
            assert len(set(mails.recipients)) == len(mails.recipients), step
            assert sorted(ends.values()) == ["sent", "unsure" if state == "sending" else "sent"], step
            assert {f"{uid}@mail.example" for uid in ends if ends[uid] == "sent"} <= set(mails.recipients), step


def _ends_after_a_kill(server: Server, mails: MailServer, step: str, state: str) -> dict[str, str]:
    """The states of the notices to two users in the end. state: that of one of them after the kill."""
    namespace = step.replace(" ", "-")
    with Presence.from_url(server.url, Settings(namespace, timeout=PATIENT)) as p:
        p.internal.run(queue.read_position(p.internal.context))
        new_device(p, "ada")
        new_device(p, "eve")
        words = [sys.executable, "-c", KILLED, server.url, namespace, str(mails.port), step]
        assert subprocess.run(words, cwd=ROOT).returncode == -signal.SIGKILL
        server.kill()
        server.restart()
        states = [p.notices_of(uid)[0].state for uid in ("ada", "eve")]
        assert sorted(states) == sorted([state, "waiting"]), step
        p.internal.context.now = str(round((time.time() + HOLD + 60) * 1000))
        with sending(p, mails.send):
            until(lambda: p.notices().waiting == 0)
        return {uid: p.notices_of(uid)[0].state for uid in ("ada", "eve")}


@on("valkey-sync")
@pytest.mark.parametrize("error", [Unavailable("away"), InvalidArgument("uid", "must be text"), SystemExit()])
def test_an_error_of_the_site_s_function_stops_no_other_mail(p: P, mails: MailServer, error: BaseException) -> None:
    def address_of(uid: str) -> tuple[str, str]:
        if uid == "ada":
            raise error
        return f"{uid}@mail.example", "en"

    with sending(p, mails.send, address_of=address_of):
        for uid in ("ada", "eve", "bob"):
            new_device(p, uid)
        until(lambda: p.notices().counts["sent"] == 2)
        until(lambda: p.notices_of("ada")[0].state == "waiting")
    assert sorted(mails.recipients) == ["bob@mail.example", "eve@mail.example"]


@on("valkey-sync")
def test_an_exit_in_the_site_s_send_stops_no_other_mail(p: P) -> None:
    tries: list[str] = []

    def leave(mail: NoticeMail) -> None:
        tries.append(mail.to)
        sys.exit(1)

    with sending(p, leave):
        new_device(p, "ada")
        new_device(p, "eve")
        until(lambda: p.notices().counts["unsure"] == 2)
    assert sorted(tries) == ["ada@mail.example", "eve@mail.example"]


@on("valkey-sync")
def test_a_send_that_hangs_does_not_keep_the_site_from_stopping(
    p: P, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sender, "CLOSE_SECONDS", 0.1)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(mail: NoticeMail) -> None:
        hangs.set()
        goes_on.wait(PATIENT)

    running = sending(p, hang)
    running.start()
    new_device(p)
    assert hangs.wait(PATIENT)
    try:
        running.close()
        assert running.is_running
        assert "the sender of notices has not stopped: address_of or send hangs" in caplog.text
    finally:
        goes_on.set()
    until(lambda: not running.is_running)
    assert p.notices_of("ada")[0].state == "sent"


def test_after_a_restart_from_an_older_snapshot_nothing_is_sent_a_second_time(
    mails: MailServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "REMEMBERED", 2)
    mails.on_rcpt = {"bob@mail.example": "550 5.1.1 no such user"}.get
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, tmp_path) as server,
        Presence.from_url(server.url, Settings(timeout=1)) as p,
        redis.Redis.from_url(server.url) as raw,
    ):
        with sending(p, mails.send) as running:
            new_device(p, "eve")
            until(lambda: p.notices().counts["sent"] == 1)
            running.close()
            new_device(p, "ada")
            new_device(p, "bob")
            raw.save()
            running.start()
            until(lambda: (p.notices().counts["sent"], p.notices().counts["refused"]) == (2, 1))
            server.kill()
            server.restart()
            until(lambda: (p.notices().counts["sent"], p.notices().counts["refused"]) == (2, 1))
            assert [p.notices_of(uid)[0].state for uid in ("ada", "bob")] == ["sent", "refused"]
            assert len(running._done) == 2, "the memory is bounded"
        assert mails.recipients == ["eve@mail.example", "ada@mail.example"]
