"""The names of users, by a process of its own: the directory service behind them may hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.processes.short_lived import NoAnswerError, ask

_DEADLINE_SECONDS = 1.0
_ASK_AGAIN_SECONDS = 600.0
_LARGEST_PASSWD_BYTES = 8 << 20
_MOST_KNOWN = 4096


class Users:
    """Names of users that were asked for before; who has none is called by the number."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._names: dict[int, str] = {}
        self._nameless: dict[int, float] = {}

    def learn(self, uids: Iterable[int]) -> None:
        """Ask for those that are not known, all at once."""
        now = self._clock()
        unknown = {uid for uid in uids if uid not in self._names and self._nameless.get(uid, 0.0) <= now}
        if not unknown:
            return
        if len(self._names) + len(self._nameless) + len(unknown) > _MOST_KNOWN:
            self._names.clear()
            self._nameless.clear()
        self._names.update((uid, name) for uid, name in self._asked(sorted(unknown)) if uid in unknown)
        self._nameless.update((uid, now + _ASK_AGAIN_SECONDS) for uid in unknown - self._names.keys())

    def name(self, uid: int) -> str:
        """The name, else the number."""
        return self._names.get(uid, str(uid))

    def _asked(self, uids: list[int]) -> Iterator[tuple[int, str]]:
        try:
            if self._root in ("", "/"):
                text = ask(("getent", "passwd", *map(str, uids)), "", _DEADLINE_SECONDS).output
            else:  # the users of the node, not of the container
                text = read_file(f"{self._root}/etc/passwd", _LARGEST_PASSWD_BYTES).decode(errors="replace")
        except (NoAnswerError, OSError):  # they are called by their numbers until they are asked for again
            return
        for line in text.splitlines():
            name, _, rest = line.partition(":")
            fields = rest.split(":", 2)
            if name and len(fields) > 1 and fields[1].isascii() and fields[1].isdigit():
                yield int(fields[1]), name
