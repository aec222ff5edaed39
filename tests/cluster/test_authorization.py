"""RBAC: checks of expressions as a real API server answers them, and our answers from files, which are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.cel.answers import Table
from support.policies.rbacrights import CHECKS, OTHER, RIGHTS, TEAM, answer_in

from cluster.apicalls import Caller
from cluster.programs import judged_as
from policies.cel.activation import activation
from policies.cel.environment import Dialect
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import Check, CheckAnswer, answer_of, subject_access_review
from policies.cel.program import Evaluation, compile_expression
from policies.engine.interruption import Missing
from webhook.cluster.api.client import connect
from webhook.cluster.facts.facts import review

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane

_RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: readers, namespace: %(namespace)s}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
- {apiGroups: [apps], resources: [deployments/scale], resourceNames: [web], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: %(namespace)s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: readers}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}
- {kind: ServiceAccount, name: builder, namespace: %(namespace)s}
"""
_PODS = "authorizer.group('').resource('pods').namespace(request.namespace)"
_SCALE = "authorizer.group('apps').resource('deployments').subresource('scale').namespace(request.namespace)"
_BUILDER = "authorizer.serviceAccount(request.namespace, 'builder').group('').resource('pods')"
_CASES = {
    "granted": (f"{_PODS}.check('get').allowed()", True),
    "another verb": (f"{_PODS}.check('delete').allowed()", False),
    "another namespace": (
        "authorizer.group('').resource('pods').namespace('kube-system').check('get').allowed()",
        False,
    ),
    "subresource by name": (f"{_SCALE}.name('web').check('update').allowed()", True),
    "subresource by another name": (f"{_SCALE}.name('db').check('update').allowed()", False),
    "service account": (f"{_BUILDER}.namespace(request.namespace).check('get').allowed()", True),
    "service account elsewhere": (f"{_BUILDER}.namespace('default').check('get').allowed()", False),
    "the request's resource": ("authorizer.requestResource.check('get').allowed()", True),
    "label selector": (f"{_PODS}.labelSelector('a=b').check('get').allowed()", True),
    "path for everybody": ("authorizer.path('/healthz').check('get').allowed()", True),
    "path for nobody": ("authorizer.path('/secret').check('get').allowed()", False),
    "no error": (f"{_PODS}.check('delete').errored()", False),
}


@pytest.fixture
def rights(control_plane: ControlPlane, namespace: str) -> str:
    """Grant what the cases are about, in a Namespace of the test's own, and wait until the API server goes by it."""
    control_plane.apply(_RIGHTS % {"namespace": namespace}, check=True)

    def granted() -> bool:
        return control_plane.kubectl("auth", "can-i", "get", "pods", "--as=reader", "-n", namespace).returncode == 0

    control_plane.wait_for("the rights to be in force", granted)
    return namespace


async def _evaluated(control_plane: ControlPlane, namespace: str, expression: str) -> Evaluation:
    program = compile_expression(expression, admission(dialect=Dialect(judged_as(), stored=True)))
    request = {
        "userInfo": {"username": "reader", "groups": ["system:authenticated"]},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "name": "web-0",
    }

    api = await connect(str(control_plane.kubeconfig("admin")), in_cluster=False)
    answers: dict[Check, CheckAnswer] = {}
    try:
        while True:
            try:
                return program.evaluate(activation(request, Table(answers), object={}))
            except Missing as missing:
                answers[missing.key] = await review(api, missing.key, 30)
    finally:
        await api.close()


async def test_checks_are_answered_as_rbac_says(control_plane: ControlPlane, rights: str) -> None:
    """Every check has the answer that the API server's authorizers give, with RBAC's own reason."""
    reason = f'RBAC: allowed by RoleBinding "readers/{rights}" of Role "readers" to User "reader"'
    cases = {**_CASES, "reason": (f"{_PODS}.check('get').reason()", reason)}
    found = {name: (await _evaluated(control_plane, rights, text)).value for name, (text, _) in cases.items()}

    assert found == {name: value for name, (_, value) in cases.items()}


_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# What the controller writes, and of Roles and of either kind of binding one of the last that show.
_SETTLED = (
    "aggregated by an expression",
    "aggregated twice",
    "a role of a namespace",
    "a role that is not there",
    "a role of a namespace that is not there",
)


@pytest.fixture(scope="module")
def answers(control_plane: ControlPlane) -> Iterator[Mapping[str, CheckAnswer]]:
    """What the API server says of every check, once the controller has filled the aggregated roles."""
    for name in (TEAM, OTHER):
        control_plane.namespace(name)
    control_plane.objects.apply(RIGHTS)
    with Caller(control_plane) as caller:

        def ask(check: Check) -> CheckAnswer:
            document = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
            return answer_of(caller.make(_REVIEWS, document | {"spec": subject_access_review(check)})["status"])

        control_plane.wait_until(
            "the roles to be in force",
            lambda: {name: ask(CHECKS[name][0]) for name in _SETTLED},
            lambda found: found == {name: answer_in(name, judged_as()) for name in _SETTLED},
        )
        yield {name: ask(check) for name, (check, _) in CHECKS.items()}
    control_plane.objects.delete_manifests(RIGHTS)
    control_plane.objects.delete("namespace", TEAM, OTHER)


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_answered_as_the_api_server_does(answers: Mapping[str, CheckAnswer], name: str) -> None:
    """Decision and reason are those that our RBAC gives, which the unit tests compare with the same table."""
    assert answers[name] == answer_in(name, judged_as())
