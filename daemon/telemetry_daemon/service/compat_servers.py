"""Serves pages in the format of other exporters at their usual addresses, such as `:9400/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from telemetry_daemon.config.optional_sections import CompatSettings
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.site.routes import HEALTH_PATH, PAGE_PATH, PEERS_PATH, READY_PATH
from telemetry_daemon.web.addresses import ListenError, WebError
from telemetry_daemon.web.clients import RateLimits
from telemetry_daemon.web.messages import Handler, Request, Response
from telemetry_daemon.web.server.web_server import WebServer

_METRICS = "/metrics"
# The paths of health checks in other exporters and in this daemon.
_HEALTH_PATHS = ("/health", HEALTH_PATH)
_TEXT_TYPE = "text/plain; charset=utf-8"


class CompatServers:
    """Serves each page at its configured address, with the access rules of [web]."""

    def __init__(self, site: Handler, limits: RateLimits) -> None:
        self._site = site
        self._limits = limits
        self._servers: dict[str, WebServer] = {}

    async def serve(self, settings: Settings) -> Mapping[str, str]:
        """Serve the pages. Return each exporter's listen error, or "". Raise WebError if a setting is invalid."""
        compat_by_name = {name: compat for name, compat in settings.compat.items() if compat.listen_address}
        for name in self._servers.keys() - compat_by_name.keys():
            await self._servers.pop(name).close()
        return {name: await self._serve_exporter(name, compat, settings) for name, compat in compat_by_name.items()}

    async def close(self) -> None:
        """Stop serving all pages."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    @property
    def addresses(self) -> Mapping[str, tuple[str, ...]]:
        """Map each exporter to the addresses at which its page is served."""
        return {name: server.addresses for name, server in self._servers.items()}

    async def _serve_exporter(self, name: str, compat: CompatSettings, settings: Settings) -> str:
        web = settings.web
        try:
            if name in self._servers:
                await self._servers[name].reconfigure(compat.listen_address, web.config_file, web.allowed_hosts)
                return ""
            respond = partial(self._respond, name)
            server = WebServer(
                respond, compat.listen_address, web.config_file, allowed_hosts=web.allowed_hosts, limits=self._limits
            )
            await server.start()
            self._servers[name] = server
        except ListenError as error:
            return f"compat.{name}.listen_address: {error}"
        except WebError as error:
            raise WebError(f"compat.{name}.listen_address: {error}") from error
        return ""

    def _respond(self, name: str, request: Request) -> Response:
        if request.path == _METRICS:
            return self._site(replace(request, path=f"{PEERS_PATH}{name}"))
        if request.path in _HEALTH_PATHS:
            return self._site(replace(request, path=HEALTH_PATH))
        if request.path == READY_PATH:
            return self._site(request)
        status = 200 if request.path == PAGE_PATH else 404
        text = f"device telemetry; {_METRICS} has the metric names of {name}\n"
        return Response(status, (text.encode(),), _TEXT_TYPE, (("X-Content-Type-Options", "nosniff"),))
