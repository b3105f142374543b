"""What `telemetry snapshot` is told by a daemon: of this node, or of another."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping

from telemetry_daemon.commands.answer import Answer, NotAskedError, local_socket
from telemetry_daemon.config.inputs import GIVEN_HEADER, READS_HEADER, given_word
from telemetry_daemon.remote.address import Address
from telemetry_daemon.remote.documents import DocumentError, document_in, snapshot_of
from telemetry_daemon.remote.http_client import Client, Credentials, NodeError
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters import human
from telemetry_parsers.model import Snapshot

_SNAPSHOT = "/api/v1/snapshot"
# A daemon that takes longer is not waited for, since the tools can be asked.
_PATIENCE_SECONDS = 1.0
_NOT_READY = 503


def of_daemon_here(arguments: argparse.Namespace) -> Answer | None:
    """Return what the daemon of this node reports; None if there is none, or it is not ready, or reads something else.

    Raises NotAskedError if a daemon runs that does not answer this user.
    """
    client = Client(Address("the daemon", unix=local_socket(arguments)), seconds=_PATIENCE_SECONDS)
    try:
        client.get("/readyz")
        answer = client.get(_SNAPSHOT)
        if not _reads_the_same(arguments, answer.headers):
            return None
        return _answer(answer.body, "the daemon", time.time())
    except NodeError as error:
        if error.status or error.is_absent:
            return None
    finally:
        client.close()
    return _of_daemon_over_http(arguments)


def _of_daemon_over_http(arguments: argparse.Namespace) -> Answer | None:
    """Return what the daemon reports to a user who may not use its socket. Raises NotAskedError."""
    from telemetry_daemon.commands import nodes, options

    given = nodes.credentials(arguments)
    address = nodes.daemon_here(options.settings(arguments), given)
    if address is None:
        return None
    client = Client(address, given, _PATIENCE_SECONDS)
    try:
        client.get("/readyz")
        answer = _answer(client.get(_SNAPSHOT).body, "the daemon", time.time())
    except NodeError as error:
        if error.status == _NOT_READY:
            return None
        raise NotAskedError(f"the daemon of this node, {address.name}: {error}") from None
    finally:
        client.close()
    is_played = answer.snapshot.recorded is not None or any(device.simulated for device in answer.snapshot.devices)
    return None if is_played else answer


def daemon_reads_the_same(arguments: argparse.Namespace) -> bool:
    """Whether the daemon of this node runs, and reads what this command would."""
    client = Client(Address("the daemon", unix=local_socket(arguments)), seconds=_PATIENCE_SECONDS)
    try:
        return _reads_the_same(arguments, client.get(_SNAPSHOT).headers)
    except NodeError:  # this command can read as well
        return False
    finally:
        client.close()


def of_daemon(arguments: argparse.Namespace) -> Answer:
    """What the daemon of this node tells, whatever it reads. Raises CommandError."""
    from telemetry_daemon.commands import nodes, options

    given = nodes.credentials(arguments)
    address = nodes.daemon_here(options.settings(arguments), given)
    if address is None:
        raise CommandError(
            "no daemon of this node answers; start it, or leave out --from daemon", status=exits.UNAVAILABLE
        )
    return _asked(address, given, arguments.timeout, "the daemon")


def of_node(arguments: argparse.Namespace) -> Answer:
    """What the daemon of another node tells. Raises CommandError."""
    from telemetry_daemon.commands import nodes

    (address,) = nodes.addresses([arguments.node], None)
    return _asked(address, nodes.credentials(arguments), arguments.timeout, address.name)


def _asked(address: Address, given: Credentials, seconds: float | None, name: str) -> Answer:
    client = Client(address, given, seconds or 5.0)
    try:
        # Another node's clock may be wrong: the age is by its own.
        return _answer(client.get(_SNAPSHOT).body, name, time.time() if address.unix else None)
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None
    finally:
        client.close()


def _answer(body: bytes, name: str, now: float | None) -> Answer:
    try:
        document = document_in(body)
        snapshot = snapshot_of(document)
    except DocumentError as error:
        raise NodeError(f"its document cannot be understood: {error}") from error
    age = _age(snapshot) + (max(0.0, now - snapshot.wall_time) if now is not None else 0.0)
    # What another machine sent is shown only as far as it is understood.
    return Answer(snapshot, f"from {name}: read {human.seconds(round(age, 1))} ago", (), document if now else None)


def _age(snapshot: Snapshot) -> float:
    """How long before the snapshot the slowest of its sources was read that works."""
    ages = [
        min(snapshot.monotonic_time - poll.attempted_monotonic for poll in source.polls if poll.attempted)
        for source in snapshot.sources
        if source.state == "ok" and any(poll.attempted for poll in source.polls)
    ]
    return max(ages, default=0.0)


def _reads_the_same(arguments: argparse.Namespace, headers: Mapping[str, str]) -> bool:
    """Whether the daemon's settings decide the same as those of this command, though they may be written otherwise."""
    given = given_word(arguments.config, os.environ)
    if given and given == headers.get(GIVEN_HEADER.lower()):
        return True
    told = headers.get(READS_HEADER.lower())
    if not told:
        return False
    from telemetry_daemon.commands import options
    from telemetry_daemon.config.settings import reads

    return told == reads(options.settings(arguments))
