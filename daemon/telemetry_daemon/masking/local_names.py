"""The names of hosts and people that this machine knows: its own name, its hosts file and its users."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from telemetry_daemon.guarded.reading import read_file

_HOSTS = Path("/etc/hosts")
_USERS = Path("/etc/passwd")
_LARGEST_FILE_BYTES = 64 << 20
# The user ids of people in Linux distributions; services are below, nobody is above.
_OF_PEOPLE = range(1000, 65534)
_LOGINS = ("USER", "LOGNAME", "SUDO_USER")


def names_here(
    hosts: Path = _HOSTS, users: Path = _USERS, environment: Mapping[str, str] = os.environ
) -> frozenset[str]:
    """All these names; a host name also without its domain."""
    own_name = os.uname().nodename
    hosts_known = (own_name, *(name for line in _lines(hosts) for name in line.partition("#")[0].split()[1:]))
    people = (*_people(_lines(users)), *(environment.get(name, "") for name in _LOGINS))
    return frozenset((*hosts_known, *(name.partition(".")[0] for name in hosts_known), *people)) - {""}


def _lines(path: Path) -> list[str]:
    try:
        return read_file(str(path), _LARGEST_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:  # an image may lack it; then it names nobody
        return []


def _people(lines: list[str]) -> Iterator[str]:
    for line in lines:
        name, *fields = line.split(":")
        if len(fields) > 1 and fields[1].isdecimal() and int(fields[1][:9]) in _OF_PEOPLE:
            yield name
