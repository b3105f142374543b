"""The pages under other exporters' names, at `/metrics/EXPORTER`: which page a request means, and what makes it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from telemetry_daemon.site.negotiation import BadQueryError, quoted
from telemetry_daemon.site.rendered import MakesPage
from telemetry_exporters.prometheus.compat import PLACES, peer
from telemetry_exporters.prometheus.compat.page import PeerRenderer
from telemetry_exporters.prometheus.compat.table import Node

_EVERYBODY = "all"


class PeerPages:
    """Has the renderer of each page that somebody has asked for."""

    def __init__(self, node: Node, hostname_labels: Mapping[str, str]) -> None:
        self._node = node
        self._hostname_labels = hostname_labels
        self._renderers: dict[str, PeerRenderer] = {}

    def page(self, name: str, query: str) -> tuple[str, MakesPage]:
        """What the page is called among the pages that are kept, and what makes it. Raises BadQueryError."""
        if name not in PLACES:
            raise BadQueryError(404, f"no other exporter is called {quoted(name)}; there are {', '.join(PLACES)}")
        everybody = _is_for_everybody(query)
        key = f"{name} of all vendors" if everybody else name
        if key not in self._renderers:
            label = self._hostname_labels.get(name, "")
            self._renderers[key] = PeerRenderer(peer(name), self._node, label, everybody=everybody)
        return key, self._renderers[key].page


def _is_for_everybody(query: str) -> bool:
    """Whether the cards of all vendors are wanted under these names."""
    given = parse_qs(query, keep_blank_values=True).get("vendors")
    if given is None:
        return False
    if given != [_EVERYBODY]:
        raise BadQueryError(
            400, f"`vendors` is {quoted(','.join(given))}; give `vendors={_EVERYBODY}`, or leave it out"
        )
    return True
