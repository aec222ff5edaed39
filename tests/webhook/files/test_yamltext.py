"""Texts of YAML documents: taken apart, and changed without losing what stands around the values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from webhook.files import yamlfile
from webhook.files.yamltext import Formatting, documents, format_file, place_inside, scalar_place, without


def test_documents_keep_their_comments_and_lines() -> None:
    """Each document comes with what its author wrote around it, and the number of lines before it."""
    text = "# one\na: 1 # first\n---\nb: |\n  --- no marker\n--- # three\nc: 3\n...\n%YAML 1.2\n---\nd: 4\n"

    assert list(documents(text)) == [
        (0, "# one\na: 1 # first\n"),
        (2, "\nb: |\n  --- no marker\n"),
        (5, " # three\nc: 3\n...\n"),
        (9, "\nd: 4\n"),
    ]


_COMMENTED = """\
metadata:
  # why
  annotations: # what
    # one
    own/a: "1" # its value
    # two
    own/b: |
      one

  # the name
  name: x
"""
_KEPT = """\
metadata:
  annotations:
    a: "1"
    own/a: |
      one
      two

    # and b
    b: "2"
spec: {}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_COMMENTED, "metadata:\n  # why\n  # the name\n  name: x\n"),
        (_KEPT, 'metadata:\n  annotations:\n    a: "1"\n    # and b\n    b: "2"\nspec: {}\n'),
        ("metadata:\n  name: x\n  annotations:\n    own/a: >-\n      one\n", "metadata:\n  name: x\n"),
        ("metadata: {name: x, annotations: {own/a: '1', own/b: '2'}}\n", "metadata: {name: x}\n"),
        ("metadata: {annotations: {own/a: '1'}, name: x}\n", "metadata: {name: x}\n"),
        ("metadata: {annotations: {own/a: '1'}}\n", "metadata: {}\n"),
        (
            "metadata: {annotations: {a: 1, own/a: [1,\n 2], b: 2}} # kept\n",
            "metadata: {annotations: {a: 1, b: 2}} # kept\n",
        ),
        ('{"metadata": {"annotations": {"a": "1", "own/a": "2"}}}', '{"metadata": {"annotations": {"a": "1"}}}'),
        ("metadata: {name: x, annotations: {a: 1}}\n", "metadata: {name: x, annotations: {a: 1}}\n"),
        ("metadata: {name: x, annotations: {}}\n", "metadata: {name: x, annotations: {}}\n"),
        ("metadata: {name: x, annotations: null}\n", "metadata: {name: x, annotations: null}\n"),
        ("spec: {}\n", "spec: {}\n"),
    ],
)
def test_keys_are_cut_out(text: str, expected: str) -> None:
    """What is not the key itself stays as it is, comments and style included; a map that would be empty goes too."""
    assert without(text, ("metadata", "annotations"), "own/") == expected


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
    node, lines = scalar(text), text.split("\n")
    place = node.start_mark.line + 1, node.start_mark.column + 1

    found = [place_inside(lines, *place, node.value, offset) for offset in range(len(node.value))]

    there = [lines[line - 1][column - 1 :][:1] for line, column in found]
    assert [(one, at) for one, at in zip(node.value, there, strict=True) if at not in written(one)] == []
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


_HEAD = """\
# of the team
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a,   labels: {b: "c"}}   # odd spaces
spec:
"""
_LONG = "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"
_LINE = f"{_LONG} && object.spec.replicas <= 5"
_LINES = f"{_LONG}\n        && object.spec.replicas <= 5"
_VARIABLE = "  variables:\n    - name: b\n      expression: "


