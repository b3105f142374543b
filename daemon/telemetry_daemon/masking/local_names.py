"""The names of hosts and people that this machine knows: its own name, its hosts file, its users and groups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from telemetry_daemon.guarded.reading import read_file

_HOSTS = Path("/etc/hosts")
_USERS = Path("/etc/passwd")
_GROUPS = Path("/etc/group")
_LARGEST_FILE_BYTES = 64 << 20
# The ids of people in Linux distributions. Below are services; above are services that a distribution or systemd has numbered, and
# nobody; then those of directories.
_OF_PEOPLE = (range(1000, 60_000), range(65_536, 1 << 32))
_LOGINS = ("USER", "LOGNAME", "SUDO_USER")


def names_here(
    hosts: Path = _HOSTS,
    users: Path = _USERS,
    environment: Mapping[str, str] = os.environ,
    groups: Path = _GROUPS,
) -> frozenset[str]:
    """All these names; a host name also without its domain."""
    own_name = os.uname().nodename
    hosts_known = (own_name, *(name for line in _lines(hosts) for name in line.partition("#")[0].split()[1:]))
    people = (*_people(_lines(users)), *_people(_lines(groups)), *(environment.get(name, "") for name in _LOGINS))
    return frozenset((*hosts_known, *(name.partition(".")[0] for name in hosts_known), *people)) - {""}


def _lines(path: Path) -> list[str]:
    try:
        return read_file(str(path), _LARGEST_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:  # an image may lack it; then it names nobody
        return []


def _people(lines: list[str]) -> Iterator[str]:
    for line in lines:
        name, *fields = line.split(":")
        if len(fields) > 1 and fields[1].isdecimal() and any(int(fields[1][:10]) in ids for ids in _OF_PEOPLE):
            yield name
