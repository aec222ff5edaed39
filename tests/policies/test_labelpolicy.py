"""The guard as a policy of the API server's: its words, and whom and what it spares."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.builders import TODAY, WORKLOADS, Json, request
from support.policies.admissionpolicies import binding, validating

from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, inputs_of
from policies.admissionpolicy.evaluation.validator import evaluate_policy
from policies.engine.facts import StaticFacts
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import HookCondition, PolicyException
from policies.engine.safety import Exemptions
from policies.labelpolicy import LabelWriter, no_exception_covers, of_definition, of_policy, spec
from policies.labels import (
    EXCEPTIONS,
    GRACEFUL,
    INTERRUPTABLE,
    KEEP,
    OWN_ORGANIZATION,
    SUMMARY,
    USE_OWN_PREFIX,
    organization,
)
from policies.matchconditions import requester_is_not_exempt

RESERVED = {"foo.coreweave.cloud/bar": "1"}
OPEN = SelectorRequirement("example.org/open", "DoesNotExist")
CONTROL_PLANE = {"ns.coreweave.cloud/org": "control-plane"}


def _refusal(
    obj: Json, old: Json | None = None, *, namespace: Json | None = None, conditions: Any = (), **asked: Any
) -> str | None:
    """The words in which an object is refused; None if it passes."""
    compiled = validating(**spec(WORKLOADS, (*EXCEPTIONS, organization("org-1")), conditions, (OPEN,)))
    made = request(obj, old=old, **asked)
    findings = evaluate_policy(
        compiled, [binding()], NO_PARAMETERS, inputs_of(made, StaticFacts(TODAY, {"default": namespace or {}}))
    ).findings
    assert {(finding.kind, finding.status.code, finding.status.reason) for finding in findings} <= {
        ("violation", 403, "Forbidden")
    }
    return findings[0].message if findings else None


def _object(kind: str = "ConfigMap", labels: Json | None = None, version: str = "v1", **spec_: Any) -> Json:
    metadata = {"name": "main", "labels": RESERVED if labels is None else labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec_}


def test_all_places_are_named_in_order() -> None:
    """One line names every label with its path and value, sorted, and the remedy."""
    template = {"metadata": {"labels": {"b.coreweave.com/x": "2", "a.coreweave.cloud/y": "1", "app": "main"}}}

    refusal = _refusal(_object("Deployment", version="apps/v1", template=template))

    labels = (
        'metadata.labels: foo.coreweave.cloud/bar="1"; spec.template.metadata.labels: a.coreweave.cloud/y="1"; '
        'spec.template.metadata.labels: b.coreweave.com/x="2"'
    )
    assert refusal == f"{SUMMARY} {labels}. {USE_OWN_PREFIX}"


def test_ten_labels_are_named_in_one_short_line() -> None:
    """More labels are counted, and hostile ones cut, so that the API server does not drop the message."""
    odd = {f"{number:02}\n{'ü' * 500}.coreweave.cloud/{'k' * 5000}": "\x1b\n" for number in range(12)}

    refusal = _refusal(
        _object("JobSet", {}, "jobset.x-k8s.io/v1", replicatedJobs=[{"template": {"metadata": {"labels": odd}}}])
    )

    assert refusal is not None
    assert len(refusal.encode()) < 5120
    assert (refusal.isprintable(), refusal.count("; spec.replicatedJobs[0].")) == (True, 9)
    assert refusal.endswith(f"...; and 2 more. {USE_OWN_PREFIX}")


def test_too_many_labels_are_not_looked_through() -> None:
    """Where a key looks reserved, over 2,000 new labels at a place, or places in a list, are refused."""
    plain = _object(labels={f"k{number}": "" for number in range(2001)})
    many = _object(labels={**plain["metadata"]["labels"], "coreweave.example.org/x": ""})

    jobs = _object("JobSet", {}, "jobset.x-k8s.io/v1", replicatedJobs=[{"template": {}}] * 2001)

    words = "more than 2,000 entries are too many to look through"
    refusal = f"{SUMMARY} metadata.labels: {words}. {USE_OWN_PREFIX}"
    assert [_refusal(many), _refusal(many, many), _refusal(jobs, jobs), _refusal(plain)] == [refusal, None, None, None]
    assert f"{SUMMARY} spec.replicatedJobs: {words}" in str(_refusal(jobs))


def test_words() -> None:
    """The words name the template where an excepted label belongs, what stays on a Node, and the organization."""
    label = {"qos.coreweave.cloud/interruptable": "true"}
    alone, both = (
        _object("Deployment", label, "apps/v1", template={"metadata": {"labels": own}}) for own in ({}, label)
    )
    own_organization = OWN_ORGANIZATION.format('"org-1"')
    effect = "has no effect on any Pod here, put it at spec.template.metadata.labels"

    told = {
        _refusal(alone): f'qos.coreweave.cloud/interruptable="true" {effect}. {USE_OWN_PREFIX}',
        _refusal(_object("Node", {}), _object("Node")): f'foo.coreweave.cloud/bar="1" must not be removed. {KEEP}',
        _refusal(_object("Namespace", CONTROL_PLANE)): f'ns.coreweave.cloud/org="control-plane". {own_organization}',
    }
    assert list(told) == [f"{SUMMARY} metadata.labels: {words}" for words in told.values()]
    assert (_refusal(both), _refusal(_object(labels={}), _object())) == (None, None)


@pytest.mark.parametrize("labels", [CONTROL_PLANE, {"example.org/open": ""}], ids=["control plane", "not selected"])
def test_spared_namespaces(labels: Json) -> None:
    """What is in a Namespace of the control plane, or in one that the settings leave out, passes."""
    assert _refusal(_object(), namespace=labels) is None


def test_exempt_requesters() -> None:
    """The control plane writes any label, and alice none."""
    conditions = [requester_is_not_exempt(Exemptions(), ["cks-system"])]
    users = ["system:serviceaccount:cks-system:x", "system:kube-scheduler", "system:serviceaccount:team:x"]

    assert [_refusal(_object(), user=user, conditions=conditions) is None for user in users] == [True, True, False]


@pytest.mark.parametrize(
    ("fields", "covers"),
    [
        ({}, True),
        ({"namespaces": ("def*",), "kinds": ("ConfigMap",), "names": ("main",), "users": ("alice",)}, True),
        ({"groups": ("system:*",)}, True),
        ({"object_selector": LabelSelector((SelectorRequirement("foo.coreweave.cloud/bar", "In", ("1",)),))}, True),
        ({"object_selector": LabelSelector((SelectorRequirement("foo.coreweave.cloud/bar", "NotIn", ("1",)),))}, False),
        ({"kinds": ("ConfigMap.apps",)}, False),
        ({"rules": ("guard",)}, False),
        ({"until": TODAY - timedelta(days=1)}, False),
    ],
    ids=["anything", "names", "groups", "selected", "not selected", "other kind", "other rule", "ended"],
)
def test_dated_exceptions(fields: dict[str, Any], covers: object) -> None:
    """An exception from the rule is a condition until it ends."""
    exception = PolicyException(**{"name": "x", "rules": ("labels",), "reason": "", "until": TODAY, **fields})

    conditions: list[HookCondition] = no_exception_covers([exception], TODAY)

    assert (_refusal(_object(), conditions=conditions) is None) is covers


def _policy(*expressions: str, form: str = "applyConfiguration", **variables: str) -> Json:
    return {
        "metadata": {"name": "m"},
        "spec": {
            "matchConditions": [{"name": "c", "expression": "'coreweave.cloud/condition' in object.metadata.labels"}],
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "mutations": [{form: {"expression": text}} for text in expressions],
        },
    }


_PATCH = '[JSONPatch{path: "%s"}]'


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        (_policy('{"a.coreweave.cloud/x": "y"}'), "a.coreweave.cloud/x"),
        (_policy("variables.all", all="{'coreweave.cloud/x': 'y'}"), "coreweave.cloud/x"),
        (_policy(_PATCH % "/metadata/labels/coreweave.com~1x", form="jsonPatch"), "coreweave.com/x"),
        (_policy(_PATCH % "/spec/jobs/0/metadata/labels/coreweave.cloud~1x", form="jsonPatch"), "coreweave.cloud/x"),
        (_policy('"coreweave.cloud/" + params.name'), "coreweave.cloud/"),
        (_policy('{"ns.coreweave.cloud/org": "y"}'), "ns.coreweave.cloud/org"),
        (
            _policy(*(f'{{"coreweave.cloud/{name}": "y"}}' for name in "abacde")),
            "coreweave.cloud/a, coreweave.cloud/b, coreweave.cloud/c and 2 more",
        ),
        *((_policy(f'{{"{key}": "true"}}'), None) for key in ("example.org/x", "mycoreweave.cloud/x")),
        (_policy('{"qos.coreweave.cloud/interruptable": "true"}'), None),
        (_policy("params.labels"), None),
        ({"spec": {"mutations": "none", "variables": ["none"]}}, None),
    ],
)
def test_reserved_labels_in_a_policy(policy: Json, keys: str | None) -> None:
    """A reserved key in a mutation or a variable is named, unless people may set it; match conditions do not count."""
    text = f"its expressions name reserved labels: {keys}"
    expected = LabelWriter("MutatingAdmissionPolicy", "m", "reserved", text) if keys else None

    assert of_policy(policy, [INTERRUPTABLE, GRACEFUL, organization("o")]) == expected


def _definition(*versions: str, **conversion: Any) -> Json:
    return {
        "metadata": {"name": "widgets.example.org"},
        "spec": {"versions": [{"name": name} for name in versions], "conversion": conversion},
    }


_HOOK = {"clientConfig": {"service": {"namespace": "ops", "name": "hook"}}}


_ELSEWHERE = {"clientConfig": {"url": "https://a.example/b?c=d"}}


@pytest.mark.parametrize(
    ("definition", "who"),
    [
        (_definition("v1", "v2", strategy="Webhook", webhook=_HOOK), "ops/hook"),
        (_definition("v1", "v2", strategy="Webhook", webhook=_ELSEWHERE), "https://a.example/b"),
        (_definition("v1", "v2", strategy="None"), ""),
        (_definition("v1", strategy="Webhook", webhook=_HOOK), ""),
    ],
)
def test_a_conversion(definition: Json, who: str) -> None:
    """A webhook that converts between versions may change labels; without one, or with one version, nothing does."""
    text = f"its conversion webhook, {who}, may change the labels of its objects after admission"
    expected = LabelWriter("CustomResourceDefinition", "widgets.example.org", "possible", text) if who else None

    assert of_definition(definition) == expected
