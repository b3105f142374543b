"""Asks one handle: what its driver does not have is asked once, what is not permitted rarely, a lost GPU not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import DeviceLostError, Refused, SessionOverError, error_in, failed, is_answered
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.calls import UUID, Call
from telemetry_daemon.readers.nvml.fields import MOST_AT_ONCE, Field, plain_value
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# Permissions change seldom, and to ask costs as much as an answer.
ASK_AGAIN_SECONDS = 600.0
# So many vague errors at the beginning of a poll are a lost GPU.
_MOST_VAGUE = 3


class Asker:
    """The calls on one GPU or MIG instance, from one initialisation to the next."""

    def __init__(self, nvml: Nvml, handle: Any, clock: Callable[[], float]) -> None:
        self.handle = handle
        self._nvml = nvml
        self._clock = clock
        self._off: dict[str, tuple[int, float]] = {}
        self._answered: set[str] = set()
        self._heard = False
        self._vague = 0

    def begin(self) -> None:
        """A poll begins: a GPU of which nothing is heard from here on may be lost."""
        self._heard, self._vague = False, 0

    def answers(self, calls: Iterable[Call]) -> dict[str, Plain]:
        """Key and answer of each call; an answer may be {"error": number}."""
        return dict(map(self.answer, calls))

    def answer(self, call: Call) -> tuple[str, Plain]:
        """The answer of a call, or of what is asked in its place, under the key of the one that answered."""
        given = self._ask(call)
        if call.fallback is not None and self._is_not_there(call.key, error_in(given)):
            return self.answer(call.fallback)
        return call.key, given

    def value(self, call: Call) -> Plain:
        """The value that a call gives, None for an error."""
        _, answer = self.answer(call)
        return answer if is_answered(answer) else None

    def confirm(self, uuid: Plain) -> None:
        """SessionOverError when the handle answers with another uuid than the one it was found with."""
        if self.value(UUID) not in (None, uuid) and uuid is not None:
            raise SessionOverError(codes.ANOTHER_DEVICE)

    def fields(self, batch: Sequence[Field]) -> dict[str, Plain]:
        """Name and answer of each field, in as few calls as may be."""
        found: dict[str, Plain] = {}
        wanted: list[Field] = []
        for field in batch:
            off = self.off(field.name)
            if off is None:
                wanted.append(field)
            else:
                found[field.name] = failed(off)
        for start in range(0, len(wanted), MOST_AT_ONCE):
            found.update(self._batch(wanted[start : start + MOST_AT_ONCE]))
        return found

    def own(self, key: str, ask: Callable[[], Any]) -> Plain:
        """What `ask` gives, which calls the library in its own way; its error is remembered under the key."""
        off = self.off(key)
        if off is not None:
            return failed(off)
        given = ask()
        if isinstance(given, Refused):
            self.judge(key, given.code)
            return failed(given.code)
        return given

    def off(self, key: str) -> int | None:
        """The error for which something is not asked at present, None when it is."""
        if key not in self._off:
            return None
        code, until = self._off[key]
        return code if self._clock() < until else None

    def judge(self, key: str, code: int, switches_off: frozenset[int] = codes.SWITCHES_OFF) -> None:
        """Remember what an error means for the next time; DeviceLostError or SessionOverError when there is none."""
        if code in codes.LOSES_GPU:
            raise DeviceLostError(code)
        if code in codes.ENDS_SESSION:
            raise SessionOverError(code)
        self._switch_off(key, code, switches_off)

    def _hear(self, key: str) -> None:
        self._heard = True
        self._answered.add(key)

    def _hear_nothing(self, code: int) -> None:
        """One call that says nothing may be that call's; a GPU all of whose calls do is lost."""
        self._vague = self._vague + 1 if code in codes.VAGUE else 0
        if self._vague >= _MOST_VAGUE and not self._heard:
            raise DeviceLostError(code)

    def _is_not_there(self, key: str, code: int | None) -> bool:
        """Whether the older form is asked: not in place of a newer one that answered, since it may mean another thing."""
        return code in codes.SWITCHES_OFF or (code in codes.FALLS_BACK and key not in self._answered)

    def _ask(self, call: Call) -> Plain:
        off = self.off(call.key)
        if off is not None:
            return failed(off)
        given = self._nvml.call(call.function, self.handle, *call.arguments, plain=call.plain)
        if isinstance(given, Refused):
            self.judge(call.key, given.code, call.switches_off)
            self._hear_nothing(given.code)
            return failed(given.code)
        self._hear(call.key)
        return given

    def _batch(self, fields: Sequence[Field]) -> dict[str, Plain]:
        off = self.off("FieldValues")
        if off is not None:
            return {field.name: failed(off) for field in fields}
        found = self._values(fields)
        if isinstance(found, Refused) and found.code == codes.INVALID_ARGUMENT:
            found = self._one_by_one(fields)
        if isinstance(found, Refused):
            self.judge("FieldValues", found.code)
            self._hear_nothing(found.code)
            return {field.name: failed(found.code) for field in fields}
        self._hear("FieldValues")
        for name, value in found.items():
            self._switch_off(name, error_in(value), codes.FIELD_SWITCHES_OFF)
        return found

    def _values(self, fields: Sequence[Field]) -> dict[str, Plain] | Refused:
        ids = [(field.number, field.scope) for field in fields]
        given = self._nvml.field_values(self.handle, ids)
        if isinstance(given, Refused):
            return given
        return {field.name: plain_value(item, field) for field, item in zip(fields, given, strict=True)}

    def _one_by_one(self, fields: Sequence[Field]) -> dict[str, Plain] | Refused:
        """Each for itself, once: a driver may refuse the whole call for the sake of one that it does not know."""
        found: dict[str, Plain] = {}
        for field in fields:
            value = self._values((field,))
            found.update({field.name: failed(value.code)} if isinstance(value, Refused) else value)
        if any(map(is_answered, found.values())):
            return found
        self._off["FieldValues"] = (codes.INVALID_ARGUMENT, self._clock() + ASK_AGAIN_SECONDS)
        return Refused(codes.INVALID_ARGUMENT)

    def _switch_off(self, key: str, code: int | None, switches_off: frozenset[int]) -> None:
        if code in switches_off and code is not None:
            self._off[key] = (code, math.inf)
        elif code == codes.NO_PERMISSION:
            self._off[key] = (code, self._clock() + ASK_AGAIN_SECONDS)
