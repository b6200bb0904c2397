"""The end of the caller's wait: commands are killed, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Stage, eventually

import workspace_sdk
from workspace_sdk import sync as workspace_sdk_sync
from workspace_sdk.errors import RequestTimeoutError, WorkspaceError


@pytest.fixture
async def box(stage: Stage) -> AsyncIterator[workspace_sdk.Sandbox]:
    async with workspace_sdk.WorkspaceClient() as client, await client.sandbox.create(template="base") as sandbox:
        yield sandbox


@pytest.fixture
def sync_box(stage: Stage) -> Iterator[workspace_sdk_sync.Sandbox]:
    with workspace_sdk_sync.WorkspaceClient() as client, client.sandbox.create(template="base") as sandbox:
        yield sandbox


def endless(mark: str) -> str:
    """Returns a command that does not end by itself."""
    return f"echo {mark}; sleep 600; true"


async def until_running(stage: Stage, mark: str) -> None:
    await asyncio.to_thread(stage.wait_for_processes, mark, 1)


async def test_the_cancellation_of_a_task_kills_its_command(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    task = asyncio.ensure_future(box.process.run(endless(mark)))
    await until_running(stage, mark)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stage.processes(mark) == 0


async def test_a_second_cancellation_does_not_stop_the_kill(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    task = asyncio.ensure_future(box.process.run(endless(mark)))
    await until_running(stage, mark)
    stage.send("fault", match="POST .*/kill", kind="delay", ms=300)
    task.cancel()
    await asyncio.to_thread(eventually, lambda: stage.send("hits")["count"] == 1, "the kill is on its way")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stage.processes(mark) == 0


async def test_a_command_whose_start_is_cancelled_is_killed(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    stage.send("fault", match="POST .*/process/run", kind="delay", ms=60_000)
    task = asyncio.ensure_future(box.process.run(endless(mark)))
    await until_running(stage, mark)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stage.processes(mark) == 0


async def test_the_time_limit_of_a_caller_kills_the_command(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    began = asyncio.Event()

    async def on_stdout(text: str) -> None:
        began.set()

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(box.process.run(endless(mark), on_stdout=on_stdout), 5)
    assert began.is_set()
    assert stage.processes(mark) == 0


async def test_an_abandoned_stream_is_closed_and_its_command_killed(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    async for event in box.process.run_stream(endless(mark)):
        if event.type == "stdout":
            break
    gc.collect()
    await asyncio.to_thread(stage.wait_for_processes, mark, 0)


@pytest.mark.parametrize("is_held", [True, False])
async def test_the_end_of_the_client_kills_the_command_of_a_stream(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str, is_held: bool
) -> None:
    held = []
    client = workspace_sdk.WorkspaceClient()
    events = (await client.sandbox.get(box.id)).process.run_stream(endless(mark), timeout=0)
    async for event in events:
        if event.type == "stdout":
            break
    if is_held:
        held.append(events)
    del events
    await client.close()
    await asyncio.to_thread(stage.wait_for_processes, mark, 0)


async def test_the_end_of_the_client_ends_a_command_that_another_task_reads(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    client = workspace_sdk.WorkspaceClient()
    began = asyncio.Event()
    process = (await client.sandbox.get(box.id)).process
    task = asyncio.ensure_future(process.run(endless(mark), on_stdout=lambda _: began.set()))
    await asyncio.wait_for(began.wait(), 60)
    await client.close()
    with pytest.raises(WorkspaceError, match="the client is closed"):
        await task
    assert stage.processes(mark) == 0


def test_the_end_of_the_client_ends_a_command_that_another_thread_reads(
    stage: Stage, sync_box: workspace_sdk_sync.Sandbox, mark: str
) -> None:
    client = workspace_sdk_sync.WorkspaceClient()
    process = client.sandbox.get(sync_box.id).process
    with ThreadPoolExecutor(1) as executor:
        began = threading.Event()
        future = executor.submit(process.run, endless(mark), on_stdout=lambda _: began.set())
        assert began.wait(60)
        client.close()
        with pytest.raises(WorkspaceError, match="the client is closed"):
            future.result()
    assert stage.processes(mark) == 0


async def test_an_error_of_a_callback_kills_the_command(stage: Stage, box: workspace_sdk.Sandbox, mark: str) -> None:
    async def fail(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match=mark):
        await box.process.run(endless(mark), on_stdout=fail)
    assert stage.processes(mark) == 0


async def test_an_error_in_gather_kills_the_commands_of_the_others(
    stage: Stage, box: workspace_sdk.Sandbox, mark: str
) -> None:
    async def run(number: int) -> None:
        if number == 0:
            await until_running(stage, f"{mark}-1")
            raise LookupError
        await box.process.run(endless(f"{mark}-{number}"))

    async with workspace_sdk.WorkspaceClient() as client:
        with pytest.raises(LookupError):
            await client.gather(run, range(3))
    assert stage.processes(mark) == 0


def test_an_error_in_gather_kills_the_commands_of_the_others_in_threads(
    stage: Stage, sync_box: workspace_sdk_sync.Sandbox, mark: str
) -> None:
    def run(number: int) -> None:
        if number == 0:
            stage.wait_for_processes(f"{mark}-1", 1)
            raise LookupError
        sync_box.process.run(endless(f"{mark}-{number}"))

    with workspace_sdk_sync.WorkspaceClient() as client, pytest.raises(LookupError):
        client.gather(run, range(3))
    assert stage.processes(mark) == 0


def test_a_closed_generator_kills_its_command(stage: Stage, sync_box: workspace_sdk_sync.Sandbox, mark: str) -> None:
    events = sync_box.process.run_stream(endless(mark))
    assert [next(events).type, next(events).type] == ["start", "stdout"]
    events.close()
    assert stage.processes(mark) == 0


def test_a_deadline_ends_a_command_that_writes_all_the_time(
    stage: Stage, sync_box: workspace_sdk_sync.Sandbox, mark: str
) -> None:
    seen: list[str] = []
    with pytest.raises(RequestTimeoutError):
        sync_box.process.run(f"echo {mark}; yes; true", deadline=5, max_output_size=1000, on_stdout=seen.append)
    assert seen
    assert stage.processes(mark) == 0


SCRIPTS = {
    "sync": """
