"""The steps of docs/architecture.md for adding a vendor, metric, alert and command, tried in a copy."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT
from telemetry_parsers.vendor import BASIC

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = ROOT / "docs" / "architecture.md"
PLUGIN = ROOT / "tests" / "example_plugin"
# Hand-written files; questions.txt has the checks of the copy's packages.
ADDED = Path(__file__).parent / "added"
NOT_COPIED = shutil.ignore_patterns(
    ".*_cache", ".venv", ".git", ".hypothesis", "__pycache__", "build", "dist", "node_modules"
)
SOURCE_FOLDERS = ("benchmarks", "daemon", "exporters", "grafana", "parsers", "tests")
WORDS = {
    "vendor": "anvil",
    "module": "acme_smi",
    "source": "acme-smi",
    "subject": "lost_and_broken",
    "command": "greet",
}
VENDORS = "parsers/telemetry_parsers/vendors"
MARKS = "parsers/telemetry_parsers/text/tool_marks.py"


class House:
    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, ignore=NOT_COPIED, symlinks=True)
        self._touched: set[str] = set()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"))
        self._touched.add(name)

    def insert(self, name: str, before: str, text: str) -> None:
        path = self.root / name
        head, found, tail = path.read_text().partition(before)
        assert found, (name, before)
        path.write_text(head + text + found + tail)
        self._touched.add(name)

    def touched(self) -> set[str]:
        touched, self._touched = self._touched, set()
        return touched

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def install(self) -> None:
        """Write the metadata that `pip install --editable` would create from the copy's pyproject.toml."""
        project = tomllib.loads(self.read("pyproject.toml"))["project"]
        groups = {"console_scripts": project["scripts"], **project["entry-points"]}
        info = self.root / "installed" / "device_telemetry-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: device-telemetry\nVersion: 0\n")
        sections = (
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in groups.items()
        )
        (info / "entry_points.txt").write_text("\n".join(sections))

    def python(self, *arguments: str | Path) -> str:
        path = os.pathsep.join(str(self.root / folder) for folder in ("installed", *SOURCE_FOLDERS))
        # The copy has no shared captures beside it, which fails its tests if CI=true.
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "CI": ""}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pytest(self, *arguments: str) -> None:
        self.python(
            "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={self.root.parent / 'tests'}", *arguments
        )


