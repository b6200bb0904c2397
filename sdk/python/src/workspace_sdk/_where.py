"""Finds the server and the key: arguments, environment, or the server that `elevo up` started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ._errors import InvalidRequestError, ServerUnreachableError, WorkspaceError

VARIABLES = (("ELEVO_SERVER", "ELEVO_API_KEY"), ("WORKSPACE_API_URL", "WORKSPACE_API_KEY"))


@dataclass(frozen=True)
class Where:
    """A server and the key for it."""

    url: str
    key: str = field(repr=False)
    certificate: Path | None = None
    """The only certificate to trust; `None` for those of the system."""
    is_found: bool = field(default=False, compare=False)
    """Whether the address is that of the record of `elevo up`; a restarted server may have another one."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the server runs on this machine, so that no proxy leads to it."""
        host = urlsplit(self.url).hostname or ""
        return host in ("::1", "localhost") or re.fullmatch(r"127(\.\d+){3}", host) is not None


RECORDED = Where("http://recorded", "recorded")
"""In place of a server, for a client that responds from a recording."""


@dataclass(frozen=True)
class _Local:
    url: str
    key: str | None
    certificate: Path | None


def find(api_url: str | None = None, api_key: str | None = None, environment: Mapping[str, str] = os.environ) -> Where:
    """Returns the server and the key. Raises an error that says what is missing."""
    named_url, named_key = _of_environment(environment)
    local = _local(_data_directory(environment))
    given = api_url or named_url
    url = _checked_url(given) if given else local.url if local else ""
    if not url:
        raise ServerUnreachableError(
            "there is no address of a server, and no server of `elevo up` runs for this user",
            remediation="Start one with `elevo up`, or set `api_url` or ELEVO_SERVER.",
        )
    # The key of the owner must not be sent to any other server.
    own = local if local and local.url == url else None
    key = named_key or (own.key if own else None) if api_key is None else api_key
    if not key:
        raise _no_key(url)
    return Where(url, _checked_key(key), own.certificate if own else None, is_found=not given)


def _checked_url(url: str) -> str:
    """Returns an address without a slash at its end and with a scheme in lower case."""
    scheme, _, rest = url.strip().rstrip("/").partition("://")
    try:
        parts = urlsplit(f"//{rest}")
        is_valid = scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        # The message has no address, because the caller may have passed a key as one.
        raise InvalidRequestError(
            "the address of the server is not valid",
            remediation="Set `api_url` or ELEVO_SERVER to one such as https://elevo.example.com.",
        )
    return f"{scheme.lower()}://{rest}"


def _checked_key(key: str) -> str:
    """Returns a key without the space around it. The error does not contain the key."""
    key = key.strip()
    if not key or not all("!" <= character <= "~" for character in key):
        raise InvalidRequestError(
            "the key has characters that no key has", remediation="Check `api_key` or ELEVO_API_KEY."
        )
    return key


def _no_key(url: str) -> WorkspaceError:
    from ._generated.errors import UnauthorizedError

    return UnauthorizedError(
        f"there is no key for the server {url}",
        remediation="Set `api_key` or ELEVO_API_KEY; `elevo key create` creates a key.",
    )


def _of_environment(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Returns the first complete pair of variables, else each value of the first variable that has it."""
    pairs = [(environment.get(server) or None, environment.get(key) or None) for server, key in VARIABLES]
    for pair in pairs:
        if all(pair):
            return pair
    urls, keys = zip(*pairs, strict=True)
    return next(filter(None, urls), None), next(filter(None, keys), None)


def _data_directory(environment: Mapping[str, str]) -> Path:
    """Returns the data directory that `elevo up` uses for this user."""
    if environment.get("ELEVO_DATA"):
        return Path(environment["ELEVO_DATA"])
    system = Path("/var/lib/elevo")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return system
    data, home = (Path(environment.get(name, "")) for name in ("XDG_DATA_HOME", "HOME"))
    if data.is_absolute():
        return data / "elevo"
    return home / ".local/share/elevo" if home.is_absolute() else system


def _local(directory: Path) -> _Local | None:
    """Returns the server that runs with a data directory."""
    try:
        with (directory / "server.json").open("rb") as file:
            if not _is_locked(file.fileno()):
                return None
            record = json.loads(file.read(16 << 10))
        address, certificate = str(record["address"]), record.get("certificate")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    scheme = "https" if certificate else "http"
    return _Local(f"{scheme}://{address}", _owner_key(directory), Path(certificate) if certificate else None)


def _is_locked(descriptor: int) -> bool:
    """Tells whether a server holds the lock of its record. A server that was killed leaves the record behind."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _owner_key(directory: Path) -> str | None:
    try:
        return (directory / "owner.key").read_text().strip() or None
    except OSError:
        return None
