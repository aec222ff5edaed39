"""What is said of rights."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.doctor.observation import Diagnosis
from webhook.doctor.processes import check_rights, rights_to_check
from webhook.registration.rights import Right

from .findings import FORBIDDEN, told

_USER = "system:serviceaccount:cloud:cks"
_NODES = [Right(verb, "", "nodes", reason="rules look at Nodes") for verb in ("list", "watch")]
_SECRET = Right("get", "", "secrets", name="ca", namespace="cloud", reason="replicas share the CA")
_JOBS = Right("list", "batch", "jobs", reason="deletions are told", vital=False)


def _check(own: bool = True, **missing: Any) -> list[tuple[str, str, str, str]]:  # noqa: FBT001, FBT002 - a case each
    rights = [*_NODES, _SECRET, _JOBS]
    answers = {right: missing.get(right.resource, True) for right in rights}
    return told(check_rights(answers, _USER, own=own))


@pytest.mark.parametrize(
    ("resource", "level", "found", "remedy"),
    [
        pytest.param(
            "nodes",
            "problem",
            "it may not list, watch nodes: rules look at Nodes",
            'grant it with a ClusterRole: {apiGroups: [""], resources: [nodes], verbs: [list, watch]}',
            id="verbs of a resource together",
        ),
        pytest.param(
            "secrets",
            "problem",
            "it may not get secrets ca in namespace cloud: replicas share the CA",
            'grant it with a Role in namespace cloud: {apiGroups: [""], resources: [secrets], verbs: [get], '
            "resourceNames: [ca]}",
            id="one object",
        ),
        pytest.param(
            "jobs",
            "warning",
            "it may not list jobs.batch: deletions are told",
            "grant it with a ClusterRole: {apiGroups: [batch], resources: [jobs], verbs: [list]}",
            id="less is told",
        ),
    ],
)
def test_a_right_that_is_missing(resource: str, level: str, found: str, remedy: str) -> None:
    """It is told with what it is for, and with the rule that grants it."""
    assert _check(**{resource: False}) == [(level, _USER, found, remedy)]


def test_rights_of_somebody_else_are_no_problem() -> None:
    """Who only looks need not have them: a warning, and how to ask for the service's own account."""
    ((level, _, _, remedy),) = _check(own=False, secrets=False)

    assert level == "warning"
    assert remedy.endswith("; or check the service's own account with --as-service-account NAMESPACE/NAME")


def test_who_may_not_ask() -> None:
    """A review that is refused is not known, and nothing else is claimed."""
    assert list(check_rights({_SECRET: FORBIDDEN}, _USER, own=True)) == [
        Diagnosis(
            "rights",
            "unknown",
            _USER,
            "not checked: the current account may not list things",
            "use an account that may list things",
        )
    ]


def test_what_is_not_served_needs_no_right() -> None:
    """Groups that the API server does not have are left out; all are asked for where these are not known."""
    assert rights_to_check([*_NODES, _JOBS], {"apps"}) == _NODES
    assert rights_to_check([*_NODES, _JOBS], FORBIDDEN) == [*_NODES, _JOBS]
