"""Fixtures that run the ``presence`` command: in this process with ``run``, or as a program with ``environ``."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from presence_core import cli
from tests.conftest import Bed
from tests.support.server_line import without_server_line

ROOT = Path(__file__).parents[2]

Run = Callable[..., tuple[int, str, str]]
"""Runs a command; returns its exit code, standard output and standard error."""


def without_times(text: str) -> str:
    """The text with the word TIME for each date and time of day."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)


def table_of(text: str) -> list[list[str]]:
    """The rows of a printed table. Columns are separated by two or more spaces; times read TIME."""
    return [re.split(r" {2,}", line) for line in without_times(text).splitlines()]


@pytest.fixture
def environ(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment in which the command finds the server and the namespace of this test."""
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    return dict(os.environ)


@pytest.fixture
def run(environ: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Standard error without the line that names the server."""

    def run(*words: str | Path, typed: str | bytes = "") -> tuple[int, str, str]:
        raw = typed if isinstance(typed, bytes) else typed.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        code = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, without_server_line(captured.err)

    return run
