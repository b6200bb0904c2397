"""Recordings of exchanges, from which fake transports of the SDKs answer."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from .messages import Head

# Headers that clients use. Others differ from run to run.
KEPT = ("content-type", "content-range", "etag", "retry-after", "idempotency-replayed", "x-request-id")
SECRET_FIELDS = ("secret", "ticket")
SECRET_QUERY = re.compile(r"((?:ticket|elevo-link)=)[^&\"\s]+")


class Recording:
    """A file with one exchange in each line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def add(self, request: Head, sent: list[bytes], response: Head, received: list[bytes]) -> None:
        """Adds an exchange. An upgraded connection, such as a terminal, is left out."""
        if response.status == 101:
            return
        headers = {name: value for name, value in response.headers if name in KEPT}
        line = {
            "request": {
                "method": request.first[0],
                "path": SECRET_QUERY.sub(r"\1removed", request.first[1]),
                **_body(b"".join(sent), request.get("content-type")),
            },
            "response": {
                "status": response.status,
                "headers": headers,
                **_body(b"".join(received), response.get("content-type")),
            },
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _body(data: bytes, kind: str | None) -> dict[str, Any]:
    if not data:
        return {}
    if (kind or "").startswith("application/json"):
        return {"body": {"json": _without_secrets(json.loads(data))}}
    try:
        return {"body": {"text": SECRET_QUERY.sub(r"\1removed", data.decode())}}
    except UnicodeDecodeError:
        return {"body": {"base64": base64.b64encode(data).decode()}}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "removed" if key in SECRET_FIELDS and isinstance(item, str) else _without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return SECRET_QUERY.sub(r"\1removed", value) if isinstance(value, str) else value
