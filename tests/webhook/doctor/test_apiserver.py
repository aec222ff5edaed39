"""The API server's version, against what is used of it."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.doctor.cluster import check_api_server

from .findings import FORBIDDEN, settings, told

_GROUPS = {"admissionregistration.k8s.io": ("v1",), "resource.k8s.io": ("v1", "v1beta2")}
_OLD = "v1.29.4-gke.1 has no"


def _check(version: Any = "v1.36.3", groups: Any = _GROUPS, **policies: Any) -> list[tuple[str, str, str, str]]:
    return told(check_api_server(version, groups, settings(policies=policies)))


def test_an_old_version() -> None:
    """Each feature that it lacks is told with what happens without; one that is off is not."""
    conditions = (
        "problem",
        "version",
        (
            f"{_OLD} webhook match conditions (since 1.30): "
            "the API server may call the service for every write, and refuse every write during an outage"
        ),
        "upgrade the cluster",
    )
    natives = (
        "warning",
        "version",
        f"{_OLD} ValidatingAdmissionPolicy v1 (since 1.30): the cluster's own policies cannot be used",
        "upgrade the cluster, or set policies.native to false",
    )
    assert _check("v1.29.4-gke.1")[:2] == [conditions, natives]
    assert _check("v1.29.4-gke.1", native=False)[:1] == [conditions]


@pytest.mark.parametrize(
    ("version", "chosen", "doubts"),
    [
        ("v1.37.2", "", []),
        ("v1.36.9+k3s1", "1.36", []),
        (
            "v1.38.0",
            "",
            [
                (
                    "warning",
                    "release",
                    "v1.38.0 is not proven here: policies are judged as by 1.37, the nearest release",
                    "upgrade the service; until then try policies with kubectl apply --dry-run=server, too",
                )
            ],
        ),
        (
            "v1.35.1",
            "",
            [
                (
                    "warning",
                    "release",
                    "v1.35.1 is not proven here: policies are judged as by 1.36, the nearest release",
                    "upgrade the service; until then try policies with kubectl apply --dry-run=server, too",
                )
            ],
        ),
        (
            "v1.37.0",
            "1.36",
            [
                (
                    "warning",
                    "policies.kubernetes",
                    "v1.37.0, but policies are judged as by 1.36",
                    "leave policies.kubernetes empty, and the service follows the API server",
                )
            ],
        ),
    ],
)
def test_a_version_that_is_not_proven(version: str, chosen: str, doubts: list[Any]) -> None:
    """A release that is not followed, and one that is not that of the settings, are doubts about policies."""
    assert _check(version, kubernetes=chosen)[1:] == doubts


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param(
            {"admissionregistration.k8s.io": ("v1beta1",)},
            (
                "problem",
                "admissionregistration.k8s.io",
                "it serves admissionregistration.k8s.io in v1beta1, not in v1",
                "upgrade the cluster, or enable the API",
            ),
            id="no v1",
        ),
        pytest.param(
            {**_GROUPS, "resource.k8s.io": ("v1alpha3",)},
            (
                "warning",
                "resource.k8s.io",
                "it serves v1alpha3, but none of v1, v1beta2, v1beta1: device claims do not make a Pod a GPU Pod",
                "upgrade the cluster",
            ),
            id="old claims",
        ),
    ],
)
def test_apis_that_are_not_served(groups: Any, expected: tuple[str, str, str, str]) -> None:
    """What the service would ask for in vain is told; a cluster without device claims is fine."""
    assert _check(groups=groups)[1:] == [expected]
    assert len(_check(groups={"admissionregistration.k8s.io": ("v1",)})) == 1


def test_what_is_not_known() -> None:
    """What is no version, and APIs that cannot be read, are no faults."""
    assert [level for level, *_ in _check("main", FORBIDDEN)] == ["unknown", "unknown"]
    assert _check("main") == [("unknown", "version", "'main' is not a Kubernetes version", "")]
