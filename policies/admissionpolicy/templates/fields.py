"""The fields of a Pod that a template need not have: the API server fills them in, or the derived Pod has others.

A place is a pattern in the Pod. What pods/defaults.py does to values is here done to the expressions that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

from policies.admissionpolicy.pods.defaults import DEFAULTS
from policies.admissionpolicy.pods.fields import TYPES
from policies.admissionpolicy.templates.trees import filled, literal, optional
from policies.cel.syntax import unparse
from policies.cel.syntax.ast import Node
from policies.objects.fieldpath import Pattern, Wildcard, parse, render

Fallback = Callable[[Node, Callable[[], Node]], Node]
"""The optional value of a field that is absent, from the map that it would be in and from the template."""

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


def _always_maps(type_: str, place: Pattern) -> Iterator[Pattern]:
    """The maps below a place that the encoding of a type always has."""
    known = TYPES.get(type_)
    if known is None:
        return
    for name, value in known.always.items():
        if value == {} and name in _OPTIONAL_MAPS:
            yield (*place, name)
    for name, below in known.types.items():
        if below.startswith("["):
            yield from _always_maps(below[1:], (*place, name, Wildcard.ITEMS))
        else:
            yield from _always_maps(below, (*place, name))


@cache
def fallbacks() -> Mapping[Pattern, Fallback]:
    """What stands for the fields that are absent in a template, by place; not for maps that would be empty."""
    constant = {
        ("spec", *pattern, name): _constant(unparse.literal(value))
        for pattern, fields in DEFAULTS
        for name, value in fields.items()
        if value != {}
    }
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
    defaults = {("spec", *p, name) for p, fields in DEFAULTS for name, value in fields.items() if value == {}}
    return frozenset(defaults.union(_always_maps("Pod", ())))


@cache
def differing() -> frozenset[Pattern]:
    """All places below a Pod's `spec` at which it may differ from its template."""
    return frozenset(place for place in (*fallbacks(), *empty_maps(), *REQUESTS, *UNKNOWN) if place[:1] == ("spec",))


@cache
def quantities() -> frozenset[Pattern]:
    """The places of quantities, and of the maps of quantities with `.*` behind them."""
    return frozenset(_quantities("Pod", ()))


def _quantities(type_: str, place: Pattern) -> Iterator[Pattern]:
    known = TYPES.get(type_)
    for name, below in (known.types if known else {}).items():
        if below == "Quantity":
            yield (*place, name)
        elif below.startswith("{"):
            yield (*place, name, Wildcard.VALUES)
        else:
            more = (*place, name, Wildcard.ITEMS) if below.startswith("[") else (*place, name)
            yield from _quantities(below.removeprefix("["), more)


def shown(place: Pattern) -> str:
    """A place as messages show it."""
    return render(place) or "the whole Pod"
