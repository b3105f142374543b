"""Serves the site on a Unix socket for local commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.guarded.named import is_own_user_or_group
from telemetry_daemon.guarded.own_folder import bind_own_socket
from telemetry_daemon.site.routes import SNAPSHOT_PATH
from telemetry_daemon.web.addresses import UNIX_PREFIX
from telemetry_daemon.web.messages import LOCAL_SOCKET, Handler, Request, Response
from telemetry_daemon.web.server.listeners import Listener, listen_on_unix_socket
from telemetry_daemon.web.server.web_server import WebServer

# Monitoring users connect as members of the daemon's group.
_GROUP_MODE = 0o660


class LocalSite:
    """Serves the site on a Unix socket without passwords."""

    def __init__(self, path: Path, site: Handler, configuration_headers: Callable[[], Mapping[str, str]]) -> None:
        self._path = path
        self._site = site
        self._configuration_headers = configuration_headers
        self._web_server = WebServer(self._respond, listen=(), config_file="")

    async def start(self) -> None:
        """Listen on the socket. Raise OSError if another daemon listens on it, or it cannot be created."""
        await self._web_server.start_on(await asyncio.to_thread(self._create_listener), is_own_user_or_group)

    async def close(self) -> None:
        """Stop serving, and remove the socket."""
        await self._web_server.close()

    def _create_listener(self) -> Listener:
        return listen_on_unix_socket(
            f"{UNIX_PREFIX}{self._path}", bind_own_socket(self._path, _GROUP_MODE), str(self._path)
        )

    def _respond(self, request: Request) -> Response:
        response = self._site(replace(request, client=LOCAL_SOCKET))
        if request.path != SNAPSHOT_PATH:
            return response
        return replace(response, headers=(*response.headers, *self._configuration_headers().items()))
