"""The codes of InvalidArgument: each has its rule and is used."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from presence_core import InvalidArgument, InvalidCode
from presence_core.schema.refusals import RULES

ROOT = Path(__file__).parents[3]
CODES = set(get_args(InvalidCode))
TAKES_A_CODE = {"InvalidArgument", "plain_text", "short", "lines"}


def _given_codes(tree: ast.AST) -> Iterator[str]:
    """The codes that calls give as an argument, and those that a variable of this type may have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            parts: list[ast.expr] = list(node.args[2:]) if name in TAKES_A_CODE else []
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "InvalidCode" and node.value:
            parts = [node.value]
        else:
            continue
        for part in parts:
            texts = [inner.value for inner in ast.walk(part) if isinstance(inner, ast.Constant)]
            yield from (text for text in texts if isinstance(text, str) and text in CODES)


def test_every_code_has_a_rule_and_is_raised_somewhere() -> None:
    assert set(RULES) == CODES
    used = {"invalid"}  # the default
    for folder in ("presence_core", "presence_dashboard"):
        for path in (ROOT / folder).rglob("*.py"):
            used.update(_given_codes(ast.parse(path.read_text("utf-8"))))
    assert CODES - used == set()


def test_a_refusal_keeps_its_code_in_another_process_and_has_one_without_being_given_one() -> None:
    error = InvalidArgument("name", "must not be the last admin", "last_admin")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (other.field, other.rule, other.code, str(other)) == (error.field, error.rule, error.code, str(error))
    assert InvalidArgument("name", "is wrong").code == "invalid"
