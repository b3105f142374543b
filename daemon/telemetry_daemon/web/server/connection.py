"""Reads a client's requests, and sends the site's responses."""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from telemetry_daemon.web.clients import Caller, client_key, peer_name
from telemetry_daemon.web.messages import NOT_TLS, BodyPieces, Channel, HandshakeError, Request, Response, status_page
from telemetry_daemon.web.server.conversation import ClientLeft, HttpConversation, Refusal
from telemetry_daemon.web.server.open_connections import LINGER_BYTES, STREAM_BYTES, WRITE_BYTES, Phase, SharedState
from telemetry_parsers.dataclass import dataclass, field, replace

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class Connection(asyncio.BufferedProtocol):
    """One connection, from accept to close."""

    _shared: SharedState
    _transport: asyncio.Transport = field(init=False)
    caller: Caller = field(init=False)
    _channel: Channel | None = None  # chosen when the first byte arrives
    _conversation: HttpConversation = field(init=False)
    _client_requirements: object = None
    _access_state: object = None
    _phase: Phase = Phase.UNFINISHED
    _deadline: asyncio.TimerHandle | None = None
    _to_send: deque[memoryview] = field(default_factory=deque)
    _is_sending_response: bool = False
    _body_pieces: BodyPieces | None = None
    _is_write_blocked: bool = False
    _has_head_begun: bool = False
    _has_client_finished: bool = False
    _is_last_response: bool = False
    _bytes_while_closing: int = 0

    # Methods that the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        # asyncio calls `pause_writing` as soon as the kernel's buffer is full.
        self._transport.set_write_buffer_limits(high=0)
        self.caller = Caller(client_key(transport.get_extra_info("peername")), transport.get_extra_info("sockname"))
        self._set_deadline(self._shared.deadlines.head, self._on_head_timeout)
        self._shared.open_connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio's signature
        """Return the buffer that all connections share for reading."""
        return self._shared.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process the received bytes."""
        if self._phase is Phase.CLOSING:
            self._bytes_while_closing += nbytes
            if self._bytes_while_closing > LINGER_BYTES:
                self.abort()
        elif self._phase is Phase.STREAMING:
            self._receive_from_stream_client(bytes(self._shared.read_buffer[:nbytes]))
        elif not self._has_client_finished:
            self._receive(bytes(self._shared.read_buffer[:nbytes]))

    def eof_received(self) -> bool:
        """Return whether to keep the connection open, because the client may still read the response."""
        if self._channel is None or self._phase in {Phase.CLOSING, Phase.STREAMING}:
            return False
        self._receive_end()
        self._process_next_request()
        return True

    def pause_writing(self) -> None:
        """Stop sending and reading."""
        self._is_write_blocked = True
        self._stop_reading()  # otherwise, TLS replies to a client that never reads would accumulate

    def resume_writing(self) -> None:
        """Continue when the kernel's buffer has room again."""
        self._is_write_blocked = False
        if self._phase is Phase.CLOSING:
            asyncio.get_running_loop().call_soon(self._send_eof)
        elif self._is_sending_response:
            self._continue_sending()
        elif self._phase is not Phase.RESPONDING:
            self._resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """Release the resources of the connection."""
        self._phase = Phase.CLOSING
        self._shared.open_connections.remove(self)
        self._shared.access.forget(self.caller)
        self._shared.turn_queue.forget(self.caller.client, self)
        self._to_send.clear()
        self._close_body_pieces()
        if self._deadline is not None:
            self._deadline.cancel()

    # Methods that the server calls.

    def abort(self) -> None:
        """Disconnect immediately."""
        self._transport.abort()

    def finish(self) -> None:
        """Disconnect immediately, or after the response that is being sent."""
        if self._phase is Phase.STREAMING:
            self._is_last_response = True
            self._end_body_pieces()
        elif self._phase is Phase.RESPONDING:
            self._is_last_response = True
        elif self._phase is not Phase.CLOSING:
            self.abort()

    # Methods for received bytes.

    def _receive(self, data: bytes) -> None:
        channel = self._channel or self._open_channel(data[0])
        if channel is None:
            return
        try:
            received = channel.receive(data)
        except HandshakeError as failure:
            self._shared.handshake_log.warning(
                "no TLS with %s: %s", peer_name(self._transport.get_extra_info("peername")), failure
            )
            self._transport.write(failure.alert)
            self._start_closing()
            return
        except OSError:  # for example ssl.SSLError for an invalid TLS record
            self.abort()
            return
        if received.reply:
            self._transport.write(received.reply)
        if received.data:
            self._conversation.receive(received.data)
        if received.is_closed:
            self._receive_end()
        self._process_next_request()

    def _receive_from_stream_client(self, data: bytes) -> None:
        """Process TLS messages. Disconnect the client if it sends anything else."""
        try:
            received = self._channel.receive(data) if self._channel else None
        except OSError:  # for example ssl.SSLError for an invalid TLS record
            received = None
        if received is None or received.data or received.is_closed:
            self.abort()
        elif received.reply:
            self._transport.write(received.reply)

    def _open_channel(self, first_byte: int) -> Channel | None:
        access = self._shared.access
        access.reload_if_changed()
        self._conversation = HttpConversation()
        self._client_requirements = access.client_requirements
        channel = access.create_channel(first_byte)
        self._channel = channel or Channel()
        if channel is None:
            self._send_response(NOT_TLS, is_final=True)
        return channel

    def _receive_end(self) -> None:
        if not self._has_client_finished:
            self._has_client_finished = True
            self._conversation.receive(b"")

    # Methods for requests.

    def _process_next_request(self) -> None:
        if self._phase not in {Phase.UNFINISHED, Phase.WAITING}:
            return
        try:
            request = self._conversation.next_request()
        except ClientLeft:
            self._start_closing()
            return
        if request is None:
            self._await_head()
        elif isinstance(request, Refusal):
            self._send_response(request.response, is_final=request.is_final)
        else:
            self._serve(request)

    def _await_head(self) -> None:
        self._resume_reading()
        if self._phase is Phase.WAITING and not self._has_head_begun and self._conversation.has_input:
            self._has_head_begun = True
            self._set_deadline(self._shared.deadlines.head, self._on_head_timeout)

    def _on_head_timeout(self) -> None:
        if self._channel is not None and self._conversation.has_input:
            self._send_response(status_page(408), is_final=True)
        else:
            self.abort()

    def _serve(self, request: Request) -> None:
        self._shared.access.reload_if_changed()
        if self._client_requirements != self._shared.access.client_requirements:
            # The requirements for certificates have changed, so the client must connect again.
            self.abort()
            return
        self._enter_phase(Phase.RESPONDING)
        self._shared.access.decide(request, self.caller, functools.partial(self._on_decision, request))
        self._stop_reading_until_sent()

    def _on_decision(self, request: Request, refusal: Response | None) -> None:
        if self._phase is not Phase.RESPONDING:  # the client has disconnected
            return
        if refusal is None and not request.query:
            self._handle_request(request)
        elif refusal is None:  # responses to queries are not cached, so clients take turns
            self._shared.turn_queue.schedule(self.caller.client, self, functools.partial(self._handle_request, request))
        else:
            self._queue_response(refusal, is_final=False)

    def _handle_request(self, request: Request) -> None:
        try:
            response = self._shared.handler(replace(request, client=self.caller.client))
        except Exception:  # an error in a page affects only this request
            logger.exception("the response to %s %r failed", request.method, request.path)
            response = status_page(500)
        self._queue_response(response, is_final=False)

    # Methods for responses.

    def _send_response(self, response: Response, *, is_final: bool) -> None:
        self._enter_phase(Phase.RESPONDING)
        self._queue_response(response, is_final=is_final)
        self._stop_reading_until_sent()

    def _stop_reading_until_sent(self) -> None:
        if self._phase is Phase.RESPONDING:
            self._stop_reading()
            self._set_deadline(self._shared.deadlines.answer, self.abort)

    def _queue_response(self, response: Response, *, is_final: bool) -> None:
        headers = self._shared.access.headers
        try:
            parts = self._conversation.encode(response, headers, is_final=is_final)
        except ValueError:
            logger.exception("the site returned an invalid HTTP response")
            parts = self._conversation.encode(status_page(500), headers, is_final=is_final)
        if sum(map(len, parts)) <= WRITE_BYTES:
            parts = [b"".join(parts)]
        self._to_send.extend(map(memoryview, parts))
        self._is_sending_response = True
        if response.pieces is not None:
            self._begin_body_pieces(response.pieces)
        self._continue_sending()

    def _continue_sending(self) -> None:
        if self._transport.is_closing():
            return
        channel = self._channel
        while channel and self._to_send and not self._is_write_blocked:
            if self._transport.is_closing():
                return
            piece = self._to_send.popleft()
            if len(piece) > WRITE_BYTES:
                self._to_send.appendleft(piece[WRITE_BYTES:])
            try:
                self._transport.write(channel.encrypt(piece[:WRITE_BYTES]))
            except OSError:  # for example, an ssl.SSLError if the TLS connection is broken
                self.abort()
                return
        if self._is_write_blocked:
            return
        if self._body_pieces is None:
            self._finish_response()
        else:
            self._shared.turn_queue.schedule(self.caller.client, self, self._send_next_piece)

    def _begin_body_pieces(self, pieces: BodyPieces) -> None:
        if self._conversation.is_complete:  # the client requested only the head
            pieces.close()
            return
        # A small buffer limits the data that the kernel keeps for a client that does not read.
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WRITE_BYTES)
        self._body_pieces = pieces
        self._access_state = self._shared.access.access_state
        pieces.begin(self._on_new_piece, self.abort)

    def _send_next_piece(self) -> None:
        if self._body_pieces is None or self._is_write_blocked:
            return
        piece = self._next_piece(self._body_pieces)
        if piece is None:
            self._end_body_pieces()
        elif piece:
            self._enter_phase(Phase.RESPONDING)
            self._to_send.append(memoryview(self._conversation.encode_piece(piece)))
            self._set_deadline(self._shared.deadlines.answer, self.abort)
            self._continue_sending()
        elif self._is_last_response or self._has_client_finished:
            self._end_body_pieces()
        else:
            self._await_piece()

    def _next_piece(self, pieces: BodyPieces) -> bytes | None:
        try:
            return pieces.next()
        except Exception:
            # Without the end of the body, the client sees that the response is incomplete.
            logger.exception("the response failed after it had begun")
            self.abort()
            return b""

    def _await_piece(self) -> None:
        self._enter_phase(Phase.STREAMING)
        if self._deadline is not None:
            self._deadline.cancel()
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, STREAM_BYTES)
        self._resume_reading()

    def _on_new_piece(self) -> None:
        if self._phase is not Phase.STREAMING:
            return
        self._shared.access.reload_if_changed()
        if self._access_state == self._shared.access.access_state:
            self._continue_sending()
        else:
            self.finish()  # when the client connects again, the new access rules apply

    def _end_body_pieces(self) -> None:
        self._close_body_pieces()
        self._enter_phase(Phase.RESPONDING)
        self._to_send.append(memoryview(self._conversation.encode_end()))
        self._stop_reading_until_sent()
        self._continue_sending()

    def _close_body_pieces(self) -> None:
        if self._body_pieces is not None:
            self._body_pieces.close()
            self._body_pieces = None

    def _finish_response(self) -> None:
        self._is_sending_response = False
        if self._is_last_response or not self._conversation.prepare_next():
            self._start_closing()
            return
        self._enter_phase(Phase.WAITING)
        self._has_head_begun = False
        self._set_deadline(self._shared.deadlines.idle, self._start_closing)
        if self._conversation.has_input or self._has_client_finished:
            # One request per round of the loop gives other clients their turn.
            self._stop_reading()
            self._shared.turn_queue.schedule(self.caller.client, self, self._process_next_request)
        else:
            self._resume_reading()

    def _start_closing(self) -> None:
        self._enter_phase(Phase.CLOSING)  # closing with unread input would truncate the response
        self._set_deadline(self._shared.deadlines.linger, self.abort)
        if closing_bytes := self._channel.closing_bytes() if self._channel else b"":
            self._transport.write(closing_bytes)
        call_soon = asyncio.get_running_loop().call_soon
        call_soon(self._transport.close if self._has_client_finished else self._send_eof)

    def _send_eof(self) -> None:
        # `resume_writing` must not call this method directly, because asyncio would shut the socket down twice.
        if not (self._transport.is_closing() or self._is_write_blocked):
            try:
                self._transport.write_eof()
                self._resume_reading()
            except OSError:  # the client has reset the connection
                self.abort()

    def _enter_phase(self, phase: Phase) -> None:
        self._shared.open_connections.move(self, self._phase, phase)
        self._phase = phase

    def _set_deadline(self, timeout_seconds: float, on_timeout: Callable[[], None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(timeout_seconds, on_timeout)

    def _stop_reading(self) -> None:
        if self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not (self._transport.is_reading() or self._is_write_blocked or self._has_client_finished):
            self._transport.resume_reading()
