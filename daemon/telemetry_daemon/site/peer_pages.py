"""The pages under other exporters' names, at `/metrics/EXPORTER`: the page of a request, and its renderer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from telemetry_daemon.site.negotiation import BadQueryError, quoted
from telemetry_daemon.site.rendered import RendersPage
from telemetry_exporters.prometheus.compat import EXPORTERS, load_table, version_problem
from telemetry_exporters.prometheus.compat.page import CompatRenderer
from telemetry_exporters.prometheus.compat.table import Node

_EVERYBODY = "all"


class Usual(NamedTuple):
    """The default of an exporter's page: its version, and the label with the node's name."""

    version: str = ""
    hostname_label: str = ""


class PeerPages:
    """Keeps the renderer of each page that a client has requested."""

    def __init__(self, node: Node, usual: Mapping[str, Usual]) -> None:
        self._node = node
        self._usual = usual
        self._renderers: dict[str, CompatRenderer] = {}

    def page(self, name: str, query: str) -> tuple[str, RendersPage]:
        """Return the page's name in the cache, and its renderer. Raises BadQueryError."""
        if name not in EXPORTERS:
            raise BadQueryError(404, f"no other exporter is called {quoted(name)}; there are {', '.join(EXPORTERS)}")
        usual = self._usual.get(name, Usual())
        parameters = parse_qs(query, keep_blank_values=True)
        all_vendors = _wants_all_vendors(parameters.get("vendors"))
        version = _version(name, parameters.get("version")) or usual.version
        key = f"{name} {version}{' of all vendors' if all_vendors else ''}"
        if key not in self._renderers:
            table = load_table(name, version)
            self._renderers[key] = CompatRenderer(table, self._node, usual.hostname_label, all_vendors=all_vendors)
        return key, self._renderers[key].page


def _version(name: str, requested: list[str] | None) -> str:
    """Return the requested version of the exporter's names; empty if the query has none."""
    version = ",".join(requested or ())
    problem = "it is empty" if requested is not None and not version else version_problem(name, version)
    if problem:
        raise BadQueryError(400, f"`version` is {quoted(version)}; {problem}")
    return version


def _wants_all_vendors(vendors: list[str] | None) -> bool:
    """Return whether the query requests the cards of all vendors under these names."""
    if vendors is None:
        return False
    if vendors != [_EVERYBODY]:
        raise BadQueryError(
            400, f"`vendors` is {quoted(','.join(vendors))}; give `vendors={_EVERYBODY}`, or leave it out"
        )
    return True
