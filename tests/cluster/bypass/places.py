"""Objects with a label at one place each: everywhere the guard looks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from cluster.manifests import Manifest

# So that no Pods come of what is written.
_STILL: dict[str, Manifest] = {
    "DaemonSet": {"updateStrategy": {"type": "OnDelete"}},
    "CronJob": {"suspend": True},
    "Job": {"suspend": True},
    **{key: {"replicas": 0} for key in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")},
}


def read(namespace: str, key: str) -> dict[str, dict[str, Manifest]]:
    """The objects of places.yaml in a Namespace, each with the key."""
    text = (Path(__file__).parents[1] / "places.yaml").read_text(encoding="utf-8")
    # Each object is another one, and none shares a part with others.
    rows = yaml.safe_load(text.replace("NAMESPACE", namespace).replace("KEY", key))
    found: dict[str, dict[str, Manifest]] = json.loads(json.dumps(rows))
    return found


def places(namespace: str, key: str) -> dict[str, Manifest]:
    """The objects by their place, each with the key. Names are still to be given."""
    rows = read(namespace, key)
    return {name: _still(row) for name, row in {**rows["own"], **rows["copied"]}.items()}


def _still(row: Manifest) -> Manifest:
    manifest = {key: value for key, value in row.items() if key != "path"}
    if spec := _STILL.get(manifest["kind"]):
        manifest["spec"] |= spec
    return manifest
