"""A plugin that fails on demand, in the way that a file names."""

from dataclasses import dataclass
from pathlib import Path

PLUGIN = "acme-switch"

_PLUGIN = """
import os, signal, sys, time

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.library import ReaderRefusal
from telemetry_parsers.model import Device, Library, Poll, Reading, Report

{first}


def raise_error():
    raise ValueError("no such\\ncard")


def refuse():
    raise ReaderRefusal("failed", "driver_gone", "the Acme driver is not running: systemctl start acme")


def eat():
    held = []
    while True:
        held.append(bytearray(64 << 20))


def write_garbage():
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"x" * (1 << 16))
        except OSError:  # most of these numbers are no open file
            pass


ACTIONS = {{
    "raise": raise_error,
    "refuse": refuse,
    "die": lambda: os._exit(3),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(3600),
    "garbage": write_garbage,
    "eat": eat,
}}


def act(place, text):
    where, _, word = text.partition("-")
    if where == place:
        ACTIONS[word]()


class Reader:
    def open(self):
        pass

    def read(self, calls):
        with open({switch!r}) as file:
            text = file.read().strip()
        act("read", text)
        return {{"power": text}}

    def close(self):
        pass


def parse(capture):
    text = capture.outputs[0].data
    act("parse", text)
    if text == "parse-nonsense":
        return {{"not": "a report"}}
    return Report(devices=(Device("acme", 0, uuid="ACME-1"),), readings=(Reading(0, "power_watts", float(text)),))


READER = Reader()
PARSER = SourceParser(
    name={name!r},
    vendor="acme",
    gives=("power_watts",),
    polls=(Poll("all", Library({name!r}, ("power",))),),
    parse=parse,
)
"""


@dataclass(frozen=True)
class SwitchedPlugin:
    """A plugin in a folder of modules. A file switches it: a number is the power of its card, a word is a fault."""

    folder: Path

    @property
    def config(self) -> str:
        paths = f'[parsers]\npaths = ["{self.folder}/parsers"]\n'
        return f'{paths}[sources.{PLUGIN}]\ninterval = 0.5\ndeadline = 1.5\nmode = "always"\n'

    def write(self, first: str = "") -> None:
        """Install the plugin; `first` is run when it is imported."""
        (self.folder / "parsers").mkdir(exist_ok=True)
        text = _PLUGIN.format(name=PLUGIN, switch=str(self.folder / "switch"), first=first)
        (self.folder / "parsers" / "acme.py").write_text(text)

    def switch_to(self, text: str) -> None:
        """Replace the file that switches the plugin atomically."""
        fresh = self.folder / "switch.new"
        fresh.write_text(text)
        fresh.replace(self.folder / "switch")
