"""Reads the values of a YAML file by key and type."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import yaml

from telemetry_daemon.web.addresses import WebConfigError
from telemetry_parsers.dataclass import dataclass

_TAG_PREFIX = "tag:yaml.org,2002:"
_NULL_TAG = f"{_TAG_PREFIX}null"
_SCALAR_TAGS = frozenset(f"{_TAG_PREFIX}{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value"))
_TRUE_WORDS = frozenset({"true", "yes", "on", "y"})
_FALSE_WORDS = frozenset({"false", "no", "off", "n"})
_Node = TypeVar("_Node", bound=yaml.Node)


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping in a YAML file, or an empty mapping if it is absent."""

    file: str
    path: str = ""
    line: int = 0
    entries: tuple[tuple[str, int, yaml.Node], ...] = ()  # key, line and value

    def error(self, key: str, problem: str) -> WebConfigError:
        """Return an error with the file, the line and the full key."""
        line = next((line for name, line, _ in self.entries if name == key), self.line)
        return _error(self.file, line, self._path_of(key), problem)

    def check_keys(self, keys: Collection[str], expected: str = "unknown key; valid keys: ") -> None:
        """Raise WebConfigError if the table has a key that is not in `keys`."""
        for name, _, _ in self.entries:
            if name not in keys:
                raise self.error(name, f"{expected}{', '.join(keys)}")

    def has(self, key: str) -> bool:
        """Return whether the key is present and its value is not null."""
        return self._node(key) is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the keys in the order of the file."""
        return tuple(name for name, _, _ in self.entries)

    def text(self, key: str) -> str:
        """Return the key's value as a string, or "" if it is absent or null."""
        node = self._node(key)
        return "" if node is None else self._text_of(key, node)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the key's list of strings, or () if it is absent or null."""
        node = self._typed_node(key, yaml.SequenceNode, "a list")
        return () if node is None else tuple(self._text_of(key, entry) for entry in node.value)

    def flag(self, key: str) -> bool | None:
        """Return the boolean value of the key, or None if the value is absent or null."""
        text = self.text(key).lower()
        if text in _TRUE_WORDS:
            return True
        if text in _FALSE_WORDS:
            return False
        if text:
            raise self.error(key, "must be true or false")
        return None

    def whole_number(self, key: str) -> int:
        """Return the key's whole number, or 0 if it is absent. Raise WebConfigError for other values."""
        text = self.text(key) or "0"
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise self.error(key, "must be a whole number of 0 or more")
        return int(text)

    def table(self, key: str) -> Table:
        """Return the key's nested mapping, or an empty one if it is absent or null."""
        node = self._typed_node(key, yaml.MappingNode, "a mapping of keys to values")
        return Table(self.file, self._path_of(key)) if node is None else _table_of(self.file, self._path_of(key), node)

    def _path_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _node(self, key: str) -> yaml.Node | None:
        node = next((node for name, _, node in self.entries if name == key), None)
        return None if node is None or node.tag == _NULL_TAG else node

    def _typed_node(self, key: str, node_type: type[_Node], expected: str) -> _Node | None:
        node = self._node(key)
        if node is not None and not isinstance(node, node_type):
            raise self.error(key, f"must be {expected}")
        return node

    def _text_of(self, key: str, node: yaml.Node) -> str:
        if node.tag == _NULL_TAG:
            return ""
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALAR_TAGS:
            raise self.error(key, "must be a string")
        return str(node.value)


def read_table(file: str, content: bytes) -> Table:
    """Return the file's top-level mapping, which is empty for an empty file."""
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        # The parser's message quotes the file, which may contain secrets.
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise _error(file, line, "", "is not valid YAML; check quotes, colons and indentation") from None
    except (yaml.YAMLError, RecursionError):
        raise _error(file, 0, "", "is not valid YAML in UTF-8") from None
    if node is None or node.tag == _NULL_TAG:
        return Table(file)
    if not isinstance(node, yaml.MappingNode):
        raise _error(file, node.start_mark.line + 1, "", "must be a mapping of keys to values")
    return _table_of(file, "", node)


def _table_of(file: str, path: str, node: yaml.MappingNode) -> Table:
    entries: list[tuple[str, int, yaml.Node]] = []
    names: set[str] = set()
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _SCALAR_TAGS:
            raise _error(file, line, path, "has a key that is not a string")
        name = str(key_node.value)
        if name in names:
            raise _error(file, line, f"{path}.{name}" if path else name, "is set twice; remove one")
        names.add(name)
        entries.append((name, line, value))
    return Table(file, path, node.start_mark.line + 1, tuple(entries))


def _error(file: str, line: int, path: str, problem: str) -> WebConfigError:
    parts = [file, f"line {line}" if line else "", path, problem]
    return WebConfigError(": ".join(part for part in parts if part))
