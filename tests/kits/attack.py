"""Crowds of hostile clients, and speeches that no client makes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from telemetry_daemon.web.messages import Request
from telemetry_daemon.web.server.conversation import ClientLeft, Conversation, Refusal, plain

CLIENTS = Path(__file__).parents[1] / "web" / "hostile_clients.py"
CLIENTS_OF_A_PROCESS = 750


@contextlib.contextmanager
def attack(port: int, mode: str, count: int, source: str = "127.0.0.1") -> Iterator[None]:
    """Hostile clients at a loopback address, spread over processes so that each is within its own limits."""
    processes = -(-count // CLIENTS_OF_A_PROCESS)
    command = [sys.executable, str(CLIENTS), str(port), str(count // processes), mode, source]
    with contextlib.ExitStack() as running:
        crowd = [
            running.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
            for _ in range(processes)
        ]
        try:
            yield
        finally:
            for process in crowd:
                process.kill()


def converse(pieces: Sequence[bytes]) -> tuple[int, bool]:
    """How often a conversation answers, whatever is said in it, and whether it ended it; each answer is one of HTTP."""
    conversation = Conversation()
    answered = 0
    with contextlib.suppress(ClientLeft):  # the end of a conversation
        for piece in [*(piece for piece in pieces if piece), b""]:
            conversation.receive(piece)
            while (found := conversation.next_request()) is not None:
                final = isinstance(found, Refusal) and found.final
                said = conversation.answer(plain(200) if isinstance(found, Request) else found.response, final=final)
                assert said[0].startswith(b"HTTP/1.1 ")
                answered += 1
                if not conversation.go_on():
                    return answered, True
    return answered, False
