"""An alert's `{label}` and `{value}` in the template languages of Prometheus and Grafana."""

from __future__ import annotations

import re

_PLACE = re.compile(r"\{([a-z_]+)(?::([a-zA-Z]+))?\}")


def for_prometheus(text: str) -> str:
    """The text as an annotation of a Prometheus rule."""
    return _PLACE.sub(lambda match: _filled(match, ".Value"), text)


def for_grafana(text: str) -> str:
    """The text as an annotation of a Grafana rule, without a dollar sign: Grafana would expand it in a file."""
    return _PLACE.sub(lambda match: _filled(match, ".Values.A.Value"), text)


def _filled(match: re.Match[str], value: str) -> str:
    what = value if match[1] == "value" else f".Labels.{match[1]}"
    return f"{{{{ {what} | {match[2]} }}}}" if match[2] else f"{{{{ {what} }}}}"
