"""Masks the identities of cards, hosts and people in captures, documents and texts: each has the same stand-in everywhere."""

from __future__ import annotations

import os
import posixpath
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.masking import words
from telemetry_daemon.masking.disguise import Disguise
from telemetry_daemon.masking.secrets import Kind, Known, WholeWords, secrets
from telemetry_daemon.masking.shapes import Treatment, is_identifying, is_private, treatment_of_key
from telemetry_parsers.model import Capture, Command, Files, Library, Output, Plain, Report, Request

# Shorter identities are masked only beside their key: `7` is not replaced in a whole text.
_SHORTEST_LEARNT = 6
_BYTES = "base64"
_ONE_WORD = re.compile(r"[\w.:+-]{1,40}\Z")
_WORD_OF_A_MODEL = re.compile(r"[0-9A-Za-z]+")
_QUAD = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.:/])")
_HOSTS = Path("/etc/hosts")
_USERS = Path("/etc/passwd")
_GROUPS = Path("/etc/group")
_LARGEST_FILE_BYTES = 64 << 20
# The UIDs of people in Linux distributions. UIDs below are of services; UIDs above are of numbered services and
# `nobody`, then of directories.
_OF_PEOPLE = (range(1000, 60_000), range(65_536, 1 << 32))
_LOGINS = ("USER", "LOGNAME", "SUDO_USER")


class Mask:
    """Masks the captures of one recording. Thread-safe. Identities found by a parser, and `names` of hosts and people, are masked everywhere."""

    def __init__(self, key: bytes, names: Iterable[str]) -> None:
        self._turn = threading.Lock()
        self._disguise = Disguise(key)
        self._known = Known(names=WholeWords(name for name in names if words.may_be_name(name)))
        self._places = 0
        self._stand_ins: Mapping[Kind, Callable[[str], str]] = {
            "whole": self._disguise.of_id,
            "whole_number": self._disguise.of_whole_number,
            "address": self._disguise.of_address,
        }

    @property
    def values(self) -> int:
        """Return how many different values have been replaced."""
        return self._disguise.values

    @property
    def places(self) -> int:
        """Return how many occurrences have been replaced."""
        return self._places

    def learn(self, report: Report) -> None:
        """Record the identities in this report: texts masked before its capture may contain them, too."""
        with self._turn:
            self._known = self._learn(report)

    def text(self, text: str, key: str = "") -> str:
        """Return any other text without identities; `key` is the key before the text, if it is not part of it."""
        with self._turn:
            return self._text(text, treatment_of_key(key) if key else None)

    def name(self, text: str) -> str:
        """Return a name in which all but harmless words is replaced."""
        with self._turn:
            return self._text(text, "names")

    def plain(self, plain: Plain) -> Plain:
        """Return a document without identities."""
        with self._turn:
            return self._plain(plain, None)

    def capture(self, capture: Capture, report: Report | None) -> Capture:
        """Return the capture without identities; `report` is its parsed report, or None."""
        with self._turn:
            self._known = self._learn(Report() if report is None else report)
            return self._masked(capture)

    def _masked(self, capture: Capture) -> Capture:
        failure = capture.failure
        return replace(
            capture,
            request=self._request(capture.request),
            outputs=tuple(self._output(output, _calls(capture.request)) for output in capture.outputs),
            failure=None if failure is None else replace(failure, text=self._text(failure.text)),
        )

    def _learn(self, report: Report) -> Known:
        """Return the identities so far, and this capture's processes, readings and models."""
        identities = {text for device in report.devices for text in (device.uuid, device.serial) if text}
        self._known.ids.add(text for text in identities if len(text) >= _SHORTEST_LEARNT and is_identifying(text))
        return replace(
            self._known,
            processes=tuple({(str(process.pid), process.name) for process in report.processes if process.name}),
            harmless=frozenset((*_measured(report), *_versions(report))),
            models=frozenset(_of_models(report)),
        )

    def _request(self, request: Request) -> Request:
        if isinstance(request, Command):
            lines = tuple(map(self._line, request.alternatives))
            env = tuple((name, self._text(value, treatment_of_key(name))) for name, value in request.env)
            return replace(request, alternatives=lines, env=env, folders=self._texts(request.folders))
        if isinstance(request, Files):
            globs, links, binary = map(self._texts, (request.globs, request.links, request.binary))
            return replace(request, globs=globs, links=links, binary=binary)
        return request

    def _texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._text(text) for text in texts)

    def _line(self, line: tuple[str, ...]) -> tuple[str, ...]:
        """Return the masked words of a command line: a flag announces the next word."""
        masked = self._text("\t".join(line)).split("\t")
        return tuple(masked) if len(masked) == len(line) else self._texts(line)

    def _output(self, output: Output, calls: Collection[str]) -> Output:
        announced = treatment_of_key(posixpath.basename(output.name)) if output.name.startswith("/") else None
        return replace(
            output,
            name=output.name if output.name in calls else self._text(output.name),
            target=self._text(output.target),
            text=self._text(output.text, announced),
            stderr=self._text(output.stderr),
            data=self._plain(output.data, None),
        )

    def _plain(self, plain: Plain, announced: Treatment | None) -> Plain:
        if isinstance(plain, dict):
            # Of a job's owner only the user is a name: see the shapes of jobs.
            inherited = announced if announced == "names" and plain.get("kind") != "job" else None
            return {
                self._text(key): value if key == _BYTES else self._plain(value, treatment_of_key(key) or inherited)
                for key, value in plain.items()
            }
        if isinstance(plain, list):
            return [self._plain(item, announced) for item in plain]
        if isinstance(plain, str):
            return self._text(plain, announced)
        if announced == "each" and isinstance(plain, int) and not isinstance(plain, bool) and plain > 0:
            return int(self._disguise.of_whole_number(str(plain)))
        return plain

    def _text(self, text: str, announced: Treatment | None = None) -> str:
        return "".join(self._parts(text, announced))

    def _parts(self, text: str, announced: Treatment | None) -> Iterator[str]:
        end = 0
        for secret in secrets(text, self._known, announced):
            yield text[end : secret.start]
            self._places += 1
            yield self._stand_ins[secret.kind](text[secret.start : secret.end])
            end = secret.end
        yield text[end:]


