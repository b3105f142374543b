"""Calls the library for one device, and disables calls that keep failing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from telemetry_daemon.readers.binding import (
    DeviceLostError,
    FailedCall,
    SessionEndedError,
    error_code,
    error_result,
    is_value,
)
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.calls import UUID, Call
from telemetry_daemon.readers.nvml.fields import MAX_FIELDS_PER_CALL, Field, plain_value
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# A denied call is repeated only after this time, because permissions rarely change.
DENIED_RETRY_SECONDS = 600.0
# A GPU is considered lost if a poll begins with this many generic errors.
_MAX_GENERIC_ERRORS = 3
# Many link fields are not supported, so all share these (error code, end time) tuples to save memory.
_DISABLED_FOREVER = {code: (code, math.inf) for code in codes.FIELD_DISABLING_ERRORS}


class DeviceCaller:
    """Calls the library for one device, and remembers which calls are disabled after an error."""

    def __init__(self, nvml: Nvml, handle: Any, clock: Callable[[], float]) -> None:
        self.handle = handle
        self._nvml = nvml
        self._clock = clock
        self._disabled_calls: dict[str, tuple[int, float]] = {}
        # The keys of calls that have a fallback and have worked at least once.
        self._working_keys: set[str] = set()
        self._has_succeeded = False
        self._generic_errors = 0

    def begin_poll(self) -> None:
        """Reset the error count at the start of a poll."""
        self._has_succeeded, self._generic_errors = False, 0

    def results(self, calls: Iterable[Call]) -> dict[str, Plain]:
        """Make the calls, and return their results or errors by key."""
        return dict(map(self.keyed_result, calls))

    def keyed_result(self, call: Call) -> tuple[str, Plain]:
        """Return the key and result of a call. If the call is not supported, use its fallback."""
        result = self._make_call(call)
        if call.fallback is not None and self._needs_fallback(call.key, error_code(result)):
            return self.keyed_result(call.fallback)
        return call.key, result

    def value(self, call: Call) -> Plain:
        """Return the value of a call, or None if the call failed."""
        _, result = self.keyed_result(call)
        return result if is_value(result) else None

    def verify_uuid(self, uuid: Plain) -> None:
        """Raise SessionEndedError if the handle now refers to a device with another UUID."""
        if self.value(UUID) not in (None, uuid) and uuid is not None:
            raise SessionEndedError(codes.ANOTHER_DEVICE)

    def field_results(self, fields: Sequence[Field]) -> dict[str, Plain]:
        """Return the values or errors of the fields by name."""
        results: dict[str, Plain] = {}
        enabled: list[Field] = []
        for field in fields:
            code = self.error_if_disabled(field.name)
            if code is None:
                enabled.append(field)
            else:
                results[field.name] = error_result(code)
        for start in range(0, len(enabled), MAX_FIELDS_PER_CALL):
            results.update(self._read_batch(enabled[start : start + MAX_FIELDS_PER_CALL]))
        return results

    def guarded_call(self, key: str, function: Callable[[], Any]) -> Plain:
        """Call the function unless `key` is disabled. Return its result or an error."""
        code = self.error_if_disabled(key)
        if code is not None:
            return error_result(code)
        result = function()
        if isinstance(result, FailedCall):
            self.handle_error(key, result.code)
            return error_result(result.code)
        return result

    def error_if_disabled(self, key: str) -> int | None:
        """Return the code of the error that disabled the call, or None if the call is enabled."""
        if key not in self._disabled_calls:
            return None
        code, until = self._disabled_calls[key]
        return code if self._clock() < until else None

    def handle_error(self, key: str, code: int, disabling_errors: frozenset[int] = codes.DISABLING_ERRORS) -> None:
        """Raise DeviceLostError or SessionEndedError if the code means this. Else disable a call that would fail again."""
        if code in codes.GPU_LOST_ERRORS:
            raise DeviceLostError(code)
        if code in codes.SESSION_ENDING_ERRORS:
            raise SessionEndedError(code)
        self._disable_if_needed(key, code, disabling_errors)

    def _raise_if_lost(self, code: int) -> None:
        self._generic_errors = self._generic_errors + 1 if code in codes.GENERIC_ERRORS else 0
        if self._generic_errors >= _MAX_GENERIC_ERRORS and not self._has_succeeded:
            raise DeviceLostError(code)

    def _needs_fallback(self, key: str, code: int | None) -> bool:
        return code in codes.DISABLING_ERRORS or (code in codes.FALLBACK_ERRORS and key not in self._working_keys)

    def _make_call(self, call: Call) -> Plain:
        code = self.error_if_disabled(call.key)
        if code is not None:
            return error_result(code)
        result = self._nvml.call(call.function, self.handle, *call.arguments, convert=call.convert)
        if isinstance(result, FailedCall):
            self.handle_error(call.key, result.code, call.disabling_errors)
            self._raise_if_lost(result.code)
            return error_result(result.code)
        self._has_succeeded = True
        if call.fallback is not None:
            self._working_keys.add(call.key)
        return result

    def _read_batch(self, fields: Sequence[Field]) -> dict[str, Plain]:
        code = self.error_if_disabled("FieldValues")
        if code is not None:
            return {field.name: error_result(code) for field in fields}
        results = self._read_in_one_call(fields)
        if isinstance(results, FailedCall) and results.code == codes.INVALID_ARGUMENT:
            results = self._read_separately(fields)
        if isinstance(results, FailedCall):
            self.handle_error("FieldValues", results.code)
            self._raise_if_lost(results.code)
            return {field.name: error_result(results.code) for field in fields}
        self._has_succeeded = True
        for name, value in results.items():
            self._disable_if_needed(name, error_code(value), codes.FIELD_DISABLING_ERRORS)
        return results

    def _read_in_one_call(self, fields: Sequence[Field]) -> dict[str, Plain] | FailedCall:
        ids = [(field.number, field.scope) for field in fields]
        result = self._nvml.field_values(self.handle, ids)
        if isinstance(result, FailedCall):
            return result
        return {field.name: plain_value(item, field) for field, item in zip(fields, result, strict=True)}

    def _read_separately(self, fields: Sequence[Field]) -> dict[str, Plain] | FailedCall:
        """Read the fields with separate calls, because one field can make the whole call fail."""
        results: dict[str, Plain] = {}
        for field in fields:
            value = self._read_in_one_call((field,))
            results.update({field.name: error_result(value.code)} if isinstance(value, FailedCall) else value)
        if any(map(is_value, results.values())):
            return results
        self._disabled_calls["FieldValues"] = (codes.INVALID_ARGUMENT, self._clock() + DENIED_RETRY_SECONDS)
        return FailedCall(codes.INVALID_ARGUMENT)

    def _disable_if_needed(self, key: str, code: int | None, disabling_errors: frozenset[int]) -> None:
        if code is not None and code in disabling_errors:
            self._disabled_calls[key] = _DISABLED_FOREVER[code]
        elif code == codes.NO_PERMISSION:
            self._disabled_calls[key] = (code, self._clock() + DENIED_RETRY_SECONDS)
