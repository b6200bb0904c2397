"""The proxy between a client and the server, which injects faults and records exchanges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from . import messages
from .faults import Cut, Fault, Faults, Outlet, Seen
from .messages import Ended, Head, Piece, Source
from .recording import Recording


class Proxy:
    """Passes each request on to the server.

    Each request has a connection of its own to the server, so that a restart of the server
    affects only the requests that are under way.
    """

    def __init__(self, port: int, server_port: int, recording: Recording | None) -> None:
        self.faults = Faults()
        self.port = port
        self._server_port = server_port
        self._recording = recording
        self._listener: asyncio.Server | None = None

    async def listen(self) -> None:
        """Accepts connections, also after a pause."""
        self._listener = await asyncio.start_server(self._connection, "127.0.0.1", self.port)

    def pause(self) -> None:
        """Refuses new connections, as the port of a server that does not run."""
        if self._listener:
            self._listener.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = Source(reader)
        try:
            while await self._exchange(source, writer):
                pass
        except (Cut, Ended, ConnectionError, asyncio.CancelledError):
            # The exchange is over; a cancellation is the end of the stage.
            pass
        finally:
            writer.close()

    async def _exchange(self, client: Source, writer: asyncio.StreamWriter) -> bool:
        """Passes on one request and its response; returns whether another may follow."""
        request = await messages.read_head(client)
        seen, fault = self.faults.begin(request)
        if fault and fault.answers and not fault.forward:
            await _drain(messages.request_body(request, client))
            return await _answer(fault, seen, writer)
        reader, server = await asyncio.open_connection("127.0.0.1", self._server_port)
        try:
            exchange = _Exchange(request, seen, fault, client, writer, Source(reader), server)
            exchange.is_recorded = self._recording is not None
            open_after = await exchange.run()
            if self._recording and exchange.response and not seen.fault:
                self._recording.add(request, exchange.sent, exchange.response, exchange.received)
            return open_after
        finally:
            server.close()


class _Exchange:
    """A request with its response, or an upgraded connection."""

    def __init__(
        self,
        request: Head,
        seen: Seen,
        fault: Fault | None,
        client: Source,
        to_client: asyncio.StreamWriter,
        server: Source,
        to_server: asyncio.StreamWriter,
    ) -> None:
        self._request = request
        self._seen = seen
        self._client = client
        self._writer = to_client
        self._server = server
        self._answers = fault if fault and fault.answers else None
        on_request = fault if fault and not fault.answers and fault.side == "request" else None
        on_response = fault if fault and not fault.answers and fault.side == "response" else None
        self._to_server = Outlet(to_server, on_request, seen)
        self._to_client = Outlet(to_client, on_response, seen)
        self._sent_all = False
        self.is_recorded = False
        self.response: Head | None = None
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    async def run(self) -> bool:
        """Carries out the exchange; returns whether another may follow on the connection."""
        return await _first_of(self._send(), self._receive())

    async def _send(self) -> None:
        """Sends the request, then waits for the end of the client. Never returns normally."""
        await self._to_server.head(self._request.raw)
        async for piece in messages.request_body(self._request, self._client):
            if self.is_recorded:
                self.sent.append(piece.data)
            await self._to_server.send(piece.raw)
        self._sent_all = True
        if self._request.get("upgrade"):
            async for piece in messages.everything(self._client):
                await self._to_server.send(piece.raw)
        else:
            await self._client.until_closed()
        raise Ended

    async def _receive(self) -> bool:
        while True:
            head = await messages.read_head(self._server)
            if head.status >= 200 or head.status == 101:
                break
            await self._to_client.head(head.raw)
        self.response = head
        if head.status == 101:
            body = messages.everything(self._server)
        else:
            body = messages.response_body(head, self._server, self._request.first[0])
        if self._answers:
            await _drain(body)
            return await _answer(self._answers, self._seen, self._writer) and self._sent_all
        self._seen.status = head.status
        await self._to_client.head(head.raw)
        async for piece in body:
            if self.is_recorded:
                self.received.append(piece.data)
            await self._to_client.send(piece.raw)
        return self._sent_all and head.status != 101 and head.keeps_connection


async def _first_of(sending: Coroutine[Any, Any, None], receiving: Coroutine[Any, Any, bool]) -> bool:
    """Runs both until the response is complete, or one of them fails."""
    sender, receiver = asyncio.create_task(sending), asyncio.create_task(receiving)
    try:
        done, _ = await asyncio.wait([sender, receiver], return_when=asyncio.FIRST_COMPLETED)
        if receiver in done:
            return receiver.result()
        failure = sender.exception()
        if isinstance(failure, ConnectionError):
            # The server has closed its side early; its response may still arrive.
            return await receiver
        raise failure or Ended
    finally:
        sender.cancel()
        receiver.cancel()
        await asyncio.gather(sender, receiver, return_exceptions=True)


async def _drain(body: AsyncIterator[Piece]) -> None:
    async for _ in body:
        pass


async def _answer(fault: Fault, seen: Seen, writer: asyncio.StreamWriter) -> bool:
    """Answers in place of the server."""
    fault.hits += 1
    seen.fault = fault.kind
    seen.status = fault.status
    body = b"" if fault.body is None else json.dumps(fault.body).encode()
    kind = {"content-type": "application/json"} if body else {}
    writer.write(messages.simple_response(fault.status, {**kind, **fault.headers}, body))
    await writer.drain()
    return True
