"""Our findings about the types in a policy are those that a real cluster writes into its `status.typeChecking`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cluster import crds, manifests
from cluster.polling import NotYet
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.lint.typecheck import catalog, warnings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane

Json = dict[str, Any]
CASES: list[Json] = yaml.safe_load(Path(__file__).with_name("typechecking.yaml").read_text(encoding="utf-8"))
GROUP = "lint.example.org"
# Kubernetes makes names of types unique by nanoseconds: Deployment762532214.spec.
_UNIQUE = re.compile(r"\b([A-Z][A-Za-z]*)\d{3,}\b")

_OPEN: Json = {"x-kubernetes-preserve-unknown-fields": True}
_TEXT: Json = {"type": "string"}
_LIMIT: Json = {
    "max": {"type": "integer"},
    "ratio": {"type": "number"},
    "anything": {"type": "object", **_OPEN},
    "raw": _OPEN,
    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "tags": {"type": "object", "additionalProperties": _TEXT},
    "list": {"type": "array", "items": {"type": "object", "properties": {"a": _TEXT}}},
    "maplist": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key"],
        "items": {"type": "object", "required": ["key"], "properties": {"key": _TEXT}},
    },
    "some-key": _TEXT,
    "for": _TEXT,
    "when": {"type": "string", "format": "date-time"},
    "data": {"type": "string", "format": "byte"},
    "nested": {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": _OPEN}}},
    "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, **_OPEN},
}


_LIMITS: Json = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "required": ["max"], "properties": _LIMIT},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}
DEFINITIONS = [
    manifests.custom_resource("Limit", GROUP, "v1", schema=_LIMITS),
    manifests.custom_resource("Bare", GROUP, "v1"),
]


def policy(case: Json) -> Json:
    """The policy of a case."""
    named = {"variables": ("name", "expression"), "matchConditions": ("name", "expression")}
    named["auditAnnotations"] = ("key", "valueExpression")
    spec: Json = {
        "matchConstraints": {
            "resourceRules": [{**rule, "operations": ["CREATE", "UPDATE"]} for rule in case["rules"]],
        },
        "validations": [each if isinstance(each, dict) else {"expression": each} for each in case["validations"]],
        **{
            field: [{name: key, text: value} for key, value in case[field].items()]
            for field, (name, text) in named.items()
            if field in case
        },
    }
    if "paramKind" in case:
        spec["paramKind"] = case["paramKind"]
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    return {**head, "metadata": {"name": f"typechecking-{case['name']}"}, "spec": spec}


@pytest.fixture(scope="module")
def said(control_plane: ControlPlane) -> Iterator[Mapping[str, list[Json]]]:
    """What the cluster says of all cases; its policies and definitions are gone afterwards."""
    crds.install(control_plane, *DEFINITIONS)

    def published() -> bool:
        path = control_plane.objects.read("/openapi/v3")["paths"].get(f"apis/{GROUP}/v1")
        if path is None:
            raise NotYet("no schemas of the group")
        raw = json.dumps(control_plane.objects.read(path["serverRelativeURL"]))
        return all(f'"kind": "{each["spec"]["names"]["kind"]}"' in raw for each in DEFINITIONS)

    control_plane.wait_for("the schemas of the definitions", published)
    control_plane.objects.apply([policy(case) for case in CASES])

    def checked() -> dict[str, list[Json]]:
        found = control_plane.get("validatingadmissionpolicies")["items"]
        status = {each["metadata"]["name"]: each.get("status", {}) for each in found}
        names = [policy(case)["metadata"]["name"] for case in CASES]
        missing = [name for name in names if "observedGeneration" not in status[name]]
        if missing:
            raise NotYet(f"not checked: {missing}")
        return {name: status[name].get("typeChecking", {}).get("expressionWarnings", []) for name in names}

    yield control_plane.wait_for("kube-controller-manager to check the policies", checked)
    for each in [*map(policy, CASES), *DEFINITIONS]:
        control_plane.objects.delete_manifests(each)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_types_are_checked_as_in_a_cluster(case: Json, said: Mapping[str, list[Json]]) -> None:
    """The same expressions are warned about in the same words, and no others."""
    document = policy(case)
    loaded = read([Document(value=document, name="policy.yaml", places=lambda _: (1, 1))])

    ours = warnings(loaded.policies[0], catalog(DEFINITIONS))

    theirs = said[document["metadata"]["name"]]
    assert ours == [{**each, "warning": _UNIQUE.sub(r"\1", each["warning"])} for each in theirs]
