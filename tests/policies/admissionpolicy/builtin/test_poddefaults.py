"""A Pod's defaults. That they are the API server's is shown in tests/cluster/test_pod_defaults.py."""

from __future__ import annotations

from copy import deepcopy

import pytest
from support import limits
from support.builders import Json, pod

from policies.admissionpolicy.derivation import defaulted


def test_the_input_is_not_changed() -> None:
    """Not even where much is filled in, in lists and maps that are there."""
    given = pod(
        {"cpu": "1000m"},
        hostNetwork=True,
        volumes=[{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}],
        resources={"limits": {"cpu": "2"}},
    )
    before = deepcopy(given)

    after = defaulted(given)

    assert given == before
    assert after != before


@pytest.mark.parametrize("case", limits.cases(), ids=lambda case: case.name)
def test_limits_are_the_api_servers(case: limits.Case) -> None:
    """LimitRanges fill in and refuse, and quotas refuse, what a real API server's recorded answers say."""
    assert limits.judged(case) == case.answer


ODD: dict[str, Json] = {
    "no spec": {},
    "a spec that is none": {"spec": "x"},
    "metadata that is none": {"metadata": [], "spec": {}},
    "containers that are none": {"spec": {"containers": "x", "volumes": {"a": 1}}},
    "a container that is none": {"spec": {"containers": [None, "x", {"ports": [1], "env": {}, "resources": []}]}},
    "limits that are none": {"spec": {"containers": [{"resources": {"limits": {"cpu": [], "memory": "x"}}}]}},
    "requests that are none": {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": "x"}}]}},
    "selectors that are none": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "topologySpreadConstraints": [
                {"labelSelector": {"matchExpressions": "x"}, "matchLabelKeys": ["a", 1]},
                {"labelSelector": "x", "matchLabelKeys": ["a"]},
                {"labelSelector": {}, "matchLabelKeys": "x"},
            ]
        },
    },
    "AppArmor on odd containers": {
        "metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "localhost/ padded"}},
        "spec": {"containers": [{"name": "a", "securityContext": "x"}], "securityContext": "x", "os": "windows"},
    },
}


@pytest.mark.parametrize("given", ODD.values(), ids=ODD)
def test_what_is_odd_is_left_alone(given: Json) -> None:
    """Another type than a Pod has there is no failure, and defaulting again changes nothing."""
    once = defaulted(given)

    assert defaulted(once) == once


def test_windows_knows_no_app_armor() -> None:
    """The annotation is not copied where the Pod is for Windows."""
    annotations = {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}

    linux = defaulted(pod(metadata={"annotations": annotations}))
    windows = defaulted(pod(metadata={"annotations": annotations}, os={"name": "windows"}))

    assert linux["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": {"type": "Unconfined"}}
    assert "securityContext" not in windows["spec"]["containers"][0]
