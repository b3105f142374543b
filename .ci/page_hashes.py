"""The hashes of the page's script and style, by which a browser knows them."""

from __future__ import annotations

import base64
import hashlib

from telemetry_daemon.site.page_files import script, style


def page_hashes() -> str:
    """The two lines of site/page_files.py."""
    return f'_SCRIPT_HASH = "{_hash(script())}"\n_STYLE_HASH = "{_hash(style())}"\n'


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
