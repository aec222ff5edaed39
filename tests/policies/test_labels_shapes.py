"""Reserved labels in objects that are not as they should be: an answer always, never an exception."""

from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, at, deployment, merged, pod, request, resource

from policies.engine.safety import Exemptions
from policies.engine.violation import Violation, describe
from policies.labels import GRACEFUL, INTERRUPTABLE, LabelGuard, organization

_GUARD = LabelGuard(WORKLOADS, (INTERRUPTABLE, GRACEFUL, organization("a1b2c3")), Exemptions())
_KEY = "foo.coreweave.cloud/bar"
_SUMMARY = "Namespaces `*.coreweave.cloud` or `*.coreweave.com` are not allowed."
_OWN_PREFIX = "Label prefixes are meant. Remove these labels or use a prefix of your own, such as example.org/bar."
_ORG = "ns.coreweave.cloud/org"
_OWN_ORG = f'Only "a1b2c3" may stand at {_ORG}: the id of the organization whose cluster this is.'


def _judge(obj: Json, old: Json | None = None) -> tuple[Violation, ...]:
    found = _GUARD.validate(request(obj, old=old, name="trainer"), FACTS)
    return tuple(violation for violation in found if isinstance(violation, Violation))


def _refused(path: str, found: str, problem: str = "", remedy: str = _OWN_PREFIX) -> Violation:
    return Violation("labels", path, found, problem, _SUMMARY, remedy)


def _malformed(path: str, found: str) -> Violation:
    return Violation(
        "labels", path, found, "", "Labels must be a map of strings to strings.", "Write labels as key: value pairs."
    )


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({}, id="empty"),
        pytest.param({"metadata": None, "spec": None}, id="null-parents"),
        pytest.param({"metadata": {"labels": None}}, id="null-labels"),
        pytest.param({"metadata": {"labels": {}}}, id="empty-labels"),
        pytest.param({"metadata": [], "spec": "x"}, id="parents-of-other-types"),
        pytest.param({"metadata": {}, "spec": {"template": "x"}}, id="template-is-text"),
        pytest.param({"metadata": {}, "spec": {"template": None}}, id="template-is-null"),
        pytest.param(
            {"metadata": {}, "spec": {"template": [{"metadata": {"labels": {_KEY: "1"}}}]}}, id="template-is-list"
        ),
        pytest.param({"spec": {"template": {"metadata": None, "spec": None}}}, id="null-in-template"),
        pytest.param({"spec": {"template": {"spec": {"volumes": None}}}}, id="volumes-null"),
        pytest.param({"spec": {"template": {"spec": {"volumes": {"ephemeral": {}}}}}}, id="volumes-are-a-map"),
        pytest.param({"spec": {"template": {"spec": {"volumes": [None, "x", {"ephemeral": None}]}}}}, id="odd-volumes"),
        pytest.param({"spec": {"volumeClaimTemplates": {"metadata": {}}}}, id="claims-are-a-map"),
        pytest.param({"spec": {"volumeClaimTemplates": [None, 1, {"metadata": 1}]}}, id="odd-claims"),
    ],
)
def test_shapes_that_hold_no_labels(obj: Json) -> None:
    """Where parents are missing, null or of another type there is nothing to copy, so it passes."""
    odd = {"apiVersion": "apps/v1", "kind": "StatefulSet", **obj}

    assert (_judge(odd), _judge(odd, odd)) == ((), ())


