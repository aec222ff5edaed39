"""The API server's version, against what is used of it."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.cluster.watches import devices
from webhook.doctor import apiserver
from webhook.doctor.apiserver import check

from .findings import FORBIDDEN, settings, told

_GROUPS = {"admissionregistration.k8s.io": ("v1",), "resource.k8s.io": ("v1", "v1beta2")}
_OLD = "v1.29.4-gke.1 has no"


def _check(version: Any = "v1.36.3", groups: Any = _GROUPS, **policies: Any) -> list[tuple[str, str, str, str]]:
    return told(check(version, groups, settings(policies=policies)))


def test_a_version_that_has_all() -> None:
    """What is used of it is named."""
    assert _check() == [("ok", "version", "v1.36.3 has webhook match conditions and ValidatingAdmissionPolicy v1", "")]
    assert _check(native=False) == [("ok", "version", "v1.36.3 has webhook match conditions", "")]


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
    assert _check("v1.29.4-gke.1") == [conditions, natives]
    assert _check("v1.29.4-gke.1", native=False) == [conditions]


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
    """A version that cannot be read, and one that is none, are no faults."""
    assert [level for level, *_ in _check(FORBIDDEN, FORBIDDEN)] == ["unknown", "unknown"]
    assert _check("main") == [("unknown", "version", "'main' is not a Kubernetes version", "")]


def test_the_versions_of_claims_are_those_that_are_followed() -> None:
    """What is said here of device claims is what the service does."""
    assert (apiserver.DEVICES, apiserver.DEVICE_VERSIONS) == (devices.GROUP, devices.VERSIONS)
