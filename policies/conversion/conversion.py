"""Turns documents of other products into Kubernetes' policies, each by its kind."""

from __future__ import annotations

from collections.abc import Sequence

from policies.conversion import gatekeeper, kyverno
from policies.conversion.outcome import Conversion, Json, lost
from policies.kubernetes.spelling import with_article

_OWN = "admissionregistration.k8s.io"


def convert(values: Sequence[Json]) -> list[Conversion]:
    """What becomes of each document. Objects of other groups, such as parameters, are left out without a word."""
    templates = [value for value in values if _is(value, gatekeeper.TEMPLATES, "ConstraintTemplate")]
    return [_guarded(value, values, templates) for value in values]


def is_foreign(value: Json) -> bool:
    """Whether a document is a policy of another product."""
    groups = (kyverno.GROUP, kyverno.NEW_GROUP, gatekeeper.TEMPLATES, gatekeeper.CONSTRAINTS)
    return _group(value) in groups or _group(value).endswith(".gatekeeper.sh")


def _guarded(value: Json, values: Sequence[Json], templates: Sequence[Json]) -> Conversion:
    """The conversion of a document, which nobody has checked against the definition of its kind."""
    try:
        return _converted(value, values, templates)
    except (AttributeError, KeyError, TypeError, ValueError):
        return lost(
            "its fields have not the types of their definition; the product that it is for would refuse it", "spec"
        )


def _converted(value: Json, values: Sequence[Json], templates: Sequence[Json]) -> Conversion:
    group, kind = _group(value), str(value.get("kind"))
    if group == gatekeeper.CONSTRAINTS:
        return gatekeeper.constraint(value, templates)
    if value in templates:
        mine = [one for one in values if _is(one, gatekeeper.CONSTRAINTS, gatekeeper.kind_of(value))]
        return gatekeeper.template(value, mine)
    if group == kyverno.GROUP and kind in ("ClusterPolicy", "Policy"):
        return kyverno.cluster_policy(value)
    if group == kyverno.NEW_GROUP and kind in ("ValidatingPolicy", "NamespacedValidatingPolicy"):
        return kyverno.validating_policy(value)
    if is_foreign(value):
        return lost(kyverno.OTHER_KINDS.get(kind, f"{with_article(kind)} cannot be turned"), "kind")
    return Conversion()


def _group(value: Json) -> str:
    return str(value.get("apiVersion") or "").rpartition("/")[0]


def _is(value: Json, group: str, kind: str) -> bool:
    return (_group(value), str(value.get("kind"))) == (group, kind)