def _calls(request: Request) -> Collection[str]:
    return request.calls if isinstance(request, Library) else ()


def _versions(report: Report) -> Iterator[str]:
    """Yield the versions of four numbers in the report, such as 1.2.3.4, unless they could be private IP addresses."""
    texts = [device.driver or "" for device in report.devices]
    texts += [text for facts in (report.facts, *(device.facts for device in report.devices)) for _, text in facts]
    for quad in _QUAD.findall(" ".join(text for text in texts if _ONE_WORD.match(text))):
        if not is_private(quad):
            yield quad


def _of_models(report: Report) -> Iterator[str]:
    """Yield the words of model names: a host may be called `h100`."""
    for device in report.devices:
        yield from _WORD_OF_A_MODEL.findall(device.model or "")


def _measured(report: Report) -> Iterator[str]:
    values = [reading.value for reading in report.readings]
    values += [process.memory_used_bytes for process in report.processes if process.memory_used_bytes is not None]
    return (str(int(value)) for value in values if isinstance(value, float) and value.is_integer())


def names_here(
    hosts: Path = _HOSTS, users: Path = _USERS, environment: Mapping[str, str] = os.environ, groups: Path = _GROUPS
) -> frozenset[str]:
    """Return all these names; a host name also without its domain."""
    own_name = os.uname().nodename
    hosts_known = (own_name, *(name for line in _lines(hosts) for name in line.partition("#")[0].split()[1:]))
    people = (*_people(_lines(users)), *_people(_lines(groups)), *(environment.get(name, "") for name in _LOGINS))
    return frozenset((*hosts_known, *(name.partition(".")[0] for name in hosts_known), *people)) - {""}


def _lines(path: Path) -> list[str]:
    try:
        return read_file(str(path), _LARGEST_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:  # missing in some images; then no names are known
        return []


def _people(lines: list[str]) -> Iterator[str]:
    for line in lines:
        name, *fields = line.split(":")
        if len(fields) > 1 and fields[1].isdecimal() and any(int(fields[1][:10]) in ids for ids in _OF_PEOPLE):
            yield name
