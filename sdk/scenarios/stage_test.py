#!/usr/bin/env python3
"""Tests of the proxy: what passes through it, and where a fault takes effect."""

from __future__ import annotations

import asyncio
import sys
import unittest

sys.dont_write_bytecode = True

from stage_parts.faults import Fault
from stage_parts.proxy import Proxy
from stage_parts.server import free_port

PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
REQUEST = b"POST /one HTTP/1.1\r\nidempotency-key: k\r\ncontent-length: 4\r\n\r\nbody"
UPGRADE = b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\n"


class ProxyTest(unittest.IsolatedAsyncioTestCase):
    """Each test has a server that responds with `self.response`, and a proxy in front of it."""

    async def asyncSetUp(self) -> None:
        """Starts both."""
        self.response = PLAIN
        self.arrived = bytearray()
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.proxy = Proxy(free_port(), self.server.sockets[0].getsockname()[1], None)
        await self.proxy.listen()

    async def asyncTearDown(self) -> None:
        """Stops both."""
        self.server.close()
        self.proxy.pause()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Responds when the request has ended; echoes what follows an upgrade."""
        try:
            piece = b"-"
            while piece and not self.arrived.endswith((b"body", b"0\r\n\r\n")):
                piece = await reader.read(1000)
                self.arrived += piece
            if piece:
                writer.write(self.response)
            while piece := await reader.read(1000):
                writer.write(piece)
        except asyncio.CancelledError:
            # The test has ended.
            pass
        writer.close()

    async def exchange(self, request: bytes = REQUEST) -> bytes:
        """Sends a request; returns what arrives until the response is complete, or the connection ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        writer.write(request)
        received = b""
        while received != self.response and (piece := await reader.read(1000)):
            received += piece
        writer.close()
        return received

    def fault(self, **fields: object) -> Fault:
        """Adds a fault for the next request."""
        added = Fault(**{"match": "POST /one", **fields})  # type: ignore[arg-type]
        self.proxy.faults.all.append(added)
        return added

    async def test_messages_pass_unchanged(self) -> None:
        """A body with a length, and one in chunks."""
        self.assertEqual(await self.exchange(), PLAIN)
        self.assertEqual(self.arrived, REQUEST)
        self.arrived.clear()
        self.response = CHUNKED
        request = b"PUT /two HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbits\r\n0\r\n\r\n"
        self.assertEqual(await self.exchange(request), CHUNKED)
        self.assertEqual(self.arrived, request)
        seen = [(seen.method, seen.path, seen.status, seen.idempotency_key) for seen in self.proxy.faults.seen]
        self.assertEqual(seen, [("POST", "/one", 200, "k"), ("PUT", "/two", 200, None)])

    async def test_a_response_is_cut_at_each_position(self) -> None:
        """The client gets exactly the bytes before the cut."""
        for response in (PLAIN, CHUNKED):
            for at in range(len(response)):
                self.arrived.clear()
                self.response = response
                fault = self.fault(kind="cut", at=at)
                self.assertEqual(await self.exchange(), response[:at])
                self.assertEqual((fault.hits, self.arrived), (1, REQUEST))

    async def test_a_request_is_cut_at_each_position(self) -> None:
        """The server gets exactly the bytes before the cut, and the client gets no response."""
        for at in range(len(REQUEST)):
            self.arrived.clear()
            fault = self.fault(kind="cut", side="request", at=at)
            self.assertEqual(await self.exchange(), b"")
            self.assertEqual(fault.hits, 1)
            await self.until_arrived(REQUEST[:at])

    async def until_arrived(self, data: bytes) -> None:
        """Waits until the server has received the data; fails if it has received more."""
        while len(self.arrived) < len(data):
            await asyncio.sleep(0)
        self.assertEqual(self.arrived, data)

    async def test_positions_count_from_the_body(self) -> None:
        """With `part: body`."""
        self.fault(kind="cut", part="body", at=2)
        self.assertEqual(await self.exchange(), PLAIN[:-3])

    async def test_a_position_behind_the_end_is_not_hit(self) -> None:
        """So a scenario notices that its fault had no effect."""
        fault = self.fault(kind="cut", at=len(PLAIN))
        self.assertEqual(await self.exchange(), PLAIN)
        self.assertEqual((fault.hits, fault.times), (0, 0))

    async def test_the_proxy_answers_before_or_after_the_server(self) -> None:
        """With `status`."""
        for forward in (False, True):
            self.arrived.clear()
            fault = self.fault(kind="status", forward=forward)
            reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
            writer.write(REQUEST)
            self.assertIn(b" 503 ", await reader.readline())
            writer.close()
            self.assertEqual(fault.hits, 1)
            self.assertEqual(self.arrived, REQUEST if forward else b"")

    async def test_an_upgraded_connection_is_a_tunnel(self) -> None:
        """Bytes go both ways; a cut counts them, too."""
        self.response = UPGRADE
        self.fault(kind="cut", part="body", at=5)
        request = REQUEST.replace(b"content-length: 4", b"upgrade: websocket\r\ncontent-length: 4")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        writer.write(request)
        self.assertEqual(await reader.readexactly(len(UPGRADE)), UPGRADE)
        writer.write(b"one")
        self.assertEqual(await reader.readexactly(3), b"one")
        writer.write(b"two")
        self.assertEqual(await reader.read(), b"tw")
        writer.close()


if __name__ == "__main__":
    unittest.main()
