"""This node under other exporters' names: made when somebody asks, served on addresses of their own where the settings say so."""

from __future__ import annotations

import logging
import os
import platform
from typing import TYPE_CHECKING

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.web.messages import Handler

if TYPE_CHECKING:  # imported when somebody asks for such a page
    from telemetry_daemon.service.peer_sites import PeerSites
    from telemetry_daemon.site.peer_pages import PeerPages

logger = logging.getLogger(__name__)

# The name of the node in Kubernetes, where the chart sets it.
_NODE_NAME = "NODE_NAME"


class OtherNames:
    """What the settings say of other exporters' names; `tells_owners` is whether pods are known at all."""

    def __init__(self, settings: Settings, *, tells_owners: bool) -> None:
        self._settings = settings
        self._tells_owners = tells_owners
        self._sites: PeerSites | None = None

    def pages(self) -> PeerPages:
        """The pages by the settings in force."""
        from telemetry_daemon.site.peer_pages import PeerPages
        from telemetry_exporters.compat.told import Node

        node = Node(platform.node(), os.environ.get(_NODE_NAME, ""), self._tells_owners)
        return PeerPages(node, {name: one.hostname_label for name, one in self._settings.compat.items()})

    async def serve(self, settings: Settings, site: Handler) -> None:
        """Serve the pages that have an address of their own in these settings. Raises WebError."""
        if self._sites is None and any(one.listen_address for one in settings.compat.values()):
            from telemetry_daemon.service.peer_sites import PeerSites

            self._sites = PeerSites(site)
        if self._sites is not None:
            await self._sites.serve(settings)
            for name, addresses in self._sites.addresses.items():
                facts = {"exporter": name, "address": ", ".join(addresses)}
                logger.info("serving under another exporter's names", extra=facts)
        self._settings = settings

    async def close(self) -> None:
        """Stop serving them."""
        if self._sites is not None:
            await self._sites.close()
