"""Finds a process's owner in its cgroup path: job or container, pod, unit or user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.ownership import Owner

MAX_CHARACTERS = 65_536
_MAX_NAME_LENGTH = 256
_MAX_PARTS = 64
_SHORT_ID_LENGTH = 12
_DELETED = " (deleted)"
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
# The cgroup hierarchies in search order. The hierarchy of version 2 has an empty name.
_HIERARCHIES = ("", "name=systemd", "devices", "memory", "cpu,cpuacct", "pids")


@dataclass(frozen=True, slots=True)
class CgroupOwner:
    """The owner in a cgroup path, the owner's keys, and the name or short id of the container."""

    owner: Owner | None = None
    keys: tuple[str, ...] = ()
    container: str = ""


@dataclass(frozen=True, slots=True)
class _MatchedPart:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _PartPattern:
    """A pattern for one component of a cgroup path. `parent` must match the path before the component."""

    kind: str
    pattern: re.Pattern[str]
    parent: re.Pattern[str] | None = None


def _part_pattern(kind: str, pattern: str, parent: str = "") -> _PartPattern:
    return _PartPattern(kind, re.compile(pattern + r"\Z"), re.compile(parent) if parent else None)


_ID = r"([0-9a-f]{64})"
_UID = r"([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
# Several parts of a path may match. The last matching part is the most specific.
# fmt: off
_PATTERNS = (
    # Kubernetes with either cgroup driver. In slices, the UID has underscores.
    _part_pattern("pod", rf"(?:[\w-]+-)?kubepods(?:-[a-z]+)?-pod{_UID}\.slice(?::[a-z-]+:[0-9a-f]+)?"),
    _part_pattern("pod", rf"pod{_UID}"),
    # A process that monitors a container has no owner.
    _part_pattern("monitor", r"(?:crio|libpod)-conmon-([0-9a-f]{64})(?:\.scope)?"),
    # Docker, containerd, nerdctl, cri-o, podman and isula use scopes, or folders that are named after the container's id.
    _part_pattern("container", rf"(?:docker|cri-containerd|nerdctl|crio|libpod|isulad?|buildkit)-{_ID}\.scope"),
    _part_pattern("container", rf"libpod-payload-{_ID}"),
    _part_pattern("container", rf"[^:/]+:(?:cri-containerd|docker|nerdctl|runc):{_ID}"),
    _part_pattern("container", _ID, r"(?:\A|/)(?:docker|isulad|libpod_parent|default|moby|garden|actions_job|podruntime|[^/]*pod[^/]*)/"),
    _part_pattern("container", rf"(?:docker|libpod|crio|cri-containerd|nerdctl)-{_ID}"),
    _part_pattern("container", r"lxc\.payload\.(.+)"),
    _part_pattern("container", r"machine-(?!libpod_pod)(.+)\.scope", r"(?:\A|/)machine\.slice/"),
    _part_pattern("container", r"(?!monitor|pivot)([^/]+)", r"(?:\A|/)lxc/\Z"),
    # Slurm names a job by a number or, since version 26.05, by a SLUID.
    _part_pattern("slurm", r"job_([0-9]{1,20})", r"slurm"),
    _part_pattern("sluid", r"(s[0-9A-HJKMNP-TV-Z]{13})", r"slurmstepd\.scope/\Z"),
    # OpenPBS, Torque, and Flux if it starts each job in a separate unit.
    _part_pattern("pbs", r"([0-9]+(?:\[[0-9]*\])?\.[A-Za-z0-9._-]+)", r"pbs_jobs\.service/job(?:id|s)/\Z"),
    _part_pattern("pbs", r"([0-9]+(?:\[[0-9]*\])?\.[A-Za-z0-9._-]+)", r"(?:\A|/)torque/\Z"),
    _part_pattern("flux", r"(?:imp-)?shell-[0-9]+-([^/.]+)\.service"),
    # Slices of users, and system services.
    _part_pattern("user", r"user-([0-9]{1,10})\.slice"),
    _part_pattern("service", r"([^/]+\.service)", r"(?:\A|/)system\.slice/"),
    _part_pattern("service", r"([^/]+\.service)", r"\A/?\Z"),
)
# fmt: on
# Kinds that have priority over an enclosing pod, and kinds that are used only if there is no other owner.
_INNERMOST_KINDS = frozenset({"container", "slurm", "sluid", "pbs", "flux"})
_UNIT_KINDS = frozenset({"user", "service"})


