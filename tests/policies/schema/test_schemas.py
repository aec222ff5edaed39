"""Objects get the verdict of a real API server, whose answers are recorded; whatever stands in one, it is judged."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from cluster import fieldrules
from hypothesis import given
from hypothesis import strategies as st
from support.brokenmanifests import ANSWERS, cases, definitions, differences, judged
from support.builders import Json

from policies.kubernetes.release import FINAL, Release
from policies.schema.schemas import Schemas
from webhook.files import yamlfile

_RECORDED: dict[str, dict[str, Any]] = yaml.load(ANSWERS.read_text(encoding="utf-8"), yaml.CSafeLoader)
_SCHEMAS = Schemas(definitions=definitions())


@pytest.mark.parametrize("release", FINAL, ids=lambda release: release.name)
def test_manifests_are_judged_as_by_the_api_server(release: Release) -> None:
    """Each manifest of the corpus is refused or accepted as the API server does, for the same fields."""
    answers = _RECORDED[release.name]

    assert sorted(answers) == sorted(case.name for case in cases())
    assert list(differences(release, answers)) == []


def test_flaws_have_their_places() -> None:
    """The first flaw of a manifest is said at the line and the column of its field."""
    told = {case.name: case.place for case in cases() if case.place}

    assert {case.name: judged(case, _SCHEMAS)[0].place for case in cases() if case.place} == told


@pytest.mark.parametrize("release", FINAL, ids=lambda release: release.name)
def test_what_the_api_server_accepts_gets_no_word(release: Release) -> None:
    """Objects of all kinds, minimal and rich, and Pods of many shapes, have no flaw, as the API server accepts them."""
    schemas = Schemas(release)
    flaws = [(obj["kind"], flaw.text) for obj in fieldrules.accepted() for flaw in schemas.flaws(obj)]

    assert flaws == []


_GIVE = "give its CustomResourceDefinition: among the files, with --crds, or from a cluster with --kubeconfig"


@pytest.mark.parametrize(
    ("api_version", "kind", "level", "field", "remedy"),
    [
        pytest.param("apps/v1", "Deplyoment", "error", "kind", "did you mean Deployment of apps/v1?", id="kind"),
        pytest.param("v1", "Deplyoment", "error", "apiVersion", "did you mean Deployment of apps/v1?", id="both"),
        pytest.param("v1", "Pods", "error", "kind", "did you mean Pod of v1?", id="plural"),
        pytest.param("v1", "Job", "error", "apiVersion", "did you mean Job of batch/v1?", id="group"),
        pytest.param("app/v1", "DaemonSet", "error", "apiVersion", "did you mean DaemonSet of apps/v1?", id="other"),
        pytest.param("v2", "Pod", "error", "apiVersion", "did you mean Pod of v1?", id="version"),
        pytest.param("policy/v1", "PodSecurityPolicy", "error", "apiVersion", "", id="removed"),
        pytest.param("networking.k8s.io/v1", "Gatewayy", "error", "apiVersion", "", id="none-of-a-known-group"),
        pytest.param("v1", "Status", "error", "apiVersion", "did you mean StatefulSet of apps/v1?", id="no-object"),
        pytest.param(
            "scheduling.k8s.io/v1beta1", "Workload", "warning", "apiVersion",
            "enable it with --runtime-config of kube-apiserver", id="off-by-default",
        ),
        pytest.param("ray.io/v1", "RayCluster", "warning", "kind", _GIVE, id="custom"),
        pytest.param(
            "rbac.k8s.io/v1", "ClusterRole", "warning", "kind",
            f"did you mean ClusterRole of rbac.authorization.k8s.io/v1? Else {_GIVE}", id="custom-or-misspelt",
        ),
    ],
)  # fmt: skip
def test_unknown_kinds(api_version: str, kind: str, level: str, field: str, remedy: str) -> None:
    """A kind that no CRD can define is an error, any other a warning; the nearest known one is named."""
    (flaw,) = Schemas().flaws({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})

    assert (flaw.level, flaw.path, flaw.remedy) == (level, (field,), remedy)


_OBJECTS = [
    *fieldrules.accepted(),
    *definitions(),
    *(yamlfile.load("x", case.text)[0].value for case in cases() if not case.name.startswith("a duplicate key")),
]
_VALUES: list[Any] = [
    *(None, 0, -1, 1.5, True, 10**30, float("inf"), "", "a", "a b", "\ud800"),
    *([], {}, [None], [{}], [[]], ["a", "a"], {"a": None}, {"a": 5}),
]
_TRAINING: Json = {
    "apiVersion": "schemas.example.test/v1",
    "kind": "Training",
    "metadata": {"name": "a"},
    "spec": {"image": "abc", "tags": ["a"], "ports": [{}], "one": {}},
}


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each map and list in a value, with a key or index."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(entries):
        yield value, key
        yield from _holders(item)


@given(st.sampled_from(_OBJECTS), st.lists(st.tuples(st.integers(0), st.sampled_from(_VALUES)), min_size=1, max_size=3))
def test_any_value_may_stand_anywhere(original: Json, changes: list[tuple[int, Any]]) -> None:
    """An object with strange values is judged without an error, and a strange definition judges its resources."""
    obj = copy.deepcopy(original)
    for number, value in changes:
        places = list(_holders(obj["spec"])) if isinstance(obj.get("spec"), dict) else []
        if places:
            holder, key = places[number % len(places)]
            holder[key] = copy.deepcopy(value)

    assert all(flaw.text for flaw in _SCHEMAS.flaws(obj))
    if obj["kind"] == "CustomResourceDefinition":
        assert all(flaw.text for flaw in Schemas(definitions=[obj]).flaws(_TRAINING))
