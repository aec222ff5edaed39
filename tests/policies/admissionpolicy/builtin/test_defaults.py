"""An object in a file, as the API server reads it. tests/cluster compares objects and Pods with those of a real one."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from support import limits
from support.builders import Json, pod

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.builtin.reader import no_base64
from policies.admissionpolicy.derivation import defaulted
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import NEWEST, RELEASES, Release

_OLDER, _NEWER = RELEASES[0], NEWEST


def _read(api_version: str, kind: str, release: Release = _NEWER, **fields: Any) -> Json:
    """An object as it is read, without its kind and its metadata."""
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **fields}
    before = deepcopy(obj)
    result = received(obj, schema.known(kind_of(obj), release))
    assert obj == before
    return {key: value for key, value in result.items() if key not in {"apiVersion", "kind", "metadata"}}


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_defaults_follow_the_release(release: Release) -> None:
    """A default that came with a release is not set for the one before it."""
    strategy = _read("apps/v1", "StatefulSet", release, spec={})["spec"]["updateStrategy"]

    since = {"maxUnavailable": 1} if release != _OLDER else {}
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **since}}


_WIDGET = GroupVersionKind("example.test", "v1", "Widget")
_CRD: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "size": {"type": "integer", "default": 3},
                "parts": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"mode": {"type": "string", "default": "on"}}},
                },
                "cpu": {"x-kubernetes-int-or-string": True},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({}, {"spec": {"size": 3}}),
        ({"spec": {"size": 4, "cpu": 2, "empty": {}}}, {"spec": {"size": 4, "cpu": 2, "empty": {}}}),
        ({"spec": {"size": None, "parts": [{}, "x"]}}, {"spec": {"size": 3, "parts": [{"mode": "on"}, "x"]}}),
    ],
    ids=["missing", "given", "null and in a list"],
)
def test_custom_resources_have_the_defaults_of_their_definition(written: Json, read: Json) -> None:
    """Where the definition is known its defaults are set; all else stays as it is written."""
    obj = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {}}}

    assert received({**obj, **written}, schema.of_custom_resource(_WIDGET, _CRD)) == {**obj, **read}
    assert received({**obj, **written}, schema.unknown(_WIDGET)) == {**obj, **written}


def test_base64_is_gos() -> None:
    """Of random texts those fail that Go's encoding/base64 refuses: the rows of base64.json, made by it."""
    rows = json.loads(Path(__file__).with_name("base64.json").read_text(encoding="utf-8"))

    assert [text for text, place in rows if (no_base64(text) is None) != (place is None)] == []
    assert len(rows) >= 240


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
