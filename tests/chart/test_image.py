"""The Dockerfile, which nothing here builds, against what it copies and what the chart expects of the image."""

from __future__ import annotations

import re

from chart.rendering import CHART, render

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
