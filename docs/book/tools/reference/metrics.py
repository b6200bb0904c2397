"""The page of the metrics that the server exports."""

from __future__ import annotations

import re
from pathlib import Path

from . import markdown, rust

# The standard metrics of a process, which a library exports.
_PROCESS = {
    "process_cpu_seconds_total": ("counter", "Processor time of the server, in seconds"),
    "process_max_fds": ("gauge", "Limit of open file descriptors"),
    "process_open_fds": ("gauge", "Open file descriptors"),
    "process_resident_memory_bytes": ("gauge", "Resident memory"),
    "process_start_time_seconds": ("gauge", "Start of the server, in seconds since 1970"),
    "process_threads": ("gauge", "Threads"),
    "process_virtual_memory_bytes": ("gauge", "Virtual memory"),
    "process_virtual_memory_max_bytes": ("gauge", "Limit of virtual memory"),
}

_TABLES = {"COUNTERS": "counter", "LABELLED": "counter", "HISTOGRAMS": "histogram", "GAUGES": "gauge"}

_INTRODUCTION = [
    "The metrics that a server exports for Prometheus, at `http://METRICS_HOST:METRICS_PORT/metrics`, by",
    "default `http://127.0.0.1:9090/metrics`. A histogram has the series `_bucket`, `_sum` and `_count`;",
    "durations are in seconds.",
    "[Alerts](../operations/alerts.md) explains the alerts that use the metrics, and",
    "[Running a server](../operations/server.md#metrics-and-traces) how to collect metrics and traces.",
    "",
    "```sh",
    'curl --silent --show-error --fail --output metrics.txt "http://127.0.0.1:$METRICS_PORT/metrics"',
    "```",
    "",
    # The page must have every metric that the server exports.
    "<!-- run: sed -n 's/^# TYPE \\([a-z_]*\\) .*/\\1/p' metrics.txt > names; test -s names -->",
    '<!-- run: for name in $(cat names); do grep -q "^| .$name. |" '
    '"$ELEVO_CHECKOUT/docs/book/src/reference/metrics.md"; done -->',
    "",
]


def pages(root: Path) -> dict[str, str]:
    """Returns the page of the metrics."""
    source = root / "crates/server/src/platform/metrics.rs"
    rows = []
    for table, kind in _TABLES.items():
        for name, meaning in rust.table(source, table):
            labels = ", ".join(f"`{label}`" for label in _labels(source.read_text(), name))
            rows.append([f"`{name}`", kind, labels, markdown.cell(meaning)])
    rows += [[f"`{name}`", kind, "", meaning] for name, (kind, meaning) in _PROCESS.items()]
    rows.sort()
    lines = [*_INTRODUCTION, *markdown.table(["metric", "type", "labels", "meaning"], rows)]
    return {"reference/metrics.md": markdown.page("Metrics", lines)}


def _labels(source: str, name: str) -> list[str]:
    """Returns the labels of a metric, in the order in which the server first uses them."""
    labels: dict[str, None] = {}
    for call in re.finditer(rf'!\(\s*"{name}"([^;]*?)\)\s*\.', source, re.DOTALL):
        labels.update(dict.fromkeys(re.findall(r'"(\w+)" =>', call[1])))
        if "&labels" in call[1]:
            listed = source[source.rindex("let labels = [", 0, call.start()) :].split("];", 1)[0]
            labels.update(dict.fromkeys(re.findall(r'\("(\w+)",', listed)))
    return list(labels)
