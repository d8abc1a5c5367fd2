"""The Django app under ASGI: asynchronous views, logins and logouts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from presence_core import Presence
from tests.web.frameworks import django_site
from tests.web.frameworks.django_site import PASSWORD
from tests.web.frameworks.test_django import ends, presence, server, uid

__all__ = ["presence", "server"]  # the fixtures


HTML = {"accept": "text/html,*/*;q=0.8"}


def browser() -> Any:
    from django.test import AsyncClient

    return AsyncClient()


def run(site: Any) -> Any:
    """Run on a loop whose synchronous parts run in this thread, as the database in memory needs it."""
    from asgiref.sync import async_to_sync

    return async_to_sync(site)()


async def sign_in(client: Any, who: str = "ada") -> Any:
    return await client.post("/async/sign-in", {"who": who, "password": PASSWORD}, headers=HTML)


def test_the_views_behind_the_middleware_stay_asynchronous(presence: Presence) -> None:
    from asgiref.sync import iscoroutinefunction
    from django.http import HttpResponse
    from django.test import AsyncRequestFactory

    from presence_core.web.django.middleware import PresenceMiddleware

    async def site() -> str:
        async def view(request: Any) -> Any:
            return HttpResponse(f"{asyncio.get_running_loop() is loop} {threading.current_thread().name}")

        loop, request = asyncio.get_running_loop(), AsyncRequestFactory().get("/")
        request.session = {}
        middleware = PresenceMiddleware(view)
        assert iscoroutinefunction(middleware), "Django calls it without a thread"
        answer = await middleware(request)
        return f"{answer.content.decode()}|{threading.current_thread().name}"

    said, _, here = run(site).partition("|")
    assert said == f"True {here}"


def test_a_session_is_begun_kicked_and_ended_under_asgi(presence: Presence) -> None:
    async def site() -> None:
        client, other = browser(), browser()
        for each in (client, other):
            assert (await sign_in(each)).content == b"in"
        [newest, first] = await asyncio.to_thread(presence.sessions, ada)
        assert (await client.get("/")).content.decode() == f"ada {first.session_id}"
        await asyncio.to_thread(
            lambda: presence.kick(ada, first.session_id, by="sam", reason="test", message="Please call us.")
        )
        answer = await client.get("/", headers=HTML)
        assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in?next=/")
        assert (await client.get("/sign-in")).content == b"Please call us."
        assert (await other.get("/")).content.decode() == f"ada {newest.session_id}"
        assert (await other.get("/async/sign-out")).content == b"out"

    ada = uid("ada")
    run(site)
    assert presence.sessions(ada) == []
    assert [end.reason for end in presence.ended(ada)] == ["logout", "kicked"]


def test_a_blocked_user_reads_why_under_asgi(presence: Presence) -> None:
    async def site() -> Any:
        return await sign_in(browser())

    presence.block(uid("ada"), by="sam", reason="fraud", message="Please call us.")
    answer = run(site)
    assert (answer.status_code, "Please call us." in answer.content.decode()) == (403, True)


def test_requests_that_are_answered_at_once_do_not_mix_their_users(presence: Presence) -> None:
    """Each changes a password while both are answered: the audit names the right one."""
    from django.contrib.auth import get_user_model

    async def site() -> Any:
        ada, eve = browser(), browser()
        await sign_in(ada)
        await sign_in(eve, "eve")
        django_site.AT_ONCE.clear()
        return await asyncio.gather(
            ada.post("/async/password", {"who": "bob", "password": "x"}),
            eve.post("/async/password", {"who": "cyd", "password": "x"}),
        )

    for name in ("bob", "cyd"):
        presence.login(str(get_user_model().objects.create_user(name).pk))
    ada, eve = uid("ada"), uid("eve")
    assert [answer.content.decode() for answer in run(site)] == [f"ada {ada}", f"eve {eve}"]
    assert ends(presence, uid("bob")) == [("ada", "password changed")]
    assert ends(presence, uid("cyd")) == [("eve", "password changed")]
