"""The answers of a client with ``heal`` off, checked against the model after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from presence_core import ListOrder, Session, SessionFilter
from presence_core.models import Page, moment
from presence_core.validation import is_on_behalf
from tests.properties.drawing import DECLARED, FACETS, FILTERS, NEEDLES, UIDS, Issued
from tests.properties.ground import Ground


class Answers(Ground):
    """The lists of all sessions and of one user, the ends, and the searches."""

    def reads_agree(self) -> None:
        model, reader = self.model, self.reader
        live = model.live()
        counts = reader.counts()
        totals = model.total()
        assert counts.odd_logins["new_device"] == totals.pop("new_device", 0)
        assert (counts.odd_logins["distant"], counts.odd_logins["moved"]) == (0, 0)
        assert counts.odd_logins["after_failures"] == 0
        assert counts.failed_logins == totals.pop("failed", 0)
        assert (counts.sessions, counts.draining) == (len(live), model.draining())
        assert counts.users == len({stay.uid for stay in live if not is_on_behalf(stay.sid)})
        waiting = Counter(model.ending(stay).reason for stay in model.listed() if stay not in live)
        assert counts.waiting == {"expired": 0, "kicked": 0} | waiting
        assert counts.totals == {"login": 0, "logout": 0, "expired": 0, "kicked": 0, "replaced": 0} | totals
        ends = sum(totals.values()) - totals["login"]
        assert model.opening + totals["login"] - ends == len(model.listed())
        assert counts.as_of == moment(model.now)
        whole = len(model.swept) == model.shards
        assert counts.swept_at == (moment(min(model.swept.values())) if whole else None)
        found: list[Session] = []
        for page in self.pages(None):
            assert (page.total, page.total_is_exact) == (len(live), True)
            found += page.items
        self.are(found, live)
        self.are_by_last_seen(found, None)
        uid = UIDS[self.steps % len(UIDS)]
        self.are(reader.sessions(uid), model.live(uid))
        events = reader.events(after=self.cursor, limit=1000)
        assert Counter((event.kind, event.uid, event.session_id, event.at) for event in events) == Counter(
            (kind, uid, sid, moment(at)) for kind, uid, sid, at in model.news
        )
        model.news.clear()
        if events:
            self.cursor = events[-1].cursor
        for place in range(self.steps, self.steps + 2):
            self.token_agrees(self.issued[place % len(self.issued)] if self.issued else None)
        self.ends_agree(uid)

    def ends_agree(self, uid: str) -> None:
        """Why this user's sessions ended, and whether the user may log in again."""
        model, reader = self.model, self.reader
        waiting = {stay.ref: model.ending(stay) for stay in model.waiting(uid)}
        ends = {ref: end.at for ref, end in waiting.items() if model.keep(end.reason)} | model.ended_of.get(uid, {})
        stays = [model.stays[ref] for ref in ends if ref in model.stays and ref not in model.forsaken]
        # An id listed as lost may have logged in again; its next end is listed instead.
        stays = [stay for stay in stays if stay.end or stay.ref in waiting or model.ending(stay).cause == "revoked"]
        stays.sort(key=lambda stay: (ends[stay.ref], stay.name.encode()), reverse=True)
        answers = reader.ended(uid).items
        assert [ended.ref for ended in answers] == [stay.name for stay in stays]
        for ended, stay in zip(answers, stays, strict=True):
            self.note_reported(ended, stay)
        hold = reader.blocked(uid)
        assert (hold is not None) == model.is_held(uid)
        held = sorted(filter(model.is_held, model.holds), key=lambda uid: (model.holds[uid].at, uid.encode()))
        assert [block.uid for block in reader.blocks()] == held[::-1]

    def searches_agree(self) -> None:
        model, reader, step = self.model, self.reader, self.steps // 2
        moments = sorted(stay.login for stay in model.stays.values()) or [model.now]
        at = moments[step % len(moments)] / 1000
        times = {("logged_in_after", "logged_in_before")[step % 2]: at}
        for asked in (FILTERS[step % len(FILTERS)], times | FILTERS[(step + 7) % len(FILTERS)] if step % 4 else times):
            expected = model.matching(asked)
            found: list[Session] = []
            for page in self.pages(SessionFilter(**asked)):
                found += page.items
                if page.total_is_exact and not model.stale:
                    assert page.total == len(expected), f"the total of {asked}"
            self.are(found, expected)
            self.are_by_last_seen(found, SessionFilter(**asked))
            if not model.stale:
                assert reader.count_sessions(SessionFilter(**asked)) == len(expected)
        field = FACETS[step % len(FACETS)]
        counted: Counter[str] = Counter()
        for stay in model.live():
            facts = model.facts(stay)
            value = facts["attributes"].get(field) if field in DECLARED else facts[field]
            if value is not None:
                counted[str(value)] += 1
        if not any(model.ghosts.values()):
            assert list(reader.facets(field).items()) == sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        wanted = NEEDLES[step % len(NEEDLES)]
        people = model.people_called(wanted)
        answers = [(person.uid, person.name, person.aliases, person.online, person.last_seen, person.sessions)
                   for person in reader.people(wanted)]  # fmt: skip
        order = {facts[0]: key for key, facts in people}
        assert sorted(answers, key=str) == sorted((facts for _, facts in people), key=str)
        assert [order[person[0]] for person in answers] == sorted(order.values(), reverse=True)

    def are_by_last_seen(self, found: list[Session], asked: SessionFilter | None) -> None:
        """The same sessions come in the other order, in pages and from the iterator."""
        expected = sorted(found, key=lambda session: (session.last_seen, session.uid.encode(), session.session_id))[
            ::-1
        ]
        assert [session for page in self.pages(asked, "last_seen") for session in page] == expected
        assert list(self.reader.iter_sessions(asked, order="last_seen", page_size=3)) == expected

    def pages(self, asked: SessionFilter | None, order: ListOrder = "login") -> Iterable[Page[Session]]:
        cursor = None
        while True:
            page = self.reader.list_sessions(asked, order=order, limit=(1000, 2, 4)[self.steps % 3], cursor=cursor)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    def token_agrees(self, issued: Issued | None) -> None:
        """Only the latest token of a live session is valid."""
        if issued:
            stay = self.model.find(issued.uid, issued.sid, issued.token)
            passes = stay is not None and self.model.is_live(stay) and stay.demanded is None
            assert bool(self.reader.validate(issued.token, touch=False)) == passes
