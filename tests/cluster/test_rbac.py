"""RBAC from files gives the API server's answers: same roles and bindings, same checks, by SubjectAccessReview."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.policies.rbacrights import CHECKS, OTHER, RIGHTS, TEAM, answer_in

from cluster.apicalls import Caller
from cluster.programs import judged_as
from policies.cel.library.authorizer import CheckAnswer, answer_of, subject_access_review

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane
    from policies.cel.library.authorizer import Check

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
