"""Validates a configuration with pydantic models that are derived from the settings' dataclasses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from telemetry_daemon.config import rules
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs, Document, KeyPath
from telemetry_daemon.config.rules import SettingMetadata, quoted
from telemetry_daemon.config.settings import PollSettings, Settings, SourceSettings
from telemetry_daemon.config.table import example_line, joined_words, placeholder_path, settings_rows, toml_key
from telemetry_daemon.terminal.suggestions import did_you_mean, similar_names, suggest_or_list
from telemetry_exporters.prometheus.compat import version_problem
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.vendors import VENDOR_WORDS

_MAX_LINES = 50
_DEVICE_COUNTS: KeyPath = ("expect", "devices")
_COUNT_ERROR = "must be a count for each vendor: { nvidia = 8, hygon = 4 } in the file, nvidia=8,hygon=4 in a variable"
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_KEY = rf"({_PART}(?:[ \t]*\.[ \t]*{_PART})*)"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*{_KEY}[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*{_KEY}[ \t]*=")
_PARTS = re.compile(_PART)

_MESSAGE_BY_ERROR_TYPE: Mapping[str, str] = {
    "string_type": "must be a string in quotes",
    "string_unicode": "must be a string of valid UTF-8",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": 'must be a list of strings, as in ["…", "…"]',
    "too_short": "must not be empty; remove the setting to use the default",
    "dict_type": "must be a section with an entry for each name, as in {example}",
    "model_type": "must be a section with settings, as in {example}",
}


def validate(document: Document, inputs: ConfigInputs, problems: Sequence[str]) -> Settings:
    """Return the settings, or raise ConfigError with all errors, including `problems`."""
    unknown_names = _unknown_names(document, inputs)
    try:
        values = _model(Settings).model_validate(document.data).model_dump()
    except ValidationError as error:
        reported_paths = {_setting_path(details) for details in error.errors(include_url=False)}
        other_lines = [line for path, line in unknown_names.items() if path not in reported_paths]
        raise ConfigError(*problems, *_error_lines(error, document), *other_lines) from None
    problems = [*problems, *unknown_names.values(), *_unknown_versions(document)]
    if problems:
        raise ConfigError(*problems)
    settings = from_plain(Settings, _sorted_by_key(values))
    sources = {name: _omit_defaults(source) for name, source in settings.sources.items()}
    return replace(settings, sources={name: source for name, source in sources.items() if source != SourceSettings()})


class _Section(BaseModel):
    """A section that rejects unknown keys and converts no values."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _omit_defaults(source: SourceSettings) -> SourceSettings:
    return replace(source, polls={name: poll for name, poll in source.polls.items() if poll != PollSettings()})


def _sorted_by_key(values: Any) -> Any:
    return {name: _sorted_by_key(values[name]) for name in sorted(values)} if isinstance(values, dict) else values


@cache
def _model(settings_class: Any) -> type[BaseModel]:
    hints, defaults = get_type_hints(settings_class), settings_class()
    settings: dict[str, Any] = {}
    for field in fields(settings_class):
        hint, default = hints[field.name], getattr(defaults, field.name)
        if is_dataclass(default):
            settings[field.name] = (_model(hint), Field(default_factory=_model(hint)))
        else:
            metadata: SettingMetadata = field.metadata["about"]
            default_value = list(default) if isinstance(default, tuple) else default
            settings[field.name] = (_pydantic_type(hint, metadata, required=bool(default)), default_value)
    return create_model(settings_class.__name__, __base__=_Section, **settings)


def _pydantic_type(hint: Any, metadata: SettingMetadata, *, required: bool) -> Any:
    limits = [Field(ge=metadata.low, le=metadata.high)] if metadata.low is not None else []
    value_rules = [AfterValidator(metadata.rule)] if metadata.rule is not None else []
    if get_origin(hint) is Mapping:
        _, value = get_args(hint)
        name_rules = [AfterValidator(metadata.name_rule)] if metadata.name_rule is not None else []
        value_type = _model(value) if isinstance(value, type) and is_dataclass(value) else _annotated(value, limits)
        return dict[_annotated(str, name_rules), value_type]  # type: ignore[misc]  # dynamic types for pydantic
    if get_origin(hint) is tuple:
        conversion = [BeforeValidator(_as_list)] if metadata.accepts_string else []
        min_length = [Field(min_length=1)] if required else []
        list_type: Any = list[_annotated(str, value_rules)]  # type: ignore[misc]  # a dynamic type for pydantic
        return _annotated(list_type, [*conversion, AfterValidator(rules.check_unique_items), *min_length])
    return _annotated(hint, [*value_rules, *limits])


def _annotated(kind: Any, conditions: list[Any]) -> Any:
    return Annotated[(kind, *conditions)] if conditions else kind


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _error_lines(error: ValidationError, document: Document) -> list[str]:
    errors = error.errors(include_url=False)
    lines = sorted((_error_line(details, document) for details in errors[:_MAX_LINES]), key=lambda line: line[0])
    omitted_count = len(errors) - len(lines)
    return [text for _, text in lines] + ([f"and {omitted_count} more errors"] if omitted_count else [])


def _error_line(error: Mapping[str, Any], document: Document) -> tuple[int, str]:
    path = _setting_path(error)
    return _line_number(path, document), f"{_location(path, document)}: {toml_key(path)}: {_error_message(path, error)}"


