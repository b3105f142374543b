"""Finds the node's files about pods, and its render nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from telemetry_parsers.model import Plain

_KUBELET_FOLDERS = (
    "var/lib/kubelet",  # kubeadm, managed clusters, k3s and RKE2
    "var/snap/microk8s/common/var/lib/kubelet",
    "var/lib/k0s/kubelet",
    "var/lib/rancher/k3s/agent/kubelet",  # k3s with another data folder
)
_SOCKET = "pod-resources/kubelet.sock"
_MAX_NAMES = 8192

_LOG_FOLDER = re.compile(r"(?P<namespace>[^_]{1,63})_(?P<pod_name>[^_]{1,253})_(?P<pod_uid>[0-9a-f-]{32,36})", re.ASCII)
_LOG_LINK = re.compile(
    r"(?P<pod_name>[^_]{1,253})_(?P<namespace>[^_]{1,63})_(?P<container_name>[^_]{1,63})-(?P<container_id>[0-9a-f]{64})\.log",
    re.ASCII,
)
_DRM = "/sys/class/drm"
_RENDER_NODE = re.compile(r"renderD[0-9]{3}", re.ASCII)
# The empty name is the root of cgroup v2. The others are controllers of cgroup v1.
_HIERARCHIES = ("", "memory", "pids", "cpu", "systemd")
_POD_SLICES = ("kubepods.slice", "kubepods", "kubelet.slice/kubelet-kubepods.slice", "kubelet/kubepods")
_QOS_CLASS = re.compile(r"(?:(?:kubelet-)?kubepods-)?(?:burstable|besteffort)(?:\.slice)?", re.ASCII)
_POD_CGROUP = re.compile(
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?", re.ASCII
)


def kubelet_sockets(root: str) -> Iterator[str]:
    """Yield the paths of the sockets on which a kubelet may listen."""
    return (f"{root}/{path}/{_SOCKET}" for path in _KUBELET_FOLDERS)


def log_folders(root: str) -> list[Plain]:
    """Return the namespace, name and UID of each pod that has a log folder."""
    return _match_names(f"{root}/var/log/pods", _LOG_FOLDER)


def log_links(root: str) -> list[Plain]:
    """Return the namespace, pod, name and ID of each container that has a log."""
    return _match_names(f"{root}/var/log/containers", _LOG_LINK)


def pod_uids_with_cgroup(root: str) -> list[Plain] | None:
    """Return the UIDs of the pods with a cgroup, or None if the cgroups cannot be listed."""
    for hierarchy in _HIERARCHIES:
        for slice_name in _POD_SLICES:
            folder = f"{root}/sys/fs/cgroup/{hierarchy}/{slice_name}"
            names = _entry_names(folder)
            if names is not None:
                return _pod_uids_in(folder, names)
    return None


def render_nodes(root: str) -> list[Plain]:
    """Return the PCI address and number of each render node."""
    # In a container, the node's /sys may be mounted at /sys.
    folder = next((path for path in (f"{root}{_DRM}", _DRM) if _entry_names(path) is not None), _DRM)
    nodes = [name for name in (_entry_names(folder) or ()) if _RENDER_NODE.fullmatch(name)]
    addresses = {name: _device_address(f"{folder}/{name}/device") for name in sorted(nodes)}
    return [{"at": address, "render": name[-3:]} for name, address in addresses.items() if address]


def _pod_uids_in(folder: str, names: list[str]) -> list[Plain] | None:
    cgroup_names = list(names)
    for name in filter(_QOS_CLASS.fullmatch, names):
        subfolder_names = _entry_names(f"{folder}/{name}")
        if subfolder_names is None:
            return None
        cgroup_names += subfolder_names
    return sorted({match["uid"].replace("_", "-") for name in cgroup_names if (match := _POD_CGROUP.fullmatch(name))})


def _match_names(folder: str, pattern: re.Pattern[str]) -> list[Plain]:
    matches = (pattern.fullmatch(name) for name in sorted(_entry_names(folder) or ()))
    return [match.groupdict() for match in matches if match]


def _entry_names(folder: str) -> list[str] | None:
    """Return the names in a folder, or None if the folder cannot be listed or contains too many names."""
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > _MAX_NAMES:
                    return None
    except OSError:  # owners are then determined without this folder
        return None
    return names


def _device_address(link: str) -> str:
    try:
        return Path(link).readlink().name
    except OSError:  # the device was removed in the meantime
        return ""