@pytest.mark.parametrize(
    ("spec", "old", "new"),
    [
        ('  validations:\n    - expression: "a==1"  # why\n      message: "a  ==  1"\n', "a==1", "a == 1"),
        ("  validations:\n    - messageExpression: 'a+''b'''\n", "a+", "a + "),
        ("  variables:\n    - {name: b, expression: a==1}\n", "a==1", "a == 1"),
        (f"{_VARIABLE}'!(!(a))'\n", "(a)", "a"),
        (f"{_VARIABLE}f(a)?b:c\n", "f(a)?b:c", "'f(a) ? b : c'"),
        (f"{_VARIABLE}|\n        a  &&\n          b\n\n      # c\n", "a  &&\n          b", "a && b"),
        (
            f"{_VARIABLE}>- # why\n        {_LINE}\n      # c\n",
            f">- # why\n        {_LINE}",
            f"|- # why\n        {_LINES}",
        ),
        (f'{_VARIABLE}"{_LINE}" # why\n      # c\n', f'"{_LINE}" # why', f"|- # why\n        {_LINES}"),
        (f'  variables: [{{expression: "{_LINE}"}}]\n'.replace(" <= ", "<="), "<=", " <= "),
        ("  auditAnnotations:\n    - key: a\n      valueExpression: string( a )", "( a )", "(a)"),
        ("  matchConditions:\n    - expression: a==b\n      name: a==b\n", "on: a==b", "on: a == b"),
        ("  mutations:\n    - jsonPatch: {expression: [ ]}\n    - jsonPatch: {expression: '[ ]'}\n", "'[ ]'", "'[]'"),
    ],
)
def test_only_expressions_change(spec: str, old: str, new: str) -> None:
    """An expression is rewritten within its quotes or its block; a long one becomes a block."""
    after = f"{_HEAD}{spec.replace(old, new)}"

    assert format_file("a.yaml", _HEAD + spec) == Formatting(after)
    assert format_file("a.yaml", after) == Formatting(after)


def test_files_of_other_things_stay() -> None:
    """What is no policy, or is formatted already in another style of YAML, is left as it is."""
    for text in (
        "kind: ValidatingAdmissionPolicy\napiVersion: example.com/v1\nspec: {variables: [{expression: a==1}]}\n",
        "kind: Pod\napiVersion: v1\nspec: {variables: [{expression: a==1}]}\n",
        f"{_HEAD}  validations:\n    - expression: >-\n        a\n        == 1\n",
        "[1, 2]\n",
        "",
        "# only a comment\n",
    ):
        assert format_file("a.yaml", text) == Formatting(text)


def test_lists_and_several_documents() -> None:
    """The items of a List and all documents of a file are formatted."""
    head = "apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy"
    policy = f"{{{head}, spec: {{variables: [{{expression: 'a==1'}}]}}}}"
    text = f"---\n{policy}\n---\nkind: List\napiVersion: v1\nitems:\n- {policy}\n"

    assert format_file("a.yaml", text).text == text.replace("==", " == ")


def test_what_is_left_alone_is_said() -> None:
    """Comments and anchors keep their expressions as they are, and the place is named."""
    text = (
        f"{_HEAD}  variables:\n  - expression: &one a==1\n  - expression: *one\n  - expression: |\n      a==1 // why\n"
    )

    assert format_file("a.yaml", text) == Formatting(
        text,
        (
            "a.yaml:7: this expression is left as it is: its YAML has an anchor, a tag or a fixed indentation",
            "a.yaml:10: this expression is left as it is: it has comments",
        ),
    )


def test_an_expression_that_does_not_parse() -> None:
    """A file with a mistake stays as it is, and each mistake is shown at its place."""
    text = f"{_HEAD}  variables:\n  - expression: 'a=='\n  - expression: 'a==1'\n"
    result = format_file("a.yaml", text)

    assert (result.text, [error.split("\n")[0] for error in result.errors]) == (
        text,
        ["a.yaml:7:21: Syntax error: unexpected end of the expression: an expression is missing before it"],
    )


def test_line_ends_stay() -> None:
    """A file with the line ends of Windows keeps them."""
    text = f'{_HEAD}{_VARIABLE}"{_LINE}"\n'.replace("\n", "\r\n")
    after = format_file("a.yaml", text).text

    assert after.count("\n") == after.count("\r\n") == text.count("\n") + 2