def named(title: str) -> set[str]:
    """Return the files and folders that a section says to write by hand, without those that `make` writes."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert section is not None
    steps = re.findall(r"^[0-9]\. (.*)$", section[1], flags=re.MULTILINE)
    assert len(steps) == 5
    by_hand = " ".join(re.sub(r"`make (docs|test)\b.*?writes.*", "", step) for step in steps)
    names = {name for name in re.findall(r"`([^` ]+)`", by_hand) if "/" in name or name == "pyproject.toml"}
    return {
        re.sub("<(.*?)>", lambda word: WORDS[word[1]], name)
        for name in names
        if (ROOT / name.split("<")[0]).parent.exists()
    }


def add_vendor(house: House) -> None:
    house.insert(f"{VENDORS}/npu_records.py", "CAMBRICON = ", (ADDED / "vendor.txt").read_text())
    house.insert(f"{VENDORS}/__init__.py", ")\nVENDOR_BY_WORD", "    npus.ANVIL,\n")
    house.insert(MARKS, '    "amdgpu-sysfs"', '    "acme-smi": ("Acme System Management",),\n')
    house.write(f"{VENDORS}/acme_smi.py", plugins_parser())
    house.insert("pyproject.toml", "amd-smi = ", 'acme-smi = "telemetry_parsers.vendors.acme_smi:PARSER"\n')
    for capture in sorted((PLUGIN / "captures").glob("*.txt")):
        house.write(f"tests/captures/acme-smi/{capture.name}", f"# Acme, {capture.stem}\n# ---\n{capture.read_text()}")
    house.write("docs/vendors/anvil.md", "# Acme\n")


def plugins_parser() -> str:
    text = (PLUGIN / "src/telemetry_example/acme_smi.py").read_text()
    text = re.sub("from telemetry_example.vendor import .*\n", "", text)
    text = text.replace(
        "METRICS = {**BY_KEY, COOLANT_FLOW.key: COOLANT_FLOW}", 'METRICS = BY_KEY\nVENDOR = INDEX_SPACE = "anvil"'
    )
    text = re.sub('    "coolant flow": .*\n|    metrics=.*\n', "", text)
    assert "COOLANT" not in text
    return text


def add_metric(house: House) -> None:
    house.insert(
        "parsers/telemetry_parsers/metrics.py",
        '    _device_metric("fan_rpm"',
        '    _device_metric("coolant_flow_ratio", "ratio", "Coolant flow as a share of the maximum (0-1).", 0, 1),\n',
    )
    house.insert(
        f"{VENDORS}/acme_smi.py",
        '    "core load"',
        '    "coolant flow": Field("coolant_flow_ratio", units.RATIO),\n',
    )
    busy = (PLUGIN / "captures/busy.txt").read_text().replace("[Not Supported]", "40 %")
    house.write("tests/captures/acme-smi/coolant.txt", f"# Acme, cooled\n# ---\n{busy}")
    house.insert(f"{VENDORS}/npu_records.py", '"power_cap_watts"),\n    ),\n)\nCAMBRICON', '"coolant_flow_ratio", ')
    house.insert(
        "daemon/telemetry_daemon/simulate/cards.py",
        '    "fan_ratio"',
        '    "coolant_flow_ratio": lambda card: round(card.load, 2),\n',
    )


def add_alert(house: House) -> None:
    house.insert(
        "grafana/telemetry_grafana/rules/alerts_lost_and_broken.py",
        '        critical(\n            name="AcceleratorLost"',
        (ADDED / "alert.txt").read_text(),
    )
    house.insert(
        "exporters/telemetry_exporters/judgement/thresholds.py",
        '    "skew_seconds"',
        '    "coolant_share": Threshold(0.2, "share of the coolant", "our choice"),\n',
    )
    house.insert(
        "exporters/telemetry_exporters/judgement/evidence.py",
        "\n\ndef detect_power_cap(",
        "\n\ndef detect_little_coolant(view: View) -> list[str]:\n"
        '    """Whether the pump gives little."""\n'
        '    flow = view.number("coolant_flow_ratio")\n'
        '    return ["coolant low"] if flow is not None and flow < threshold("coolant_share") else []\n',
    )
    row = '"coolant low", "the pump gives little", ("coolant_flow_ratio",), evidence.detect_little_coolant, "mend the pump"'
    house.insert(
        "exporters/telemetry_exporters/judgement/verdict.py",
        '    _warning("fan stopped"',
        f'    _warning({row}, "AcceleratorCoolantLow"),\n',
    )
    house.insert(
        "tests/kits/planted_faults.py",
        '    "narrow PCIe"',
        '    "coolant low": _fault("coolant low", "warning", "coolant_flow_ratio", 0.1),\n',
    )
    low = "accelerator_coolant_flow_ratio{D} 0.1x120"
    case = f"AcceleratorCoolantLow\n  fires: {low}\n  enough: {low.replace('0.1', '0.3')}\n\n"
    house.insert("tests/grafana/alert_cases.txt", "AcceleratorLost\n", case)


def add_command(house: House) -> None:
    house.write("daemon/telemetry_daemon/commands/greet.py", (ADDED / "command.txt").read_text())
    house.insert("daemon/telemetry_daemon/cli.py", '    ("version"', '    ("greet", "say hello"),\n')
    house.insert(".ci/man_page.py", '    "version": ', '    "greet": "Says hello.",\n')
    house.write("tests/commands/test_greet.py", (ADDED / "command_test.txt").read_text())


HOW_TOS = {
    "How to add a vendor": add_vendor,
    "How to add a metric": add_metric,
    "How to add an alert": add_alert,
    "How to add a command": add_command,
}


pytestmark = pytest.mark.installed


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Return the checkout with all four additions, updated generated files and golden files."""
    house = House(tmp_path_factory.mktemp("copy") / "checkout")
    for title, add in HOW_TOS.items():
        add(house)
        touched = house.touched()
        named_paths = named(title)
        folders = tuple(path for path in named_paths if path.endswith("/"))
        assert {name for name in touched if name not in named_paths and not name.startswith(folders)} == set(), title
        assert {path for path in named_paths if not any(name.startswith(path) for name in touched)} == set(), title
    house.install()
    house.pytest("tests/parsers/test_golden.py", "-k", "acme", "--update-golden")
    house.python(".ci/generate.py")
    return house


