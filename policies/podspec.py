"""What a Pod's spec asks of Nodes: accelerators, labels, taints that it tolerates, and how much of a resource."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from policies.cel.library.quantity import read, round_up
from policies.cel.values import CelError
from policies.engine.facts import Facts, Node
from policies.engine.match import SelectorRequirement, Term
from policies.engine.request import JsonObject, mapping
from policies.kubernetes.name import matches_glob

_ABOVE_ZERO = re.compile(r"\s*\+?[0-9.]*[1-9]").match  # a digit other than 0
_LARGEST = 2**63 - 1


def is_above_zero(quantity: object) -> bool:
    """Whether a quantity, written as a text or a number, is above zero."""
    if isinstance(quantity, int | float):
        return quantity > 0
    return isinstance(quantity, str) and _ABOVE_ZERO(quantity) is not None


@lru_cache(maxsize=4096)
def thousandths(quantity: str | float) -> int:
    """A quantity in thousandths, rounded up as the API server stores it. Raises ValueError for what is no quantity.

    Source: SetDefaults_ResourceList of Kubernetes, which rounds every amount up to three places.
    """
    try:
        amount = min(read(str(quantity)).amount.decimal, Decimal(_LARGEST))
    except CelError:
        amount = Decimal(-1)
    if amount < 0:
        raise ValueError(f"{quantity!r} is no amount; one such as 8, 500m or 1.5Gi was expected")
    return int(round_up(amount, 3) * 1000)


# Any device class can be requested as an extended resource with this prefix (on by default from Kubernetes 1.36).
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

# The fields of a Pod spec that `Accelerators.requested` reads.
READS = ("containers[*].resources", "initContainers[*].resources", "resourceClaims")


class Accelerators(Struct, frozen=True):
    """The extended resources (globs) and the device classes that are accelerators."""

    resources: tuple[str, ...] = (
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-*",
        "amd.com/gpu",
        "sunk.coreweave.com/accelerator",
    )
    device_classes: tuple[str, ...] = ("gpu.nvidia.com", "mig.nvidia.com")

    def requested(self, pod: JsonObject, namespace: str, facts: Facts) -> bool:
        """Whether a Pod or template in a namespace requests or limits more than zero accelerators, or claims one."""
        spec = pod.get("spec")
        if not isinstance(spec, dict):
            return False
        for quantities in _quantities(spec):
            for name, quantity in quantities.items():
                # Names without a prefix, which nearly all are, belong to Kubernetes itself.
                if "/" in name and self.includes(name, facts) and is_above_zero(quantity):
                    return True
        return any(
            not facts.claim_classes(namespace, claim, template).isdisjoint(self.device_classes)
            for claim, template in claims(spec)
        )

    def includes(self, resource: str, facts: Facts) -> bool:
        """Whether a resource is an accelerator."""
        if resource.startswith(DEVICE_CLASS_PREFIX):
            return resource.removeprefix(DEVICE_CLASS_PREFIX) in self.device_classes
        if matches_glob(resource, self.resources):
            return True
        names = facts.extended_resources()
        return any(names.get(device_class) == resource for device_class in self.device_classes)


def _quantities(spec: JsonObject) -> Iterator[Mapping[str, Any]]:
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        for container in containers if isinstance(containers, list) else ():
            resources = container.get("resources") if isinstance(container, dict) else None
            if isinstance(resources, dict):
                for side in ("limits", "requests"):
                    quantities = resources.get(side)
                    if isinstance(quantities, dict):
                        yield quantities


def claims(spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Pairs of a claim and a claim template of a Pod spec. One of the two names is empty."""
    written = spec.get("resourceClaims")
    for claim in written if isinstance(written, list) else ():
        if isinstance(claim, dict):
            name, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
            if isinstance(name, str) and name:
                yield name, ""
            elif isinstance(template, str) and template:
                yield "", template


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS: Final = "nodeSelectorTerms"
_NAME = "metadata.name"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def read_term(written: object) -> Term | None:
    """The requirements of a node selector term; one without a key is on the Node's name. None for a malformed term.

    A Node meets a term with all of its requirements. No Node meets one without any.
    """
    requirements = []
    for field in ("matchExpressions", "matchFields"):
        listed = written.get(field) or [] if isinstance(written, dict) else None
        for one in listed if isinstance(listed, list) else [None]:
            fields = one if isinstance(one, dict) else {}
            key, operator, values = fields.get("key"), fields.get("operator"), fields.get("values") or []
            if not isinstance(key, str) or operator not in _OPERATORS or not isinstance(values, list):
                return None
            if not all(isinstance(value, str) for value in values) or (field == "matchFields" and key != _NAME):
                return None
            requirements.append(SelectorRequirement("" if field == "matchFields" else key, operator, tuple(values)))
    return tuple(requirements)


class NodeDemand(Struct, frozen=True):
    """What the labels and the name of a Node have to meet: the node selector, and one of the terms of node affinity.

    terms: None where no affinity is required; a malformed term in them is None, and met by no Node.
    """

    selector: Term
    terms: tuple[Term | None, ...] | None = None

    @property
    def size(self) -> int:
        """How many requirements, and values in them, are compared with each Node at most."""
        terms = (self.selector, *(self.terms or ()))
        return sum(1 + len(requirement.values) for term in terms for requirement in term or ())

    def allows(self, node: Node, *, labels_complete: bool = True) -> bool:
        """Whether a Node meets the demand.

        labels_complete: False if only some of the Node's labels are known. Requirements on other labels are then met.
        """
        labels: Mapping[str, str] = node.labels
        if node.name and any(not one.key for term in self.terms or () for one in term or ()):
            labels = {**labels, "": node.name}

        def is_met(term: Term) -> bool:
            return all((not labels_complete and one.key not in labels) or one.matches(labels) for one in term)

        return is_met(self.selector) and (self.terms is None or any(term and is_met(term) for term in self.terms))


def node_demand(pod_spec: JsonObject) -> NodeDemand:
    """What a Pod's spec asks of the labels and the name of its Node."""
    selector = sorted(mapping(pod_spec, "nodeSelector").items())  # the API server sorts them, too
    required = mapping(mapping(pod_spec, "affinity"), "nodeAffinity").get(REQUIRED)
    terms = required.get(TERMS) if isinstance(required, dict) else None
    return NodeDemand(
        tuple(SelectorRequirement(key, "In", (value,) if isinstance(value, str) else ()) for key, value in selector),
        tuple(map(read_term, terms)) if isinstance(terms, list) else () if isinstance(required, dict) else None,
    )
