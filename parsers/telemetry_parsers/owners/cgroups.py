"""Finds the owner of a process by its cgroup path: the innermost job or container, else the unit or the user's session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.ownership import Owner

MOST_CHARACTERS = 65_536
_LONGEST_NAME = 256
_MOST_PARTS = 64
_SHORT_ID = 12
_DELETED = " (deleted)"
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
# The trusted hierarchies of version 1, used after version 2: the first whose path is more specific than a slice.
_HIERARCHIES = ("", "name=systemd", "devices", "memory", "cpu,cpuacct", "pids")


@dataclass(frozen=True, slots=True)
class Group:
    """The owner found in a cgroup path, the names by which other sources know the owner, and the container's id or name."""

    owner: Owner | None = None
    keys: tuple[str, ...] = ()
    container: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """The match of one part of a path."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Shape:
    """One form of a path's part. The first group of the pattern is the text. `above` must match the preceding parts."""

    kind: str
    pattern: re.Pattern[str]
    above: re.Pattern[str] | None = None


def _shape(kind: str, pattern: str, above: str = "") -> _Shape:
    return _Shape(kind, re.compile(pattern + r"\Z"), re.compile(above) if above else None)


_ID = r"([0-9a-f]{64})"
_UID = r"([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
# One row per form; a part may match several. The deepest part is the most specific.
# fmt: off
_SHAPES = (
    # Kubernetes, by either cgroup driver; slices have underscores in the uid. containerd may join pod and id in one part.
    _shape("pod", rf"(?:[\w-]+-)?kubepods(?:-[a-z]+)?-pod{_UID}\.slice(?::[a-z-]+:[0-9a-f]+)?"),
    _shape("pod", rf"pod{_UID}"),
    # Monitors of containers run beside the containers and have no owner.
    _shape("monitor", r"(?:crio|libpod)-conmon-([0-9a-f]{64})(?:\.scope)?"),
    # Docker, containerd, nerdctl, cri-o, podman, isula: by their scopes, or by bare ids in their folders.
    _shape("container", rf"(?:docker|cri-containerd|nerdctl|crio|libpod|isulad?|buildkit)-{_ID}\.scope"),
    _shape("container", rf"libpod-payload-{_ID}"),
    _shape("container", rf"[^:/]+:(?:cri-containerd|docker|nerdctl|runc):{_ID}"),
    _shape("container", _ID, r"(?:\A|/)(?:docker|isulad|libpod_parent|default|moby|garden|actions_job|podruntime|[^/]*pod[^/]*)/"),
    _shape("container", rf"(?:docker|libpod|crio|cri-containerd|nerdctl)-{_ID}"),
    _shape("container", r"lxc\.payload\.(.+)"),
    _shape("container", r"machine-(?!libpod_pod)(.+)\.scope", r"(?:\A|/)machine\.slice/"),
    _shape("container", r"(?!monitor|pivot)([^/]+)", r"(?:\A|/)lxc/\Z"),
    # Slurm: version 2, then version 1. A job is a number, or a SLUID from 26.05 on.
    _shape("slurm", r"job_([0-9]{1,20})", r"slurm"),
    _shape("sluid", r"(s[0-9A-HJKMNP-TV-Z]{13})", r"slurmstepd\.scope/\Z"),
    # OpenPBS, Torque, and Flux with one unit per job.
    _shape("pbs", r"([0-9]+(?:\[[0-9]*\])?\.[A-Za-z0-9._-]+)", r"pbs_jobs\.service/job(?:id|s)/\Z"),
    _shape("pbs", r"([0-9]+(?:\[[0-9]*\])?\.[A-Za-z0-9._-]+)", r"(?:\A|/)torque/\Z"),
    _shape("flux", r"(?:imp-)?shell-[0-9]+-([^/.]+)\.service"),
    # A user's session, or a system unit.
    _shape("user", r"user-([0-9]{1,10})\.slice"),
    _shape("service", r"([^/]+\.service)", r"(?:\A|/)system\.slice/"),
    _shape("service", r"([^/]+\.service)", r"\A/?\Z"),
)
# fmt: on
# The kinds that may be the owner inside a pod, and those that are the owner if there is no other.
_INNERMOST = frozenset({"container", "slurm", "sluid", "pbs", "flux"})
_UNITS = frozenset({"user", "service"})


