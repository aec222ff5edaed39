"""The CPU toleration: who gets it, who has it already, and how it is written into objects of every shape."""

from typing import Any

import pytest
from support.builders import FACTS, TODAY, Json, daemon_set, merged, owner, pod, request

from policies.engine import patch
from policies.engine.facts import StaticFacts
from policies.engine.rule import Mutation
from policies.engine.violation import Violation
from policies.podspec import Accelerators
from policies.tolerations import CpuToleration, DaemonSetMode, tolerates

_CPU = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
_GPU = {"nvidia.com/gpu": "8"}
_NOTHING = Mutation()
_ADD_LIST = Mutation(({"op": "add", "path": "/spec/tolerations", "value": [_CPU]},))
_ADD_ITEM = Mutation(({"op": "add", "path": "/spec/tolerations/-", "value": _CPU},))
_TEMPLATE = "/spec/template/spec/tolerations"


def _rule(mode: DaemonSetMode = "inject") -> CpuToleration:
    return CpuToleration(Accelerators(), mode)


def _missing(path: str) -> tuple[Violation, ...]:
    return (
        Violation(
            "tolerations",
            path,
            "none for is_cpu_compute:NoSchedule,",
            "so this stays off CPU Nodes",
            "A Pod that requests no GPU should tolerate the taint of CPU Nodes.",
            "Add the toleration {key: is_cpu_compute, operator: Exists, effect: NoSchedule}.",
        ),
    )


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param(
            {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}, True, id="the-one-we-add"
        ),
        pytest.param({"key": "is_cpu_compute", "operator": "Exists"}, True, id="exists-any-effect"),
        pytest.param({"key": "is_cpu_compute", "operator": "Exists", "effect": ""}, True, id="exists-empty-effect"),
        pytest.param({"key": "is_cpu_compute", "operator": "Equal", "value": ""}, True, id="equal-empty-value"),
        pytest.param({"key": "is_cpu_compute", "operator": "Equal"}, True, id="equal-without-value"),
        pytest.param({"key": "is_cpu_compute"}, True, id="operator-defaults-to-equal"),
        pytest.param({"key": "is_cpu_compute", "operator": "", "value": None}, True, id="empty-operator"),
        pytest.param({"operator": "Exists"}, True, id="keyless"),
        pytest.param({"key": "", "operator": "Exists"}, True, id="empty-key"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, True, id="keyless-with-the-effect"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, False, id="keyless-with-another-effect"),
        pytest.param(
            {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoExecute"}, False, id="another-effect"
        ),
        pytest.param(
            {"key": "is_cpu_compute", "operator": "Exists", "effect": "PreferNoSchedule"}, False, id="softer-effect"
        ),
        pytest.param({"key": "is_cpu_compute", "operator": "Equal", "value": "true"}, False, id="equal-another-value"),
        pytest.param({"key": "is_gpu", "operator": "Exists"}, False, id="another-key"),
        pytest.param({"key": "is_cpu", "operator": "Exists"}, False, id="shorter-key"),
        pytest.param({"key": "is_cpu_compute", "operator": "Lt", "value": "5"}, False, id="numeric-operator"),
        pytest.param({"operator": "Equal"}, False, id="keyless-equal"),
        pytest.param({}, False, id="empty"),
        pytest.param("is_cpu_compute", False, id="text"),
        pytest.param(None, False, id="null"),
    ],
)
def test_covering_tolerations(toleration: Any, covers: bool) -> None:  # noqa: FBT001
    """A toleration that covers the taint, in any of its forms, is not added to; one that does not is, at the end."""
    other = {"key": "example.org/x", "operator": "Exists"}
    asked = request(pod(tolerations=[other, toleration]))

    assert tolerates(toleration, key="is_cpu_compute", effect="NoSchedule") is covers
    assert _rule().mutate(asked, FACTS) == (_NOTHING if covers else _ADD_ITEM)
    assert tuple(_rule().validate(asked, FACTS)) == (() if covers else _missing("spec.tolerations"))


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param({"key": "k", "operator": "Equal", "value": "v"}, True, id="equal"),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="exists"),
        pytest.param({"operator": "Exists"}, True, id="keyless"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="another-value"),
        pytest.param({"key": "k"}, False, id="empty-value"),
        pytest.param({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, False, id="one-effect"),
    ],
)
def test_a_taint_of_unknown_effect(toleration: Any, covers: bool) -> None:  # noqa: FBT001
    """Where the taint's effect is not known, only a toleration of every effect is sure to cover it."""
    assert tolerates(toleration, key="k", value="v") is covers


@pytest.mark.parametrize(
    ("spec", "mutation"),
    [
        pytest.param({}, _ADD_LIST, id="no-list"),
        pytest.param({"tolerations": None}, _ADD_LIST, id="null"),
        pytest.param({"tolerations": []}, _ADD_ITEM, id="empty-list"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, _ADD_ITEM, id="list"),
        pytest.param({"tolerations": [None]}, _ADD_ITEM, id="list-of-null"),
    ],
)
def test_the_list_of_tolerations(spec: Json, mutation: Mutation) -> None:
    """The toleration goes to the end of the list, which is made where it is missing or null, and is added once."""
    obj = pod(**spec)
    changed = patch.apply(obj, mutation.operations)

    assert _rule().mutate(request(obj), FACTS) == mutation
    assert changed == merged(obj, {"spec": {"tolerations": [*(spec.get("tolerations") or []), _CPU]}})
    assert _rule().mutate(request(changed), FACTS) == _NOTHING


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        pytest.param(pod(tolerations="all"), 'spec.tolerations: must be a list, found "all"; left as it is', id="text"),
        pytest.param(pod(tolerations={}), "spec.tolerations: must be a list, found a map; left as it is", id="map"),
        pytest.param(
            daemon_set(tolerations=3),
            "spec.template.spec.tolerations: must be a list, found the number 3; left as it is",
            id="number-in-a-template",
        ),
    ],
)
def test_tolerations_that_are_no_list(obj: Json, path: str) -> None:
    """What is no list is left alone, with a warning that says where and what it is."""
    assert _rule().mutate(request(obj), FACTS) == Mutation(warnings=(path,))


