"""The policies and objects that faults use, and reviews with the verdict that each has to get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from cluster import manifests
from support.builders import pod
from support.service.reviews import RESERVED, body


class Review(NamedTuple):
    """A review and the verdict that it has to get."""

    body: bytes
    path: str
    allowed: bool


RESERVED_LABEL = Review(body(pod(labels=RESERVED)), "/validate/labels", allowed=False)
OWN_LABEL = Review(body(pod(labels={"example.org/team": "a"})), "/validate/labels", allowed=True)
GUARD = (RESERVED_LABEL, OWN_LABEL)
"""What the guard of reserved labels refuses, and what it lets through."""


Json = dict[str, Any]

CONFIG_MAPS = manifests.rule("configmaps")
# Below the cost limit of an expression, and quadratic in the number of keys.
QUADRATIC = "object.data.all(a, object.data.all(b, a <= b || a > b))"


def policy(name: str, expression: str, message: str = "No.", **spec: Any) -> list[Json]:
    """A policy about ConfigMaps and its binding."""
    return manifests.validating(name, CONFIG_MAPS, {"expression": expression, "message": message}, **spec)


def limit(name: str, most: int) -> list[Json]:
    """A policy that refuses ConfigMaps of more than a size."""
    expression = f"!has(object.data) || !('size' in object.data) || int(object.data.size) <= {most}"
    return policy(name, expression, f"More than {most}.")


def sized(size: int, *, allowed: bool = False) -> Review:
    """A review of a ConfigMap of a size."""
    return review(config_map({"size": str(size)}), "/validate/policies", allowed=allowed)


def text(documents: Iterable[Json]) -> str:
    """Documents as YAML."""
    return yaml.safe_dump_all(documents)


def write(file: Path, documents: Iterable[Json]) -> None:
    """Write documents in one step, so that nobody reads a part."""
    beside = file.with_suffix(".new")
    beside.write_text(text(documents), encoding="utf-8")
    beside.replace(file)


def config_map(data: Json, namespace: str = "default", labels: Json | None = None) -> Json:
    """A ConfigMap."""
    metadata = {"name": "fault", "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def review(obj: Json, path: str, *, allowed: bool) -> Review:
    """A review of the creation of a ConfigMap, with the verdict that it has to get."""
    kinds = {"group": "", "version": "v1"}
    namespace = obj["metadata"]["namespace"]
    fields: Json = {
        "kind": {**kinds, "kind": "ConfigMap"}, "resource": {**kinds, "resource": "configmaps"}, "namespace": namespace,
    }  # fmt: skip
    return Review(body(obj, **fields), path, allowed)


def keys(count: int) -> Json:
    """Data with so many keys, some 15 bytes each."""
    return {f"key-{number:04}": "x" for number in range(count)}


def quadratic(directory: Path, count: int = 8) -> Sequence[str]:
    """Write policies that are quadratic in the number of keys; the paths for `policies.directories`."""
    documents = [each for number in range(count) for each in policy(f"dear-{number}", QUADRATIC)]
    write(directory / "quadratic.yaml", documents)
    return [str(directory / "quadratic.yaml")]
