"""The table of mistakes: what people write, and what they read about it. See tests/mistakes/README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from support.service.nodefiles import Json, node

TABLE = Path(__file__).parents[1] / "mistakes"
_CONTAINER = {"name": "main", "image": "example.org/train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
_APIS = {"Pod": "v1", "Job": "batch/v1", "Deployment": "apps/v1"}


class Row(NamedTuple):
    """A manifest, and what is said about it.

    subject: the name of its file. nodes: a cluster, empty for none. offline: why no API server is asked.
    """

    subject: str
    name: str
    manifest: Json
    nodes: str
    settings: Json
    says: tuple[str, ...]
    refused: bool
    offline: str


@cache
def mistakes() -> tuple[Row, ...]:
    """The manifests that are wrong in one way."""
    return tuple(_rows("mistakes"))


@cache
def correct() -> tuple[Row, ...]:
    """The manifests of which nothing is said."""
    return tuple(_rows("correct"))


@cache
def clusters() -> Mapping[str, tuple[Json, ...]]:
    """The Nodes of each cluster."""
    written = _read(TABLE / "clusters.yaml")
    return {
        name: tuple(node(key, {**cluster.get("all", {}), **labels}) for key, labels in cluster["nodes"].items())
        for name, cluster in written.items()
    }


def _rows(folder: str) -> Iterator[Row]:
    for path in sorted((TABLE / folder).glob("*.yaml")):
        for row in _read(path):
            says = row.get("says", [])
            yield Row(
                path.stem, row["name"], _manifest(row), row.get("nodes", ""), row.get("settings", {}),
                (says,) if isinstance(says, str) else tuple(says), row.get("refused", False), row.get("offline", ""),
            )  # fmt: skip


def _manifest(row: Json) -> Json:
    """The whole manifest of a row."""
    if "object" in row:
        written: Json = row["object"]
        return written
    kind = row.get("kind", "Pod")
    pod = {"containers": [_CONTAINER], **row["pod"]}
    if kind == "Pod":
        spec = pod
    elif kind == "Job":
        template = {"metadata": row.get("template", {}), "spec": {"restartPolicy": "Never", **pod}}
        spec = {"parallelism": 2, "completions": 2, "template": template}
    else:
        labels = {"app": "main"}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    metadata = {"name": "main", **row.get("metadata", {})}
    return {"apiVersion": _APIS[kind], "kind": kind, "metadata": metadata, "spec": spec}


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
