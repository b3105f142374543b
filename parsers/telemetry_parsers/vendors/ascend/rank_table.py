"""Reads Ascend's rank table: the chip and server of each rank of a job."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import Any

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Plain
from telemetry_parsers.text.lines import quote

COMPLETED = "completed"
_MAX_RANKS = 1_000_000
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_MAX_NAMED_SERVERS = 5
# The maximum length of a host name (RFC 1035), the longest string in a table.
_MAX_TEXT_LENGTH = 255
_MAX_DEPTH = 32
# Without a closing quote, a match extends to the end of the text. The search time therefore stays linear.
_QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")
_DEPTH_CHANGES = {"[": 1, "{": 1, "]": -1, "}": -1}


class RankTableError(ValueError):
    """An invalid rank table. The message contains the position of the error and the remedy."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server: its position in the table, its id, and its other names and addresses."""

    ordinal: int
    id: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank with its server and the physical id of its chip."""

    rank: int
    chip: int
    server: Server


@dataclass(frozen=True, slots=True)
class RankTable:
    """All ranks of a job and their servers. Both are empty unless the status is `completed`."""

    version: str
    status: str
    servers: tuple[Server, ...] = ()
    ranks: tuple[Rank, ...] = ()


def read_rank_table(text: str) -> RankTable:
    """Parse a rank table. Raise RankTableError if a line or field is invalid."""
    document = _JsonObject(_parse_json(text), "")
    version, status = document.text("version"), document.text("status")
    if status != COMPLETED:
        return RankTable(version, status)
    if version.startswith("1."):
        ranks = tuple(_read_version_1(document))
    elif version.startswith("2."):
        ranks = tuple(_read_version_2(document))
    else:
        raise RankTableError(f"version: must be 1.0, 1.2 or 2.0, not {quote(version)}")
    servers = tuple(dict.fromkeys(rank.server for rank in ranks))
    _check_unique(ranks)
    return RankTable(version, status, servers, ranks)


def ranks_of(table: RankTable, names: Collection[str], server_name: str = "") -> tuple[Rank, ...]:
    """Return the ranks of one server. Select it by `server_name` or, if this is empty, by any of the node's `names`.

    The only server of a table always matches `names`. Raise RankTableError if none or several of the servers match.
    """
    servers = table.servers
    if server_name:
        matching_servers = [server for server in servers if server_name in (server.id, *server.names)]
    else:
        node_names = {name.lower() for name in names}
        matching_servers = [
            server for server in servers if not node_names.isdisjoint(map(str.lower, (server.id, *server.names)))
        ] or (list(servers) if len(servers) == 1 else [])
    if len(matching_servers) == 1 or not servers:
        return tuple(rank for rank in table.ranks if rank.server in matching_servers)
    match_count = "several" if matching_servers else "none"
    expected = f"rank_table_server {quote(server_name)}" if server_name else "this node"
    ids = ", ".join(quote(server.id) or "(unnamed)" for server in servers[:_MAX_NAMED_SERVERS])
    omitted = f" and {len(servers) - _MAX_NAMED_SERVERS} more" if len(servers) > _MAX_NAMED_SERVERS else ""
    raise RankTableError(
        f"{expected} matches {match_count} of the servers {ids}{omitted}; set rank_table_server to the node's id"
    )


def _read_version_1(document: _JsonObject) -> Iterator[Rank]:
    """Yield the ranks of a version 1 table, whose servers contain their devices."""
    servers = list(document.objects("server_list"))
    _check_count(document, "server_count", len(servers))
    for ordinal, entry in enumerate(servers):
        names = tuple(filter(None, (entry.text_or_none(key) for key in ("host_ip", "container_ip"))))
        server = Server(ordinal, entry.text("server_id"), names)
        for device in entry.objects("device"):
            yield Rank(device.number("rank_id"), device.number("device_id"), server)


def _read_version_2(document: _JsonObject) -> Iterator[Rank]:
    """Yield the ranks of a version 2 table, whose ranks contain the ids of their servers."""
    entries = list(document.objects("rank_list"))
    _check_count(document, "rank_count", len(entries))
    ordinals_by_id: dict[str, int] = {}
    for entry in entries:
        levels = list(entry.objects("level_list")) if entry.has("level_list") else []
        innermost_level = min(levels, key=lambda level: level.number("net_layer"), default=None)
        server_id = (innermost_level.text_or_none("net_instance_id") or "") if innermost_level else ""
        server = Server(ordinals_by_id.setdefault(server_id, len(ordinals_by_id)), server_id)
        yield Rank(entry.number("rank_id"), entry.number("device_id"), server)


def _check_count(document: _JsonObject, key: str, count: int) -> None:
    if document.has(key) and document.number(key) != count:
        raise RankTableError(f"{key}: is {document.number(key)}, but {count} are listed; the file may be incomplete")


def _check_unique(ranks: tuple[Rank, ...]) -> None:
    """Raise RankTableError if a rank, or a chip of a server, is listed twice."""
    if not ranks:
        raise RankTableError("the table lists no ranks")
    for rank, count in Counter(rank.rank for rank in ranks).items():
        if count > 1:
            raise RankTableError(f"rank {rank} is listed {count} times")
    for (server, chip), count in Counter((rank.server, rank.chip) for rank in ranks).items():
        if count > 1:
            where = f"on server {quote(server.id)}" if server.id else "(the table names no servers)"
            raise RankTableError(f"device {chip} has {count} ranks {where}")


class _JsonObject:
    """A JSON object with its path in the document."""

    def __init__(self, value: Plain, path: str) -> None:
        if not isinstance(value, dict):
            raise RankTableError(f"{path or 'the document'}: must be an object")
        self._values: dict[str, Any] = value
        self._path = path

    def has(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        """Return the string of a required key."""
        value = self.text_or_none(key)
        if value is None:
            raise RankTableError(f"{self._path_of(key)}: is missing")
        return value

    def text_or_none(self, key: str) -> str | None:
        """Return the key's string, or None if the key is missing."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise RankTableError(f"{self._path_of(key)}: must be a JSON string")
        if value is not None and len(value) > _MAX_TEXT_LENGTH:
            raise RankTableError(f"{self._path_of(key)}: is longer than {_MAX_TEXT_LENGTH} characters")
        return value

    def number(self, key: str) -> int:
        """Return the whole number of a required key."""
        value = self._values.get(key)
        if value is None:
            raise RankTableError(f"{self._path_of(key)}: is missing")
        if isinstance(value, bool) or _NUMBER.match(str(value)) is None:
            raise RankTableError(f"{self._path_of(key)}: must be a whole number, not {quote(json.dumps(value))}")
        return int(value)

    def objects(self, key: str) -> Iterator[_JsonObject]:
        """Yield the objects of a required list."""
        value = self._values.get(key)
        if not isinstance(value, list) or len(value) > _MAX_RANKS:
            raise RankTableError(f"{self._path_of(key)}: must be a list of at most {_MAX_RANKS} items")
        for position, item in enumerate(value):
            yield _JsonObject(item, f"{self._path_of(key)}[{position}]")

    def _path_of(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def _parse_json(text: str) -> Plain:
    _check_depth(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = text.split("\n")[error.lineno - 1]
        raise RankTableError(f"line {error.lineno} is not valid JSON: {_remedy_for(line, error)}") from None
    except ValueError as error:
        raise RankTableError(f"is not valid JSON: {quote(str(error))}") from None


def _check_depth(text: str) -> None:
    brackets = _NO_BRACKET.sub("", _QUOTED.sub("", text))
    if max(accumulate(map(_DEPTH_CHANGES.__getitem__, brackets)), default=0) > _MAX_DEPTH:
        raise RankTableError(f"is nested more than {_MAX_DEPTH} levels deep")


def _remedy_for(line: str, error: json.JSONDecodeError) -> str:
    """Return a remedy for a common mistake, such as a comment, or else the parser's message."""
    remaining = line[error.colno - 1 :].strip()
    if remaining.startswith(("//", "/*", "#")):
        return "JSON has no comments; remove the comment"
    if remaining.startswith("..."):
        return "replace the dots with the omitted entries"
    # Since Python 3.13, the error's position is that of the comma itself.
    if remaining.startswith(("}", "]")) or error.msg.startswith("Illegal trailing comma"):
        return "remove the comma before the closing bracket"
    if not line.strip():
        return "the text ends here"
    return f"{error.msg} at column {error.colno}"
