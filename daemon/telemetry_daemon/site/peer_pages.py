"""The pages in the format of other exporters, at `/metrics/EXPORTER`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from telemetry_daemon.site.negotiation import BadQueryError, quoted
from telemetry_daemon.site.rendered import PageRenderer
from telemetry_exporters.prometheus.compat import EXPORTERS, load_table, version_problem
from telemetry_exporters.prometheus.compat.page import CompatRenderer
from telemetry_exporters.prometheus.compat.table import NodeIdentity

_ALL_VENDORS = "all"


class PageDefaults(NamedTuple):
    """The configured defaults of an exporter's page."""

    version: str = ""
    hostname_label: str = ""


class PeerPages:
    """Pages of metrics in the formats of other exporters."""

    def __init__(self, node: NodeIdentity, defaults: Mapping[str, PageDefaults]) -> None:
        self._node = node
        self._defaults = defaults
        self._renderers: dict[str, CompatRenderer] = {}

    def page(self, name: str, query: str) -> tuple[str, PageRenderer]:
        """Return the cache key and the renderer of a page. Raise BadQueryError if exporter or query is invalid."""
        if name not in EXPORTERS:
            raise BadQueryError(404, f"unknown exporter {quoted(name)}; valid exporters: {', '.join(EXPORTERS)}")
        defaults = self._defaults.get(name, PageDefaults())
        parameters = parse_qs(query, keep_blank_values=True)
        includes_all_vendors = _wants_all_vendors(parameters.get("vendors"))
        version = _parse_version(name, parameters.get("version")) or defaults.version
        key = f"{name} {version}{' of all vendors' if includes_all_vendors else ''}"
        if key not in self._renderers:
            table = load_table(name, version)
            label = defaults.hostname_label
            self._renderers[key] = CompatRenderer(table, self._node, label, all_vendors=includes_all_vendors)
        return key, self._renderers[key].page


def _parse_version(name: str, requested: list[str] | None) -> str:
    version = ",".join(requested or ())
    problem = "it is empty" if requested is not None and not version else version_problem(name, version)
    if problem:
        raise BadQueryError(400, f"invalid `version` {quoted(version)}: {problem}")
    return version


def _wants_all_vendors(vendors: list[str] | None) -> bool:
    if vendors is None:
        return False
    if vendors != [_ALL_VENDORS]:
        remedy = f"use `vendors={_ALL_VENDORS}` or remove the parameter"
        raise BadQueryError(400, f"invalid `vendors` {quoted(','.join(vendors))}; {remedy}")
    return True
