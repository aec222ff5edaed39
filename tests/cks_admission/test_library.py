"""What the library says of requests, and of what it cannot use."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import cks_admission
from cks_admission import (
    DocumentError,
    Evaluation,
    ExpressionError,
    Issue,
    Policies,
    Request,
    RequestError,
    evaluate,
    lint,
    read,
)
from cks_admission.library import Documents

Json = dict[str, Any]
GROUP = "admissionregistration.k8s.io/v1"
CONFIG_MAP: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"size": "7"}}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def _policy(name: str, *validations: Json | str, **spec: Any) -> Json:
    listed = [{"expression": given} if isinstance(given, str) else given for given in validations]
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": listed, **spec}
    return {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def _binding(name: str, *actions: str, **spec: Any) -> Json:
    spec = {"policyName": name, "validationActions": list(actions), **spec}
    return {"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def _mutation(*patches: str) -> Json:
    spec = {
        "matchConstraints": {"resourceRules": [{**RULE, "operations": ["CREATE", "UPDATE"]}]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": text}} for text in patches],
    }
    return {"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "patch"}, "spec": spec}


def _compiled(*documents: Json) -> Policies:
    return cks_admission.compile(documents)


def test_all_findings_are_told_and_the_first_refuses() -> None:
    """Code, reason and message are those of the first validation that fails; actions decide about the rest."""
    policies = _compiled(
        _policy("size", {"expression": "int(object.data.size) < 5", "message": "Too large.", "reason": "Forbidden"}),
        _policy("name", "object.metadata.name != 'a'"),
        _policy("broken", "object.data.none == ''", failurePolicy="Ignore"),
        _binding("size", "Deny"),
        _binding("name", "Warn", "Audit"),
        _binding("broken", "Deny"),
    )

    verdict = evaluate(policies, CONFIG_MAP)

    words = "ValidatingAdmissionPolicy 'size' with binding 'size' denied request: Too large."
    name = "failed expression: object.metadata.name != 'a'"
    assert (verdict.allowed, verdict.code, verdict.reason, verdict.message) == (False, 403, "Forbidden", words)
    assert [(finding.policy, finding.actions, finding.message) for finding in verdict.findings] == [
        ("size", ("Deny",), "Too large."),
        ("name", ("Warn", "Audit"), name),
    ]
    assert [finding.message for finding in verdict.ignored] == [
        "expression 'object.data.none == ''' resulted in error: no such key: none"
    ]
    assert verdict.warnings == (f"Validation failed for ValidatingAdmissionPolicy 'name' with binding 'name': {name}",)
    assert (list(verdict.costs), all(cost > 0 for cost in verdict.costs.values())) == (["size", "name", "broken"], True)


def test_a_mutation_that_fails_refuses_like_the_api_server() -> None:
    """With 403 and the reason Invalid; what is validated afterwards is not asked."""
    policies = _compiled(
        _mutation("[JSONPatch{op: 'remove', path: '/data/none'}]"), _policy("never", "false"), _binding("never", "Deny")
    )

    verdict = evaluate(policies, CONFIG_MAP)

    names = [finding.policy for finding in verdict.findings]
    assert (verdict.code, verdict.reason, names) == (403, "Invalid", ["patch"])


def test_what_mutates_comes_before_what_validates() -> None:
    """Validating policies see the object as mutating ones left it, and the caller's object stays as it was."""
    note = {"key": "k", "valueExpression": "string(object.data.size)"}
    policies = _compiled(
        _mutation("[JSONPatch{op: 'replace', path: '/data/size', value: '3'}]"),
        _policy("size", "int(object.data.size) < 5", auditAnnotations=[note]),
        _binding("size", "Deny"),
    )

    verdict = evaluate(policies, CONFIG_MAP)

    assert (verdict.allowed, verdict.object, verdict.annotations) == (
        True,
        {**CONFIG_MAP, "data": {"size": "3"}},
        {"size/k": "3"},
    )
    assert CONFIG_MAP["data"] == {"size": "7"}


