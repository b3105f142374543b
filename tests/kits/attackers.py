"""Thousands of hostile clients, and bytes that no client sends."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from telemetry_daemon.web.messages import Request, status_page
from telemetry_daemon.web.server.conversation import ClientLeft, HttpConversation, Refusal

CLIENTS = Path(__file__).parents[1] / "web" / "hostile_clients.py"
CLIENTS_OF_A_PROCESS = 750


@contextlib.contextmanager
def attack(port: int, mode: str, count: int, source: str = "127.0.0.1") -> Iterator[None]:
    """Run hostile clients at a loopback address, in several processes because of the limits of each."""
    how_many = -(-count // CLIENTS_OF_A_PROCESS)
    command = [sys.executable, str(CLIENTS), str(port), str(count // how_many), mode, source]
    with contextlib.ExitStack() as running:
        processes = [
            running.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
            for _ in range(how_many)
        ]
        try:
            yield
        finally:
            for process in processes:
                process.kill()


def converse(pieces: Sequence[bytes]) -> tuple[int, bool]:
    """Return the number of answers to these bytes, and whether the server hung up. Answers must be HTTP."""
    conversation = HttpConversation()
    answered = 0
    with contextlib.suppress(ClientLeft):  # the end of a conversation
        for piece in [*(piece for piece in pieces if piece), b""]:
            conversation.receive(piece)
            while (request := conversation.next_request()) is not None:
                final = isinstance(request, Refusal) and request.is_final
                response = status_page(200) if isinstance(request, Request) else request.response
                parts = conversation.encode(response, is_final=final)
                assert parts[0].startswith(b"HTTP/1.1 ")
                answered += 1
                if not conversation.prepare_next():
                    return answered, True
    return answered, False
