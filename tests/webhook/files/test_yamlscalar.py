"""The place of every character of a YAML text in its file is found, however the text is written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from webhook.files import yamlfile
from webhook.files.yamltext import place_inside, scalar_place

TEXTS = {
    "plain": "expression: object.spec.replicas > 5\n",
    "plain over two lines": "expression: object.spec\n  .replicas > 5\n",
    "single quotes": "expression: 'object.x == ''a'' && true'\n",
    "double quotes": 'expression: "object.x == \\"a\\" \\u00e9 && x"\n',
    "double quotes over lines": 'expression: "object.x ==\n\n   5 && \\\n   true"\n',
    "literal block": "a:\n  expression: |\n    object.x &&\n      (true ||\n\n    false)\n",
    "literal block after empty lines": "expression: |-\n\n\n  a &&\n  b\n",
    "folded block": "expression: >-\n  object.x &&\n  true\n\n  || false\n",
    "folded block with deeper lines": "expression: >\n  object.x &&\n    true ||\n  false\n",
    "in a list": "- x: 1\n  expression: |\n    a\n    b\n",
    "escapes of JSON": '{"expression": "\\ud83d\\ude00\\t😀 \\u00e9\\ud83d x"}\n',
    "Windows line ends": "expression: |\r\n  a &&\r\n  b\r\n",
}


def scalar(text: str) -> yaml.ScalarNode:
    """The last text of a file."""
    node: Any = yamlfile.load("a.yaml", text)[-1].node
    while not isinstance(node, yaml.ScalarNode):
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return node


def written(character: str) -> set[str]:
    """The ways in which a character may begin in a file; blanks and line breaks may be a line break of the file."""
    if character in " \n":
        return {character, "", "\\", "\r"}
    return {character, "\\"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_character_is_found(text: str) -> None:
    """At the place of each character of the value, the file has that character."""
    node = scalar(text)
    lines = text.split("\n")
    mark = node.start_mark

    found = [
        place_inside(lines, mark.line + 1, mark.column + 1, node.value, offset) for offset in range(len(node.value))
    ]

    places = zip(node.value, found, strict=True)
    wrong = [
        (offset, character, place)
        for offset, (character, place) in enumerate(places)
        if lines[place[0] - 1][place[1] - 1 :][:1] not in written(character)
    ]
    assert wrong == []
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("expression: a\n", (1, 13)),
        ("expression: 'a'\n", (1, 14)),
        ("expression: |\n  a\n", (2, 3)),
        ("expression: |  # why\n\n    a\n", (2, 5)),
        ("expression: >-\n  a\n", (2, 3)),
        ("expression:\n", (1, 12)),
        ("expression: |\n", (1, 13)),
    ],
)
def test_a_text_begins_at_its_first_character(text: str, expected: tuple[int, int]) -> None:
    """Quotes and the indicators of blocks are no part of a text."""
    mark = scalar(text).start_mark

    assert scalar_place(text.split("\n"), mark.line + 1, mark.column + 1) == expected