def test_make_docs_updates_the_generated_files(house: House) -> None:
    assert "DeviceAllow=char-anvil* rw\n" in house.read("deploy/systemd/telemetry.service")
    chart = "deploy/helm/device-telemetry"
    assert "  anvil:\n    enabled: false\n" in house.read(f"{chart}/values.yaml")
    assert "pci-1200_ace0.present" in house.read(f"{chart}/values.yaml")
    assert "| `pools.anvil` | off | The tool. |" in house.read(f"{chart}/README.md")
    assert "acme-smi\n" in house.read(f"{chart}/files/sources.txt")
    assert "| [Acme](anvil.md) | `acme-smi` |" in house.read("docs/vendors/README.md")
    assert "| Acme | `/dev/anvil*` |" in house.read("docs/install.md")
    assert "| `anvil` | no | `acme-smi` | privileged, `/opt/acme` |" in house.read("docs/kubernetes.md")
    assert "| anvil |" in house.read("docs/fleet.md")
    assert "`accelerator_coolant_flow_ratio`" in house.read("docs/metrics.md")
    assert "AcceleratorCoolantLow" in house.read("docs/alerts.md")
    for name in (
        "deploy/prometheus/rules/telemetry-alerts.yml",
        "grafana/provisioning/alerting/telemetry-rules.yaml",
    ):
        assert "AcceleratorCoolantLow" in house.read(name)
        assert "accelerator_coolant_flow_ratio < 0.2" in house.read(name)
    completion = house.read("daemon/telemetry_daemon/completion/telemetry.bash")
    assert "8xanvil" in completion
    assert "greet" in completion
    assert "Says hello." in house.read("deploy/man/telemetry.1")


def test_the_daemon_knows_the_vendor(house: House, tmp_path: Path) -> None:
    assert json.loads(house.python("-c", (ADDED / "questions.txt").read_text(), tmp_path / "pci")) == {
        "pci": {"anvil": 1},
        "nodes": ["/dev/anvil[0-9]*"],
        "simulated": [["anvil", "Anvil 3000"]] * 2,
        "readings": sorted(["coolant_flow_ratio", "power_cap_watts", *BASIC]),
        "foreign": "acme-smi",
        "harmless": True,
    }


def test_the_contract_holds_for_its_parser(house: House) -> None:
    house.pytest("tests/contract/test_contract.py", "tests/parsers/test_golden.py", "-k", "acme")


@pytest.mark.long
def test_the_tests_of_what_was_added_pass(house: House) -> None:
    alerts = "tests/grafana/test_alerts.py::"
    house.pytest(
        "tests/catalogue",
        "tests/commands/test_greet.py",
        "tests/docs/test_vendor_matrix.py",
        "tests/helm/test_chart.py",
        "tests/simulate/test_demo.py",
        "tests/simulate/test_source.py",
        f"{alerts}test_each_alert_fires_in_its_cases_only",
        f"{alerts}test_every_alert_has_a_case_that_fires_it",
        "tests/grafana/test_verdict_agrees.py",
        "tests/exporters/test_verdict.py",
    )
