"""Serves this node's metrics in the format of other exporters, on request and at configured addresses."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.web.addresses import WebError
from telemetry_daemon.web.clients import RateLimits
from telemetry_daemon.web.messages import Handler

if TYPE_CHECKING:  # imported when such a page is requested
    from telemetry_daemon.service.compat_servers import CompatServers
    from telemetry_daemon.site.peer_pages import PeerPages

logger = logging.getLogger(__name__)

# The Helm chart sets these variables to the node's name and address.
_NODE_NAME, _NODE_ADDRESS = "NODE_NAME", "NODE_IP"
# Nothing is sent to this documentation address (RFC 5737): the kernel only selects a route.
_UNREACHABLE_ADDRESS = ("192.0.2.1", 9)
_RETRY_SECONDS = 10.0


def _node_address() -> str:
    address = os.environ.get(_NODE_ADDRESS, "")
    if address:
        return address
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_UNREACHABLE_ADDRESS)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


class CompatPages:
    """Serves pages in the format of other exporters."""

    def __init__(
        self, settings: Settings, on_change: Callable[[Mapping[str, bool]], None], *, reports_owners: bool
    ) -> None:
        self._settings = settings
        self._on_change = on_change
        self._reports_owners = reports_owners
        self._servers: CompatServers | None = None
        self._errors: Mapping[str, str] = {}
        self._serve_lock = asyncio.Lock()
        self._retry_task: asyncio.Task[None] | None = None

    def pages(self) -> PeerPages:
        """Return the pages for the current settings."""
        from telemetry_daemon.site.peer_pages import PageDefaults, PeerPages
        from telemetry_exporters.prometheus.compat.table import NodeIdentity

        node = NodeIdentity(socket.gethostname(), os.environ.get(_NODE_NAME, ""), self._reports_owners, _node_address())
        compat = self._settings.compat
        defaults = {name: PageDefaults(page.version, page.hostname_label) for name, page in compat.items()}
        return PeerPages(node, defaults)

    async def serve(self, settings: Settings, site: Handler, limits: RateLimits) -> None:
        """Serve the pages at their configured addresses. Raise WebError if a setting is invalid."""
        if self._servers is None and any(compat.listen_address for compat in settings.compat.values()):
            from telemetry_daemon.service.compat_servers import CompatServers

            self._servers = CompatServers(site, limits)
        if self._servers is not None:
            await self._update_servers(self._servers, settings)
        if any(self._errors.values()) and self._retry_task is None:
            self._retry_task = asyncio.get_running_loop().create_task(self._retry_serving())

    async def close(self) -> None:
        """Stop serving the pages."""
        if self._retry_task is not None:
            self._retry_task.cancel()
        if self._servers is not None:
            await self._servers.close()

    async def _update_servers(self, servers: CompatServers, settings: Settings) -> None:
        async with self._serve_lock:
            errors = await servers.serve(settings)
            self._settings = settings
        for name, error in errors.items():
            if error != self._errors.get(name) and error:
                logger.warning("a compatibility page cannot be served", extra={"exporter": name, "error": error})
            elif error != self._errors.get(name):
                extra = {"exporter": name, "address": ", ".join(servers.addresses[name])}
                logger.info("a compatibility page is served", extra=extra)
        self._errors = errors
        self._on_change({name: not error for name, error in errors.items()})

    async def _retry_serving(self) -> None:
        while self._servers is not None and any(self._errors.values()):
            await asyncio.sleep(_RETRY_SECONDS)  # there is no event for a port that becomes free
            try:
                await self._update_servers(self._servers, self._settings)
            except WebError as error:  # the web configuration file is currently invalid; a later attempt may succeed
                logger.warning("compatibility pages cannot be served", extra={"error": error})
        self._retry_task = None
