"""The pages of the REST API, from its description: an overview, a page for each tag, and the types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import markdown
from .schemas import Types, describe, needed

_METHODS = ("get", "put", "post", "patch", "delete", "head")

# The scopes of each operation, which scopes.py asks a server for.
SCOPES = Path(__file__).parent / "scopes.json"

# Titles of the pages whose tag is not one.
_TITLES = {"process": "Processes", "pty": "Terminals", "keys": "Keys and agents", "events": "Events and webhooks"}

Operation = dict[str, Any]


def pages(root: Path) -> dict[str, str]:
    """Returns the pages of the API."""
    api = json.loads((root / "openapi/elevo.json").read_text())
    found = {"reference/rest.md": _overview(api), "reference/rest/types.md": _types(api)}
    for tag in api["tags"]:
        found[f"reference/rest/{tag['name']}.md"] = _tag(api, tag)
    return found


def _operations(api: dict[str, Any], tag: str) -> Iterator[tuple[str, str, Operation]]:
    for path, item in api["paths"].items():
        for method in _METHODS:
            if method in item and tag in item[method].get("tags", []):
                yield method.upper(), path, item[method]


def _title(tag: str) -> str:
    return _TITLES.get(tag, tag.capitalize())


def _overview(api: dict[str, Any]) -> str:
    lines = [
        markdown.text(api["info"]["description"].replace("Errors: docs/errors.md.", "")),
        "",
        "[A walk through the API](api.md) shows requests with their responses. A request needs a key",
        "(`Authorization: Bearer KEY` or `X-API-Key: KEY`); [`elevo key create`](commands/key.md) creates one.",
        "A key has scopes, and most routes need one; a request without it fails with `FORBIDDEN`, which names it. A",
        "failed request has a status of 4xx or 5xx and an [ErrorEnvelope](rest/types.md#errorenvelope) as its body;",
        "[Errors](errors.md) lists all codes. The server has the whole description, as OpenAPI, at `/openapi.json`.",
        "",
        "## Headers of responses",
        "",
        *markdown.table(["header", ""], _headers(api)),
    ]
    for tag in api["tags"]:
        name = tag["name"]
        rows = [
            [f"`{method}`", f"[`{path}`](rest/{name}.md#{each['operationId']})", markdown.cell(each["summary"])]
            for method, path, each in _operations(api, name)
        ]
        lines += [f"## {_title(name)}", "", f"{markdown.text(tag['description'])}.", ""]
        lines += markdown.table(["", "path", ""], rows)
    return markdown.page("REST API", lines)


def _headers(api: dict[str, Any]) -> list[list[str]]:
    headers: dict[str, str] = {}
    for tag in api["tags"]:
        for _, _, operation in _operations(api, tag["name"]):
            for response in operation["responses"].values():
                for name, header in response.get("headers", {}).items():
                    headers.setdefault(name, header.get("description", ""))
    return [[f"`{name}`", markdown.cell(text)] for name, text in sorted(headers.items())]


def _types(api: dict[str, Any]) -> str:
    types = Types("")
    lines = [
        "The types of bodies and responses. A field that is not required may be absent.",
        "A client must accept fields and values that it does not know.",
        "",
    ]
    for name, schema in sorted(api["components"]["schemas"].items()):
        lines += types.definition(name, schema)
    return markdown.page("Types", lines)


def _tag(api: dict[str, Any], tag: dict[str, str]) -> str:
    types = Types("types.md")
    lines = [f"{markdown.text(tag['description'])}.", ""]
    for method, path, operation in _operations(api, tag["name"]):
        lines += _operation(api, types, method, path, operation)
    return markdown.page(_title(tag["name"]), lines)


def _operation(api: dict[str, Any], types: Types, method: str, path: str, operation: Operation) -> list[str]:
    name = operation["operationId"]
    lines = [f"## {markdown.text(operation['summary'])} {{#{name}}}", "", f"`{method} {path}`{_scope(name)}", ""]
    if description := operation.get("description"):
        lines += [markdown.text(description), ""]
    if rows := [_parameter(types, each) for each in operation.get("parameters", [])]:
        lines += markdown.table(["parameter", "in", "type", ""], rows)
    lines += _body(api, types, operation)
    lines += ["Response:", "", *markdown.table(["status", "body", ""], _responses(types, operation))]
    return lines


def _scope(name: str) -> str:
    scopes = json.loads(SCOPES.read_text()).get(name, [])
    return f", scope {' or '.join(f'`{scope}`' for scope in scopes)}" if scopes else ""


def _parameter(types: Types, parameter: dict[str, Any]) -> list[str]:
    kind = types.words(parameter["schema"]) + needed(parameter.get("required", False))
    about = describe({**parameter["schema"], "description": parameter.get("description", "")})
    return [f"`{parameter['name']}`", parameter["in"], kind, about]


def _body(api: dict[str, Any], types: Types, operation: Operation) -> list[str]:
    body = operation.get("requestBody")
    if not body:
        return []
    lines = []
    for media, content in body["content"].items():
        schema = content.get("schema", {})
        lines += [f"Body, `{media}`{needed(body.get('required', False))}: {types.words(schema)}", ""]
        if reference := schema.get("$ref"):
            lines += types.fields(api["components"]["schemas"][reference.rsplit("/", 1)[1]])
    return lines


def _responses(types: Types, operation: Operation) -> Iterator[list[str]]:
    for status, response in operation["responses"].items():
        if "$ref" in response:
            continue
        bodies = [
            f"{types.words(content['schema'].get('contentSchema', content['schema']))}, `{media}`"
            for media, content in response.get("content", {}).items()
        ]
        yield [f"`{status}`", "; ".join(bodies), markdown.cell(response.get("description", ""))]
    yield ["`4xx`, `5xx`", "[ErrorEnvelope](types.md#errorenvelope)", "An [error](../errors.md)"]
