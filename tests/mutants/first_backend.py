"""A pytest plugin: runs each variant of a test only on the first of its backends, so that a mutant is caught sooner."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "xdist_group(name): of pytest-xdist, which is not loaded here")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first: dict[tuple[object, ...], Any] = {}
    kept, dropped = [], []
    for item in items:
        indices = dict(getattr(getattr(item, "callspec", None), "indices", {}))
        backend = indices.pop("bed", None)
        variant = (item.nodeid.partition("[")[0], *indices.items())
        if backend is None or first.setdefault(variant, backend) == backend:
            kept.append(item)
        else:
            dropped.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)
