"""The structure of the product: no module imports itself in a circle, and in the daemon every arrow between rooms goes down."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    name: ROOT / folder / name
    for folder, names in {
        "parsers": ["telemetry_parsers"],
        "exporters": ["telemetry_exporters"],
        "daemon": ["telemetry_daemon", "telemetry_profile", "device_telemetry"],
    }.items()
    for name in names
}
MAX_ROOMS, MAX_FLOORS, MAX_MODULES = 24, 12, 560


def modules() -> dict[str, Path]:
    """The file of each module by its dotted name."""
    found = {}
    for package in PACKAGES.values():
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """The imports of a module, those in functions included, but not those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from imports(child)


def imported(nodes: Iterable[ast.ImportFrom]) -> set[str]:
    """Our modules that these imports load."""
    found = set()
    for node in nodes:
        if node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= names or ({node.module} & MODULES.keys())
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_in_a_circle(package: str) -> None:
    graph = {
        name: imported(imports(ast.parse(path.read_text()))) - {name}
        for name, path in MODULES.items()
        if name.partition(".")[0] == package
    }
    assert circle(graph) == []


def room_of(module: str) -> str:
    return module.split(".")[1]


def arrows() -> dict[str, set[str]]:
    """From each room of the daemon to the rooms that it imports."""
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        if name.startswith("telemetry_daemon."):
            targets = imported(imports(ast.parse(path.read_text())))
            rooms = {room_of(target) for target in targets if target.startswith("telemetry_daemon.")}
            found.setdefault(room_of(name), set()).update(rooms - {room_of(name)})
    return found


def test_the_daemon_has_few_rooms_on_few_floors_and_no_arrow_goes_up() -> None:
    graph = arrows()
    assert circle(graph) == []
    floors: dict[str, int] = {}
    for room in TopologicalSorter(graph).static_order():
        floors[room] = 1 + max((floors[below] for below in graph.get(room, ())), default=0)
    assert len(floors) <= MAX_ROOMS
    assert max(floors.values()) <= MAX_FLOORS


def test_the_product_has_few_modules() -> None:
    assert len(MODULES) <= MAX_MODULES
