"""Terminals in a sandbox."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from .._deadline import NEVER, Deadline
from .._errors import ConnectionLostError, NotFoundError, WorkspaceError, from_body
from .._lazy import models, socket_errors
from .._socket import MAX_INPUT, MAX_OUTPUT, Unacknowledged
from .._types import TerminalExit
from .._values import body_of, random_id
from ._runtime import Callback, Task, call, connect_socket, finish, new_condition, wait_for
from .base import Service
from .transport import CLOSE_TIME, Transport, error_of, is_passing, new_patience, user_agent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call

BUFFER = 1 << 20
"""Bytes of output that wait for the caller; the terminal stops when there are more."""


class Pty(Service):
    """The terminals of one sandbox."""

    def __init__(self, transport: Transport, sandbox: str) -> None:
        super().__init__(transport, "sandboxes", sandbox, "pty")

    async def create(
        self,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
        shell: str | None = None,
        on_data: Callback[bytes] | None = None,
        **options: Unpack[Call],
    ) -> Terminal:
        """Creates a terminal. `on_data` gets its output as it arrives; else iterate over the terminal."""
        body = body_of(cols=cols, rows=rows, cwd=cwd, envs=envs, shell=shell)
        session = await self._post(models.PtySession.model_validate_json, body=body, **options)
        return Terminal(self, session.id, on_data=on_data, is_own=True)

    async def attach(
        self, pty_id: str, *, offset: int = 0, on_data: Callback[bytes] | None = None, deadline: float | None = None
    ) -> Terminal:
        """Connects to a terminal that exists. Its output begins at an offset."""
        terminal = Terminal(self, pty_id, offset=offset, on_data=on_data)
        try:
            await terminal.connected(Deadline(deadline))
        except BaseException:
            await finish(terminal.close, CLOSE_TIME)
            raise
        return terminal

    async def resize(self, pty_id: str, cols: int, rows: int, **options: Unpack[Call]) -> None:
        """Changes the size of a terminal."""
        await self._send("POST", pty_id, "resize", body={"cols": cols, "rows": rows}, **options)

    async def kill(self, pty_id: str, **options: Unpack[Call]) -> None:
        """Deletes a terminal and kills the programs in it."""
        await self._send("DELETE", pty_id, **options)

    async def ticket(self, pty_id: str, **options: Unpack[Call]) -> models.Ticket:
        """Returns a ticket with which a page in a browser connects to a terminal once, within 30 seconds."""
        tickets = Service(self._transport, "tickets")
        body = {"path": self._path(pty_id, "ws")}
        return await tickets._post(models.Ticket.model_validate_json, body=body, **options)

    async def connect(self, pty_id: str, client: str, offset: int) -> Any:
        """Opens the WebSocket of a terminal."""
        self._transport.check_open()
        query = urlencode({"format": "binary", "offset": offset, "client": client})
        where = self._transport.where
        url = f"{where.url.replace('http', 'ws', 1)}{self._path(pty_id, 'ws')}?{query}"
        headers = {"Authorization": f"Bearer {where.key}", "User-Agent": user_agent()}
        try:
            return await connect_socket(
                url, headers, self._transport.ssl_context(), by_proxy=not where.is_on_this_machine
            )
        except socket_errors.InvalidStatus as error:
            response = error.response
            headers = {name.lower(): value for name, value in response.headers.raw_items()}
            raise error_of(response.status_code, headers, bytes(response.body or b"")) from error
        except OSError as error:
            raise self._transport.unreachable(str(error)) from error
        except (socket_errors.WebSocketException, EOFError) as error:
            raise ConnectionLostError(f"the connection to {where.url} was lost: {error}") from error

    async def pause(self, seconds: float | None, error: WorkspaceError) -> None:
        """Waits before the next connection; raises the error if the time for that is over."""
        if seconds is None:
            raise error
        await self._transport.pause(seconds, NEVER, error)


class Terminal:
    """A terminal. Iterate over it for its output. After a lost connection it continues where it was."""

    def __init__(
        self,
        pty: Pty,
        pty_id: str,
        *,
        offset: int = 0,
        on_data: Callback[bytes] | None = None,
        is_own: bool = False,
    ) -> None:
        self.id = pty_id
        """Id of the terminal."""
        self._pty = pty
        self._is_own = is_own
        self._on_data = on_data
        self._position = offset
        self._client = random_id()
        self._changed = new_condition()
        self._sending = new_condition()
        self._output: deque[bytes] = deque()
        self._buffered = 0
        self._is_waited_for = False
        self._input = Unacknowledged()
        self._patience = new_patience()
        self._socket: Any = None
        self._exit: TerminalExit | None = None
        self._error: Exception | None = None
        self._is_attached = False
        self._is_closed = False
        self._reader = Task(self._read_all)
        pty._transport.add_ending(self.close)

    def __repr__(self) -> str:
        return f"Terminal(id={self.id!r})"

    async def connected(self, end: Deadline) -> None:
        """Waits for the first connection, and raises its error."""
        async with self._changed:
            while not self._is_attached and self._exit is None and self._is_open():
                await wait_for(self._changed, end)
            self._check()

    async def write(self, data: str | bytes, *, deadline: float | None = None) -> None:
        """Types data. Returns when it is on its way; it is sent again until the terminal has it.

        Raises an error if the terminal has ended or is closed.
        """
        raw = data.encode() if isinstance(data, str) else data
        end = Deadline(deadline)
        for at in range(0, len(raw), MAX_INPUT):
            async with self._changed:
                while not self._input.has_room() and self._takes_input():
                    await wait_for(self._changed, end)
                self._check()
                if not self._takes_input():
                    why = "was closed" if self._is_closed else "has ended"
                    raise WorkspaceError(f"the terminal {why}, so it takes no input")
            async with self._sending:
                message = self._input.add(raw[at : at + MAX_INPUT])
                await self._send(message)

    async def _send(self, message: str) -> None:
        if self._socket is not None:
            try:
                await self._socket.send(message)
            except socket_errors.ConnectionClosed:
                return  # The message is sent again after the reconnect.

    async def resize(self, cols: int, rows: int, **options: Unpack[Call]) -> None:
        """Changes the size of the terminal."""
        await self._pty.resize(self.id, cols, rows, **options)

    async def kill(self, **options: Unpack[Call]) -> None:
        """Deletes the terminal and kills the programs in it."""
        await self._pty.kill(self.id, **options)

    async def close(self) -> None:
        """Disconnects; the terminal goes on."""
        self._pty._transport.remove_ending(self.close)
        async with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._socket is not None:
            await self._socket.close()
        await self._reader.stop()

    async def wait(self, *, deadline: float | None = None) -> TerminalExit:
        """Returns the exit of the terminal when it has ended. The newest 16 MiB of output stay for the caller."""
        end = Deadline(deadline)
        async with self._changed:
            self._is_waited_for = True
            self._changed.notify_all()
            while self._exit is None and self._is_open():
                await wait_for(self._changed, end)
            if self._exit is None:
                self._check()
                raise ConnectionLostError("the terminal was closed before it ended")
            return self._exit

    async def read(self, *, deadline: float | None = None) -> bytes:
        """Returns the output that has arrived, when there is some; nothing at the end."""
        end = Deadline(deadline)
        async with self._changed:
            while not self._output and self._exit is None and self._is_open():
                await wait_for(self._changed, end)
            if not self._output and self._exit is None:
                self._check()
            data = b"".join(self._output)
            self._output.clear()
            self._buffered = 0
            self._changed.notify_all()
            return data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def __aenter__(self) -> Terminal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # The error on its way stays the one that is raised.
            await finish(self._end, CLOSE_TIME)
            return
        try:
            await self._end()
        except Exception:
            raise
        except BaseException:
            await finish(self._end, CLOSE_TIME)
            raise

    async def _end(self) -> None:
        """Disconnects, and kills a terminal that the caller has created."""
        try:
            if self._is_own and self._exit is None:
                await self.kill()
        except NotFoundError:
            pass  # The terminal has ended meanwhile.
        finally:
            await self.close()

    def _takes_input(self) -> bool:
        return self._exit is None and self._is_open()

    def _is_open(self) -> bool:
        return self._error is None and not self._is_closed

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _read_all(self) -> None:
        """Reads messages until the terminal ends, or its error."""
        try:
            while self._exit is None and not self._is_closed:
                try:
                    await self._read_connection()
                except WorkspaceError as error:
                    if self._is_closed:
                        return
                    if not is_passing(error):
                        raise
                    await self._pty.pause(self._patience.next(), error)
        except Exception as error:
            self._error = error
        finally:
            async with self._changed:
                self._changed.notify_all()

    async def _read_connection(self) -> None:
        """Reads the messages of one connection."""
        socket = await self._pty.connect(self.id, self._client, self._position)
        async with self._sending:
            self._socket = socket
            for message in self._input.messages():
                await self._send(message)
        try:
            while self._exit is None and not self._is_closed:
                message = await socket.recv()
                if isinstance(message, bytes):
                    await self._deliver(message)
                else:
                    await self._take(json.loads(message))
        except socket_errors.ConnectionClosed as error:
            raise self._lost(error) from error
        finally:
            await socket.close()

    def _lost(self, error: socket_errors.ConnectionClosed) -> WorkspaceError:
        code = error.rcvd.code if error.rcvd else None
        if code == 4401:
            return from_body({"code": 1001, "name": "UNAUTHORIZED", "message": "the key is no longer valid"}, 401)
        if code == 4409:
            return WorkspaceError("a newer connection of this client has replaced the terminal's connection")
        return ConnectionLostError(f"the connection of the terminal was lost: {error}")

    async def _deliver(self, data: bytes) -> None:
        self._position += len(data)
        if self._on_data is not None:
            await call(self._on_data, data)
            return
        async with self._changed:
            while self._buffered >= BUFFER and not self._is_waited_for and not self._is_closed:
                await wait_for(self._changed, NEVER)
            self._output.append(data)
            self._buffered += len(data)
            while self._buffered > MAX_OUTPUT:
                self._buffered -= len(self._output.popleft())
            self._changed.notify_all()

    async def _take(self, message: dict[str, Any]) -> None:
        """Handles a message that is not output."""
        kind = message["type"]
        if kind == "attached":
            self._position = message["offset"]
            self._is_attached = True
            self._patience.reset()
        elif kind == "stopping":
            raise ConnectionLostError("the server is stopping")
        elif kind == "error" and message["error"].get("name") != "PROCESS_NOT_FOUND":
            # Without a process, its exit follows.
            raise from_body(message["error"], 500)
        async with self._changed:
            if kind == "ack":
                self._input.acknowledge(message["seq"])
            elif kind == "exit":
                self._exit = TerminalExit(message["exitCode"], message.get("signal"))
            self._changed.notify_all()
