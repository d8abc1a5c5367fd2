"""The texts that the catalogues translate. `make catalogues` gives ``extract_texts`` to Babel; tests compare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import IO, Any

Ids = str | tuple[str, ...]

FUNCTIONS = {"_": {1}, "gettext": {1}, "ngettext": {2}, "Sentence": {1}, "Counted": {2}, "Form": {1, 2}}
"""Function → how many of its arguments are texts."""


def extract_texts(
    file: IO[bytes], _keywords: object, _comment_tags: object, options: dict[str, Any]
) -> Iterator[tuple[int, str | None, Ids, list[str]]]:
    """An extraction method of Babel: line, function, text, comments.

    With the option ``constants``, a string in a constant of the module is a text too, if it has a letter and is no key.
    A command or an example is in a constant with a name that ends with ``_CODE``.
    """
    tree = ast.parse(file.read())
    if options.get("constants"):
        for constant in tree.body:
            if isinstance(constant, ast.AnnAssign) and not ast.unparse(constant.target).endswith("_CODE"):
                yield from ((text.lineno, None, str(text.value), []) for text in _strings(constant.value))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        given = [text.value for text in call.args if isinstance(text, ast.Constant) and isinstance(text.value, str)]
        if name in FUNCTIONS and given:
            assert len(given) in FUNCTIONS[name], f"line {call.lineno}"
            keyword = "gettext" if len(given) == 1 else "ngettext"  # a name that Babel knows
            yield call.lineno, keyword, given[0] if len(given) == 1 else tuple(given), []


def _strings(node: ast.AST | None) -> Iterator[ast.Constant]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and any(map(str.isalpha, node.value)):
        yield node
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _strings(value)
    elif isinstance(node, ast.Tuple):
        for value in node.elts:
            yield from _strings(value)
