"""Volumes and claims. Source: validateVolumeSource and ValidatePersistentVolumeClaimSpec in k8s.io/kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.schema.flaw import Flaws, Place, below

_ORDER = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""The order in which the API server looks at types."""


def _rank(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def volume(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A volume is of one type; of none it is an empty directory."""
    given = sorted((name for name in value if name != "name" and value[name] is not None), key=_rank)
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 volume type")


def claim(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A claim says how much it wants."""
    requests = mapping(mapping(value, "resources"), "requests")
    if requests.get("storage") is None:
        flaws.required(below(place, "resources", "storage"), "", "write resources.requests.storage")
