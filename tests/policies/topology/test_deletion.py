"""Topologies that go: who still names them."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, TODAY, request, resource

from policies.engine.facts import References, StaticFacts
from policies.engine.violation import Violation, describe
from policies.topology import deletion


def _topology(api_version: str = "kai.scheduler/v1alpha1", kind: str = "Topology") -> Any:
    return resource(api_version, kind, name="halls")


def _facts(*workloads: str, incomplete: str = "") -> StaticFacts:
    return StaticFacts(TODAY, naming={"halls": References(workloads, incomplete)})


def _violation(problem: str) -> Violation:
    return Violation(
        "topology-deletion",
        "",
        'topology "halls"',
        problem,
        "Workloads still name this topology; those that are not running yet would not be scheduled.",
        "Change or delete these workloads first. Running Pods go on.",
    )


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        pytest.param(_facts("Job a/train"), "is named by Job a/train", id="one"),
        pytest.param(
            _facts(*(f"Job a/{n}" for n in range(1, 8))),
            "is named by Job a/1, Job a/2, Job a/3, Job a/4, Job a/5 and 2 more",
            id="many",
        ),
        pytest.param(
            _facts("Job a/train", incomplete="no time left"),
            "is named by Job a/train; not all could be looked at: no time left",
            id="incomplete",
        ),
        pytest.param(_facts(incomplete="no time left"), "not all could be looked at: no time left", id="none-so-far"),
    ],
)
@pytest.mark.parametrize("api_version", ["kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta1"])
def test_workloads_that_name_it(api_version: str, facts: StaticFacts, problem: str) -> None:
    """The first five are listed, and it is said if there may be more."""
    assert deletion.validate(request(None, old=_topology(api_version)), facts) == (_violation(problem),)


def test_the_words() -> None:
    """What people read: what would happen, who it is, what to do."""
    (found,) = deletion.validate(request(None, old=_topology()), _facts("Job a/train"))

    assert describe([found]) == (
        "Workloads still name this topology; those that are not running yet would not be scheduled.\n"
        '  topology "halls" is named by Job a/train\n'
        "Change or delete these workloads first. Running Pods go on."
    )


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(_topology()), id="creation"),
        pytest.param(request(_topology(), old=_topology()), id="update"),
        pytest.param(request(None, old=_topology("example.org/v1")), id="another-group"),
        pytest.param(request(None, old=_topology(kind="Queue")), id="another-kind"),
    ],
)
def test_what_is_no_deletion_of_a_topology(asked: Any) -> None:
    """Nothing is looked up for it."""
    assert deletion.validate(asked, _facts("Job a/train")) == ()


def test_a_topology_that_nobody_names() -> None:
    """It may go without a word."""
    assert deletion.validate(request(None, old=_topology()), FACTS) == ()
