"""Remembers which of a request's command lines the installed version of a tool understands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from telemetry_daemon.readers.tool_path import Tool
from telemetry_parsers.model import Command

# What was taken for a refusal may have been a bad moment of the tool's: after so long the first line is tried again.
_REMEMBERED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A command line to run, and its tool."""

    line: tuple[str, ...]
    tool: Tool


@dataclass(slots=True)
class _Memory:
    """What is known of one request: each line's tool, the first line not rejected and until when, the line used last."""

    tools: tuple[Tool | None, ...]
    first: int = 0
    until: float = 0.0
    used: int = 0


class Alternatives:
    """The choice for each request of one source."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._memories: dict[Command, _Memory] = {}

    def choose(self, request: Command, find: Callable[[str], Tool | None]) -> Choice | None:
        """The first line that was not rejected and whose tool is there, None if there is none."""
        names = dict.fromkeys(line[0] for line in request.alternatives)
        tools_by_name = {name: find(name) for name in names}
        tools = tuple(tools_by_name[line[0]] for line in request.alternatives)
        memory = self._memories.get(request)
        if memory is None or memory.tools != tools or (memory.first and self._clock() >= memory.until):
            memory = self._memories[request] = _Memory(tools)
        for position in range(memory.first, len(tools)):
            tool = tools[position]
            if tool is not None:
                memory.used = position
                return Choice(request.alternatives[position], tool)
        return None

    def reject(self, request: Command) -> bool:
        """Pass over the line used last. False if none is left; then the next choice is the first line again."""
        memory = self._memories.get(request)
        if memory is None:
            return False
        left = any(tool is not None for tool in memory.tools[memory.used + 1 :])
        memory.first = memory.used + 1 if left else 0
        memory.until = self._clock() + _REMEMBERED_SECONDS
        return left

    def forget(self, request: Command) -> None:
        """Begin with the first line again."""
        self._memories.pop(request, None)
