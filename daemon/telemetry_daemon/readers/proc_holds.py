"""What processes hold of cards, by their open files: of a few at each poll, since each may have hundreds."""

from __future__ import annotations

from collections.abc import Collection

from telemetry_daemon.readers.proc_files import open_cards
from telemetry_parsers.model import Plain
from telemetry_parsers.owners.proc import Client, clients, holds

# A process with 63 open files takes half a millisecond.
_AT_ONCE = 8
# The number of a process as text, and its start.
ProcessKey = tuple[str, int]


class Holds:
    """Remembers what was read of each process; who was not looked at for longest comes first.

    A process opened its card before anybody listed it there: who has none at the first look, or may not be looked at, is left alone.
    """

    def __init__(self) -> None:
        self._clients: dict[ProcessKey, tuple[Client, ...]] = {}
        self._without: set[ProcessKey] = set()

    def read(self, proc: str, processes: Collection[ProcessKey]) -> dict[ProcessKey, list[Plain]]:
        """What each of these processes holds; of a client that forks share, only the first of them has it."""
        self._without.intersection_update(processes)
        self._clients = {key: found for key, found in self._clients.items() if key in processes}
        unread = [key for key in processes if key not in self._without and key not in self._clients]
        for key in [*unread, *self._clients][:_AT_ONCE]:
            found = tuple(clients(open_cards(f"{proc}/{key[0]}")))
            if self._clients.pop(key, found):
                self._clients[key] = found
            else:
                self._without.add(key)
        return self._held()

    def _held(self) -> dict[ProcessKey, list[Plain]]:
        counted: set[tuple[str, str]] = set()
        held = {}
        for key in sorted(self._clients):
            own = {(one.bus_id, one.number): one for one in self._clients[key]}
            if found := holds(one for name, one in own.items() if name not in counted):
                held[key] = found
            counted |= own.keys()
        return held
