"""Expressions are formatted in their files, and nothing else there changes."""

from __future__ import annotations

import pytest

from webhook.files.yamltext import Formatting, format_file

_HEAD = """\
# of the team
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a,   labels: {b: "c"}}   # odd spaces
spec:
"""
_LONG = "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"
_BROKEN = [
    f"{_LONG} && object.spec.replicas <= 5",
    f"{_LONG}\n&& object.spec.replicas <= 5",
]


def _formatted(spec: str) -> str:
    result = format_file("a.yaml", _HEAD + spec)
    assert (result.kept, result.errors) == ((), ())
    assert result.text.startswith(_HEAD)
    return result.text.removeprefix(_HEAD)


@pytest.mark.parametrize(
    ("spec", "after"),
    [
        pytest.param(
            '  validations:\n    - expression: "a==1"  # why\n      message: "a  ==  1"\n',
            '  validations:\n    - expression: "a == 1"  # why\n      message: "a  ==  1"\n',
            id="double quotes",
        ),
        pytest.param(
            "  validations:\n    - messageExpression: 'a+''b'''\n",
            "  validations:\n    - messageExpression: 'a + ''b'''\n",
            id="single quotes",
        ),
        pytest.param(
            "  variables:\n    - {name: b, expression: a==1}\n",
            "  variables:\n    - {name: b, expression: a == 1}\n",
            id="plain",
        ),
        pytest.param(
            "  variables:\n    - name: b\n      expression: '!(!(a))'\n",
            "  variables:\n    - name: b\n      expression: '!(!a)'\n",
            id="what cannot be plain",
        ),
        pytest.param(
            "  variables:\n    - name: b\n      expression: f(a)?b:c\n",
            "  variables:\n    - name: b\n      expression: 'f(a) ? b : c'\n",
            id="what can be plain no more",
        ),
        pytest.param(
            "  matchConditions:\n    - expression: |\n        a  &&\n          b\n\n      name: c # d\n",
            "  matchConditions:\n    - expression: |\n        a && b\n\n      name: c # d\n",
            id="block",
        ),
        pytest.param(
            f"  validations:\n    - expression: >- # why\n        {_BROKEN[0]}\n      # last\n",
            "  validations:\n    - expression: |- # why\n        "
            + _BROKEN[1].replace("\n", "\n        ")
            + "\n      # last\n",
            id="folded block",
        ),
        pytest.param(
            f'  validations:\n    - expression: "{_BROKEN[0]}" # why\n      reason: Invalid\n',
            "  validations:\n    - expression: |- # why\n        "
            + _BROKEN[1].replace("\n", "\n        ")
            + "\n      reason: Invalid\n",
            id="quotes that become a block",
        ),
        pytest.param(
            f'  validations: [{{expression: "{_BROKEN[0]}"}}]\n'.replace(" <= ", "<="),
            f'  validations: [{{expression: "{_BROKEN[0]}"}}]\n',
            id="no block inside of braces",
        ),
        pytest.param(
            "  auditAnnotations:\n    - key: a\n      valueExpression: string( a )",
            "  auditAnnotations:\n    - key: a\n      valueExpression: string(a)",
            id="no line break at the end",
        ),
        pytest.param(
            "  mutations:\n    - jsonPatch:\n        expression: [ ]\n    - jsonPatch:\n        expression: '[ ]'\n",
            "  mutations:\n    - jsonPatch:\n        expression: [ ]\n    - jsonPatch:\n        expression: '[]'\n",
            id="what is no text",
        ),
    ],
)
def test_only_expressions_change(spec: str, after: str) -> None:
    """An expression is rewritten within its quotes or its block; a long one becomes a block."""
    assert _formatted(spec) == after
    assert _formatted(after) == after


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
    text = f'{_HEAD}  validations:\n    - expression: "{_BROKEN[0]}"\n'.replace("\n", "\r\n")
    after = format_file("a.yaml", text).text

    assert after.count("\n") == after.count("\r\n") == text.count("\n") + 2
