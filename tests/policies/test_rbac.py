"""RBAC offline: what roles and bindings in files allow, with the API server's reasons, and what cannot be read."""

from __future__ import annotations

from textwrap import dedent

import pytest
from support.policies.policydocuments import documents
from support.policies.rbacrights import CHECKS, RIGHTS, answer_in

from policies.cel.library.authorizer import Check, CheckAnswer, User, service_account
from policies.kubernetes.release import FINAL, NEWEST, Release
from policies.rbac import RbacError, Rights, read

_BINDING = """\
    apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: b}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
    subjects: [{kind: ServiceAccount, name: robot}]
    """
_ROLE = """\
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata: {name: r}
    rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
    """


def _rights(*texts: str, release: Release = NEWEST) -> Rights:
    found = read(documents("---\n".join(map(dedent, texts))), release)
    assert found is not None
    return found


@pytest.mark.parametrize("release", FINAL, ids=lambda release: release.name)
@pytest.mark.parametrize("name", CHECKS)
def test_checks_are_answered_as_rbac_does(name: str, release: Release) -> None:
    """The answer and its reason are those that a real API server gives, which tests/cluster asks the same."""
    assert _rights(RIGHTS, release=release).answer(CHECKS[name][0]) == answer_in(name, release)


def test_a_namespace_that_is_not_said_is_default() -> None:
    """A Role and a RoleBinding without a namespace are in `default`, as is a ServiceAccount of theirs."""
    check = Check(user=service_account("default", "robot"), verb="get", resource="pods", namespace="default")

    assert _rights(_ROLE, _BINDING).answer(check) == CheckAnswer(
        allowed=True, reason='RBAC: allowed by RoleBinding "b/default" of Role "r" to ServiceAccount "robot/default"'
    )


def test_several_roles_that_are_not_there_are_listed() -> None:
    """Each is named once, in brackets as Go's Aggregate has it."""
    bindings = [
        _BINDING.replace("name: b}", f"name: b{number}}}").replace("Role, name: r}", f"Role, name: {role}}}")
        for number, role in enumerate(("x", "z", "x"))
    ]
    check = Check(user=service_account("default", "robot"), verb="get", resource="pods", namespace="default")

    assert _rights(*bindings).answer(check).reason == (
        'rbac: RBAC: [role.rbac.authorization.k8s.io "x" not found, role.rbac.authorization.k8s.io "z" not found]'
    )


def test_where_there_is_no_rbac_nobody_decides() -> None:
    """Other objects give no rights, not even to refuse."""
    assert read(documents("{apiVersion: v1, kind: Pod, metadata: {name: x}}")) is None


def test_roles_that_select_each_other_end() -> None:
    """A circle of aggregated roles holds what is in it, and no more."""
    text = dedent("""\
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata: {name: NAME, labels: {circle: "1"}}
        aggregationRule: {clusterRoleSelectors: [{matchLabels: {circle: "1"}}]}
        """)
    binding = dedent("""\
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: c}
        roleRef: {kind: ClusterRole, name: a}
        subjects: [{kind: User, name: alice}]
        """)
    rights = _rights(text.replace("NAME", "a"), text.replace("NAME", "b"), binding)

    assert rights.answer(Check(user=User("alice"), verb="get", resource="pods")) == CheckAnswer(allowed=False)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (_ROLE.replace("[get]", "get"), "policy.yaml:4:53: Role at rules[0].verbs: Expected `array`, got `str`"),
        (_ROLE.replace("verbs", "verb"), "policy.yaml:4:9: Role at rules[0]: Object contains unknown field `verb`"),
        (
            _BINDING.replace("kind: Role,", "kind: User,"),
            "policy.yaml:4:54: RoleBinding at roleRef.kind: Invalid enum value 'User'",
        ),
        (_BINDING.replace("roleRef", "#"), "policy.yaml:1:1: RoleBinding: Object missing required field `roleRef`"),
        (_ROLE.replace("kind: Role", "kind: Rule"), "policy.yaml:2:7: Rule at kind: Invalid enum value 'Rule'"),
    ],
    ids=["shape", "field", "value", "missing", "kind"],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, error: str) -> None:
    """A mistake would be a right too many or too few: it is named with file, line, column and field."""
    with pytest.raises(RbacError) as raised:
        _rights(text)

    assert str(raised.value) == error
