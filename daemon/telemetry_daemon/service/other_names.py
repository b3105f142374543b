"""This node's metrics under other exporters' names: rendered on request, on separate addresses if configured."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.web.addresses import WebError
from telemetry_daemon.web.clients import RateLimits
from telemetry_daemon.web.messages import Handler

if TYPE_CHECKING:  # imported when such a page is requested
    from telemetry_daemon.service.peer_sites import PeerSites
    from telemetry_daemon.site.peer_pages import PeerPages

logger = logging.getLogger(__name__)

# The name and the address of the node in Kubernetes, if the chart sets them.
_NODE_NAME, _NODE_ADDRESS = "NODE_NAME", "NODE_IP"
# An address for documentation (RFC 5737): nothing is sent to it, the kernel only selects a route.
_ANYWHERE = ("192.0.2.1", 9)
_TRY_AGAIN_SECONDS = 10.0


def _address() -> str:
    """Return the node's address in Kubernetes, else the host's source address, or an empty text without a route."""
    given = os.environ.get(_NODE_ADDRESS, "")
    if given:
        return given
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_ANYWHERE)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


class OtherNames:
    """The configured pages of other exporters. `on_change` receives whether the address of each exporter is served."""

    def __init__(
        self, settings: Settings, on_change: Callable[[Mapping[str, bool]], None], *, reports_owners: bool
    ) -> None:
        self._settings = settings
        self._on_change = on_change
        self._reports_owners = reports_owners
        self._sites: PeerSites | None = None
        self._problems: Mapping[str, str] = {}
        self._one_at_a_time = asyncio.Lock()
        self._retry: asyncio.Task[None] | None = None

    def pages(self) -> PeerPages:
        """Return the pages by the current settings."""
        from telemetry_daemon.site.peer_pages import PeerPages, Usual
        from telemetry_exporters.prometheus.compat.table import Node

        node = Node(platform.node(), os.environ.get(_NODE_NAME, ""), self._reports_owners, _address())
        compat = self._settings.compat
        usual = {name: Usual(page.version, page.hostname_label) for name, page in compat.items()}
        return PeerPages(node, usual)

    async def serve(self, settings: Settings, site: Handler, limits: RateLimits) -> None:
        """Serve the pages that have an address in these settings; a taken address is tried again. Raises WebError."""
        if self._sites is None and any(compat.listen_address for compat in settings.compat.values()):
            from telemetry_daemon.service.peer_sites import PeerSites

            self._sites = PeerSites(site, limits)
        if self._sites is not None:
            await self._serve(self._sites, settings)
        if any(self._problems.values()) and self._retry is None:
            self._retry = asyncio.get_running_loop().create_task(self._try_again())

    async def close(self) -> None:
        """Stop serving the pages."""
        if self._retry is not None:
            self._retry.cancel()
        if self._sites is not None:
            await self._sites.close()

    async def _serve(self, sites: PeerSites, settings: Settings) -> None:
        async with self._one_at_a_time:
            problems = await sites.serve(settings)
            self._settings = settings
        for name, problem in problems.items():
            if problem != self._problems.get(name) and problem:
                logger.warning("not serving under another exporter's names", extra={"exporter": name, "error": problem})
            elif problem != self._problems.get(name):
                facts = {"exporter": name, "address": ", ".join(sites.addresses[name])}
                logger.info("serving under another exporter's names", extra=facts)
        self._problems = problems
        self._on_change({name: not problem for name, problem in problems.items()})

    async def _try_again(self) -> None:
        while self._sites is not None and any(self._problems.values()):
            await asyncio.sleep(_TRY_AGAIN_SECONDS)
            try:
                await self._serve(self._sites, self._settings)
            except WebError as error:  # the web configuration file is now invalid; a later try may succeed
                logger.warning("not serving under other exporters' names", extra={"error": error})
        self._retry = None
