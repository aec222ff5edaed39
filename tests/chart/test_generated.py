"""What is made from other things, or from which others are made: values, files of the chart, the image."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart import chartvalues, generate
from chart.chartvalues import Value
from chart.rendering import CHART, render
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
    values = chartvalues.values((CHART / "values.yaml").read_text(encoding="utf-8"))
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
    found = chartvalues.values(
        "# About the file.\n\n# How many.\n# Not too many.\nreplicas: 2\n"
        "image:\n  # Where.\n  tag: ''\n  # Bare.\n\n  x: {}\n"
    )

    assert found == [
        Value(("replicas",), 2, "How many. Not too many."),
        Value(("image", "tag"), "", "Where."),
        Value(("image", "x"), {}, ""),
    ]
    assert chartvalues.with_table(f"a\n{chartvalues.BEGIN}old\n{chartvalues.END}b\n", found[:2]) == (
        f"a\n{chartvalues.BEGIN}\n| Value | Default | Meaning |\n|---|---|---|\n"
        "| `replicas` | `2` | How many. Not too many. |\n"
        f'| `image.tag` | `""` | Where. |\n\n{chartvalues.END}b\n'
    )


def test_a_readme_without_marks_is_not_changed() -> None:
    """A README that has lost the place for the table is an error, and not silently without it."""
    with pytest.raises(ValueError, match="the README needs the lines"):
        chartvalues.with_table("a\n", [])


_ROOT = CHART.parents[1]
_DOCKERFILE = (_ROOT / "Dockerfile").read_text(encoding="utf-8")


def _instructions(name: str) -> list[str]:
    """The arguments of an instruction, each time that it stands there."""
    joined = _DOCKERFILE.replace("\\\n", " ")
    return [" ".join(match.split()) for match in re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)]


def test_what_is_copied_exists_and_reaches_the_build() -> None:
    """Sources of COPY are there, and are the only ones that .dockerignore lets through."""
    copied = {
        source.strip("/")
        for line in _instructions("COPY")
        if not line.startswith("--from")
        for source in line.split()[:-1]
    }
    ignored = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert {source for source in copied if not (_ROOT / source).exists()} == set()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == copied
    assert "*" in ignored


def test_the_image_is_what_the_chart_runs() -> None:
    """User, folder and command are those that the Pods rely on."""
    pod, container = render().pod, render().container
    user = pod["securityContext"]

    assert _instructions("USER") == [f"{user['runAsUser']}:{user['runAsGroup']}"]
    assert _instructions("WORKDIR")[-1] == container["workingDir"]
    assert _instructions("ENTRYPOINT") == ['["cks-admission"]']
    assert container["args"][0] == "serve"


def test_both_stages_are_of_one_pinned_base() -> None:
    """The environment is made by the Python that it runs with, named by a tag, or with a digest by who builds."""
    assert _instructions("ARG") == ["PYTHON=python:3.13-slim"]
    assert _instructions("FROM") == ["${PYTHON} AS build", "${PYTHON}"]


def test_dependencies_are_locked_and_nothing_is_compiled() -> None:
    """Whatever is installed from elsewhere has its hash checked and is a wheel; the last stage installs nothing."""
    build, final = _DOCKERFILE.split("FROM ${PYTHON}\n")
    installs = [
        line for line in build.replace("\\\n", " ").splitlines() if "requirements/" in line and "install" in line
    ]

    assert [("--require-hashes" in line, "--only-binary :all:" in line) for line in installs] == [(True, True)] * 2
    assert "RUN" not in final