def _unknown_names(document: Document, inputs: ConfigInputs) -> dict[KeyPath, str]:
    checks: tuple[tuple[KeyPath, str, Iterable[str] | None], ...] = (
        (("sources",), "no such source", inputs.known_sources),
        (("expect", "devices"), "no such vendor", VENDOR_WORDS),
        *((("sources", name, "polls"), "no such poll", polls) for name, polls in inputs.known_polls.items()),
    )
    errors = {}
    for section, message, keys in checks:
        if keys is None:
            continue
        for name in _names_in(document.data, section):
            path = (*section, name)
            if name not in keys:
                errors[path] = f"{_location(path, document)}: {toml_key(path)}: {message}{suggest_or_list(name, keys)}"
    return errors


def _unknown_versions(document: Document) -> list[str]:
    lines = []
    for name, compat in document.data.get("compat", {}).items():
        problem = version_problem(name, compat.get("version", ""))
        if problem:
            path = ("compat", name, "version")
            lines.append(f"{_location(path, document)}: {toml_key(path)}: {problem}")
    return lines


def _names_in(data: Mapping[str, Any], section: KeyPath) -> list[str]:
    table: Any = data
    for part in section:
        table = table.get(part) if isinstance(table, Mapping) else None
    return list(table) if isinstance(table, Mapping) else []


def _setting_path(error: Mapping[str, Any]) -> KeyPath:
    """Return the setting's path without list positions and pydantic's own parts."""
    return tuple(part for part in error["loc"] if isinstance(part, str) and part != "[key]")


def _find_origin(path: KeyPath, document: Document) -> str | None:
    """Return the variable or flag that set the path, or None if the file did."""
    for origin_path, origin in document.origins.items():
        is_parent = origin_path == path[: len(origin_path)]
        is_child = path == origin_path[: len(path)] and not document.is_set_in_file(path)
        if is_parent or is_child:
            return origin
    return None


def _line_number(path: KeyPath, document: Document) -> int:
    return 0 if _find_origin(path, document) else _find_line(document.text, path) or 0


def _location(path: KeyPath, document: Document) -> str:
    line = _line_number(path, document)
    return _find_origin(path, document) or (f"{document.file}: line {line}" if line else f"{document.file}")


def _error_message(path: KeyPath, error: Mapping[str, Any]) -> str:
    error_type = error["type"]
    if error_type == "dict_type" and path == _DEVICE_COUNTS:
        return f"{_COUNT_ERROR}, not {quoted(error['input'])}"
    formatters: Mapping[str, Callable[[KeyPath, Mapping[str, Any]], str]] = {
        "extra_forbidden": _unknown_setting_error,
        "literal_error": _choice_error,
        "value_error": _rule_error,
        "greater_than_equal": _range_error,
        "less_than_equal": _range_error,
    }
    if error_type in formatters:
        return formatters[error_type](path, error)
    message = _MESSAGE_BY_ERROR_TYPE.get(error_type, error["msg"])
    if "{example}" in message:
        message = message.format(example=example_line(path))
    text = "the string " if isinstance(error["input"], str) else ""
    return f"{message}, not {text}{quoted(error['input'])}"


def _unknown_setting_error(path: KeyPath, error: Mapping[str, Any]) -> str:
    *section, name = path
    siblings = _sibling_names(path)
    same_name = [row.dotted_path for row in settings_rows() if row.path[-1] == name]
    suggestions = [toml_key((*section, sibling)) for sibling in similar_names(name, siblings)]
    hint = did_you_mean(suggestions or same_name) or suggest_or_list(name, siblings)
    return ("no such section" if isinstance(error["input"], dict) else "no such setting") + hint


def _sibling_names(path: KeyPath) -> list[str]:
    section = placeholder_path(path)[:-1]
    paths = {row.path[:length] for row in settings_rows() for length in range(1, len(row.path) + 1)}
    return sorted(path[-1] for path in paths if path[:-1] == section)


def _choice_error(path: KeyPath, error: Mapping[str, Any]) -> str:
    words = next(row.words for row in settings_rows() if row.path == placeholder_path(path))
    hint = did_you_mean(similar_names(str(error["input"]), words))
    return f"must be one of {joined_words(words)}, not {quoted(error['input'])}{hint}"


def _rule_error(_setting_path: KeyPath, error: Mapping[str, Any]) -> str:
    return str(error["ctx"]["error"])


def _range_error(_setting_path: KeyPath, error: Mapping[str, Any]) -> str:
    limits = error["ctx"]
    limit = f"at least {limits['ge']:g}" if "ge" in limits else f"at most {limits['le']:g}"
    return f"must be {limit}, not {quoted(error['input'])}"


def _find_line(text: str, path: Sequence[str]) -> int | None:
    """Return the number of the line that sets the path, or else of the section's heading."""
    best_match: tuple[int, int] | None = None
    for line_number, key in _numbered_keys(text):
        is_prefix = list(key) == list(path[: len(key)])
        if is_prefix and (best_match is None or len(key) > best_match[0]):
            best_match = (len(key), line_number)
    return None if best_match is None else best_match[1]


def _numbered_keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    section: tuple[str, ...] = ()
    for line_number, line in enumerate(text.split("\n"), start=1):
        header = _HEADER.match(line)
        if header is not None:
            section = _split_key(header[1])
            yield line_number, section
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment is not None:
            yield line_number, (*section, *_split_key(assignment[1]))


def _split_key(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PARTS.findall(key))
