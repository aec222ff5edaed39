"""Policies on Pods become policies on templates that people can read, or an error says why not."""

from __future__ import annotations

from typing import Any

import pytest
from support.policies import publicpolicies

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.templates.assembly import Exported, exported
from policies.admissionpolicy.templates.limits import problems
from policies.objects.workload import BUILT_IN, table, workload

TABLE = table(BUILT_IN)
_DEPLOYMENT = (("apps", "Deployment"),)


def _exported(
    *expressions: str, kinds: tuple[tuple[str, str], ...] = _DEPLOYMENT, check: bool = False, **rule: Any
) -> Exported:
    """What is exported of a policy with these validations, for some kinds."""
    validations = [{"expression": text, "message": "No."} for text in expressions]
    operations = rule.pop("operations", ("CREATE",))
    documents = publicpolicies.documents({"name": "rule", "validations": validations, **rule}, operations)
    loaded = read(Document(value=value, name="rule.yaml", places=lambda _: (7, 5)) for value in documents)
    assert loaded.errors == ()
    checks = (lambda document, row: problems(document, row, None)) if check else (lambda *_: ())
    return exported(loaded.policies[0], loaded.bindings, {kind: TABLE[kind] for kind in kinds}, checks)


def _expression(text: str, kind: tuple[str, str] = ("apps", "Deployment"), **rule: Any) -> str:
    result = _exported(text, kinds=(kind,), **rule)
    assert result.errors == ()
    (policy,) = result.policies
    return str(policy["spec"]["validations"][0]["expression"])


@pytest.mark.parametrize(
    ("pod", "template"),
    [
        pytest.param("has(object.spec.hostPID)", "has(object.spec.template.spec.hostPID)", id="path"),
        pytest.param(
            "has(object.metadata.labels)", "object.spec.template.?metadata.?labels.hasValue()", id="absent metadata"
        ),
        pytest.param(
            "object.metadata.labels.a == 'b'", "object.spec.template.metadata.labels.a == 'b'", id="fails alike"
        ),
        pytest.param(
            "object.spec.restartPolicy == 'Never'",
            "object.spec.template.spec.?restartPolicy.orValue('Always') == 'Never'",
            id="default",
        ),
        pytest.param("has(object.spec.dnsPolicy) && a", "a", id="what a Pod always has"),
        pytest.param(
            "object.spec.securityContext.?runAsUser.orValue(0) > 0",
            "object.spec.template.spec.?securityContext.?runAsUser.orValue(0) > 0",
            id="map that may be absent",
        ),
        pytest.param(
            "object.spec.containers.all(c, 'cpu' in c.resources.requests)",
            "object.spec.template.spec.containers.all(c,\n"
            "  c.?resources.?requests.or(c.?resources.?limits).value().?cpu"
            ".or(c.?resources.?limits.?cpu).hasValue()\n)",
            id="limits are requests",
        ),
        pytest.param(
            "object.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('1Gi')))",
            "object.spec.template.spec.containers.all(c,\n"
            "  quantity(string(c.resources.limits.memory)).isLessThan(quantity('1Gi'))\n)",
            id="numbers as quantities",
        ),
        pytest.param(
            "object.spec.volumes.all(v, has(v.emptyDir))",
            "object.spec.template.spec.volumes.all(v,\n"
            "  v.?emptyDir.or(v.size() <= 1 ? optional.of({}) : optional.none()).hasValue()\n)",
            id="volume without a source",
        ),
        pytest.param("object.metadata.namespace == 'a'", "request.namespace == 'a'", id="namespace"),
        pytest.param("request.kind.kind == 'Pod' && b", "b", id="request"),
        pytest.param(
            "object.metadata.ownerReferences.exists(r, r.kind == 'ReplicaSet' && r.controller) && b", "b", id="owner"
        ),
        pytest.param("oldObject == null || a", "true", id="no old object"),
    ],
)
def test_an_expression_on_a_template(pod: str, template: str) -> None:
    """The path of the template takes the Pod's place, and what the Pod has besides is written out."""
    variables = {"a": "object.spec.hostPID", "b": "object.spec.hostIPC"}
    text = pod.replace("&& a", "&& variables.a").replace("&& b", "&& variables.b").replace("|| a", "|| variables.a")
    if template == "true":
        assert _exported(text, variables=variables) == Exported()
        return
    expected = {"a": "variables.a", "b": "variables.b"}.get(template, template)
    assert _expression(text, variables=variables) == expected


