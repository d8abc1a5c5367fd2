"""Saved views: the query of a link to the list of sessions, and columns, under a name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from presence_core import SavedItem
from presence_dashboard.data.session_query import MASKED_FACETS
from presence_dashboard.data.store import Reading, Store


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view that can be opened, or that is damaged: then it has no query."""

    name: str
    shared: bool
    by: str
    query: dict[str, str] | None  #: parameters of the address
    columns: tuple[str, ...] = ()

    @classmethod
    def from_item(cls, item: SavedItem) -> SavedView:
        try:
            stored = json.loads(item.text)
            query, columns = stored["query"], stored["columns"]
            if _are_texts(query.keys()) and _are_texts(query.values()) and _are_texts(columns):
                return cls(item.name, item.shared, item.by, query, tuple(columns))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            pass
        return cls(item.name, item.shared, item.by, None)

    @property
    def text(self) -> str:
        return view_text(self.query or {}, self.columns)


def view_text(query: Mapping[str, str], columns: Sequence[str]) -> str:
    return json.dumps({"query": dict(query), "columns": list(columns)}, ensure_ascii=False)


def views_of(store: Store, owner: str, *, names_hidden: bool, fresh: bool = False) -> Reading[tuple[SavedView, ...]]:
    """Own views, the last used first, then shared ones by name.

    names_hidden: without views that search a text, which may be a name, or filter by what is masked.
    """
    reading: Reading[tuple[SavedView, ...]] = store.shared(
        ("views", owner, names_hidden),
        lambda presence: _ordered(presence.saved_items("view", owner=owner), names_hidden),
        fresh=fresh,
    )
    return reading


def _ordered(items: Sequence[SavedItem], names_hidden: bool) -> tuple[SavedView, ...]:
    own = sorted((item for item in items if not item.shared), key=lambda item: item.at, reverse=True)
    views = [SavedView.from_item(item) for item in (*own, *(item for item in items if item.shared))]
    return tuple(view for view in views if not (names_hidden and _is_of_people(view)))


def _is_of_people(view: SavedView) -> bool:
    return any((view.query or {}).get(field) for field in ("q", *MASKED_FACETS))


def _are_texts(values: object) -> bool:
    return not isinstance(values, str) and all(isinstance(value, str) for value in values)  # type: ignore[attr-defined]
