"""JSON among other text: which documents are found, what is whole of a cut one, which lines are foreign."""

from __future__ import annotations

import pytest

from telemetry_parsers.text.documents import OBJECTS, find_documents


def test_documents_follow_each_other_with_and_without_a_line_between() -> None:
    found = find_documents('[{"a": 1}][{"a": 2}]\n{"b": 0.50}\n')
    assert [item.value for item in found.documents] == [[{"a": "1"}], [{"a": "2"}], {"b": "0.50"}]
    assert found.problems(found.documents) == []


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('[{"a": 1}, {"a": 2}, {"a":', [{"a": "1"}, {"a": "2"}]),
        ('{"cards": [{"a": 1}, {"a":', [{"a": "1"}]),
        ('{"about": {"v": 1}, "none": [], "cards": [{"a": 1}, {"a":', [{"a": "1"}]),
        ('{"gpu": 0, "links": [{"gpu": 1}, {"gpu":', []),  # the links of a card are no cards
        ('{"about": {"v": 1', []),
        ('{"a": "b', []),
    ],
)
def test_of_a_cut_document_the_items_of_its_list_are_kept(text: str, items: list[object]) -> None:
    (document,) = find_documents(text).documents
    assert document.fault
    assert document.value == items


@pytest.mark.parametrize(
    "line",
    ["WARNING: x", "[ 12.345678] amdgpu: x", "2025-11-22 x", "16:30:01 x", "---- x", "(x)", "*** x", "warn: {x}"],
)
def test_a_foreign_line_within_a_document_is_told(line: str) -> None:
    found = find_documents(f'[\n{line}\n{{"a":\n{line}\n-1.5}},\n[true,\nnull]]\n')
    assert [item.value for item in found.documents] == [[{"a": "-1.5"}, [True, None]]]
    assert [problem.text for problem in found.problems(found.documents)] == [f"text beside the JSON: {line}"] * 2


def test_a_document_that_is_not_taken_is_told_like_any_other_text() -> None:
    found = find_documents('before\n{"x": 1}\n{"a": 1}\nbehind')
    problems = found.problems(found.documents[1:])
    assert [problem.text.removeprefix("text beside the JSON: ") for problem in problems] == [
        "before",
        '{"x": 1}',
        "behind",
    ]


def test_objects_may_stand_behind_a_prefix_in_their_line() -> None:
    text = 'node7: {"a": 1}\n'
    assert find_documents(text).documents == ()
    assert [item.value for item in find_documents(text, OBJECTS).documents] == [{"a": "1"}]
