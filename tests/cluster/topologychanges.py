"""Changes that people make to annotated workloads. Each works on a manifest and on the stored object."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster import placements
from cluster.placements import MAY, MUST, PREFERRED, REQUIRED, TOPOLOGY, one_of, one_per_node, preferring, required
from cluster.topologynodes import RACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.manifests import Manifest

OWN = required([one_of(RACK, "r1", "r2")], [one_of("kubernetes.io/hostname", "old-f1-s1")])


class Change(NamedTuple):
    """What is done. own: whether the user had terms of his own before."""

    make: Callable[[Manifest], None]
    own: bool = True


def pod_spec(manifest: Manifest) -> Manifest:
    """Return the Pod spec of a workload's template."""
    spec = manifest["spec"]
    found: Manifest = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
    return found


def another_domain(manifest: Manifest) -> None:
    """Name another domain, and another preference."""
    manifest["metadata"]["annotations"] |= placements.asking("fabric=f1,superpod in (2, 3)", "rack=r3")


def another_topology(manifest: Manifest) -> None:
    """Name another topology, which requires a flavor as well."""
    manifest["metadata"]["annotations"][TOPOLOGY] = "coreweave-infiniband"


def no_preference(manifest: Manifest) -> None:
    """Take one of the annotations away."""
    del manifest["metadata"]["annotations"][PREFERRED]


def no_annotations(manifest: Manifest) -> None:
    """Take all three away, and leave what a tool or the service has written."""
    for key in (TOPOLOGY, REQUIRED, PREFERRED):
        manifest["metadata"].get("annotations", {}).pop(key, None)


def other_terms(manifest: Manifest) -> None:
    """Require something else."""
    _node_affinity(manifest)[MUST] = required([one_of(RACK, "r4")])["nodeAffinity"][MUST]


def one_more_term(manifest: Manifest) -> None:
    """Add a term to those that are there."""
    _node_affinity(manifest)[MUST]["nodeSelectorTerms"].append({"matchExpressions": [one_of(RACK, "r5")]})


def own_preference(manifest: Manifest) -> None:
    """Add a preference to those that are there."""
    _node_affinity(manifest).setdefault(MAY, []).append(preferring(one_of(RACK, "r1"), weight=7))


def no_affinity(manifest: Manifest) -> None:
    """Take the whole affinity away."""
    pod_spec(manifest).pop("affinity", None)


def one_pod_per_node(manifest: Manifest) -> None:
    """Add an affinity that has nothing to do with the labels of Nodes."""
    pod_spec(manifest).setdefault("affinity", {}).update(one_per_node("main"))


def everything(manifest: Manifest) -> None:
    """Change annotations and terms at once."""
    another_domain(manifest)
    other_terms(manifest)


CHANGES = {
    "another domain": Change(another_domain),
    "another domain, no terms": Change(another_domain, own=False),
    "another topology": Change(another_topology),
    "no preference": Change(no_preference),
    "no annotations": Change(no_annotations),
    "no annotations, no terms": Change(no_annotations, own=False),
    "other terms": Change(other_terms),
    "first terms": Change(other_terms, own=False),
    "one more term": Change(one_more_term),
    "a preference": Change(own_preference),
    "a preference, no terms": Change(own_preference, own=False),
    "no affinity": Change(no_affinity),
    "one Pod per Node": Change(one_pod_per_node),
    "everything": Change(everything),
}


def _node_affinity(manifest: Manifest) -> Manifest:
    affinity = pod_spec(manifest).setdefault("affinity", {})
    found: Manifest = affinity.setdefault("nodeAffinity", {})
    return found
