"""Whether a Pod requests an accelerator, in any of the ways that Kubernetes offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.request import JsonObject
from policies.glob import matches
from policies.kubernetes.quantity import is_above_zero

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
        if matches(resource, self.resources):
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
