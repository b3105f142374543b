"""A server of a whole fleet in one process: each node has its own loopback address, all with the same port."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet_parts.nodes import Course, Fleet, FleetNode
from kits.ports import free_port
from telemetry_daemon.site.negotiation import accepts_gzip, choose_format

# 127.0.0.1 itself is not used, because other programs need the address.
_NODES_PER_NET = 250
MAX_NODES = 60 * _NODES_PER_NET
_MAX_HEAD_LENGTH = 16384


def address(number: int) -> str:
    return f"127.1.{number // _NODES_PER_NET}.{number % _NODES_PER_NET + 1}"


class _Connection(asyncio.Protocol):
    """A connection, whose requests are answered in order."""

    def __init__(self, nodes: Mapping[str, FleetNode]) -> None:
        self._nodes = nodes
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._node = self._nodes[transport.get_extra_info("sockname")[0]]

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._transport.write(_answer(head.decode("latin-1"), self._node))
        if len(self._received) > _MAX_HEAD_LENGTH:
            self._transport.close()


def _answer(head: str, node: FleetNode) -> bytes:
    request_line, *header_lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in header_lines)}
    if request_line.split(" ")[:2] != ["GET", "/metrics"]:
        return _response("404 Not Found", "text/plain", b"There is /metrics.\n")
    syntax, content_type = choose_format(headers.get("accept", ""))
    page = node.page(syntax)
    if accepts_gzip(headers.get("accept-encoding", "")):
        return _response("200 OK", f"{content_type}\r\nContent-Encoding: gzip", gzip.compress(page, 1))
    return _response("200 OK", content_type, page)


def _response(status: str, content_type: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def serve(fleet: Fleet, step_seconds: float, targets_file: Path) -> None:
    """Serve until cancelled. Each course advances once in `step_seconds`. Write the targets to the file (file_sd)."""
    _raise_descriptor_limit()
    nodes = {address(number): node for number, node in enumerate(fleet.nodes)}
    port = await _listen(nodes)
    put_targets(targets_file, [f"{host}:{port}" for host in nodes])
    await _advance_courses(fleet.courses, step_seconds)


async def _listen(nodes: Mapping[str, FleetNode]) -> int:
    """Listen on all addresses at a port that is free on each of them."""
    port = free_port()
    await asyncio.get_running_loop().create_server(lambda: _Connection(nodes), list(nodes), port, backlog=64)
    return port


async def _advance_courses(courses: Sequence[Course], step_seconds: float) -> None:
    """Advance the courses in turn, spread over the time of a step."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        for course in courses:
            due += step_seconds / len(courses)
            await asyncio.sleep(max(0.0, due - loop.time()))
            course.step()


def put_targets(file: Path, targets: Sequence[str]) -> None:
    """Write a file for file_sd atomically, so that no reader sees a partial file."""
    temporary = file.with_name(file.name + ".new")
    temporary.write_text(json.dumps([{"targets": list(targets)}]), "utf-8")
    temporary.replace(file)


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files: each node needs a listening socket, and a connection for each server."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
