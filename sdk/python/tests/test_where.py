"""The search for the server and the key."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from workspace_sdk._where import Where, find
from workspace_sdk.errors import InvalidRequestError, ServerUnreachableError, UnauthorizedError

LOCAL = "http://127.0.0.1:8080"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[IO[str]]:
    """The record of a server that runs with the data directory `tmp_path`."""
    (tmp_path / "owner.key").write_text("owner\n")
    with (tmp_path / "server.json").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"version": 1, "address": "127.0.0.1:8080", "metrics": "127.0.0.1:9", "pid": 1}, file)
        file.flush()
        yield file


def test_arguments_come_before_the_environment() -> None:
    environment = {"ELEVO_SERVER": "http://b", "ELEVO_API_KEY": "key-b", "ELEVO_DATA": "/nothing"}
    assert find("http://a/", "key-a", environment) == Where("http://a", "key-a")
    assert find(None, None, environment) == Where("http://b", "key-b")


def test_the_names_of_the_document_come_second() -> None:
    old = {"WORKSPACE_API_URL": "http://c", "WORKSPACE_API_KEY": "key-c", "ELEVO_DATA": "/nothing"}
    assert find(None, None, old) == Where("http://c", "key-c")
    new = {"ELEVO_SERVER": "http://b", "ELEVO_API_KEY": "key-b"}
    assert find(None, None, {**old, **new}) == Where("http://b", "key-b")


def test_a_complete_pair_comes_before_one_that_lacks_a_value() -> None:
    old = {"WORKSPACE_API_URL": "http://c", "WORKSPACE_API_KEY": "key-c", "ELEVO_DATA": "/nothing"}
    assert find(None, None, {**old, "ELEVO_API_KEY": "key-b"}) == Where("http://c", "key-c")
    mixed = {"WORKSPACE_API_URL": "http://c", "ELEVO_API_KEY": "key-b", "ELEVO_DATA": "/nothing"}
    assert find(None, None, mixed) == Where("http://c", "key-b")


def test_a_key_loses_the_space_around_it_and_stays_out_of_errors() -> None:
    assert find("http://a", " key-a\n") == Where("http://a", "key-a")
    for key in ("secret\nkey", "geheimnis-ä", "secret key"):
        with pytest.raises(InvalidRequestError) as raised:
            find("http://a", key)
        assert key not in f"{raised.value!r} {raised.value}"
    assert "key-a" not in repr(find("http://a", "key-a"))


def test_an_empty_key_does_not_become_one_of_the_environment() -> None:
    with pytest.raises(UnauthorizedError):
        find("http://a", "", {"ELEVO_API_KEY": "other"})


@pytest.mark.parametrize("url", ["server:8080", "ftp://server", "https://", "http://server:x", "elevo_key"])
def test_an_address_without_a_scheme_or_host_is_rejected_at_once(url: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        find(url, "key")
    assert url not in raised.value.message


def test_a_scheme_in_capitals_is_the_same_scheme() -> None:
    assert find("HTTPS://server/", "key") == Where("https://server", "key")


def test_only_servers_of_this_machine_are_used_without_a_proxy() -> None:
    assert all(Where(f"http://{host}:80", "k").is_on_this_machine for host in ("127.0.0.1", "127.1.2.3", "[::1]"))
    assert not Where("http://127.example.com", "k").is_on_this_machine


@pytest.mark.usefixtures("running")
def test_the_server_of_this_user_comes_last(tmp_path: Path) -> None:
    environment = {"ELEVO_DATA": str(tmp_path)}
    assert find(None, None, environment) == Where(LOCAL, "owner")
    assert find(None, None, {**environment, "ELEVO_API_KEY": "own"}) == Where(LOCAL, "own")
    assert find(f"{LOCAL}/", None, environment) == Where(LOCAL, "owner")


@pytest.mark.usefixtures("running")
def test_the_owners_key_is_not_sent_to_another_server(tmp_path: Path) -> None:
    with pytest.raises(UnauthorizedError, match="no key for the server http://other"):
        find("http://other", None, {"ELEVO_DATA": str(tmp_path)})


def test_a_server_that_was_killed_is_ignored(running: IO[str], tmp_path: Path) -> None:
    fcntl.flock(running, fcntl.LOCK_UN)
    with pytest.raises(ServerUnreachableError, match="elevo up"):
        find(None, None, {"ELEVO_DATA": str(tmp_path)})


def test_the_certificate_of_the_local_server_is_the_only_one_to_trust(running: IO[str], tmp_path: Path) -> None:
    running.seek(0)
    json.dump({"version": 1, "address": "[::1]:8080", "certificate": "/c.pem", "metrics": "", "pid": 1}, running)
    running.truncate()
    running.flush()
    assert find(None, None, {"ELEVO_DATA": str(tmp_path)}) == Where("https://[::1]:8080", "owner", Path("/c.pem"))