def test_the_old_template() -> None:
    """A policy on updates of Pods sees the template before."""
    text = "oldObject == null || object.spec.nodeName == oldObject.spec.nodeName"

    assert _expression(text, operations=("CREATE", "UPDATE")) == (
        "oldObject == null || object.spec.template.spec.nodeName == oldObject.spec.template.spec.nodeName"
    )


def test_labels_of_a_controller() -> None:
    """What a controller adds is a constant, or a field of the workload."""
    text = "object.metadata.labels['job-name'] == 'a' || object.metadata.?labels['batch.kubernetes.io/x'].hasValue()"

    assert _expression(text, ("batch", "Job")) == (
        "object.metadata.?name.orValue(object.metadata.?generateName.orValue('') + '0') == 'a'\n"
        "|| object.spec.template.?metadata.?labels['batch.kubernetes.io/x'].hasValue()"
    )


def test_the_whole_policy_for_one_template() -> None:
    """Conditions, variables and messages follow; only changed templates are judged."""
    result = _exported(
        "variables.bad.size() == 0",
        variables={"bad": "object.spec.containers.map(c, c.name).filter(n, n == params.data.bad)"},
        conditions={"not-system": "!(request.userInfo.username == 'system')"},
        params=True,
    )

    (policy,), (binding,) = result.policies, result.bindings
    spec = policy["spec"]
    assert (result.errors, result.notes, policy["metadata"]) == ((), (), {"name": "rule-deployment"})
    assert [condition["name"] for condition in spec["matchConditions"]] == [
        "template-changed",
        "not-being-deleted",
        "not-made-by-a-workload",
        "not-system",
    ]
    assert spec["matchConditions"][0]["expression"] == (
        "object.?spec.?template.hasValue()\n"
        "&& (oldObject == null || object.?spec.?template != oldObject.?spec.?template)"
    )
    assert spec["variables"] == [
        {
            "name": "bad",
            "expression": "object.spec.template.spec.containers.map(c, c.name).filter(n, n == params.data.bad)",
        }
    ]
    assert spec["validations"] == [
        {"expression": "variables.bad.size() == 0", "message": "spec.template: No.", "reason": "Invalid"}
    ]
    assert spec["matchConstraints"]["resourceRules"] == [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["deployments"],
            "scope": "Namespaced",
        }
    ]
    assert binding["spec"] == {
        "policyName": "rule-deployment",
        "validationActions": ["Deny"],
        "paramRef": {"name": "rule", "namespace": "default", "parameterNotFoundAction": "Deny"},
    }


def test_several_templates() -> None:
    """A list of templates is gone through, and the message names the paths of those that are refused."""
    result = _exported(
        "variables.host == false", variables={"host": "object.spec.hostPID"}, kinds=(("jobset.x-k8s.io", "JobSet"),)
    )

    (policy,) = result.policies
    assert policy["spec"]["variables"] == [
        {
            "name": "templates",
            "expression": "object.?spec.?replicatedJobs.orValue([]).transformList(index, item,\n"
            "  item.?template.?spec.?template.hasValue(),\n"
            "  {\n"
            "    'path': dyn('spec.replicatedJobs[' + string(index) + '].template.spec.template'),\n"
            "    'new': item.template.spec.template,\n"
            "    ?'old': oldObject == null\n"
            "        ? optional.none()\n"
            "        : oldObject.?spec.?replicatedJobs[?index].?template.?spec.?template\n"
            "  }\n"
            ").filter(template, !has(template.old) || template.new != template.old)",
        }
    ]
    assert policy["spec"]["validations"] == [
        {
            "expression": "variables.templates.all(template, template.new.spec.hostPID == false)",
            "message": "No.",
            "messageExpression": "variables.templates"
            ".filter(template, !(template.new.spec.hostPID == false)).map(template,\n"
            "  template.path + ': No.'\n"
            ").join('; ')",
            "reason": "Invalid",
        }
    ]


def test_kinds_share_a_policy() -> None:
    """Kinds whose expressions are the same are judged by one policy, which is named for them."""
    one, other = "!has(object.spec.hostUsers)", "!object.metadata.ownerReferences.exists(r, r.kind == 'ReplicaSet')"

    names = [policy["metadata"]["name"] for policy in _exported(one, kinds=tuple(TABLE)).policies]
    assert names[:4] == ["rule-podtemplate", "rule-templates", "rule-cronjob", "rule-volcano-job"]
    assert [each["metadata"]["name"] for each in _exported(other, kinds=tuple(TABLE)[3:7]).policies] == [
        "rule-templates"
    ]


