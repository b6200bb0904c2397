"""Runs the scenarios of sdk/scenarios with the async client, or with the sync client.

    scenarios.py [--sync] [NAMES...]

A name is that of a file, or a part of the name of a scenario. The stage, which the README of the scenarios
describes, starts the server and this program.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from scenario_values import Mismatch, find, insert, match, matches, python_options, read, short, snake

import workspace_sdk
import workspace_sdk.errors
import workspace_sdk.sync
from workspace_sdk import CreateSandboxParams, WorkspaceError

PATIENCE = 60.0


class AsyncDriver:
    """Calls the async client, in an event loop of its own thread."""

    name = "python"
    package: Any = workspace_sdk

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a function in the loop, and waits for its result."""

        async def run() -> Any:
            result = function(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def iterate(self, items: Any) -> Iterator[Any]:
        """Yields the items of an async iterator, and closes it."""
        iterator = self.call(aiter, items)
        try:
            while True:
                try:
                    yield self.call(anext, iterator)
                except StopAsyncIteration:
                    return
        finally:
            if hasattr(iterator, "aclose"):
                self.call(iterator.aclose)

    def callback(self, function: Callable[[Any], None]) -> Callable[[Any], Any]:
        """Returns a coroutine function for a callback."""

        async def run(argument: Any) -> None:
            await asyncio.get_running_loop().run_in_executor(None, function, argument)

        return run


class SyncDriver:
    """Calls the sync client."""

    name = "sync"
    package: Any = workspace_sdk.sync

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a function. A list is its first page, as if it were awaited."""
        result = function(*args, **options)
        return result.page() if isinstance(result, workspace_sdk.sync.Pages) else result

    def iterate(self, items: Any) -> Iterator[Any]:
        """Yields the items of an iterator, and closes it."""
        iterator = iter(items)
        try:
            yield from iterator
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    def callback(self, function: Callable[[Any], None]) -> Callable[[Any], Any]:
        """Returns the callback."""
        return function


Driver = AsyncDriver | SyncDriver


def stage(command: str, body: Any) -> Any:
    """Sends a request to the stage, and returns the response."""
    request = urllib.request.Request(
        f"{os.environ['ELEVO_STAGE']}/{command}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


class Scenario:
    """One scenario and its variables."""

    def __init__(self, driver: Driver, description: dict[str, Any], scratch: str) -> None:
        self._driver = driver
        self._description = description
        self._created: list[Any] = []
        self._clients: list[Any] = []
        unique = f"s{uuid.uuid4().hex[:10]}"
        self._globals = {"unique": unique, "scratch": scratch, "client": self._new_client({}), "sdk": driver.package}

    def run(self) -> None:
        """Runs all steps, and then those that always run. Raises the error of the first that fails."""
        stage("scenario", {"name": self._description["name"]})
        try:
            self._steps(self._description["steps"], self._globals)
        finally:
            try:
                self._steps(self._description.get("always", {}).get("steps", []), self._globals)
            finally:
                self._clean_up()

    def _clean_up(self) -> None:
        stage("clear", {})
        client = self._globals["client"]
        services = {"Sandbox": client.sandbox, "Workspace": client.workspaces, "Project": client.projects}
        for item in reversed(self._created):
            try:
                self._driver.call(services[type(item).__name__].delete, item.id)
            except workspace_sdk.errors.NotFoundError:
                continue
        for client in self._clients:
            self._driver.call(client.close)

    def _new_client(self, options: dict[str, Any]) -> Any:
        names = {"server": "api_url", "key": "api_key"}
        arguments = {names.get(name, name): value for name, value in python_options(options).items()}
        client = self._driver.call(self._driver.package.WorkspaceClient, **arguments)
        self._clients.append(client)
        return client

    def _steps(self, steps: list[dict[str, Any]], variables: dict[str, Any]) -> None:
        for number, step in enumerate(steps, 1):
            if self._driver.name not in step.get("only", [self._driver.name]):
                continue
            try:
                self._step(step, variables)
            except Exception as error:
                error.add_note(f"in step {number}: {short(step)}") if hasattr(error, "add_note") else None
                raise

    def _step(self, step: dict[str, Any], variables: dict[str, Any]) -> None:
        if "repeat" in step:
            return self._repeat(step, variables)
        if "eventually" in step:
            return self._eventually(step["eventually"]["steps"], variables)
        try:
            value = self._value(step, variables)
        except WorkspaceError as error:
            if "error" not in step:
                raise
            return self._check_error(error, insert(step["error"], variables))
        if "error" in step:
            raise Mismatch(f"the step raises no error, but has the value {short(value)}")
        if "as" in step:
            variables[step["as"]] = value
        if "expect" in step:
            match(value, insert(step["expect"], variables))
        return None

    def _check_error(self, error: WorkspaceError, expected: dict[str, Any]) -> None:
        kind = getattr(workspace_sdk.errors, expected.get("class", "WorkspaceError"))
        if not isinstance(error, kind):
            raise Mismatch(f"the error is {error!r}, not {kind.__name__}") from error
        match(error, {name: value for name, value in expected.items() if name != "class"}, "the error")
        if error.code and error.status:
            match(error, {"message": "$any", "remediation": "~.", "requestId": "~^req-"}, "the error")

    def _value(self, step: dict[str, Any], variables: dict[str, Any]) -> Any:
        """Carries out a step, and returns its value."""
        if "get" in step:
            return find(step["get"], variables)
        if "stage" in step:
            ((command, body),) = step["stage"].items()
            return stage(command, insert(body, variables))
        if "client" in step:
            return self._new_client(insert(step["client"], variables))
        if "await" in step:
            return variables[step["await"]].result()
        if "stream" in step:
            return self._stream(step, variables)
        if "start" in step:
            return self._start(step, variables)
        return self._call(step["call"], step, variables)

    def _arguments(self, step: dict[str, Any], variables: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        args = insert(step.get("args", []), variables)
        options = python_options(insert(step.get("options", {}), variables))
        if "callback" in step:
            # The parameters before a callback are those of a new sandbox.
            args[-1] = CreateSandboxParams(**python_options(args[-1]))
            args.append(self._driver.callback(lambda value: self._call_back(step["callback"], value, variables)))
        return args, options

    def _call_back(self, callback: dict[str, Any], value: Any, variables: dict[str, Any]) -> None:
        variables[callback["as"]] = value
        self._steps(callback["steps"], variables)

    def _call(self, path: str, step: dict[str, Any], variables: dict[str, Any]) -> Any:
        args, options = self._arguments(step, variables)
        owner, _, method = path.rpartition(".")
        value = self._driver.call(getattr(find(owner, variables), snake(method)), *args, **options)
        self._keep(value)
        return value

    def _keep(self, value: Any) -> None:
        """Remembers an object that a call has created, to delete it at the end."""
        package = self._driver.package
        for item in getattr(value, "succeeded", [value]):
            if isinstance(item, package.Sandbox | package.Workspace | package.Project) and item not in self._created:
                self._created.append(item)

    def _start(self, step: dict[str, Any], variables: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(self._call(step["start"], step, variables))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    def _stream(self, step: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        args, options = self._arguments(step, variables)
        owner, _, method = step["stream"].rpartition(".")
        source = getattr(find(owner, variables), snake(method)) if owner else find(method, variables)
        # A list must not be awaited, so its method is called directly.
        items = source(*args, **options) if callable(source) else source
        collected = Collected()
        waiting = step.get("each")
        iterator = self._driver.iterate(items)
        try:
            for item in iterator:
                seen = collected.add(item)
                if waiting and matches(seen, insert(waiting["when"], variables)):
                    steps, waiting = waiting["steps"], None
                    self._steps(steps, variables)
                if "until" in step and matches(seen, insert(step["until"], variables)):
                    break
        finally:
            iterator.close()
        return collected.value()

    def _repeat(self, step: dict[str, Any], variables: dict[str, Any]) -> None:
        if not step.get("parallel"):
            for index in range(step["repeat"]):
                variables["index"] = index
                self._steps(step["steps"], variables)
            return
        with ThreadPoolExecutor(step["repeat"]) as executor:
            tasks = [
                executor.submit(self._steps, step["steps"], {**variables, "index": index})
                for index in range(step["repeat"])
            ]
            for task in tasks:
                task.result()

    def _eventually(self, steps: list[dict[str, Any]], variables: dict[str, Any]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self._steps(steps, variables)
            except (Mismatch, WorkspaceError):
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)


class Collected:
    """The items of a stream."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._output = {"stdout": b"", "stderr": b""}

    def add(self, item: Any) -> Any:
        """Adds an item, and returns what `until` and `when` match: the item, or all text so far."""
        self._items.append(item)
        if isinstance(item, bytes):
            self._output["stdout"] += item
            return self._output["stdout"].decode("utf-8", "replace")
        kind = getattr(item, "type", None)
        if kind in self._output:
            self._output[kind] += item.raw
        return item

    def value(self) -> dict[str, Any]:
        """Returns the items and what they have in common."""
        kinds = [getattr(item, "type", getattr(item, "kind", None)) for item in self._items]
        codes = [read(item, "exitCode") for item in self._items if getattr(item, "type", None) == "exit"]
        texts = {name: data.decode("utf-8", "replace") for name, data in self._output.items()}
        counts = {"gaps": kinds.count("gap"), "count": len(self._items)}
        return {"items": self._items, "exitCode": codes[0] if codes else None, **texts, **counts}


def scenarios(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the file and the description of each scenario that has one of the names."""
    for path in sorted(Path(os.environ["ELEVO_SCENARIOS"]).glob("*.yaml")):
        for description in yaml.safe_load_all(path.read_text()):
            if not names or path.stem in names or any(name in description["name"] for name in names):
                yield path.stem, description


def run_one(driver: Driver, description: dict[str, Any]) -> BaseException | None:
    """Runs a scenario, and returns its error."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            Scenario(driver, description, scratch).run()
        except Exception as error:
            return error
    return None


def main() -> int:
    """Runs the scenarios, and returns 1 if one failed."""
    parser = argparse.ArgumentParser(description="Runs the scenarios with the Python client.")
    parser.add_argument("--sync", action="store_true", help="use the sync client")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file, or a part of the name of a scenario")
    arguments = parser.parse_args()
    driver: Driver = SyncDriver() if arguments.sync else AsyncDriver()
    count = failed = 0
    for file, description in scenarios(arguments.names):
        began = time.monotonic()
        error = run_one(driver, description)
        count += 1
        failed += error is not None
        result = "ok" if error is None else "FAILED"
        print(f"{result} {time.monotonic() - began:5.1f} s  {file}: {description['name']}", flush=True)
        if error is not None:
            traceback.print_exception(error, limit=-4)
    print(f"{count - failed} of {count} scenarios passed with the {driver.name} client")
    return int(failed > 0 or count == 0)


if __name__ == "__main__":
    sys.exit(main())
