"""The site for our own user and root, on a Unix socket in the runtime directory: without passwords, and whatever [web] says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.config.reads import HEADER
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.site.routes import SNAPSHOT_PATH
from telemetry_daemon.web.addresses import UNIX_PREFIX
from telemetry_daemon.web.messages import Handler, Request, Response
from telemetry_daemon.web.server.listeners import Listener, listening
from telemetry_daemon.web.server.web_server import WebServer


def path_in(runtime_directory: str) -> Path:
    """Where the socket lies."""
    return Path(runtime_directory) / "web.sock"


class LocalSite:
    """Serves the site at that path; the snapshot says by what configuration it was read."""

    def __init__(self, path: Path, site: Handler, reads: Callable[[], str]) -> None:
        self._path = path
        self._site = site
        self._reads = reads
        self._web = WebServer(self._respond, (), "")

    async def start(self) -> None:
        """Listen; a socket that a daemon left is replaced. Raises OSError."""
        await self._web.start_on(await asyncio.to_thread(self._listener))

    async def close(self) -> None:
        """Stop, and remove the socket."""
        await self._web.close()

    def _listener(self) -> Listener:
        with OwnFolder.made(self._path.parent) as folder:
            bound = folder.bound(self._path.name)
        return listening(f"{UNIX_PREFIX}{self._path}", bound, str(self._path))

    def _respond(self, request: Request) -> Response:
        response = self._site(request)
        if request.path != SNAPSHOT_PATH:
            return response
        return replace(response, headers=(*response.headers, (HEADER, self._reads())))