def test_a_configured_kind() -> None:
    """A kind of the settings is judged like the others."""
    row = workload("example.com", "Robot", ["spec.arms[*].pod", "spec.body.pod"])
    documents = publicpolicies.documents({"name": "rule", "validations": [{"expression": "!object.spec.hostPID"}]})
    loaded = publicpolicies.loaded(documents)

    (policy,) = exported(loaded.policies[0], loaded.bindings, {row.group_kind: row}).policies

    assert policy["metadata"]["name"] == "rule-robot"
    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["robots"]
    assert "'path': dyn('spec.arms[' + string(index) + '].pod')" in policy["spec"]["variables"][0]["expression"]


@pytest.mark.parametrize(
    ("expression", "kind", "error"),
    [
        pytest.param(
            "object.metadata.labels.all(k, k != 'a')",
            ("batch", "Job"),
            "rule.yaml:7:20: rule reads all labels, but a controller adds its own to the Pods, such as "
            "batch.kubernetes.io/job-completion-index, batch.kubernetes.io/job-name (templates of Job)",
            id="all labels",
        ),
        pytest.param(
            "'a' + object.metadata.namespace in object.metadata.labels",
            ("batch", "Job"),
            "rule.yaml:7:37: rule reads all labels, but a controller adds its own to the Pods, such as "
            "batch.kubernetes.io/job-completion-index, batch.kubernetes.io/job-name (templates of Job)",
            id="computed label",
        ),
        pytest.param(
            "object.spec == {}",
            ("apps", "Deployment"),
            "rule.yaml:7:11: rule reads spec as a whole, but a Pod has its own spec.affinity.podAffinity.preferred"
            "DuringSchedulingIgnoredDuringExecution[*].podAffinityTerm.labelSelector.matchExpressions "
            "(templates of Deployment)",
            id="whole spec",
        ),
        pytest.param(
            "object.spec.containers.all(c, c.all(k, k != 'a'))",
            ("apps", "Deployment"),
            "rule.yaml:7:35: rule goes through all fields of spec.containers[*], some of which are defaults "
            "(templates of Deployment)",
            id="all fields",
        ),
        pytest.param(
            "request.name == 'a'",
            ("apps", "Deployment"),
            "rule.yaml:7:12: rule reads request.name, which is not known for Pods that a controller creates "
            "(templates of Deployment)",
            id="name",
        ),
    ],
)
def test_what_cannot_be_exported(expression: str, kind: tuple[str, str], error: str) -> None:
    """The place and the reason are named, and the kinds."""
    result = _exported(expression, kinds=(kind,))

    assert (result.errors, result.policies) == ((error,), ())


def test_fields_that_admission_fills_in() -> None:
    """A policy on a field that may still be filled in judges only templates that settle it, or none."""
    token = _exported("object.spec.?serviceAccountName.orValue('default') != 'default'")
    name = _exported("object.metadata.?name.orValue('') == ''")

    assert token.policies[0]["spec"]["matchConditions"][-1] == {
        "name": "fields-are-settled",
        "expression": "object.spec.template.spec.?serviceAccountName.orValue("
        "object.spec.template.spec.?serviceAccount.orValue(''))\n"
        "  != ''",
    }
    assert (name.policies, name.notes) == (
        (),
        (
            (
                "rule.yaml:1: ValidatingAdmissionPolicy rule does not judge templates of Deployment: it reads "
                "metadata.name, which may still be filled in when their Pods are created"
            ),
        ),
    )


def test_costs_are_measured() -> None:
    """An expression that costs too much for the largest object is refused with its cost."""
    nested = "object.spec.containers.all(a, object.spec.containers.all(b, a.name == b.name || a.image != b.image))"

    result = _exported(nested, check=True)

    assert result.policies == ()
    assert result.errors[0] == (
        "rule.yaml:1: ValidatingAdmissionPolicy rule: for rule-deployment, spec.validations[0].expression costs "
        "22,777,242 for the creation of the largest Deployment; an expression may cost 1,000,000"
    )
    assert [error.split(" costs ")[0].split()[-1] for error in result.errors] == [
        "spec.validations[0].expression",
        "it",
    ] * 2
    assert _exported("!object.spec.hostPID", check=True).errors == ()


def test_policies_that_judge_no_pods() -> None:
    """Nothing is exported of a policy that is not for templates."""
    documents = publicpolicies.documents(
        {"name": "rule", "validations": [{"expression": "has(object.a)"}]}, ("DELETE",)
    )
    loaded = publicpolicies.loaded(documents)

    assert exported(loaded.policies[0], loaded.bindings, TABLE) == Exported()
