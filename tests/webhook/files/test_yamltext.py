"""Texts of YAML documents: taken apart, and changed without losing what stands around the values."""

from textwrap import dedent

import pytest
import yaml

from webhook.files import yamlfile
from webhook.files.yamltext import documents, without

_PATH = ("metadata", "annotations")


def test_documents_keep_their_comments_and_lines() -> None:
    """Each document comes with what its author wrote around it, and the number of lines before it."""
    text = "# one\na: 1 # first\n---\nb: |\n  --- no marker\n--- # three\nc: 3\n...\n%YAML 1.2\n---\nd: 4\n"

    assert list(documents(text)) == [
        (0, "# one\na: 1 # first\n"),
        (2, "\nb: |\n  --- no marker\n"),
        (5, " # three\nc: 3\n...\n"),
        (9, "\nd: 4\n"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            """\
            metadata:
              # why
              annotations: # what
                # one
                own/a: "1" # its value
                # two
                own/b: "2"
              # the name
              name: x
            """,
            """\
            metadata:
              # why
              # the name
              name: x
            """,
        ),
        (
            """\
            metadata:
              annotations:
                a: "1"
                own/a: |
                  one
                  two

                # and b
                b: "2"
            spec: {}
            """,
            """\
            metadata:
              annotations:
                a: "1"
                # and b
                b: "2"
            spec: {}
            """,
        ),
        (
            """\
            metadata:
              name: x
              annotations:
                own/a: >-
                  one
            """,
            """\
            metadata:
              name: x
            """,
        ),
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
    assert without(dedent(text), _PATH, "own/") == dedent(expected)
    assert yaml.safe_load(dedent(expected)) == yamlfile.load("x", dedent(expected))[0].value
