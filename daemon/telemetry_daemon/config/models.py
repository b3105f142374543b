"""The models that validate a file, made from the dataclasses of the settings, and the settings of a valid document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from telemetry_daemon.config import rules
from telemetry_daemon.config.settings import About, PollSettings, Settings, SourceSettings
from telemetry_parsers.codec.derived import from_plain


class _Section(BaseModel):
    """A section that refuses what it does not know and converts nothing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def validated(document: Mapping[str, Any]) -> Settings:
    """The settings of a document, or pydantic's ValidationError. Sources and polls that have only defaults are left out."""
    plain = _model(Settings).model_validate(document).model_dump()
    settings = from_plain(Settings, _sorted(plain))
    sources = {name: _without_defaults(source) for name, source in settings.sources.items()}
    return replace(settings, sources={name: source for name, source in sources.items() if source != SourceSettings()})


def _without_defaults(source: SourceSettings) -> SourceSettings:
    return replace(source, polls={name: poll for name, poll in source.polls.items() if poll != PollSettings()})


def _sorted(plain: Any) -> Any:
    return {name: _sorted(plain[name]) for name in sorted(plain)} if isinstance(plain, dict) else plain


@cache
def _model(kind: Any) -> type[BaseModel]:
    hints, defaults = get_type_hints(kind), kind()
    settings: dict[str, Any] = {}
    for item in fields(kind):
        hint, default = hints[item.name], getattr(defaults, item.name)
        if is_dataclass(default):
            settings[item.name] = (_model(hint), Field(default_factory=_model(hint)))
        else:
            about: About = item.metadata["about"]
            plain = list(default) if isinstance(default, tuple) else default
            settings[item.name] = (_type(hint, about, required=bool(default)), plain)
    return create_model(kind.__name__, __base__=_Section, **settings)


def _type(kind: Any, about: About, *, required: bool) -> Any:
    """The type of a setting for pydantic, with the limits and rules about it; a list that is `required` is not empty."""
    limits = [Field(ge=about.low, le=about.high)] if about.low is not None else []
    rule = [AfterValidator(about.rule)] if about.rule is not None else []
    if get_origin(kind) is Mapping:
        _, value = get_args(kind)
        names = [AfterValidator(about.name_rule)] if about.name_rule is not None else []
        values = _model(value) if isinstance(value, type) and is_dataclass(value) else _with(value, limits)
        return dict[_with(str, names), values]  # type: ignore[misc]  # types made here, for pydantic
    if get_origin(kind) is tuple:
        before = [BeforeValidator(_as_list)] if about.alone else []
        least = [Field(min_length=1)] if required else []
        items: Any = list[_with(str, rule)]  # type: ignore[misc]  # a type made here, for pydantic
        return _with(items, [*before, AfterValidator(rules.all_different), *least])
    return _with(kind, [*rule, *limits])


def _with(kind: Any, conditions: list[Any]) -> Any:
    return Annotated[(kind, *conditions)] if conditions else kind


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value
