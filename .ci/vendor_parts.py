"""The parts of the unit, the chart and the documentation that are generated from the vendors' records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from telemetry_parsers.vendor import DeviceNodes, NodePool, Vendor
from telemetry_parsers.vendors import VENDORS

_WIDTH = 130


def device_allow() -> str:
    """Return the unit's list of allowed drivers. Each driver is listed once, below the names of the vendors that use it."""
    names_by_nodes: dict[DeviceNodes, list[str]] = {}
    for vendor in VENDORS:
        for nodes in vendor.nodes:
            names_by_nodes.setdefault(nodes, []).append(vendor.name)
    return "".join(_device_allow_lines(nodes, ", ".join(names)) for nodes, names in names_by_nodes.items())


def pools() -> str:
    """Return the section `pools` of the chart's values."""
    comment = (
        "A DaemonSet for each pool: those below, and your own. A pool with `like: nvidia` starts with the values of that pool. "
        "Pools that need no privileges are on; nodes without their labels get no pod."
    )
    return f"\n{_wrap_comment(comment, '')}pools:\n" + "".join(_pool_section(vendor) for vendor in VENDORS)


def pools_table() -> str:
    """Return the table of pools in docs/kubernetes.md."""
    rows = (
        f"| `{vendor.word}` | {'no' if vendor.pool.privileged else 'yes'} "
        f"| {', '.join(f'`{source}`' for source in vendor.pool.sources)} | {_card_access(vendor)} |\n"
        for vendor in VENDORS
    )
    return "| pool | on by default | reads | through |\n|---|---|---|---|\n" + "".join(rows)


def permissions_table() -> str:
    """Return the table of permissions in docs/install.md."""
    rows = "".join(f"| {vendor.name} | {vendor.permissions} |\n" for vendor in VENDORS)
    return f"| for | the daemon needs |\n|---|---|\n{rows}| the host's load and memory | nothing |\n"


def _device_allow_lines(nodes: DeviceNodes, names: str) -> str:
    comment = f": {nodes.comment}" if nodes.comment else ""
    return f"# {names}{comment}\n" + "".join(f"DeviceAllow=char-{driver} rw\n" for driver in nodes.drivers)


def _wrap_comment(text: str, indent: str) -> str:
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{indent}# {line}\n" for line in lines)


def _pool_section(vendor: Vendor) -> str:
    lines = "".join(f"    {line}\n" for line in _pool_lines(vendor))
    return f"{_wrap_comment(vendor.pool.comment, '  ')}  {vendor.word}:\n{lines}"


def _pool_lines(vendor: Vendor) -> Iterator[str]:
    pool = vendor.pool
    yield f"enabled: {_yaml_bool(not pool.privileged)}"
    yield "anyNodeLabel:"
    yield from (f"  - {label}" for label in _node_labels(vendor))
    yield f"sources: [{', '.join((*pool.sources, 'host'))}]"
    if pool.runtime_class:
        yield f"runtimeClassName: {pool.runtime_class}"
    if pool.privileged:
        yield "privileged: true"
    yield from _mount_lines(pool)
    if pool.environment:
        yield "env:"
    for name, value in pool.environment:
        yield f"  - name: {name}"
        yield f"    value: {value}"


def _mount_lines(pool: NodePool) -> Iterator[str]:
    if pool.mounts:
        yield "hostPaths:"
    for mount in pool.mounts:
        yield f"  - name: {mount.name}"
        yield f"    path: {mount.path}"
        yield f"    type: {mount.type}"


def _node_labels(vendor: Vendor) -> Iterator[str]:
    """Yield the labels of the vendor's own feature discovery, then those of node feature discovery."""
    yield from vendor.pool.labels
    for pci_class in vendor.pool.classes:
        yield f"feature.node.kubernetes.io/pci-{pci_class}_{vendor.pci.vendor_id:04x}.present"


def _card_access(vendor: Vendor) -> str:
    pool = vendor.pool
    if pool.runtime_class:
        return f'the container toolkit: `runtimeClassName: {pool.runtime_class}`; `""` if this is the nodes\' default runtime'
    if not pool.privileged:
        return "`/sys`, which every container has"
    if not pool.mounts:
        return f"privileged, and your own image with the tool: `pools.{vendor.word}.image`"
    return ", ".join(("privileged", *(f"`{mount.path}`" for mount in pool.mounts)))


def _yaml_bool(value: bool) -> str:  # noqa: FBT001  # the value of a setting, not a switch
    return "true" if value else "false"
