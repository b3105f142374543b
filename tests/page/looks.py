"""Layout and accessibility, measured in the browser: cut and overlapping elements, findings of axe-core."""

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

from kits.browser import Tab
from kits.captures import ROOT

_FOLDER = Path(__file__).parent
_LOOKS = (_FOLDER / "looks.js").read_text()
_KEPT = ROOT / "build" / "axe"


def faults(tab: Tab) -> dict[str, list[str]]:
    """Return the faults of the layout by kind; empty if there is none."""
    found = {kind: tab.evaluate(f"{_LOOKS}.{kind}()")[:10] for kind in ("sideways", "cut", "overlapping")}
    return {kind: messages for kind, messages in found.items() if messages}


def below_the_screen(tab: Tab) -> int:
    return int(tab.evaluate("document.documentElement.scrollHeight - document.documentElement.clientHeight"))


def barriers(tab: Tab) -> list[str]:
    if not tab.evaluate("'axe' in window"):
        tab.evaluate(_axe() + ";true")
    return list(tab.evaluate(f"{_LOOKS}.barriers()"))


@cache
def _axe() -> str:
    if not list(_KEPT.glob("*.whl")):
        get = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python")
        wanted = ("--require-hashes", "--requirement", str(_FOLDER / "axe.txt"))
        subprocess.run([*get, *wanted, "--dest", str(_KEPT)], check=True, timeout=120)
    (wheel,) = _KEPT.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        return file.read("pytest_playwright_axe/resources/axe.min.js").decode()
