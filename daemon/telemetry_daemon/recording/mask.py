"""Captures without the identities of cards, hosts and people: each is replaced by a stand-in, everywhere the same."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from telemetry_daemon.recording.disguise import Disguise
from telemetry_daemon.recording.secrets import Kind, is_telling, kind_of_key, secrets, whole_words
from telemetry_parsers.model import Capture, Output, Plain, Report

# Shorter ones are taken back only where their key stands beside them: `7` is not replaced in a whole text.
_SHORTEST_LEARNT = 6


class Mask:
    """Masks the captures of one recording; what a parser finds in one capture is masked in those that follow, too.

    Polls may bring theirs from any thread.
    """

    def __init__(self, key: bytes, host_names: Iterable[str]) -> None:
        self._turn = threading.Lock()
        self._disguise = Disguise(key)
        self._hosts = whole_words(frozenset(name for name in host_names if name and name != "localhost"))
        self._learnt: frozenset[str] = frozenset()
        self._known = whole_words(self._learnt)
        self._stand_ins: Mapping[Kind, Callable[[str], str]] = {
            "id": self._disguise.of_id,
            "whole_number": self._disguise.of_whole_number,
            "name": self._disguise.of_name,
            "address": self._disguise.of_address,
        }

    @property
    def values(self) -> int:
        """How many different values have been replaced."""
        return self._disguise.values

    def capture(self, capture: Capture, report: Report | None) -> Capture:
        """The capture without identities; `report` is what its parser makes of it, None where there is nothing."""
        with self._turn:
            if report is not None:
                self._learn(report)
            return self._masked(capture)

    def _masked(self, capture: Capture) -> Capture:
        failure = capture.failure
        return replace(
            capture,
            outputs=tuple(self._output(output) for output in capture.outputs),
            failure=None if failure is None else replace(failure, text=self._text(failure.text)),
        )

    def _learn(self, report: Report) -> None:
        told = {text for device in report.devices for text in (device.uuid, device.serial) if text}
        new = {text for text in told if len(text) >= _SHORTEST_LEARNT and is_telling(text, "id")} - self._learnt
        if new:
            self._learnt |= new
            self._known = whole_words(self._learnt)

    def _output(self, output: Output) -> Output:
        kind = kind_of_key(posixpath.basename(output.name)) if output.name.startswith("/") else None
        text = self._text(output.text) if kind is None else self._whole(output.text, kind)
        return replace(
            output,
            name=self._name(output.name),
            target=self._name(output.target),
            text=text,
            stderr=self._text(output.stderr),
            data=self._plain(output.data, None),
        )

    def _plain(self, plain: Plain, kind: Kind | None) -> Plain:
        if isinstance(plain, dict):
            return {self._name(key): self._plain(value, kind_of_key(key)) for key, value in plain.items()}
        if isinstance(plain, list):
            return [self._plain(item, kind) for item in plain]
        if isinstance(plain, str):
            return self._text(plain) if kind is None else self._whole(plain, kind)
        if kind == "id" and isinstance(plain, int) and not isinstance(plain, bool) and plain > 0:
            return int(self._disguise.of_whole_number(str(plain)))
        return plain

    def _whole(self, text: str, kind: Kind) -> str:
        value = text.strip()
        if not is_telling(value, kind):
            return text
        return text.replace(value, self._stand_ins[kind](value))

    def _name(self, name: str) -> str:
        """Of a call, a key, a file: not by the host's name, since a host may be called `gpu`."""
        return "".join(self._parts(name))

    def _text(self, text: str) -> str:
        masked = "".join(self._parts(text))
        if self._hosts is None:
            return masked
        return self._hosts.sub(lambda match: self._disguise.of_name(match[0]), masked)

    def _parts(self, text: str) -> Iterable[str]:
        end = 0
        for secret in secrets(text, self._known):
            yield text[end : secret.start]
            yield self._stand_ins[secret.kind](text[secret.start : secret.end])
            end = secret.end
        yield text[end:]
