"""Where people read what an alert means: the setting RUNBOOKS of `make docs`, else the page that the package installs."""

from __future__ import annotations

import os
import re

SETTING = "RUNBOOKS"
# A daemon could serve the page as well, but not while its node is down, which is when it is wanted.
INSTALLED = "file:///usr/share/doc/device-telemetry/alerts.md"
# Grafana would expand a dollar sign; the alert's anchor comes behind it.
_URL = re.compile(r"(https?://[^\s/#$]+|file://)/[^\s#$'\"]*")


def runbook(alert: str) -> str:
    """The URL of an alert's section. Raises ValueError when the setting is no URL."""
    page = os.environ.get(SETTING) or INSTALLED
    if not _URL.fullmatch(page):
        raise ValueError(
            f"{SETTING}={page}: write the URL of docs/alerts.md, such as https://wiki.example.com/alerts.md"
        )
    return f"{page}#{alert.lower()}"
