"""The fields of a Pod that a template need not have: the API server fills them in, or the derived Pod has others.

A place is a pattern in the Pod. What builtin/ does to values is here done to the expressions that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from policies.admissionpolicy.builtin import places
from policies.admissionpolicy.templates.trees import filled, literal, optional
from policies.cel.syntax import unparse
from policies.cel.syntax.ast import Node
from policies.objects.fieldpath import Pattern, Wildcard, parse, render

Fallback = Callable[[Node, Callable[[], Node]], Node]
"""The optional value of a field that is absent, from the map that it would be in and from the template."""

_POD: Final = "io.k8s.api.core.v1.Pod"
METADATA: Final = ("metadata",)
LABELS: Final = ("metadata", "labels")
ANNOTATIONS: Final = ("metadata", "annotations")
OWNERS: Final = ("metadata", "ownerReferences")
REQUESTS: Final = frozenset(
    (("spec", group, Wildcard.ITEMS, "resources", "requests")) for group in ("containers", "initContainers")
)
"""What a Pod requests includes what it limits."""

UNKNOWN: Final[Mapping[Pattern, str]] = {
    **{
        parse(f"spec.resources.{kind}"): "Kubernetes completes the Pod's own resources from those of its containers"
        for kind in ("requests", "limits")
    },
    **{
        parse(f"spec.{term}.labelSelector.matchExpressions"): "Kubernetes adds requirements for matchLabelKeys"
        for term in (
            "topologySpreadConstraints[*]",
            *(
                f"affinity.{kind}.{which}"
                for kind in ("podAffinity", "podAntiAffinity")
                for which in (
                    "requiredDuringSchedulingIgnoredDuringExecution[*]",
                    "preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm",
                )
            ),
        )
    },
}
"""Places whose value in the Pod cannot be computed from the template by a short expression, and why."""

_LATEST = "^([^@]*:latest|([^@/]*/)*[^@:/]*)$"
_OPTIONAL_MAPS = frozenset({"metadata", "resources"})
"""Maps that a Pod always has and a template need not have; others are required in both."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def _pull_policy(field: str) -> Fallback:
    text = f"optional.of(_holder.?{field}.orValue('').matches(_pattern) ? 'Always' : 'IfNotPresent')"
    return lambda holder, _: filled(text, _holder=holder, _pattern=literal(_LATEST))


@cache
def _constant(text: str) -> Fallback:
    """The same function for the same constant, so that places with the same default are alike."""
    return lambda *_: filled(f"optional.of({text})")


def _host_port(holder: Node, template: Callable[[], Node]) -> Node:
    text = "_template.spec.?hostNetwork.orValue(false) ? _holder.?containerPort : optional.none()"
    return filled(text, _template=template(), _holder=holder)


def _empty_dir(holder: Node, _: object) -> Node:
    return filled("_holder.size() <= 1 ? optional.of({}) : optional.none()", _holder=holder)


def _other(field: str) -> Fallback:
    return lambda holder, _: optional(holder, field)


@cache
def fallbacks() -> Mapping[Pattern, Fallback]:
    """What stands for the fields that are absent in a template, by place; not for maps that would be empty."""
    constant = {place: _constant(unparse.literal(value)) for place, value in places.defaults(_POD) if value != {}}
    containers = [("spec", group, Wildcard.ITEMS) for group in _CONTAINERS]
    of_image = _pull_policy("image")
    return {
        **constant,
        **{(*place, "imagePullPolicy"): of_image for place in containers},
        parse("spec.volumes[*].image.pullPolicy"): _pull_policy("reference"),
        **{(*place, "ports", Wildcard.ITEMS, "hostPort"): _host_port for place in containers[:2]},
        parse("spec.volumes[*].emptyDir"): _empty_dir,
        ("spec", "serviceAccountName"): _other("serviceAccount"),
        ("spec", "serviceAccount"): _other("serviceAccountName"),
    }


@cache
def empty_maps() -> frozenset[Pattern]:
    """The places of maps that a Pod always has, and that are empty if the template has none."""
    defaults = {place for place, value in places.defaults(_POD) if value == {}}
    return frozenset(defaults.union(place for place in places.written(_POD) if place[-1] in _OPTIONAL_MAPS))


@cache
def differing() -> frozenset[Pattern]:
    """All places below a Pod's `spec` at which it may differ from its template."""
    return frozenset(place for place in (*fallbacks(), *empty_maps(), *REQUESTS, *UNKNOWN) if place[:1] == ("spec",))


@cache
def quantities() -> frozenset[Pattern]:
    """The places of quantities, and of the maps of quantities with `.*` behind them."""
    return frozenset(places.quantities(_POD))


def shown(place: Pattern) -> str:
    """A place as messages show it."""
    return render(place) or "the whole Pod"
