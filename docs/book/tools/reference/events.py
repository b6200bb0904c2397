"""The page of the events, from the description of the API."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

from . import markdown
from .schemas import Types, describe

_INTRODUCTION = [
    "The kinds of events of sandboxes, workspaces, projects and reviews, each with the fields of its `data`.",
    "`elevo events`, [`GET /api/v1/events`](rest/events.md#events_list) and webhooks deliver them; [A walk through the",
    "API](api.md) shows how. The server keeps events for a week by default (`EVENTS_KEEP`).",
    "",
    "An event has these fields:",
    "",
]


def pages(root: Path) -> dict[str, str]:
    """Returns the page of the events."""
    schemas = json.loads((root / "openapi/elevo.json").read_text())["components"]["schemas"]
    types = Types("rest/types.md")
    event = schemas["Event"]
    kinds = event["properties"]["kind"]["x-extensible-enum"]
    lines = [*_INTRODUCTION, *types.fields(event)]
    left = list(kinds)
    for variant in schemas["EventData"]["anyOf"]:
        patterns = re.findall(r"`([^`]+)`", variant["description"])
        matching = [kind for kind in kinds if any(fnmatch.fnmatch(kind, pattern) for pattern in patterns)]
        left = [kind for kind in left if kind not in matching]
        data = schemas[variant["$ref"].rsplit("/", 1)[1]]
        lines += [f"## {', '.join(f'`{pattern}`' for pattern in patterns)}", ""]
        lines += [f"{describe(data)} The kinds are {', '.join(f'`{kind}`' for kind in matching)}.", ""]
        lines += types.fields(data)
    if left:
        raise SystemExit(f"book: no schema in EventData describes {', '.join(left)}; name them in its description")
    return {"reference/events.md": markdown.page("Events", lines)}
