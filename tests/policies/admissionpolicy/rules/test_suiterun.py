"""Suites as they are run: natively, or as the service judges, what changes leave, and what matches nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import WORKLOADS, deployment, request
from support.policies.admissionpolicies import binding, policy
from support.policies.policydocuments import documents

from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS
from policies.admissionpolicy.model import MatchResources, NamedRule
from policies.admissionpolicy.rules.coverage import Coverage, Idle
from policies.admissionpolicy.rules.suiterun import SuiteRun
from policies.cel.library.authorizer import Check, CheckAnswer
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement
from policies.suite import Case, CaseNamespace, Expectation

_PODS = (
    'matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]}'
)
_BINDING = """
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [ACTION]}
"""
_NAMED = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  {_PODS}
  validations: [{{expression: "EXPRESSION", message: wrong}}]
"""
_TEAM = f"""
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: p}}
spec:
  {_PODS}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch: {{expression: "[JSONPatch{{op: 'add', path: '/metadata/labels/team', value: 'ml'}}]"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: b}}
spec: {{policyName: p}}
"""
_SPEC = {"containers": [{"name": "main", "image": "a"}]}
_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"a": "b"}},
    "spec": _SPEC,
}
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"template": {"metadata": {}, "spec": _SPEC}},
}
_DENIAL = """\
wrong
  spec.template.spec: has(object.spec.hostNetwork) is false"""


def _run(expression: str = "has(object.spec.hostNetwork)", action: str = "Deny", more: str = "") -> SuiteRun:
    text = _NAMED.replace("EXPRESSION", expression) + _BINDING.replace("ACTION", action) + more
    loaded = read(documents(text))
    assert loaded.problems == ()
    return SuiteRun(loaded, NO_PARAMETERS)


def _case(obj: Any, **fields: Any) -> Case:
    return Case(name="a case", operation="CREATE", object=obj, expect=Expectation(verdict="allowed"), **fields)


def _expecting(obj: Any, labels: dict[str, str]) -> Case:
    """A case in which the object gets other labels."""
    patched = {**obj, "metadata": {**obj["metadata"], "labels": labels}}
    return replace(_case(obj), expect=Expectation(verdict="allowed", patched=patched))


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("Deny", Expectation(verdict="denied", messages=(_DENIAL,))),
        ("Warn", Expectation(verdict="allowed", warnings=("spec.template.spec: wrong",))),
        ("Audit", Expectation(verdict="allowed", audit=("spec.template: wrong",))),
    ],
)
def test_a_template_is_judged_where_the_case_asks_for_it(action: str, expected: Expectation) -> None:
    """A policy on Pods is silent about a Deployment as the API server is, and speaks as the service does."""
    run, case = _run(action=action), _case(_DEPLOYMENT)

    assert (run.outcome(case), run.outcome(replace(case, derived=True))) == (Expectation(verdict="allowed"), expected)


def test_validating_policies_judge_what_mutating_ones_leave() -> None:
    """A policy of either kind may have the same name; the object comes out as it was sent, with the change."""
    run = _run("object.metadata.labels.team == 'ml' && object.metadata.namespace == 'team-a'", more=_TEAM)
    case = _expecting(_POD, {"a": "b", "team": "ml"})

    assert run.outcome(case) == run.received(case).expect


def test_an_object_keeps_the_namespace_that_it_names() -> None:
    """The case's namespace is where the object is judged, and not a change of it."""
    pod = {**_POD, "metadata": {"name": "web", "namespace": "other", "labels": {"a": "b"}}}
    run = _run("object.metadata.namespace == 'team-b'", more=_TEAM)
    case = replace(_expecting(pod, {"a": "b", "team": "ml"}), namespace=CaseNamespace(name="team-b"))

    assert run.outcome(case) == run.received(case).expect


def test_objects_are_read_as_the_api_server_reads_them() -> None:
    """Quantities are texts, defaults are set, and what is empty is gone, in the object and in what it becomes."""
    limits = {"cpu": 2, "memory": "1024Mi"}
    containers = [{"name": "main", "image": "a:1", "resources": {"limits": limits}}]
    pod = {**_POD, "metadata": {"name": "web", "labels": {}}, "spec": {"containers": containers}}
    expressions = (
        "object.spec.containers[0].resources.limits == {'cpu': '2', 'memory': '1Gi'}",
        "object.spec.restartPolicy == 'Always'",
        "!has(object.metadata.labels)",
    )

    assert [_run(each).outcome(_case(pod)).verdict for each in expressions] == ["allowed"] * 3


def test_what_is_refused_is_not_changed() -> None:
    """A refusal after a change, and a change that fails, leave nothing; the latter is the only one to speak."""
    run = _run(more=_TEAM)
    unlabelled = {**_POD, "metadata": {"name": "web"}}

    assert run.outcome(_case(_POD)) == Expectation(verdict="denied", messages=("wrong",))
    assert run.outcome(_case(unlabelled)) == Expectation(
        verdict="denied",
        messages=("JSON Patch: add /metadata/labels/team: there is no map or list at labels",),
    )


def test_checks_are_answered_by_whoever_is_given() -> None:
    """Without anybody to ask a check is an error."""

    class Everything:
        def answer(self, check: Check) -> CheckAnswer:
            return CheckAnswer(allowed=check.verb == "x")

    text = _NAMED.replace("EXPRESSION", "authorizer.requestResource.check('x').allowed()")
    loaded = read(documents(text + _BINDING.replace("ACTION", "Deny")))
    runs = SuiteRun(loaded, NO_PARAMETERS), SuiteRun(loaded, NO_PARAMETERS, decisions=Everything())

    assert [run.outcome(_case(_POD)).verdict for run in runs] == ["denied", "allowed"]


_PRODUCTION = LabelSelector((SelectorRequirement("env", "In", ("production",)),))


@pytest.mark.parametrize(
    ("group", "resource", "fields", "idle"),
    [
        ("apps", "deployments", {}, []),
        ("apps", "deployment", {}, [Idle("p", "deployment", "deployments")]),
        ("apps", "statefulsets", {}, [Idle("p", "statefulsets")]),
        ("", "pods", {}, []),
        ("", "pods", {"annotations": {"cks-admission.dev/derive": "false"}}, [Idle("p", "pods")]),
        ("apps", "deployments", {"selector": _PRODUCTION}, [Idle("p", "the selectors of its matchConstraints")]),
        ("apps", "deployments", {"bound": _PRODUCTION}, [Idle("p", "matchResources of the binding b")]),
    ],
    ids=[
        "it matches",
        "the singular",
        "another kind",
        "Pods of the template",
        "Pods, and no templates",
        "a selector of the policy",
        "a selector of the binding",
    ],
)
def test_what_matches_nothing(group: str, resource: str, fields: dict[str, Any], idle: list[Idle]) -> None:
    """A policy that matches no object and no Pod of one is named, with what kept it from matching."""
    rule = NamedRule(api_groups=(group,), api_versions=("v1",), operations=("CREATE",), resources=(resource,))
    constraints = MatchResources(resource_rules=(rule,), namespace_selector=fields.get("selector", EVERYTHING))
    limited = replace(policy(annotations=fields.get("annotations", {})), match_constraints=constraints)
    resources = MatchResources(namespace_selector=fields["bound"]) if "bound" in fields else None
    bound = replace(binding(), match_resources=resources)
    first, other = (Coverage([limited], [bound], lambda _: {}, WORKLOADS) for _ in range(2))

    first.add(request(deployment()))
    other.merge(first.reach)

    assert [list(each.idle()) for each in (first, other)] == [idle, idle]
