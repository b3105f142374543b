"""Masks the identities of cards, hosts and people in captures, documents and text."""

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
from telemetry_daemon.masking.disguise import StandIns
from telemetry_daemon.masking.secrets import Kind, KnownIdentities, WholeWords, find_secrets
from telemetry_daemon.masking.shapes import Treatment, is_identifying, is_private, treatment_of_key
from telemetry_parsers.model import Capture, Command, Files, Library, Output, Plain, Report, Request

# A shorter identity, such as `7`, is masked only where it follows its key, as in `serial: 7`.
_MIN_ID_LENGTH = 6
_BASE64 = "base64"
_ONE_WORD = re.compile(r"[\w.:+-]{1,40}\Z")
_MODEL_WORD = re.compile(r"[0-9A-Za-z]+")
_DOTTED_QUAD = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9.:/])")
_HOSTS = Path("/etc/hosts")
_USERS = Path("/etc/passwd")
_GROUPS = Path("/etc/group")
_MAX_FILE_BYTES = 64 << 20
# Linux distributions give these user IDs to people, and other IDs to services.
_USER_IDS = (range(1000, 60_000), range(65_536, 1 << 32))
_LOGINS = ("USER", "LOGNAME", "SUDO_USER")


class Mask:
    """Masks identities, such as serial numbers and the `names` of hosts and people. Thread-safe."""

    def __init__(self, key: bytes, names: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._stand_ins = StandIns(key)
        self._known = KnownIdentities(names=WholeWords(name for name in names if words.may_be_name(name)))
        self._replacement_count = 0
        self._stand_in_by_kind: Mapping[Kind, Callable[[str], str]] = {
            "whole": self._stand_ins.for_id,
            "whole_number": self._stand_ins.for_whole_number,
            "address": self._stand_ins.for_address,
        }

    @property
    def value_count(self) -> int:
        """Return the number of different values that have a stand-in."""
        return self._stand_ins.value_count

    @property
    def replacement_count(self) -> int:
        """Return the number of replaced occurrences."""
        return self._replacement_count

    def learn(self, report: Report) -> None:
        """Remember the identities in this report, so that they are masked from now on."""
        with self._lock:
            self._learn(report)

    def masked_text(self, text: str, key: str = "") -> str:
        """Return the masked text. `key` is the key before the text, such as `Serial Number`, if there is one."""
        with self._lock:
            return self._mask_text(text, treatment_of_key(key) if key else None)

    def masked_name(self, text: str) -> str:
        """Return a masked name. All words are masked, except harmless words."""
        with self._lock:
            return self._mask_text(text, "names")

    def masked_plain(self, document: Plain) -> Plain:
        """Return the document with all identities masked."""
        with self._lock:
            return self._mask_plain(document, None)

    def masked_capture(self, capture: Capture, report: Report | None) -> Capture:
        """Return the masked capture, after learning the identities in its report."""
        with self._lock:
            self._learn(Report() if report is None else report)
            return self._mask_capture(capture)

    def _mask_capture(self, capture: Capture) -> Capture:
        failure, calls = capture.failure, capture.request.calls if isinstance(capture.request, Library) else ()
        return replace(
            capture,
            request=self._mask_request(capture.request),
            outputs=tuple(self._mask_output(output, calls) for output in capture.outputs),
            failure=None if failure is None else replace(failure, text=self._mask_text(failure.text)),
        )

    def _learn(self, report: Report) -> None:
        identities = {text for device in report.devices for text in (device.uuid, device.serial) if text}
        self._known.ids.add(text for text in identities if len(text) >= _MIN_ID_LENGTH and is_identifying(text))
        self._known = replace(
            self._known,
            processes=tuple({(str(process.pid), process.name) for process in report.processes if process.name}),
            harmless=frozenset((*_measured_numbers(report), *_address_like_versions(report))),
            models=frozenset(_model_words(report)),
        )

    def _mask_request(self, request: Request) -> Request:
        if isinstance(request, Command):
            lines = tuple(map(self._mask_command_line, request.alternatives))
            env = tuple((name, self._mask_text(value, treatment_of_key(name))) for name, value in request.env)
            return replace(request, alternatives=lines, env=env, folders=self._mask_texts(request.folders))
        if isinstance(request, Files):
            globs, links, binary = map(self._mask_texts, (request.globs, request.links, request.binary))
            return replace(request, globs=globs, links=links, binary=binary)
        return request

    def _mask_texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._mask_text(text) for text in texts)

    def _mask_command_line(self, line: tuple[str, ...]) -> tuple[str, ...]:
        masked_words = self._mask_text("\t".join(line)).split("\t")
        return tuple(masked_words) if len(masked_words) == len(line) else self._mask_texts(line)

    def _mask_output(self, output: Output, calls: Collection[str]) -> Output:
        treatment = treatment_of_key(posixpath.basename(output.name)) if output.name.startswith("/") else None
        return replace(
            output,
            name=output.name if output.name in calls else self._mask_text(output.name),
            target=self._mask_text(output.target),
            text=self._mask_text(output.text, treatment),
            stderr=self._mask_text(output.stderr),
            data=self._mask_plain(output.data, None),
        )

    def _mask_plain(self, value: Plain, treatment: Treatment | None) -> Plain:
        if isinstance(value, dict):
            # The name of a job is not the name of a person.
            outer = treatment if treatment == "names" and value.get("kind") != "job" else None
            return {
                self._mask_text(key): item if key == _BASE64 else self._mask_plain(item, treatment_of_key(key) or outer)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._mask_plain(item, treatment) for item in value]
        if isinstance(value, str):
            return self._mask_text(value, treatment)
        if treatment == "each" and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return int(self._stand_ins.for_whole_number(str(value)))
        return value

    def _mask_text(self, text: str, treatment: Treatment | None = None) -> str:
        return "".join(self._masked_parts(text, treatment))

    def _masked_parts(self, text: str, treatment: Treatment | None) -> Iterator[str]:
        end = 0
        for secret in find_secrets(text, self._known, treatment):
            yield text[end : secret.start]
            self._replacement_count += 1
            yield self._stand_in_by_kind[secret.kind](text[secret.start : secret.end])
            end = secret.end
        yield text[end:]


