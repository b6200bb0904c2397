#!/usr/bin/env python3
"""Asks a server which scope each route needs, for the reference; with --check, fails if one differs.

The description of the API does not have the scopes. A key without the scope of a route gets an error
that names it, so this sends one request to each route with such a key.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

# The checkout stays free of caches.
sys.dont_write_bytecode = True

from pages import ROOT
from place import TIMEOUT_SECONDS, Place
from reference.rest import SCOPES

_LACKS = re.compile(r"this key lacks the scope `([a-z:]+)`")
_WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Prober:
    """Sends requests to a server that has one resource of each kind."""

    def __init__(self, place: Place, api: dict[str, Any]) -> None:
        self._place = place
        self._schemas = api["components"]["schemas"]
        self._ids = self._create()
        self._keys = {scope: self._key(scope) for scope in self._schemas["Scope"]["enum"]}

    def _create(self) -> dict[str, str]:
        post = self._post
        post("sandboxes", {"name": "main", "template": "tiny"})
        post("projects", {"name": "main"})
        agent = post("agents", {"name": "main"})["id"]
        hook = post("webhooks", {"url": "http://127.0.0.1:1/"})["id"]
        key = post("keys", {"name": "main"})["id"]
        return {"agents": agent, "webhooks": hook, "keys": key, "reviews": self._review()}

    def _review(self) -> str:
        """Creates a review: two workspaces add the same file."""
        names = ("one", "other")
        for name in names:
            self._post("workspaces", {"name": name, "project": "main"})
        for name in names:
            path = f"/api/v1/workspaces/{name}/files?path=page"
            self._send("PUT", path, self._place.key, name.encode(), {"Content-Type": "application/octet-stream"})
            self._post(f"workspaces/{name}/merge", {})
        _, listed = self._send("GET", "/api/v1/reviews", self._place.key, None, {})
        return str(json.loads(listed)["items"][0]["id"])

    def _key(self, scope: str) -> str:
        return str(self._post("keys", {"name": f"only {scope}", "scopes": [scope]})["secret"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        status, text = self._send("POST", f"/api/v1/{path}", self._place.key, json.dumps(body).encode(), {})
        if status >= 300:
            raise SystemExit(f"scopes: POST {path} got {status}: {text}")
        return dict(json.loads(text))

    def _send(self, method: str, path: str, key: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self._place.port, timeout=TIMEOUT_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            # A route may respond with a stream that does not end, or that begins later.
            is_short = response.getheader("content-length") is not None
            return response.status, response.read().decode(errors="replace") if is_short else ""

    def scopes(self, method: str, path: str, operation: dict[str, Any]) -> list[str]:
        """Returns the scopes of which a key needs one; none if any key will do."""
        first = self._lacking("reviews" if "/webhooks" in path else "webhooks", method, path, operation)
        if first is None:
            return []
        # A key with another scope either lacks the first one too, or has a scope that is enough.
        others = [scope for scope in self._keys if scope != first]
        return [first, *(scope for scope in others if self._lacking(scope, method, path, operation) is None)]

    def _lacking(self, scope: str, method: str, path: str, operation: dict[str, Any]) -> str | None:
        """Returns the scope that a key with another scope lacks for a route."""
        _, _, _, resource, *_ = f"{path}///".split("/")
        names = {"id": self._ids.get(resource, "main"), "port": "8080", "step": "1", "event": "1"}
        address = re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], "main"), path)
        needed = [each for each in operation.get("parameters", []) if each.get("required") and each["in"] != "path"]
        query = "&".join(f"{each['name']}={self._example(each['schema'])}" for each in needed if each["in"] == "query")
        headers = {each["name"]: str(self._example(each["schema"])) for each in needed if each["in"] == "header"}
        if path.endswith("/ws"):
            headers |= _WEBSOCKET
        status, text = self._send(
            method, f"{address}?{query}", self._keys[scope], self._body(operation, headers), headers
        )
        if match := _LACKS.search(text):
            return match[1]
        if status == 404 and resource in ("sandboxes", *self._ids):
            raise SystemExit(f"scopes: {method} {address} got {text}; create the resource in scopes.py")
        return None

    def _body(self, operation: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if "requestBody" not in operation:
            return None
        media, content = next(iter(operation["requestBody"]["content"].items()))
        headers["Content-Type"] = media
        return json.dumps(self._example(content.get("schema", {}))).encode() if media == "application/json" else b""

    def _example(self, schema: dict[str, Any]) -> Any:
        """Returns the smallest value of a type."""
        if "$ref" in schema:
            return self._example(self._schemas[schema["$ref"].rsplit("/", 1)[1]])
        for key in ("oneOf", "anyOf", "allOf"):
            if key in schema:
                return self._example(schema[key][0])
        for key in ("enum", "x-extensible-enum"):
            if key in schema:
                return schema[key][0]
        kind = schema.get("type")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                required = schema.get("required", [])
                return {name: self._example(field) for name, field in schema["properties"].items() if name in required}
            case "array":
                return [self._example(schema["items"])]
            case "integer" | "number":
                return max(1, schema.get("minimum", 1))
            case "boolean":
                return False
        return schema.get("example", "x" * max(1, schema.get("minLength", 1)))


def main() -> int:
    """Returns 1 if the scopes differ from those of the reference."""
    parser = argparse.ArgumentParser(description="Asks a server which scope each route needs.")
    parser.add_argument("--check", action="store_true", help="compare with the reference instead of writing it")
    parser.add_argument("--elevo", type=Path, metavar="FILE", help="the program `elevo`; default: the debug build")
    arguments = parser.parse_args()
    elevo = arguments.elevo or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/elevo"
    api = json.loads((ROOT / "openapi/elevo.json").read_text())
    place = Place(elevo.resolve())
    try:
        place.up()
        prober = Prober(place, api)
        found = {
            operation["operationId"]: prober.scopes(method.upper(), path, operation)
            for path, item in api["paths"].items()
            for method, operation in item.items()
        }
    finally:
        place.down()
    lines = [f"  {json.dumps(name)}: {json.dumps(scopes)}" for name, scopes in sorted(found.items())]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if not arguments.check:
        SCOPES.write_text(text)
    elif SCOPES.read_text() != text:
        print("scopes: reference/scopes.json is stale; run docs/book/tools/scopes.py and scripts/book --generate")
        return 1
    print(f"{len(found)} routes, {sum(bool(scopes) for scopes in found.values())} of them need a scope")
    return 0


if __name__ == "__main__":
    sys.exit(main())
