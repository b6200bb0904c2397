"""Terminals that end, are closed, or are not read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from conftest import Stage

import workspace_sdk
from workspace_sdk._async import pty
from workspace_sdk.errors import WorkspaceError


@pytest.fixture
async def box(stage: Stage) -> AsyncIterator[workspace_sdk.Sandbox]:
    async with workspace_sdk.WorkspaceClient() as client, await client.sandbox.create(template="base") as sandbox:
        yield sandbox


async def test_input_after_the_end_is_an_error(box: workspace_sdk.Sandbox) -> None:
    async with await box.pty.create() as terminal:
        await terminal.write("exit 3\n")
        assert (await terminal.wait()).exit_code == 3
        with pytest.raises(WorkspaceError, match="has ended"):
            await terminal.write("x")


async def test_input_after_close_is_an_error(box: workspace_sdk.Sandbox) -> None:
    async with await box.pty.create() as terminal:
        await terminal.close()
        with pytest.raises(WorkspaceError, match="was closed"):
            await terminal.write("x")


async def test_the_error_of_a_block_is_not_replaced_by_that_of_the_kill(box: workspace_sdk.Sandbox) -> None:
    async def kill() -> None:
        raise WorkspaceError("the kill has failed")

    async def use() -> None:
        async with await box.pty.create() as terminal:
            terminal.kill = kill  # type: ignore[method-assign]
            raise LookupError

    with pytest.raises(LookupError):
        await use()


async def test_the_end_of_the_client_disconnects_terminals(stage: Stage, box: workspace_sdk.Sandbox) -> None:
    client = workspace_sdk.WorkspaceClient()
    terminal = await (await client.sandbox.get(box.id)).pty.create()
    waiting = asyncio.ensure_future(terminal.wait())
    await client.close()
    with pytest.raises(WorkspaceError):
        await waiting


async def test_output_that_no_caller_reads_is_limited(
    box: workspace_sdk.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pty, "MAX_OUTPUT", 100_000)
    async with await box.pty.create() as terminal:
        await terminal.write("head -c 3000000 /dev/zero; echo LAST; exit\n")
        await terminal.wait()
        output = b"".join([data async for data in terminal])
    assert len(output) <= 100_000
    assert b"LAST" in output


async def test_the_key_is_not_logged(box: workspace_sdk.Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with await box.pty.create() as terminal:
            await terminal.write("exit\n")
            await terminal.wait()
    assert "Bearer" not in caplog.text