def _address_like_versions(report: Report) -> Iterator[str]:
    texts = [device.driver or "" for device in report.devices]
    texts += [text for facts in (report.facts, *(device.facts for device in report.devices)) for _, text in facts]
    for quad in _DOTTED_QUAD.findall(" ".join(text for text in texts if _ONE_WORD.match(text))):
        if not is_private(quad):
            yield quad


def _model_words(report: Report) -> Iterator[str]:
    for device in report.devices:
        yield from _MODEL_WORD.findall(device.model or "")


def _measured_numbers(report: Report) -> Iterator[str]:
    values = [reading.value for reading in report.readings]
    values += [process.memory_used_bytes for process in report.processes if process.memory_used_bytes is not None]
    return (str(int(value)) for value in values if isinstance(value, float) and value.is_integer())


def local_names(
    hosts: Path = _HOSTS, users: Path = _USERS, environment: Mapping[str, str] = os.environ, groups: Path = _GROUPS
) -> frozenset[str]:
    """Return this node's host, user and group names."""
    hostname = os.uname().nodename
    host_names = (hostname, *(name for line in _lines(hosts) for name in line.partition("#")[0].split()[1:]))
    account_names = (*_account_names(_lines(users) + _lines(groups)), *(environment.get(name, "") for name in _LOGINS))
    return frozenset((*host_names, *(name.partition(".")[0] for name in host_names), *account_names)) - {""}


def _lines(path: Path) -> list[str]:
    try:
        return read_file(str(path), _MAX_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:  # the file is missing in some container images
        return []


def _account_names(lines: list[str]) -> Iterator[str]:
    """Yield the names of ordinary users or groups from lines of /etc/passwd or /etc/group."""
    for line in lines:
        name, *fields = line.split(":")
        if len(fields) > 1 and fields[1].isdecimal() and any(int(fields[1][:10]) in id_range for id_range in _USER_IDS):
            yield name
