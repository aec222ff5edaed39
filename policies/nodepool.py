"""The labels of the Nodes that a pool would add, as far as the pool says.

Sources: CoreWeave's NodePool (`compute.coreweave.com`), whose `nodeLabels` and `instanceType` end as labels on Nodes;
Karpenter's NodePool (`karpenter.sh/v1`), whose template has labels and requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.engine.request import JsonObject, mapping, mappings
from policies.vocabulary import INSTANCE_TYPE

COREWEAVE, KARPENTER = "compute.coreweave.com", "karpenter.sh"
KIND: Final = "NodePool"
VERSIONS: Mapping[str, tuple[str, ...]] = {COREWEAVE: ("v1alpha1",), KARPENTER: ("v1", "v1beta1")}
"""The API groups with pools, each with the supported versions, newest first."""

_NAME = {COREWEAVE: f"{COREWEAVE}/node-pool", KARPENTER: f"{KARPENTER}/nodepool"}


def labels(document: JsonObject) -> tuple[Mapping[str, str], ...]:
    """The labels of a pool's Nodes: one map for each value of a label that may have several. Empty for what is none."""
    group = str(document.get("apiVersion")).partition("/")[0]
    if document.get("kind") != KIND or group not in VERSIONS:
        return ()
    spec, name = mapping(document, "spec"), mapping(document, "metadata").get("name")
    template = mapping(spec, "template")
    written = {
        _NAME[group]: name,
        INSTANCE_TYPE: spec.get("instanceType"),
        **mapping(spec, "nodeLabels"),
        **mapping(mapping(template, "metadata"), "labels"),
    }
    own = {key: value for key, value in written.items() if isinstance(value, str)}
    sets = [own]
    for requirement in mappings(mapping(template, "spec"), "requirements"):
        key, values = requirement.get("key"), requirement.get("values")
        if isinstance(key, str) and isinstance(values, list) and requirement.get("operator") == "In":
            sets += ({**own, key: value} for value in values if isinstance(value, str))
    return tuple(sets)
