"""The API reference at /docs: one plain page, made from the OpenAPI schema, which loads no other file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

from fastapi import FastAPI, Response

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
:root { color-scheme: light dark }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8888 }
h3 { font: 600 15px ui-monospace, monospace; margin: 1.8rem 0 0 }
table { border-collapse: collapse }
td { padding: .1rem 1rem .1rem 0; vertical-align: top }
td:first-child { font-family: ui-monospace, monospace }
small { opacity: .7; font-weight: 400 }
"""

_HEADERS: Final = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


def add_docs(app: FastAPI) -> None:
    """Serve /docs."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response("".join(_page(app.openapi())), 200, _HEADERS, "text/html")


def _page(schema: dict[str, Any]) -> Iterator[str]:
    info = schema["info"]
    title, version = escape(info["title"]), escape(info["version"])
    yield f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
    yield f"<h1>{title} <small>{version}</small></h1><p>{escape(info['description'])}</p>"
    yield "<p>For programs: <a href=openapi.json>openapi.json</a>"
    section = ""
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if operation.get("tags", [""])[0] != section:
                section = operation["tags"][0]
                yield f"<h2>{escape(section)}</h2>"
            scopes = scopes_of(operation)
            note = f" <small>scope {escape(', '.join(scopes))}</small>" if scopes else ""
            yield f"<h3>{method.upper()} {escape(path)}{note}</h3><p>{escape(operation.get('description', ''))}</p>"
            yield from _table(rows_of(schema, operation))


def scopes_of(operation: dict[str, Any]) -> list[str]:
    """The scopes of an API key that an operation of the schema needs."""
    return [scope for scheme in operation.get("security", ()) for scopes in scheme.values() for scope in scopes]


def rows_of(schema: dict[str, Any], operation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, kind and description of each parameter and body field."""
    for parameter in operation.get("parameters", ()):
        shape, optional = parameter["schema"], "" if parameter.get("required") else ", optional"
        description = parameter.get("description") or shape.get("description", "")
        yield parameter["name"], f"{parameter['in']}, {_type_name(shape)}{optional}", description
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    model = schema["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], body)
    for name, shape in model.get("properties", {}).items():
        optional = "" if name in model.get("required", ()) else ", optional"
        yield name, f"body, {_type_name(shape)}{optional}", shape.get("description", "")


def _type_name(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type_name(choice) for choice in schema["anyOf"] if choice.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_type_name(schema['items'])}"
    return str(schema.get("type", "any"))


def _table(rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    yield "<table>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}" for cell in row)
    yield "</table>"
