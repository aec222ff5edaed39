"""What of the chart is made from other things, and its values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart import generate, valuestable
from chart.rendering import CHART
from chart.valuestable import Value
from webhook.version import VERSION


@pytest.mark.parametrize("path", generate.sources(), ids=lambda path: path.name)
def test_what_is_made_is_up_to_date(path: Path) -> None:
    """The file is as `make chart` would write it now."""
    assert path.read_text(encoding="utf-8") == generate.sources()[path]


def test_the_chart_is_for_this_version() -> None:
    """The chart installs the version of the service that it comes with."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))

    assert {key: chart[key] for key in ("apiVersion", "name", "version", "appVersion")} == {
        "apiVersion": "v2",
        "name": "cks-admission",
        "version": "0.1.0",
        "appVersion": VERSION,
    }


def test_every_value_is_described_and_stands_in_the_schema() -> None:
    """A value has a sentence above it, and the schema knows its type; the schema has no value that is not there."""
    values = valuestable.values((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    leaves = _leaves(schema, {value.path for value in values})

    assert [value.key for value in values if not value.description.endswith((".", ")"))] == []
    assert {value.path for value in values} | {("global",)} == leaves


def _leaves(schema: dict[str, Any], known: set[tuple[str, ...]], above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The paths of a schema, down to where values.yaml has a value of its own or the schema no keys."""
    if above in known or "properties" not in schema:
        return {above}
    assert schema["additionalProperties"] is False
    return {path for key, below in schema["properties"].items() for path in _leaves(below, known, (*above, key))}


def test_the_table_has_keys_defaults_and_comments() -> None:
    """A value is shown by its path, with its default as JSON and all lines of the comment right above it."""
    found = valuestable.values(
        "# About the file.\n\n# How many.\n# Not too many.\nreplicas: 2\n"
        "image:\n  # Where.\n  tag: ''\n  # Bare.\n\n  x: {}\n"
    )

    assert found == [
        Value(("replicas",), 2, "How many. Not too many."),
        Value(("image", "tag"), "", "Where."),
        Value(("image", "x"), {}, ""),
    ]
    assert valuestable.with_table(f"a\n{valuestable.BEGIN}old\n{valuestable.END}b\n", found[:2]) == (
        f"a\n{valuestable.BEGIN}\n| Value | Default | Meaning |\n|---|---|---|\n"
        "| `replicas` | `2` | How many. Not too many. |\n"
        f'| `image.tag` | `""` | Where. |\n\n{valuestable.END}b\n'
    )


def test_a_readme_without_marks_is_not_changed() -> None:
    """A README that has lost the place for the table is an error, and not silently without it."""
    with pytest.raises(ValueError, match="the README needs the lines"):
        valuestable.with_table("a\n", [])
