"""Metadata of settings, and rules that return an accepted value or raise ValueError."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from telemetry_daemon.web.addresses import TcpAddress, WebError, parse_address
from telemetry_exporters.prometheus.compat import EXPORTERS
from telemetry_parsers.card_peaks import DTYPES
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.metrics import OWNER_LABELS

# Other pages already use these routes.
_RESERVED_ROUTES = ("/", "/healthz", "/readyz", "/api")

_JOB_MAP_TOOLS = ("dcgm", "jobstats", "dme")

_MAX_QUOTED_LENGTH = 60

_SOURCE_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\Z")
_ROUTE = re.compile(r"(/[A-Za-z0-9._~-]+)+\Z|/\Z")
_DIGITS_AND_DOTS = re.compile(r"[0-9.]+\Z")


@dataclass(frozen=True, slots=True)
class SettingMetadata:
    """Metadata of a setting, or of the items in a list or mapping."""

    text: str
    example: object = None
    rule: Callable[[str], str] | None = None
    name_rule: Callable[[str], str] | None = None
    low: float | None = None
    high: float | None = None
    accepts_string: bool = False


def about(text: str, **properties: Any) -> Mapping[str, SettingMetadata]:
    """Return the `metadata` argument for the dataclass field of a setting."""
    return {"about": SettingMetadata(text, **properties)}


def quoted(value: object) -> str:
    """Return the value as JSON on one line, shortened if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_QUOTED_LENGTH else text[: _MAX_QUOTED_LENGTH - 1] + "…"


def check_source_name(text: str) -> str:
    """Accept the name of a source: lower-case letters, digits and single hyphens."""
    if _SOURCE_NAME.match(text) is None:
        raise ValueError("the name of a source consists of lower-case letters, digits and hyphens, as in mthreads-gmi")
    return text


def check_absolute_path(text: str) -> str:
    """Accept an absolute path without control characters."""
    if not text.startswith("/"):
        raise ValueError(f"must be an absolute path, starting with /, not {quoted(text)}")
    if not text.isprintable():
        raise ValueError(f"must be a path without control characters, not {quoted(text)}")
    return text


def check_one_line(text: str) -> str:
    """Accept a string without control characters."""
    if not text.isprintable():
        raise ValueError(f"must be a string without control characters, not {quoted(text)}")
    return text


def check_absolute_path_or_empty(text: str) -> str:
    """Accept an absolute path or the empty string."""
    return check_absolute_path(text) if text else text


def check_textfile_path(text: str) -> str:
    """Accept an absolute path that ends with `.prom`, or the empty string."""
    if text and not text.endswith(".prom"):
        raise ValueError(f"{quoted(text)} does not end in .prom; the collector ignores other files")
    return check_absolute_path_or_empty(text)


PATH_RULES = (check_absolute_path, check_absolute_path_or_empty, check_textfile_path)


def check_route(text: str) -> str:
    """Accept a URL path that no other page uses."""
    if _ROUTE.match(text) is None:
        raise ValueError(f"must start with / and consist of letters, digits, . _ ~ - and /, not {quoted(text)}")
    if {".", ".."} & set(text.split("/")):
        raise ValueError(
            f"{quoted(text)} contains the path segment '.' or '..', which clients remove before they send a request"
        )
    if text in _RESERVED_ROUTES or text.startswith("/api/"):
        raise ValueError(f"{text} is the path of another page; choose a path such as /metrics")
    return text


def check_listen_address(text: str) -> str:
    """Accept a well-formed address, even if this machine does not have it."""
    if not text.isprintable():
        raise ValueError(f"must be an address without control characters, not {quoted(text)}")
    try:
        address = parse_address(text)
    except WebError as error:
        raise ValueError(str(error)) from error
    if isinstance(address, TcpAddress):
        _check_host(address.host, text)
    return text


def check_allowed_host(text: str) -> str:
    """Accept a host name, an address, `*.NAME` or `*`."""
    name = text.removeprefix("*.").removesuffix(".")
    if text == "*" or _is_address(text) or (_HOST_NAME.match(name) and not _DIGITS_AND_DOTS.match(name)):
        return text
    raise ValueError(
        f"{quoted(text)} is not a host; write a name or an IP address without scheme, port and brackets. "
        '"*.example.com" allows all names in a domain, "*" allows all names'
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:  # the host is a name, or is invalid
        return False
    return True


def _check_host(host: str, text: str) -> None:
    if (":" in host or _DIGITS_AND_DOTS.match(host) is not None) and not _is_address(host):
        raise ValueError(f"{quoted(text)} has an invalid IP address")
    if host and ":" not in host and _HOST_NAME.match(host) is None:
        raise ValueError(f"{quoted(text)} has a host that is neither a name nor an IP address")


def check_job_map(text: str) -> str:
    """Accept a pair KIND:FOLDER, such as `jobstats:/run/gpustat`."""
    kind, colon, folder = text.partition(":")
    if not colon or kind not in _JOB_MAP_TOOLS:
        raise ValueError(f"must be KIND:FOLDER, where KIND is one of {', '.join(_JOB_MAP_TOOLS)}, not {quoted(text)}")
    check_absolute_path(folder)
    return text


def check_model_name(text: str) -> str:
    """Accept the name of a card model, as in the label `model`."""
    if not text.strip():
        raise ValueError('must be the name of a model, as in [peaks."MTT S5000"]')
    return check_one_line(text)


def check_unique_items(texts: list[str]) -> list[str]:
    """Accept a list without duplicates."""
    duplicates = [text for index, text in enumerate(texts) if text in texts[:index]]
    if duplicates:
        raise ValueError(f"names {quoted(duplicates[0])} twice")
    return texts


def _make_choice_rule(choices: Collection[str]) -> Callable[[str], str]:
    def rule(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {quoted(text)}")
        return text

    return rule


check_owner_label = _make_choice_rule(OWNER_LABELS["accelerator_allocation_seconds_total"])
check_data_type = _make_choice_rule(DTYPES)
check_exporter = _make_choice_rule(EXPORTERS)
