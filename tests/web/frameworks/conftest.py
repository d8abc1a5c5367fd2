"""A site of each kind behind the middleware."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from presence_core import Settings
from presence_core.web.rules import Rules, Visitor
from tests.conftest import Bed
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT
from tests.web.frameworks.sites import Site, asgi_site, wsgi_site

KINDS = ("asgi", "asgi-threads", "wsgi")
Users = Callable[[], Visitor | str | None]
Make = Callable[..., Site]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, bed: Bed, loop: EventLoop) -> Iterator[Make]:
    """Make a site of this kind over the bed's Redis."""
    made: list[Site] = []

    def make_one(*, user: Users | None = None, **rules: Any) -> Site:
        settings = Settings(bed.namespace, timeout=PATIENT)
        if kind == "wsgi":
            made.append(wsgi_site(bed.url, settings, Rules(**rules), user))
        else:
            threads = kind == "asgi-threads"
            made.append(asgi_site(bed.url, settings, Rules(**rules), user, loop, use_threads=threads))
        return made[-1]

    yield make_one
    for site in made:
        site.close()