def group_of(text: str) -> Group:
    """Return the owner in the text of /proc/PID/cgroup (version 1, 2 or both), or an empty group if there is none."""
    paths = dict(_paths(text))
    best: list[_Found] = []
    for hierarchy in (*_HIERARCHIES, *(name for name in paths if name not in _HIERARCHIES)):
        found = _parts(paths[hierarchy]) if hierarchy in paths else []
        if any(part.kind in _INNERMOST or part.kind == "pod" for part in found):
            return _group(found)
        best = best or found
    return _group(best)


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield each hierarchy with its path. Version 2 has no name."""
    for line in text[:MOST_CHARACTERS].splitlines():
        number, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if colon and second and number.isdecimal() and path.startswith("/"):
            yield controllers, path.removesuffix(_DELETED)


def _parts(path: str) -> list[_Found]:
    """Return the matches in a path, the outermost first."""
    found = []
    above = ""
    for raw in path.split("/", _MOST_PARTS)[:_MOST_PARTS]:
        part = _unescaped(raw[:_LONGEST_NAME])
        for shape in _SHAPES:
            match = shape.pattern.match(part)
            if match is not None and (shape.above is None or shape.above.search(above)):
                found.append(_Found(shape.kind, match[1]))
        above += part + "/"
    return found


def _unescaped(part: str) -> str:
    r"""Return a unit's name without systemd's escapes, such as `\x2d` for a hyphen."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part)


def _group(found: list[_Found]) -> Group:
    """Return the innermost container or job, else the pod (whose container is unknown), else the unit."""
    if any(part.kind == "monitor" for part in found):
        return Group()
    owners = [position for position, part in enumerate(found) if part.kind in _INNERMOST]
    pods = [position for position, part in enumerate(found) if part.kind == "pod"]
    if owners and (not pods or owners[-1] > pods[-1]):
        return _of_innermost(found[: owners[-1] + 1])
    if pods:
        uid = _uid(found[pods[-1]].text)
        return Group(Owner("pod", uid), (f"pod:{uid}",))
    units = [part for part in found if part.kind in _UNITS]
    return _MAKERS[units[0].kind](units[0].text) if units else Group()


def _of_innermost(found: list[_Found]) -> Group:
    group = _MAKERS[found[-1].kind](found[-1].text)
    pods = [f"pod:{_uid(part.text)}" for part in found if part.kind == "pod"]
    outside = [part.text for part in found if part.kind == "container"]
    keys = (*group.keys, *pods[-1:]) if found[-1].kind == "container" else group.keys
    return Group(group.owner, keys, group.container or (_name(outside[-1]) if outside else ""))


def _uid(text: str) -> str:
    """Return a pod's uid with hyphens. A static pod's uid has none."""
    return text.replace("_", "-")


def _name(container: str) -> str:
    """Return a container's name, or its short id as runtimes print it."""
    return container[:_SHORT_ID] if re.fullmatch(_ID, container) else container


def _job_of(key: str) -> Callable[[str], Group]:
    return lambda text: Group(Owner("job", text, job_id=text), (f"{key}:{text}",))


_MAKERS: Mapping[str, Callable[[str], Group]] = {
    "container": lambda text: Group(Owner("container", _name(text)), (f"container:{text}",), _name(text)),
    "slurm": _job_of("slurm"),
    "sluid": _job_of("sluid"),
    "pbs": _job_of("pbs"),
    "flux": _job_of("flux"),
    "user": lambda text: Group(Owner("user", text, user=text)),
    "service": lambda text: Group(Owner("service", text)),
}