def owner_in_cgroup(text: str) -> CgroupOwner:
    """Find the owner in the text of /proc/PID/cgroup."""
    paths = dict(_hierarchy_paths(text))
    fallback: list[_MatchedPart] = []
    for hierarchy in (*_HIERARCHIES, *(name for name in paths if name not in _HIERARCHIES)):
        matches = _match_parts(paths[hierarchy]) if hierarchy in paths else []
        if any(part.kind in _INNERMOST_KINDS or part.kind == "pod" for part in matches):
            return _choose_owner(matches)
        fallback = fallback or matches
    return _choose_owner(fallback)


def _hierarchy_paths(text: str) -> Iterator[tuple[str, str]]:
    for line in text[:MAX_CHARACTERS].splitlines():
        hierarchy_id, colon, rest = line.partition(":")
        controllers, second_colon, path = rest.partition(":")
        if colon and second_colon and hierarchy_id.isdecimal() and path.startswith("/"):
            yield controllers, path.removesuffix(_DELETED)


def _match_parts(path: str) -> list[_MatchedPart]:
    matches = []
    parent_path = ""
    for escaped in path.split("/", _MAX_PARTS)[:_MAX_PARTS]:
        part = _unescape(escaped[:_MAX_NAME_LENGTH])
        for part_pattern in _PATTERNS:
            match = part_pattern.pattern.match(part)
            if match is not None and (part_pattern.parent is None or part_pattern.parent.search(parent_path)):
                matches.append(_MatchedPart(part_pattern.kind, match[1]))
        parent_path += part + "/"
    return matches


def _unescape(name: str) -> str:
    r"""Return a unit's name without systemd's escapes, such as `\x2d` for a hyphen."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def _choose_owner(matches: list[_MatchedPart]) -> CgroupOwner:
    """Return the innermost container or job, else the pod, else the unit."""
    if any(part.kind == "monitor" for part in matches):
        return CgroupOwner()
    owner_positions = [position for position, part in enumerate(matches) if part.kind in _INNERMOST_KINDS]
    pod_positions = [position for position, part in enumerate(matches) if part.kind == "pod"]
    if owner_positions and (not pod_positions or owner_positions[-1] > pod_positions[-1]):
        return _innermost_owner(matches[: owner_positions[-1] + 1])
    if pod_positions:
        uid = _with_hyphens(matches[pod_positions[-1]].text)
        return CgroupOwner(Owner("pod", uid), (f"pod:{uid}",))
    units = [part for part in matches if part.kind in _UNIT_KINDS]
    return _OWNER_FACTORIES[units[0].kind](units[0].text) if units else CgroupOwner()


def _innermost_owner(matches: list[_MatchedPart]) -> CgroupOwner:
    innermost = _OWNER_FACTORIES[matches[-1].kind](matches[-1].text)
    pods = [f"pod:{_with_hyphens(part.text)}" for part in matches if part.kind == "pod"]
    containers = [part.text for part in matches if part.kind == "container"]
    keys = (*innermost.keys, *pods[-1:]) if matches[-1].kind == "container" else innermost.keys
    return CgroupOwner(innermost.owner, keys, innermost.container or (_short_id(containers[-1]) if containers else ""))


def _with_hyphens(text: str) -> str:
    return text.replace("_", "-")


def _short_id(container: str) -> str:
    """Return a container's name, or the beginning of its id, as container runtimes print it."""
    return container[:_SHORT_ID_LENGTH] if re.fullmatch(_ID, container) else container


def _job_factory(key: str) -> Callable[[str], CgroupOwner]:
    return lambda text: CgroupOwner(Owner("job", text, job_id=text), (f"{key}:{text}",))


_OWNER_FACTORIES: Mapping[str, Callable[[str], CgroupOwner]] = {
    "container": lambda text: CgroupOwner(Owner("container", _short_id(text)), (f"container:{text}",), _short_id(text)),
    "slurm": _job_factory("slurm"),
    "sluid": _job_factory("sluid"),
    "pbs": _job_factory("pbs"),
    "flux": _job_factory("flux"),
    "user": lambda text: CgroupOwner(Owner("user", text, user=text)),
    "service": lambda text: CgroupOwner(Owner("service", text)),
}
