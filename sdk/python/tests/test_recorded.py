"""Tests as users write them for their own code: with a recording in place of a server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

import workspace_sdk
from workspace_sdk import CreateSandboxParams
from workspace_sdk import sync as workspace_sdk_sync
from workspace_sdk.errors import CommandExitError, SandboxNotFoundError
from workspace_sdk.testing import UnexpectedRequestError, record, recorded

RECORDINGS = Path(__file__).resolve().parents[2] / "scenarios" / "recorded"


def lines(name: str) -> str:
    return (RECORDINGS / f"{name}.jsonl").read_text()


def greet(client: workspace_sdk_sync.WorkspaceClient) -> tuple[str, str, list[str]]:
    """Code of a user: returns the output of a command, the file that it changed, and the changes."""
    with client.sandbox.create(template="base", name="quickstart") as box:
        box.files.write("hello.txt", "hello\n")
        before = box.snapshot(message="before")
        output = box.process.run("echo world >> hello.txt; cat hello.txt").stdout
        text = box.files.read("hello.txt")
        return output, text, [change.path for change in box.diff(from_=before).changes]


async def best_of_two(client: workspace_sdk.WorkspaceClient) -> str:
    """Code of a user: merges the fork whose command succeeds, and returns the page of the project."""
    site = await client.projects.create(name="site")
    await site.apply(files=[{"path": "index.md", "content": "# Site\n"}])
    box = await client.sandbox.create(CreateSandboxParams("base", name="writer", project="site"))
    forks = (await box.fork(count=2, name="try")).succeeded
    for fork, command in zip(forks, ("exit 1", "echo Welcome. >> index.md"), strict=True):
        if (await fork.process.run(command)).exit_code == 0:
            await fork.merge(message="a welcome")
    page = await site.files.read("index.md")
    for each in (*forks, box, site):
        await each.delete()
    return page


def test_code_with_files_and_commands_runs_with_a_recording() -> None:
    with workspace_sdk_sync.WorkspaceClient(transport=recorded(lines("quickstart"))) as client:
        assert greet(client) == ("hello\nworld\n", "hello\nworld\n", ["hello.txt"])


def test_code_with_forks_and_a_merge_runs_with_a_recording() -> None:
    client = workspace_sdk.WorkspaceClient(transport=recorded(lines("fork-and-merge").splitlines()))
    assert asyncio.run(best_of_two(client)) == "# Site\nWelcome.\n"


def test_commands_on_the_same_path_respond_in_their_order() -> None:
    client = workspace_sdk_sync.WorkspaceClient(transport=recorded(lines("failing-command")))
    box = client.sandbox.create(template="base")
    result = box.process.run("echo 1 test failed >&2; exit 3")
    with pytest.raises(CommandExitError, match="1 test failed"):
        result.check()
    assert [event.data for event in box.process.run_stream("echo passed") if event.type == "stdout"] == ["passed\n"]


def test_a_recorded_error_is_raised() -> None:
    client = workspace_sdk_sync.WorkspaceClient(transport=recorded(lines("error")))
    with pytest.raises(SandboxNotFoundError) as raised:
        client.sandbox.get("nothing")
    assert raised.value.request_id


def test_an_unexpected_request_names_the_next_recorded_one() -> None:
    client = workspace_sdk_sync.WorkspaceClient(transport=recorded(lines("error")))
    expected = r"no request GET /api/v1/me; the next recorded request is GET /api/v1/sandboxes/nothing"
    with pytest.raises(UnexpectedRequestError, match=expected):
        client.me()
    with pytest.raises(SandboxNotFoundError):
        client.sandbox.get("nothing")
    with pytest.raises(UnexpectedRequestError, match="the recording has ended"):
        client.sandbox.get("nothing")


def test_a_recording_of_a_recording_is_the_same() -> None:
    again = record(recorded(lines("quickstart")))
    with workspace_sdk_sync.WorkspaceClient("http://recorded", "key", transport=again) as client:
        first = greet(client)
    with workspace_sdk_sync.WorkspaceClient(transport=recorded(again.lines)) as client:
        assert greet(client) == first


@pytest.mark.usefixtures("stage")
async def test_a_recording_of_a_real_server_responds_as_the_server_did() -> None:
    transport = record(httpx.AsyncHTTPTransport())
    async with workspace_sdk.WorkspaceClient(transport=transport) as client:
        real = await client.info()
    client = workspace_sdk.WorkspaceClient(transport=recorded(transport.lines))
    assert await client.info() == real
