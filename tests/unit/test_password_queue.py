"""The order in which checks of passwords run, and which are refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from presence_dashboard.gate.limits.password_queue import AT_ONCE, LONGEST, PasswordQueue, TooBusy


class Checks:
    """Checks that run until ``go_on``, and the names of those that have begun, in their order."""

    def __init__(self) -> None:
        self.queue = PasswordQueue()
        self.began: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._go = threading.Event()

    async def add(self, name: str, attempts: int, network: str | None = None) -> None:
        """A check of a network of its own, or of this one."""

        def work() -> None:
            self.began.append(name)
            self._go.wait(30)

        self.tasks.append(asyncio.create_task(self.queue.run(work, attempts, network or name)))
        await asyncio.sleep(0)

    async def occupied(self) -> None:
        """All places are taken."""
        for place in range(AT_ONCE):
            await self.add(f"first {place}", 1)

    async def go_on(self) -> list[BaseException | None]:
        self._go.set()
        outcomes = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert self.queue._running == 0
        assert self.queue._waiting == []
        return outcomes


def run(test: Callable[[Checks], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(test(Checks()), 60)

    asyncio.run(main())


@pytest.fixture
def _one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that checks begin in the order in which they get their turn."""
    monkeypatch.setattr("presence_dashboard.gate.limits.password_queue.AT_ONCE", 1)


@pytest.mark.usefixtures("_one_at_once")
def test_an_address_with_fewer_attempts_comes_first() -> None:
    async def test(checks: Checks) -> None:
        await checks.occupied()
        for name, attempts in (("third", 3), ("second", 2), ("fourth", 3), ("first", 1)):
            await checks.add(name, attempts)
        await checks.go_on()
        assert checks.began[AT_ONCE:] == ["first", "second", "third", "fourth"]

    run(test)


@pytest.mark.usefixtures("_one_at_once")
def test_a_full_queue_refuses_the_last_in_the_order_not_the_last_to_come() -> None:
    async def test(checks: Checks) -> None:
        await checks.occupied()
        for number in range(LONGEST):
            await checks.add(f"guess {number}", 5)
        await checks.add("colleague", 1)
        await checks.add("one more guess", 6)
        outcomes = await checks.go_on()
        refused = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, TooBusy)]
        assert refused == [AT_ONCE + LONGEST - 2, AT_ONCE + LONGEST - 1, AT_ONCE + LONGEST + 1]
        assert checks.began[AT_ONCE] == "colleague"

    run(test)


@pytest.mark.usefixtures("_one_at_once")
@pytest.mark.parametrize("attempts", [1, 3])  # the first, or after two slips
def test_a_full_queue_refuses_addresses_of_a_network_that_has_many(attempts: int) -> None:
    async def test(checks: Checks) -> None:
        await checks.occupied()
        for number in range(LONGEST):
            await checks.add(f"guess {number}", 1, f"net {number % 4}")
        await checks.add("colleague", attempts)
        outcomes = await checks.go_on()
        refused = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, TooBusy)]
        assert refused == [AT_ONCE + LONGEST - 2, AT_ONCE + LONGEST - 1]
        assert checks.began.index("colleague") <= AT_ONCE + attempts * 4

    run(test)


def test_a_check_that_is_cancelled_leaves_its_place_to_the_next() -> None:
    async def test(checks: Checks) -> None:
        await checks.occupied()
        for name in ("waits", "goes", "stays"):
            await checks.add(name, 1)
        checks.tasks[AT_ONCE + 1].cancel()
        await asyncio.sleep(0)
        outcomes = await checks.go_on()
        assert [type(outcome) for outcome in outcomes].count(asyncio.CancelledError) == 1
        later = [name for name in checks.began if not name.startswith("first")]  # the first two begin in either order
        assert sorted(later) == ["stays", "waits"]

    run(test)
