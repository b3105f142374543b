"""Whose process it is, as the path of its cgroup tells: the innermost job or container, else the unit or the user's session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from telemetry_parsers.ownership import Owner

MOST_CHARACTERS = 65_536
_LONGEST_NAME = 256
_MOST_PARTS = 64
_SHORT_ID = 12
_DELETED = " (deleted)"
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
# The hierarchies of version 1 that are believed, after version 2's: the first that tells more than a slice.
_HIERARCHIES = ("", "name=systemd", "devices", "memory", "cpu,cpuacct", "pids")


@dataclass(frozen=True, slots=True)
class Group:
    """What a cgroup tells: its owner, the names by which others know it, and the container's id or name."""

    owner: Owner | None = None
    keys: tuple[str, ...] = ()
    container: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one part of a path, or several, tell."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Shape:
    """One form of a path's part; the first group of its pattern is the text. `above` must match the parts before it."""

    kind: str
    pattern: re.Pattern[str]
    above: re.Pattern[str] | None = None


def _shape(kind: str, pattern: str, above: str = "") -> _Shape:
    return _Shape(kind, re.compile(pattern + r"\Z"), re.compile(above) if above else None)


_ID = r"([0-9a-f]{64})"
_UID = r"([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
# A row is a form; a part may have several. The deepest part tells most.
# fmt: off
_SHAPES = (
    # Kubernetes, by either driver; a uid has underscores where a slice is named by it. containerd may put pod and id into one part.
    _shape("pod", rf"(?:[\w-]+-)?kubepods(?:-[a-z]+)?-pod{_UID}\.slice(?::[a-z-]+:[0-9a-f]+)?"),
    _shape("pod", rf"pod{_UID}"),
    # Monitors of containers, which run beside them: nobody's.
    _shape("monitor", r"(?:crio|libpod)-conmon-([0-9a-f]{64})(?:\.scope)?"),
    # Docker, containerd, nerdctl, cri-o, podman, isula: by their scopes, and by plain ids below their folders.
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
    # OpenPBS, Torque, Flux with a unit a job.
    _shape("pbs", r"([0-9]+(?:\[[0-9]*\])?\.[A-Za-z0-9._-]+)", r"pbs_jobs\.service/job(?:id|s)/\Z"),
    _shape("pbs", r"([0-9]+(?:\[[0-9]*\])?\.[A-Za-z0-9._-]+)", r"(?:\A|/)torque/\Z"),
    _shape("flux", r"(?:imp-)?shell-[0-9]+-([^/.]+)\.service"),
    # What is left: a person's session, or a unit of the system.
    _shape("user", r"user-([0-9]{1,10})\.slice"),
    _shape("service", r"([^/]+\.service)", r"(?:\A|/)system\.slice/"),
    _shape("service", r"([^/]+\.service)", r"\A/?\Z"),
)
# fmt: on
# Who of them is the owner, and who only tells more of it.
_INNERMOST = frozenset({"container", "slurm", "sluid", "pbs", "flux"})
_UNITS = frozenset({"user", "service"})


def group_of(text: str) -> Group:
    """What the text of /proc/PID/cgroup tells, of whichever versions it is; nothing for a text that is none."""
    paths = dict(_paths(text))
    best: list[_Found] = []
    for hierarchy in (*_HIERARCHIES, *(name for name in paths if name not in _HIERARCHIES)):
        found = _parts(paths[hierarchy]) if hierarchy in paths else []
        if any(one.kind in _INNERMOST or one.kind == "pod" for one in found):
            return _group(found)
        best = best or found
    return _group(best)


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """Each hierarchy with its path: version 2 has no name."""
    for line in text[:MOST_CHARACTERS].splitlines():
        number, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if colon and second and number.isdecimal() and path.startswith("/"):
            yield controllers, path.removesuffix(_DELETED)


def _parts(path: str) -> list[_Found]:
    """What the parts of a path tell, the outermost first."""
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
    r"""A unit's name without systemd's escapes, such as `\x2d` for a hyphen."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), part)


def _group(found: list[_Found]) -> Group:
    """The owner that these tell: the innermost container or job; a pod stands for a container that is not told."""
    if any(one.kind == "monitor" for one in found):
        return Group()
    owners = [place for place, one in enumerate(found) if one.kind in _INNERMOST]
    pods = [place for place, one in enumerate(found) if one.kind == "pod"]
    if owners and (not pods or owners[-1] > pods[-1]):
        return _of_innermost(found[: owners[-1] + 1])
    if pods:
        uid = _uid(found[pods[-1]].text)
        return Group(Owner("pod", uid), (f"pod:{uid}",))
    units = [one for one in found if one.kind in _UNITS]
    return _MAKERS[units[0].kind](units[0].text) if units else Group()


def _of_innermost(found: list[_Found]) -> Group:
    group = _MAKERS[found[-1].kind](found[-1].text)
    pods = [f"pod:{_uid(one.text)}" for one in found if one.kind == "pod"]
    outside = [one.text for one in found if one.kind == "container"]
    keys = (*group.keys, *pods[-1:]) if found[-1].kind == "container" else group.keys
    return Group(group.owner, keys, group.container or (_name(outside[-1]) if outside else ""))


def _uid(text: str) -> str:
    """A pod's uid with hyphens; a static pod's has none."""
    return text.replace("_", "-")


def _name(container: str) -> str:
    """A container's name, or the beginning of its id, as runtimes print it."""
    return container[:_SHORT_ID] if re.fullmatch(_ID, container) else container


def _container(text: str) -> Group:
    return Group(Owner("container", _name(text)), (f"container:{text}",), _name(text))


def _job_of(key: str) -> Callable[[str], Group]:
    return lambda text: Group(Owner("job", text, job_id=text), (f"{key}:{text}",))


def _user(text: str) -> Group:
    return Group(Owner("user", text, user=text))


def _service(text: str) -> Group:
    return Group(Owner("service", text))


_MAKERS: Mapping[str, Callable[[str], Group]] = {
    "container": _container,
    "slurm": _job_of("slurm"),
    "sluid": _job_of("sluid"),
    "pbs": _job_of("pbs"),
    "flux": _job_of("flux"),
    "user": _user,
    "service": _service,
}
