"""A placer that leads, Pods that wait for it, and the policy that limits what its account may change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhook.configuration import roles
from webhook.doctor.observation import Gated, PlacerState
from webhook.doctor.processes import BINDING, POLICY, check_placer, opens_gates

from .findings import FORBIDDEN, settings, told

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_APART = settings(cluster={"inCluster": True, "namespace": "cloud"}, place={"apart": True, "lease": "opener"})
_FENCE: dict[str, Any] = {
    POLICY: {"spec": {"failurePolicy": "Fail"}},
    BINDING: {"spec": {"policyName": "opener", "validationActions": ["Deny"]}},
}


def _pod(name: str, seconds: float) -> Gated:
    return Gated("team", name, _NOW - timedelta(seconds=seconds))


def _told(absence: Any = "", gated: Any = (), **fence: Any) -> list[tuple[str, str, str, str]]:
    return told(check_placer(_APART, PlacerState(absence, gated, _FENCE | fence), _NOW))


def test_nobody_leads() -> None:
    """What the look-out says is a problem, with its remedy."""
    absence = "nobody holds the Lease cloud/opener: gangs wait; look at the Pods of the placer"

    assert _told(absence)[0] == (
        "problem",
        "Lease cloud/opener",
        "nobody holds the Lease cloud/opener",
        "gangs wait; look at the Pods of the placer",
    )


def test_pods_that_wait_for_long() -> None:
    """They are named in one line; those that came just now are counted only."""
    late = [_pod(f"p-{number}", 1000) for number in range(4)]
    level, where, found, remedy = _told(gated=[*late, _pod("new", 10), Gated("team", "odd", None)])[1]

    assert (level, where) == ("warning", "Pods behind the gate")
    assert found == ("4 of 6 Pods older than 900 s (topology.patienceSeconds): team/p-0, team/p-1, team/p-2, team/p-3")
    assert "topology queue" in remedy


@pytest.mark.parametrize(
    ("fence", "found"),
    [
        ({POLICY: None}, "it does not exist"),
        ({POLICY: {"spec": {"failurePolicy": "Ignore"}}}, "its failurePolicy is not Fail"),
        ({BINDING: None}, "it does not exist"),
        ({BINDING: {"spec": {"policyName": "x", "validationActions": ["Deny"]}}}, "it binds another policy, x"),
        (
            {BINDING: {"spec": {"policyName": "opener", "validationActions": ["Audit"]}}},
            "its validationActions have no Deny",
        ),
    ],
)
def test_a_fence_with_a_gap(fence: dict[str, Any], found: str) -> None:
    """Without the policy in force the account may change more than it should, which is a problem."""
    problems = [each for each in _told(**fence) if each[0] == "problem"]

    assert [each[1:3] for each in problems] == [(f"{next(iter(fence))} opener", found)]
    assert "install the chart again" in problems[0][3]


def test_what_may_not_be_read() -> None:
    """Each part says which right is missing."""
    unknown = _told(FORBIDDEN, FORBIDDEN, **dict.fromkeys(_FENCE, FORBIDDEN))

    assert [each[0] for each in unknown] == ["unknown"] * 4


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, True),
        ({"place": {"apart": False}}, True),
        ({"place": {"apart": False}, "cluster": {}}, False),
        ({"topology": {"action": "off"}}, False),
        ({"topology": {"placement": [{"ways": ["affinity"]}]}}, False),
        ({"topology": {"placement": [{"topologies": ["a"], "ways": ["affinity"]}]}}, True),
        (
            {
                "topology": {
                    "placement": [
                        {"ways": ["affinity"], "namespaceSelector": {"matchLabels": {"a": "b"}}},
                    ]
                }
            },
            True,
        ),
    ],
)
def test_who_is_to_open_gates(sections: dict[str, Any], expected: bool) -> None:  # noqa: FBT001 - a parameter
    """Somebody is, unless topologies are off, no Pod may get a gate, or there is no cluster."""
    found = settings(**{"cluster": {"inCluster": True}, "place": {"apart": True}, **sections})

    assert opens_gates(found) is expected
    assert roles.places(found) is (expected and not found.place.apart)
