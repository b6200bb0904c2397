#!/usr/bin/env python3
"""Runs a command with a real server, a proxy that injects faults, and the control of both.

    stage.py [--direct] [--record FILE] -- COMMAND...

The README of this directory describes the environment of the command and the control.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

# The checkout stays free of caches.
sys.dont_write_bytecode = True

from stage_parts.control import Control
from stage_parts.proxy import Proxy
from stage_parts.recording import Recording
from stage_parts.server import Server, free_port


def main() -> int:
    """Returns the exit code of the command."""
    parser = argparse.ArgumentParser(description="Runs a command with a real server and injected faults.")
    parser.add_argument("--direct", action="store_true", help="give the command the server without the proxy")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write each exchange to FILE as a line of JSON")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the command, after --")
    arguments = parser.parse_args()
    server = Server()
    try:
        return asyncio.run(run(server, arguments))
    finally:
        server.remove()


async def run(server: Server, arguments: argparse.Namespace) -> int:
    """Runs the command between the start and the end of the server."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await server.start()
        await server.add_templates()
        proxy = Proxy(free_port(), server.port, Recording(arguments.record) if arguments.record else None)
        await proxy.listen()
        control = Control(server, proxy)
        await control.listen()
        url = server.url if arguments.direct else f"http://127.0.0.1:{proxy.port}"
        variables = {
            "ELEVO_SERVER": url,
            "ELEVO_API_KEY": server.key,
            "ELEVO_STAGE": control.url,
            "ELEVO_SCENARIOS": str(Path(__file__).resolve().parent),
            "ELEVO_PAGE_PORT": str(server.page_port),
        }
        return await run_command(arguments.command, variables, stopped)
    finally:
        # A second signal does not interrupt the cleaning up.
        await server.stop(signal.SIGKILL)
        for error in server.errors():
            print(f"stage: the server logged: {error}", file=sys.stderr)


async def run_command(command: list[str], variables: dict[str, str], stopped: asyncio.Event) -> int:
    """Runs the command until it ends, or until a signal stops the stage."""
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **variables})
    except OSError as error:
        print(f"stage: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    ended = asyncio.create_task(process.wait())
    interrupted = asyncio.create_task(stopped.wait())
    await asyncio.wait([ended, interrupted], return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        process.terminate()
        await asyncio.wait([ended], timeout=10)
    if not ended.done():
        process.kill()
        await ended
    interrupted.cancel()
    code = ended.result()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
