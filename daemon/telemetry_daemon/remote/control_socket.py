"""The daemon's control socket, on which requests and answers are lines of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.guarded.named import connect, is_own_user_or_root
from telemetry_daemon.guarded.own_folder import bind_own_socket, remove_socket
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import MAX_WAIT_SECONDS
from telemetry_exporters.text import clean, cut
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.codec.plain import CodecError, decode_line, decode_untrusted
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Plain

log = logging.getLogger(__name__)

_LINE_LIMIT_BYTES = 1 << 16
_TIMEOUT_SECONDS = 5.0
# Answers are limited, because another process may listen on the socket.
_ANSWER_LIMIT_BYTES = 16 << 20
_MAX_LINE_BYTES = 32 << 20
_MAX_BYTES_PER_SECOND = 16 << 20
_MAX_TEXT_LENGTH = 1000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Handler:
    """A request's argument type, and the function that answers it."""

    argument_type: type
    answer: Callable[[Any], Mapping[str, Plain]]


@dataclass(frozen=True, slots=True)
class StreamHandler:
    """A request's argument type, and the function that streams the answer."""

    argument_type: type
    serve: Callable[[Any, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ControlError(Exception):
    """The daemon did not answer, or sent an invalid answer."""


class RefusedError(ControlError):
    """The daemon refused the request."""


def socket_path(runtime_directory: str) -> Path:
    """Return the path of the socket in a runtime directory."""
    return Path(runtime_directory) / "control.sock"


class ControlServer:
    """Serves requests on the control socket."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler | StreamHandler]) -> None:
        self._path = path
        self._handlers = handlers
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket. Raises OSError if this fails."""
        unix_socket = await asyncio.to_thread(bind_own_socket, self._path)
        self._server = await asyncio.start_unix_server(self._serve, sock=unix_socket, limit=_LINE_LIMIT_BYTES)

    async def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            remove_socket(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not is_own_user_or_root(writer.get_extra_info("socket")):
                return
            line = await asyncio.wait_for(reader.readline(), _TIMEOUT_SECONDS)
            answer = await self._answer_request(line, reader, writer)
            if answer is not None:
                writer.write(json.dumps(answer).encode() + b"\n")
                await asyncio.wait_for(writer.drain(), _TIMEOUT_SECONDS)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            log.debug("control connection ended", extra={"error": error})
        finally:
            writer.close()

    async def _answer_request(
        self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Mapping[str, Plain] | None:
        verb = ""
        try:
            request = decode_line(line)
            verb = str(request.get("verb", "")) if isinstance(request, dict) else ""
            handler = self._handlers.get(verb)
            if handler is None or not isinstance(request, dict):
                return {"error": f"unknown request; the valid requests are {', '.join(sorted(self._handlers))}"}
            fields = {key: value for key, value in request.items() if key != "verb"}
            arguments: Any = from_plain(handler.argument_type, fields)
            if isinstance(handler, StreamHandler):
                await handler.serve(arguments, reader, writer)
                return None
            # A release may take a second. In a thread, it does not delay scrapes.
            return await asyncio.to_thread(handler.answer, arguments)
        except CodecError as error:
            return {"error": f"{verb}: {error}" if verb else str(error)}


def send_request(path: Path, verb: str, **arguments: Plain) -> Mapping[str, Plain]:
    """Send a request, and return the answer. Raise ControlError if the daemon refuses or does not answer."""
    with _connect_and_send(path, verb, arguments) as connection:
        answer = decode_untrusted(_receive_all(connection))
    if not isinstance(answer, dict):
        raise ControlError("the daemon's answer is not a JSON object")
    _raise_if_refused(answer)
    return answer


def stream_lines(path: Path, verb: str, deadline: Callable[[], float], **arguments: Plain) -> Iterator[bytes]:
    """Yield the answer's lines until the monotonic time `deadline()`. Raise ControlError if the daemon refuses or fails."""
    with _connect_and_send(path, verb, arguments) as connection:
        buffer = bytearray()
        for data in _received_data(connection, deadline):
            buffer += data
            if len(buffer) > _MAX_LINE_BYTES:
                raise OSError(f"a line is longer than {_MAX_LINE_BYTES >> 20} MiB")
            if b"\n" not in data:
                continue
            *complete_lines, remainder = bytes(buffer).split(b"\n")
            buffer = bytearray(remainder)
            for line in complete_lines:
                if line.startswith(b'{"error"'):
                    _raise_if_refused(decode_untrusted(line))
                yield line


def _received_data(connection: socket.socket, deadline: Callable[[], float]) -> Iterator[bytes]:
    """Yield received bytes. Stop shortly after the deadline."""
    received_bytes = 0
    start_time, end_time = time.monotonic(), None
    while True:
        remaining = (deadline() if end_time is None else end_time) - time.monotonic()
        if remaining <= 0 and end_time is not None:
            return
        if remaining <= 0:  # ask the daemon to end the stream
            connection.shutdown(socket.SHUT_WR)
            end_time = time.monotonic() + _TIMEOUT_SECONDS
            continue
        connection.settimeout(min(remaining, MAX_WAIT_SECONDS))
        try:
            data = connection.recv(1 << 16)
        except TimeoutError:  # no data yet
            continue
        received_bytes += len(data)
        if received_bytes > _MAX_BYTES_PER_SECOND * (time.monotonic() - start_time + _TIMEOUT_SECONDS):
            raise OSError(f"more than {_MAX_BYTES_PER_SECOND >> 20} MiB per second were received")
        if not data:
            return
        yield data


@contextlib.contextmanager
def _connect_and_send(path: Path, verb: str, arguments: Mapping[str, Plain]) -> Iterator[socket.socket]:
    try:
        with connect(path, _TIMEOUT_SECONDS) as connection:
            connection.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
            yield connection
    except (FileNotFoundError, ConnectionRefusedError):
        remedy = "start it, or pass its configuration file (--config FILE)"
        raise ControlError(f"no daemon answers on {path}; {remedy}") from None
    except UnsafeError as error:
        raise ControlError(str(error)) from None
    except PermissionError:
        raise ControlError(f"permission denied on {path}; run this as root or as the daemon's user") from None
    except (OSError, CodecError) as error:
        raise ControlError(f"the daemon on {path} did not answer: {error}; see its log") from None


def _raise_if_refused(answer: Plain) -> None:
    if isinstance(answer, dict) and "error" in answer:
        raise RefusedError(cut(clean(str(answer["error"])), _MAX_TEXT_LENGTH))


def _receive_all(connection: socket.socket) -> bytes:
    data = bytearray()
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while chunk := connection.recv(1 << 16):
        data += chunk
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        if len(data) > _ANSWER_LIMIT_BYTES:
            raise OSError(f"the answer exceeds {_ANSWER_LIMIT_BYTES >> 20} MiB")
    return bytes(data)


def daemon_answer(settings: Settings, answer_type: type[T], verb: str, **arguments: Plain) -> T:
    """Return the daemon's answer, safe to print. Raise CommandError if the daemon refuses or does not answer."""
    from telemetry_daemon.remote import lenient  # the daemon itself does not need this module

    path = socket_path(settings.state.runtime_directory)
    try:
        return lenient.read(answer_type, dict(send_request(path, verb, **arguments)))
    except RefusedError as error:
        raise CommandError(str(error)) from None
    except ControlError as error:
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    except CodecError as error:
        text = f"the daemon on {path} sent an invalid answer ({error}); it may have another version"
        raise CommandError(text, status=exits.UNAVAILABLE) from None
