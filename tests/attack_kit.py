"""Crowds of hostile clients, and speeches that no client makes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from telemetry_daemon.web.conversation import ClientLeft, Conversation, Refusal, plain
from telemetry_daemon.web.messages import Request

CLIENTS = Path(__file__).parent / "web" / "hostile_clients.py"
PROCESSES = 4


@contextlib.contextmanager
def attack(port: int, mode: str, count: int) -> Iterator[None]:
    """Hostile clients, spread over processes so that each is within its own limits."""
    command = [sys.executable, str(CLIENTS), str(port), str(count // PROCESSES), mode]
    with contextlib.ExitStack() as running:
        crowd = [
            running.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
            for _ in range(PROCESSES)
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