def test_other_documents_are_the_world_around() -> None:
    """Parameters, Namespaces and rights come from the documents, the rest from the request."""
    rbac = "rbac.authorization.k8s.io"
    reference = {"name": "limits", "namespace": "team-a", "parameterNotFoundAction": "Deny"}
    pods = "authorizer.group('').resource('pods')"
    expressions = {
        "int(object.data.size) <= int(params.data.limit)": False,
        "namespaceObject.metadata.labels.team == 'red'": True,
        f"{pods}.check('get').allowed()": True,
        f"{pods}.check('delete').allowed()": False,
        "request.userInfo.groups == ['testers', 'system:authenticated']": True,
        "request.operation == 'UPDATE' && oldObject.data.size == '1'": True,
        "request.name == 'a' && request.namespace == 'team-a' && request.resource.resource == 'configmaps'": True,
    }
    reader = {"apiVersion": f"{rbac}/v1", "metadata": {"name": "reader"}}
    world = [
        {**CONFIG_MAP, "metadata": {"name": "limits", "namespace": "team-a"}, "data": {"limit": "5"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "red"}}},
        {**reader, "kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        {
            **reader,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "alice"}],
        },
    ]
    old = {**CONFIG_MAP, "data": {"size": "1"}}
    request = Request(object=CONFIG_MAP, old_object=old, namespace="team-a", user="alice", groups=("testers",))
    for expression, allowed in expressions.items():
        policy = _policy("one", expression, paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
        policies = _compiled(policy, _binding("one", "Deny", paramRef=reference), *world)
        assert evaluate(policies, request).allowed is allowed, expression


def test_a_policy_without_a_binding_is_judged_and_doubted() -> None:
    """As if a binding denied."""
    policies = _compiled(_policy("alone", "false"))

    assert (evaluate(policies, CONFIG_MAP).allowed, policies.names, len(policies.warnings)) == (False, ("alone",), 1)


def test_policies_apply_to_no_policies() -> None:
    """As in the API server, whatever their rules say."""
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    policies = _compiled(_policy("all", "false", matchConstraints={"resourceRules": [every]}))

    allowed = [
        evaluate(policies, Request(object=_policy("x", "true"), resource="validatingadmissionpolicies")).allowed,
        evaluate(policies, CONFIG_MAP).allowed,
    ]

    assert allowed == [True, False]


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (Request(), "a request needs an object, an old_object, or both"),
        ({"kind": "Pod", "metadata": {}}, "the object has no apiVersion"),
        ({"apiVersion": "v1", "kind": 7, "metadata": {}}, "the object has no kind"),
        ({**CONFIG_MAP, "metadata": 7}, "the object's metadata is no map"),
    ],
)
def test_what_is_no_request(request_: Request | Json, problem: str) -> None:
    """Policies cannot be asked about something that the API server would not take."""
    with pytest.raises(RequestError, match=f"^{problem}"):
        evaluate(_compiled(_policy("one", "true")), request_)


def test_mistakes_in_documents_are_told_with_their_places() -> None:
    """All of them at once, as values and as text."""
    text = f'{{"apiVersion": "{GROUP}",\n"kind": "ValidatingAdmissionPolicyBinding", "metadata": {{}}}}'

    with pytest.raises(DocumentError) as caught:
        cks_admission.compile(read(text, "b.json"))

    assert [(problem.file, problem.line, problem.path) for problem in caught.value.problems] == [
        ("b.json", 2, "metadata.name"),
        ("b.json", 1, "spec.policyName"),
        ("b.json", 1, "spec.validationActions"),
    ]
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))


def test_documents_that_are_none() -> None:
    """Whatever is given, the error is the library's own, with the kind and name of an object, or its number.

    Of a text that is no YAML it names the file, the line and the column.
    """
    odd: list[Documents] = [[7], {"apiVersion": "v1"}]  # type: ignore[list-item] # on purpose
    for documents in odd:
        for use in (cks_admission.compile, lint):
            with pytest.raises(DocumentError):
                use(documents)
    with pytest.raises(DocumentError) as caught:
        _compiled(CONFIG_MAP, _policy("fine", "true"), _policy("bad", "1 + 1"), {"kind": "x"})
    with pytest.raises(DocumentError, match=r"^a\.yaml:2:1: not valid YAML") as unread:
        read("a: [\n", "a.yaml")

    files = [problem.file for problem in caught.value.problems]
    assert (files, unread.value.problems) == (["ValidatingAdmissionPolicy bad", "document 4"], ())


def test_an_expression_that_is_refused_has_its_issues() -> None:
    """All of them, each with its place; a variable's, too."""
    with pytest.raises(ExpressionError) as caught:
        cks_admission.compile("x + 1 > y")
    with pytest.raises(ExpressionError, match=r"^variables\.n:1:1: "):
        cks_admission.compile("variables.n", variables={"n": "nope"})
    with pytest.raises(ExpressionError, match="must evaluate to bool but got int"):
        cks_admission.compile("1 + 1", result="bool")

    assert caught.value.issues == (
        Issue(1, 1, "undeclared reference to 'x' (in container '')"),
        Issue(1, 9, "undeclared reference to 'y' (in container '')"),
    )


_NAMED: Json = {"metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("text", "request_", "evaluation"),
    [
        ("object.a.b == 1", {"a": {"b": 1}}, Evaluation(True, "bool", 4)),  # noqa: FBT003
        ("params.limit", Request(params={"limit": 5}), Evaluation(5, "int", 2)),
        ("namespaceObject.metadata.name", Request(namespace_object=_NAMED), Evaluation("a", "string", 3)),
        ("request.operation", Request(old_object={}), Evaluation("DELETE", "string", 2)),
        ("request.kind.kind", CONFIG_MAP, Evaluation("ConfigMap", "string", 3)),
        ("request.userInfo.username", Request(user="eve"), Evaluation("eve", "string", 3)),
    ],
)
def test_expressions_read_what_is_given(text: str, request_: Request | Json, evaluation: Evaluation) -> None:
    """An expression alone reads objects of any form."""
    assert evaluate(cks_admission.compile(text), request_) == evaluation


def test_threads_share_what_is_compiled() -> None:
    """Policies and expressions give the same answers in several threads at a time."""
    policies, expression = _compiled(_policy("one", "object.data.all(k, k == 'size')")), cks_admission.compile("1 + 1")
    answers: list[Any] = []

    def ask() -> None:
        answers.extend((evaluate(policies, CONFIG_MAP), evaluate(expression)) for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [(evaluate(policies, CONFIG_MAP), evaluate(expression))] * 80
