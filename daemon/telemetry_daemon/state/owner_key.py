"""The key with which names of owners are hashed: of the operator's file, or this node's own in the state directory."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file

log = logging.getLogger(__name__)

NAME = "owners.key"
_LEAST_BYTES, _MOST_BYTES = 16, 4096
_OWN_BYTES = 32


def owner_key(key_file: str, directory: str | None) -> bytes:
    """The key in the file, if one is named; else that in the state directory, which is made once. Raises ConfigError.

    Who has no state directory gets another key each time.
    """
    if key_file:
        return _given(key_file)
    return os.urandom(_OWN_BYTES) if directory is None else _own(Path(directory))


def _given(path: str) -> bytes:
    try:
        key = read_file(path, _MOST_BYTES).strip()
    except OSError as error:
        raise ConfigError(
            f"attribution.hash_key_file {path}: {error.strerror or error}; let the service's user read it"
        ) from error
    if len(key) < _LEAST_BYTES:
        raise ConfigError(
            f"attribution.hash_key_file {path} has less than {_LEAST_BYTES} characters; fill it with `openssl rand -hex 32`"
        )
    return key


def _own(directory: Path) -> bytes:
    try:
        with OwnFolder.made(directory) as folder:
            return _kept(folder) or _made(folder)
    except OSError as error:
        # Without a place to keep it, names have other hashes after the next start, and are told to nobody.
        log.warning("the key of owners' hashes cannot be kept", extra={"path": str(directory / NAME), "error": error})
        return os.urandom(_OWN_BYTES)


def _kept(folder: OwnFolder) -> bytes | None:
    try:
        key = folder.read(NAME, _MOST_BYTES)
    except FileNotFoundError:  # the first start
        return None
    return key if len(key) >= _LEAST_BYTES else None


def _made(folder: OwnFolder) -> bytes:
    key = os.urandom(_OWN_BYTES).hex().encode()
    folder.replace(NAME, key)
    return key