@pytest.mark.parametrize(
    "old",
    [
        pytest.param({"metadata": None}, id="null-metadata"),
        pytest.param({"metadata": {"labels": None}}, id="null-labels"),
        pytest.param({"metadata": {"labels": [_KEY]}}, id="list"),
        pytest.param({"metadata": {"labels": _KEY}}, id="text"),
        pytest.param({"metadata": {"labels": {_KEY: None}}}, id="null-value"),
        pytest.param({"metadata": {"labels": {_KEY: {"1": "1"}}}}, id="map-value"),
        pytest.param({"metadata": [{"labels": {_KEY: "1"}}]}, id="metadata-is-a-list"),
    ],
)
def test_an_odd_old_object_excuses_nothing(old: Json) -> None:
    """A label counts as there before only when the old object has a map of labels with the same value."""
    new = resource("v1", "Node", labels={_KEY: "1"})

    assert _judge(new, {"apiVersion": "v1", "kind": "Node", **old}) == (_refused("metadata.labels", f'{_KEY}="1"'),)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        pytest.param([_KEY], "a list", id="list"),
        pytest.param(f"{_KEY}=1", f'"{_KEY}=1"', id="text"),
        pytest.param(7, "the number 7", id="number"),
        pytest.param(True, "a boolean", id="boolean"),
    ],
)
def test_labels_that_are_no_map(labels: Any, found: str) -> None:
    """Labels of another type are refused as such, at their path, wherever they stand."""
    assert _judge(pod(labels=labels)) == (_malformed("metadata.labels", found),)
    assert _judge(deployment(template_labels=labels)) == (_malformed("spec.template.metadata.labels", found),)


def test_labels_that_are_no_map_and_were_none_before() -> None:
    """An object that came to be with malformed labels somewhere goes on: what is unchanged blocks no other change."""
    old = deployment(template_labels=["x"])

    assert _judge(merged(old, at("metadata.annotations.note", "1")), old) == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param(1, "the number 1", id="number"),
        pytest.param(False, "a boolean", id="boolean"),
        pytest.param([], "a list", id="list"),
        pytest.param({}, "a map", id="map"),
        pytest.param('a"b\\c\nd', r'"a\"b\\c\nd"', id="quotes-and-line-break"),
        pytest.param("x" * 81, f'"{"x" * 80}…"', id="long"),
    ],
)
@pytest.mark.parametrize(
    ("key", "remedy"), [(_KEY, _OWN_PREFIX), (_ORG, _OWN_ORG)], ids=["reserved", "with-an-exception-for-some-values"]
)
def test_values_of_any_type(key: str, remedy: str, value: Any, found: str) -> None:
    """A reserved key is refused whatever its value is, and the value is shown on one line, shortened."""
    assert _judge(pod(labels={key: value})) == (_refused("metadata.labels", f"{key}={found}"),)
    namespace = resource("v1", "Namespace", labels={key: value})
    assert _judge(namespace) == (_refused("metadata.labels", f"{key}={found}", remedy=remedy),)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(None, id="null"),
        pytest.param({}, id="empty"),
        pytest.param({_KEY + "2": "1"}, id="another-key"),
    ],
)
def test_a_node_loses_a_label_in_any_way(labels: Any) -> None:
    """A label is removed whether its key goes, all labels go, or they become null."""
    old = resource("v1", "Node", labels={_KEY: "1", _KEY + "2": "1"})
    remedy = "Leave these labels in place: the cluster's own controllers work by them."
    gone = [f'{_KEY}="1"', f'{_KEY}2="1"'][: 1 if labels else 2]

    assert _judge({**old, "metadata": {"labels": labels}}, old) == tuple(
        _refused("metadata.labels", found, "must not be removed", remedy) for found in gone
    )


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(deployment(template_labels={f"{_KEY}\nNothing is wrong here.\n": "1"}), id="in-a-label-key"),
        pytest.param(
            resource(
                "kubeflow.org/v1",
                "MPIJob",
                {"spec": {"mpiReplicaSpecs": {"a\nNothing is wrong here.\n": {"template": pod(labels={_KEY: "1"})}}}},
            ),
            id="in-the-path",
        ),
        pytest.param(resource("v1", "ConfigMap", labels={_KEY: "1\r\x1b[2K"}), id="in-a-value"),
    ],
)
def test_nothing_forges_lines_of_the_message(obj: Json) -> None:
    """Line breaks and control characters, which no API server has checked yet, stay on the line of their violation."""
    lines = describe(_judge(obj)).split("\n")

    assert (lines[0], lines[2:], lines[1].isprintable()) == (_SUMMARY, [_OWN_PREFIX], True)
