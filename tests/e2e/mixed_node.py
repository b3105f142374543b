"""A node with cards of every vendor, for tests of the whole daemon: fake tools, a fake NVML, folders of a driver.

Each tool prints a capture of the tests or of a kit, for the number of its cards on the node. Two vendors call
their tool `xpu-smi`: Kunlunxin's is on PATH, Intel's is at `sources.xpu-smi.path`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kits.captures import text_of
from kits.fake_mthreads_gmi import CARD, query_json
from kits.fake_nvml.library import FakeNvml
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import Answer, ToolFolder

# The number of devices of each vendor.
DEVICES: Mapping[str, int] = {
    "nvidia": 2, "amd": 2, "hygon": 2, "moorethreads": 2, "ascend": 8,
    "cambricon": 1, "metax": 1, "iluvatar": 1, "enflame": 1, "intel": 1, "kunlunxin": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """A vendor's source, its tool, and the tool's answers to some arguments and to all others."""

    source: str
    name: str
    text: Callable[[], str]
    answers: Mapping[str, str] = field(default_factory=dict)


def _first_card(tool: str, case: str, second: str, after: str = "") -> str:
    """Return a capture without its second card, which begins with `second` and ends before `after` or with the capture."""
    whole = text_of(tool, case)
    start = whole.index(second)
    return whole[:start] + (whole[whole.index(after, start) :] if after else "")


def _hy_smi() -> str:
    first = text_of("hy-smi", "json-dtk24").strip()[1:-1]
    second = first.replace("card0", "card1").replace(":0A:", ":0B:").replace("71aa00bb", "71aa00cc")
    return "{" + first + ", " + second + "}\n"


def _mthreads_gmi() -> str:
    second = {
        **CARD,
        "Index": "1",
        "GPU UUID": "6b1f0c2d-91aa-4c0e-8d17-30f2a4b5c6d8",
        "PCI": {"Bus ID": "00000000:1b:00.0"},
    }
    return query_json((CARD, second))


def _npu_smi() -> str:
    head, rule, rest = text_of("npu-smi", "table-910b-sparse").partition("+===")
    line = rule + rest.partition("\n")[0] + "\n"
    title = head[head.index("+---") :]
    return title + line + "".join(_npu(number) + line for number in range(8))


def _npu(number: int) -> str:
    return (
        f"| {number}     910B3 | OK | {90 + number}.4  {40 + number}  0    / 0 |\n"
        f"| 0 | 0000:{0xA0 + number:X}:00.0 | {number}  0    / 0  {3320 + number} / 65536 |\n"
    )


def _intel() -> str:
    return _first_card("xpu-smi", "table-2.0", "|   1  Intel", "+---")


# Subcommands whose readings must not outlive a removed table.
_NO_CORE_READING = text_of("xpu-smi", "health").replace("| 3 ", "| 0 ")
INTEL_ANSWERS: Mapping[str, str] = {
    "discovery -j": '{"device_list": [{"device_id": 0, "pci_bdf_address": "0000:03:00.0"}]}\n',
    "discovery -d 0 -j": '{"device_id": 0, "device_stepping": "B4", "pci_bdf_address": "0000:03:00.0"}\n',
    "config -d 0": _NO_CORE_READING,
    "health -l": _NO_CORE_READING,
    "ps": "PID       Command             DeviceID       SHR            MEM\n",
}
TOOLS: Mapping[str, Tool] = {
    "hygon": Tool("hy-smi", "hy-smi", _hy_smi),
    "moorethreads": Tool("mthreads-gmi", "mthreads-gmi", _mthreads_gmi),
    "ascend": Tool("npu-smi", "npu-smi", _npu_smi),
    "cambricon": Tool("cnmon", "cnmon", lambda: text_of("cnmon", "table-4.20-idle")),
    "metax": Tool("mx-smi", "mx-smi", lambda: text_of("mx-smi", "table-2.1.12-idle")),
    "iluvatar": Tool("ixsmi", "ixsmi", lambda: text_of("ixsmi", "table-idle-container")),
    "enflame": Tool("efsmi", "efsmi", lambda: _first_card("efsmi", "query", "DEV ID 1")),
    "intel": Tool("xpu-smi", "intel-xpu-smi", _intel, INTEL_ANSWERS),
    "kunlunxin": Tool("xpu-smi-kunlun", "xpu-smi", lambda: text_of("xpu-smi-kunlun", "query")),
}
INTEL_TOOL = TOOLS["intel"].name


class MixedNode:
    """A node in a folder, with the environment and configuration of its daemon."""

    def __init__(self, folder: Path) -> None:
        self.tools = ToolFolder(folder / "tools")
        for vendor in TOOLS:
            self.mend(vendor)
        self._root = folder / "host"
        sysfs = Sysfs(self._root)
        for bus in ("0000:c1:00.0", "0000:c5:00.0"):
            sysfs.card(bus, {**mi210(), "unique_id": bus.replace(":", "").replace(".", "")})
        nvml = FakeNvml(folder / "nvml", "h100")
        for gpu in range(DEVICES["nvidia"], nvml.profile.gpus):
            nvml.unplug(gpu)
        self.environment = {**nvml.environment, "PATH": self.tools.search_path}

    @property
    def config(self) -> str:
        """Return fast polls of all sources, and the paths of folders and of the Intel tool."""
        polled = "".join(
            f'[sources.{tool.source}]\ninterval = 0.5\ndeadline = 3.0\nmode = "always"\n{self._path(tool)}'
            for tool in TOOLS.values()
        )
        sysfs = f'[sources.amdgpu-sysfs]\ninterval = 0.5\npath = "{self._root}"\n'
        return f"{polled}{sysfs}[sources.nvml]\ninterval = 1.0\n"

    def mend(self, vendor: str) -> None:
        tool = TOOLS[vendor]
        self.tools.answers(
            tool.name, {words: Answer(text) for words, text in tool.answers.items()}, Answer(tool.text())
        )

    def damage(self, vendor: str, fault: str) -> None:
        """Let the tool of a vendor hang, print garbage, or be missing."""
        name = TOOLS[vendor].name
        if fault == "hangs":
            self.tools.hangs(name)
        elif fault == "garbage":
            self.tools.prints(name, "\x00\x01 nothing of any tool \xff\n")
        else:
            (self.tools.folder / name).unlink()

    def _path(self, tool: Tool) -> str:
        return f'path = "{self.tools.folder / tool.name}"\n' if tool.name == INTEL_TOOL else ""