@pytest.mark.parametrize(
    ("obj", "mutation"),
    [
        pytest.param(pod(), _ADD_LIST, id="cpu"),
        pytest.param(pod({"cpu": "4", "nvidia.com/gpu": "0"}), _ADD_LIST, id="zero-gpus"),
        pytest.param(
            pod(resourceClaims=[{"name": "a", "resourceClaimName": "unknown"}]), _ADD_LIST, id="unknown-claim"
        ),
        pytest.param(pod(metadata=owner()), _ADD_LIST, id="owned-pod"),
        pytest.param(pod(_GPU), _NOTHING, id="gpu"),
        pytest.param(pod({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}), _NOTHING, id="gpu-by-device-class"),
        pytest.param(pod(resourceClaims=[{"name": "a", "resourceClaimName": "gpu"}]), _NOTHING, id="gpu-by-claim"),
        pytest.param(pod(initContainers=[{"resources": {"requests": _GPU}}]), _NOTHING, id="gpu-of-an-init-container"),
        pytest.param(pod(metadata={"annotations": {"kubernetes.io/config.mirror": ""}}), _NOTHING, id="mirror-pod"),
        pytest.param(pod(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), _NOTHING, id="being-deleted"),
        pytest.param({"kind": "Pod", "metadata": {}}, _NOTHING, id="no-spec"),
        pytest.param({"kind": "Pod", "metadata": None, "spec": None}, _NOTHING, id="null-spec"),
        pytest.param({"kind": "Pod", "metadata": [], "spec": "x"}, _NOTHING, id="spec-is-text"),
        pytest.param({"kind": "Pod", "metadata": {"annotations": None}, "spec": {}}, _ADD_LIST, id="empty-spec"),
    ],
)
def test_pods(obj: Json, mutation: Mutation) -> None:
    """Pods that request no GPU get the toleration; GPU Pods, mirrors and Pods that are going do not, nor lack it."""
    facts = StaticFacts(TODAY, claims={("default", "gpu"): frozenset({"gpu.nvidia.com"})})
    asked = request(obj)

    assert _rule().mutate(asked, facts) == mutation
    assert tuple(_rule().validate(asked, facts)) == (() if mutation == _NOTHING else _missing("spec.tolerations"))


@pytest.mark.parametrize(
    ("obj", "operations"),
    [
        pytest.param(daemon_set(), ({"op": "add", "path": _TEMPLATE, "value": [_CPU]},), id="cpu"),
        pytest.param(
            daemon_set(tolerations=[{"key": "a", "operator": "Exists"}]),
            ({"op": "add", "path": f"{_TEMPLATE}/-", "value": _CPU},),
            id="list",
        ),
        pytest.param(daemon_set(_GPU), (), id="gpu"),
        pytest.param(daemon_set(tolerations=[{"operator": "Exists"}]), (), id="tolerates-everything"),
        pytest.param(daemon_set(metadata=owner("Operator")), (), id="owned"),
        pytest.param(
            daemon_set(metadata=owner("Operator", controller=False)),
            ({"op": "add", "path": _TEMPLATE, "value": [_CPU]},),
            id="owner-that-is-no-controller",
        ),
        pytest.param(daemon_set(metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"}), (), id="being-deleted"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": {"spec": None}}}, (), id="null-spec"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": None}}, (), id="null-template"),
        pytest.param({"kind": "DaemonSet", "spec": {"template": []}}, (), id="template-is-a-list"),
        pytest.param({"kind": "DaemonSet", "spec": None}, (), id="null"),
        pytest.param({"kind": "DaemonSet"}, (), id="nothing"),
    ],
)
def test_daemon_sets(obj: Json, operations: tuple[Json, ...]) -> None:
    """Templates of DaemonSets are treated as Pods are; those that a controller owns are left to it."""
    asked = request(obj)
    missing = _missing("spec.template.spec.tolerations") if operations else ()

    assert _rule("inject").mutate(asked, FACTS) == Mutation(operations)
    assert tuple(_rule("inject").validate(asked, FACTS)) == missing


@pytest.mark.parametrize(
    ("mode", "mutation", "violations"),
    [
        pytest.param(
            "inject",
            Mutation(({"op": "add", "path": _TEMPLATE, "value": [_CPU]},)),
            _missing("spec.template.spec.tolerations"),
            id="inject",
        ),
        pytest.param("warn", _NOTHING, _missing("spec.template.spec.tolerations"), id="warn"),
        pytest.param("off", _NOTHING, (), id="off"),
    ],
)
def test_modes(mode: DaemonSetMode, mutation: Mutation, violations: tuple[Violation, ...]) -> None:
    """Inject changes DaemonSets, warn only finds what they lack, off leaves them alone; Pods change in any mode."""
    rule = _rule(mode)

    assert rule.mutate(request(daemon_set()), FACTS) == mutation
    assert tuple(rule.validate(request(daemon_set()), FACTS)) == violations
    assert rule.mutate(request(daemon_set(tolerations="x")), FACTS).operations == ()
    assert rule.mutate(request(pod()), FACTS) == _ADD_LIST


def test_nothing_to_change_on_a_deletion() -> None:
    """A request without an object is passed over."""
    asked = request(None, old=pod())

    assert (_rule().mutate(asked, FACTS), tuple(_rule().validate(asked, FACTS))) == (_NOTHING, ())
