"""Runs helm on the chart, and reads what it renders."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from cluster import toolchain
from cluster.kubectl import BRIEF

Json = dict[str, Any]
CHART = Path(__file__).parents[2] / "helm" / "cks-admission"
RELEASE = NAMESPACE = "cks-admission"


class ChartError(Exception):
    """What helm said of a chart or values that it refused."""


@cache
def helm() -> Path:
    """The program, built on first use."""
    return toolchain.ensure(("helm",)) / "helm"


def run(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """What helm prints, with values as one more file. Raises ChartError."""
    given = ["--values", "-"] if values is not None else []
    command = [str(helm()), *arguments, *given]
    text, environment = yaml.dump(values, Dumper=yaml.CSafeDumper), {**os.environ, **BRIEF}
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChartError(done.stderr + done.stdout)
    return done.stdout


def template(values: Mapping[str, Any] | None = None, *, name: str = RELEASE, namespace: str = NAMESPACE) -> str:
    """The manifests of a release as one text. Raises ChartError."""
    return run("template", name, str(CHART), "--namespace", namespace, values=values)


class Rendered(NamedTuple):
    """The objects of a release."""

    objects: tuple[Json, ...]

    @property
    def names(self) -> list[str]:
        """The objects as `Kind/name`, sorted."""
        return sorted(f"{each['kind']}/{each['metadata']['name']}" for each in self.objects)

    def one(self, kind: str, name: str = NAMESPACE) -> Json:
        """The object of a kind and name. Raises KeyError."""
        for each in self.objects:
            if each["kind"] == kind and each["metadata"]["name"] == name:
                return each
        raise KeyError(f"{kind}/{name}")

    @property
    def configuration(self) -> str:
        """The text of the configuration file."""
        text: str = self.one("ConfigMap")["data"]["cks.yaml"]
        return text

    @property
    def pod(self) -> Json:
        """The spec of the Pods."""
        spec: Json = self.one("Deployment")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Json:
        """The only container of the Pods."""
        (container,) = self.pod["containers"]
        found: Json = container
        return found


Entry = Callable[[str], Rendered]
"""What a set of values of the matrix renders to, by its name."""


def render(values: Mapping[str, Any] | None = None) -> Rendered:
    """The objects that values come to. Raises ChartError."""
    return read(template(values))


def read(text: str) -> Rendered:
    """The objects in a text of manifests."""
    documents: Iterable[Any] = yaml.load_all(text, yaml.CSafeLoader)
    return Rendered(tuple(each for each in documents if each))