from workspace_sdk.sync import WorkspaceClient
with WorkspaceClient() as client, client.sandbox.create(template="base") as box:
    box.process.run({command!r})
""",
    "threads": """
from workspace_sdk.sync import WorkspaceClient
with WorkspaceClient() as client, client.sandbox.create(template="base") as box:
    client.gather(box.process.run, [{command!r}])
""",
    "async": """
import asyncio
from workspace_sdk import WorkspaceClient
async def main():
    async with WorkspaceClient() as client, await client.sandbox.create(template="base") as box:
        await box.process.run({command!r})
asyncio.run(main())
""",
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_an_interrupt_from_the_keyboard_kills_the_command_and_deletes_the_sandbox(
    stage: Stage, mark: str, kind: str
) -> None:
    script = SCRIPTS[kind].format(command=endless(mark))
    program = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    stage.wait_for_processes(mark, 1)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert stage.processes(mark) == 0
    killed = stage.send("seen", match="POST .*/kill")["requests"]
    deleted = stage.send("seen", match="DELETE ")["requests"]
    assert [request["status"] for request in killed] == [204]
    assert [request["status"] for request in deleted] == [204]


def test_streams_and_terminals_leave_no_descriptor_and_no_thread_behind(sync_box: workspace_sdk_sync.Sandbox) -> None:
    def use() -> None:
        sync_box.process.run("true", deadline=60)
        with sync_box.pty.create() as terminal:
            terminal.write("exit\n")
            terminal.wait()
        for _ in sync_box.files.watch():
            break

    use()
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(5):
        use()
    eventually(lambda: threading.active_count() <= threads, "all threads have ended")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors
