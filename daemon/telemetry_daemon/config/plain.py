"""The settings as JSON-compatible data and back, for the pipe from the process that validated them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from telemetry_daemon.config.settings import LogSettings, RankSettings, Settings, SourceSettings, WebSettings


def settings_to_plain(settings: Settings) -> dict[str, Any]:
    """The settings as a dictionary that JSON can carry."""
    return asdict(settings)


def settings_from_plain(plain: Mapping[str, Any]) -> Settings:
    """The settings that `settings_to_plain` was given, also after a way through JSON."""
    fields = _frozen(plain)
    fields["log"] = LogSettings(**fields["log"])
    fields["web"] = WebSettings(**fields["web"])
    fields["ranks"] = RankSettings(**fields["ranks"])
    fields["sources"] = tuple((name, SourceSettings(**values)) for name, values in fields["sources"])
    return Settings(**fields)


def _frozen(value: Any) -> Any:
    """The value with tuples for the lists that JSON made of them."""
    if isinstance(value, Mapping):
        return {name: _frozen(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_frozen(inner) for inner in value)
    return value
