"""Match conditions as the API server evaluates them: as narrow as may be, safe against hostile names, always the same.

That they decide as the rules do is shown on a real API server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.builders import FACTS, WORKLOADS, Json, at, merged, owner, pod, request
from support.cel.celrun import compiled, names
from support.mistakes import correct, mistakes

from policies.cel.cost import EXPRESSION_LIMIT
from policies.celtext import at as at_place
from policies.celtext import values
from policies.engine.rule import HookCondition
from policies.engine.safety import Exemptions, Safety
from policies.labels import EXCEPTIONS, LabelException, organization
from policies.matchconditions import (
    LACKS_CPU_TOLERATION,
    NO_MIRROR_POD,
    is_essential,
    is_not_essential,
    pod_requests_no_accelerator,
    requester_is_not_exempt,
    reserved_label_changes,
    selectors_are_concerned,
    topology_is_mentioned,
)
from policies.objects.fieldpath import Pattern, locate, parse, render
from policies.objects.workload import HISTORIES, workload
from policies.podspec import Accelerators
from policies.topology.placement import ANNOTATIONS

_SHIPPED = (*EXCEPTIONS, organization("a1b2c3"))
_HOSTILE = ["it's", "a\\", "\\'", '"', "') || true || ('", "a|b", "(", "[x]", "a\nb", "${x}", "größe", "\x00", "//"]
_ROOT = Path(__file__).parents[3]
_WITHIN = "spec.inner-part.template"
_GVR = {"group": "", "version": "v1", "resource": "configmaps"}


def _labels(exceptions: Iterable[LabelException] = _SHIPPED, *, cluster_scope: bool = False) -> HookCondition:
    return reserved_label_changes(WORKLOADS.values(), tuple(exceptions), cluster_scope=cluster_scope)


_program = cache(compiled)


def _holds(condition: HookCondition, obj: Json | None = None, old: Json | None = None, **asked: Any) -> bool:
    """The value of a condition; `asked` are fields of the request."""
    found = _program(condition.expression).evaluate_exactly({**names({}, oldObject=old, request=asked), "object": obj})
    assert found.error is None
    return bool(found.value)


def _kind(group: str, kind: str) -> Json:
    return {"group": group, "version": "v1", "kind": kind}


_POD = _kind("", "Pod")


@pytest.mark.parametrize("name", _HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """A configured key, value, group, kind, user or resource is what it is, never a part of the expression."""
    key = f"a.coreweave.cloud/{name}"
    exception = LabelException(key, frozenset({("", "Pod"), (name, name)}), frozenset({name}))
    row = workload(name, name, [_WITHIN])
    rows = [WORKLOADS["", "Pod"], WORKLOADS["apps", "Deployment"], row]
    own, other = ({"metadata": {"labels": {key: value}}} for value in (name, "other"))
    for scope in (False, True):
        condition = reserved_label_changes(rows, (exception,), cluster_scope=scope)
        for kind in (_kind(name, name),) if scope else (_kind(name, name), _POD):
            assert [_holds(condition, obj, kind=kind) for obj in (own, other)] == [False, True]
        assert _holds(condition, at(_WITHIN, other), kind=_kind(name, name))
    placed = at(_WITHIN, {"metadata": {"annotations": {"kai.scheduler/topology": "x"}}})
    assert [_holds(topology_is_mentioned(rows), placed, kind=_kind(group, name)) for group in (name, "x")] == [
        True,
        False,
    ]
    users = requester_is_not_exempt(Exemptions((name,), (name,), (f"{name}/*",)), [name])
    asked = [(name, []), ("x", [name]), (f"system:serviceaccount:{name.replace('/', ':')}:x", []), ("x", ["x"])]
    assert [
        _holds(users, userInfo={"username": user, "groups": groups}, resource=_GVR, kind=_kind("", "ConfigMap"))
        for user, groups in asked
    ] == [False, False, False, True]
    essential = is_essential(Safety(resources=((name, "things"),)).writes, (name,))
    for group, told in ((name, True), ("x", False)):
        resource = {"group": group, "version": "v1", "resource": "things"}
        assert _holds(essential, resource=resource, operation="CREATE", userInfo={"username": "x"}) is told


@pytest.mark.parametrize(
    ("exempt", "namespaces"),
    [
        (Exemptions(), ["cks-system"]),
        (Exemptions(("ops-*", "a[1]", "b.c", *_HOSTILE), ("sre-?",), ("ci/deployer", "team-?/*", "*/bot")), []),
        (Exemptions((), (), ()), []),
    ],
    ids=["shipped", "configured", "nobody"],
)
def test_the_condition_and_the_rule_agree_on_names(exempt: Exemptions, namespaces: list[str]) -> None:
    """A name that the condition lets go, the rule lets go too, or its requests would slip past; and the other way."""
    own = [f"system:serviceaccount:{namespace}:x" for namespace in namespaces]
    accounts = ("team-a:x", "team-ab:x", "x:bot", "x:bots", "kube-system:x", "ci:deployer", "ci:x")
    users = [
        *("alice", "system:apiserver", "system:apiserver2", "x-system:apiserver", "ops-1", "ops", "a1", "a[1]", "b.c"),
        *("bxc", "its", *_HOSTILE, *own, *(f"system:serviceaccount:{account}" for account in accounts)),
    ]
    condition = requester_is_not_exempt(exempt, namespaces)
    for user, group in [*((user, "x") for user in users), *(("x", g) for g in ("system:masters", "sre-1", "xsre-1"))]:
        info = {"username": user, "groups": [group]}
        is_exempt = user in own or exempt.cover(request(pod(), user=user, groups=(group,)), FACTS)
        assert _holds(condition, userInfo=info, resource=_GVR, kind=_POD) is not is_exempt, (user, group)


def test_the_kinds_of_each_scope() -> None:
    """The namespaced condition knows every kind of the table, the other one those that may be cluster-scoped."""
    kinds = {f"{group}/{kind}" for group, kind in WORKLOADS}
    native = {kind for kind in kinds if kind.split("/", 1)[0] in ("", "apps", "batch", "resource.k8s.io")}
    known = [
        {kind for kind in kinds if f"'{kind}'" in _labels(cluster_scope=scope).expression} for scope in (False, True)
    ]

    assert known == [kinds, kinds - native]


def test_removals_are_cluster_scoped() -> None:
    """Only the condition for cluster-scoped objects asks about removals, on Nodes and Namespaces."""
    new: Json = {"metadata": {"labels": {"a.coreweave.com/kept": "1"}}}
    old = merged(new, {"metadata": {"labels": {"a.coreweave.com/gone": "1"}}})
    found = {
        (kind, scope): _holds(_labels(cluster_scope=scope), new, old, kind=_kind(group, kind))
        for group, kind in (("", "Node"), ("", "Namespace"), ("example.org", "Widget"))
        for scope in (False, True)
    }

    assert [key for key, is_asked in found.items() if is_asked] == [("Node", True), ("Namespace", True)]


def test_exceptions_are_written_as_given() -> None:
    """The condition holds the keys of the exceptions given and no others, with the values that they name."""
    labels = {exception.key: next(iter(exception.values), "x") for exception in _SHIPPED}
    asked = [
        {
            key: _holds(_labels(exceptions), {"metadata": {"labels": {key: value}}}, kind=kind)
            for (key, value), kind in zip(labels.items(), (_POD, _POD, _POD, _kind("", "Namespace")), strict=True)
        }
        for exceptions in (_SHIPPED, ())
    ]

    assert asked == [dict.fromkeys(labels, False), dict.fromkeys(labels, True)]


def test_conditions_of_pods() -> None:
    """Pods that tolerate the taint by Exists, and mirrors, are not asked about; the rest is left to the rule."""
    taint = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
    covering = [taint, {**taint, "effect": ""}, {"operator": "Exists"}, {"key": "", "operator": "Exists"}]
    others = [{**taint, "effect": "NoExecute"}, {**taint, "operator": "Equal"}, {"key": "is_cpu_compute"}, {}]
    lacks, is_no_mirror = LACKS_CPU_TOLERATION, NO_MIRROR_POD
    mirror = pod(metadata={"annotations": {"kubernetes.io/config.mirror": ""}})

    assert [each for each in (*covering, *others) if not _holds(lacks, pod(tolerations=[others[0], each]))] == covering
    assert [_holds(lacks, pod()), _holds(is_no_mirror, pod()), _holds(is_no_mirror, mirror)] == [True, True, False]


def test_the_same_text_in_every_process() -> None:
    """The text is the same in every process, or replicas would fight over it, and short enough for the API server."""
    program = (
        "from policies.labels import *; from policies.matchconditions import *\n"
        "from policies.objects.workload import *\n"
        "kinds = frozenset({('', 'Pod'), ('', 'Node'), ('', 'Namespace'), ('apps', 'Deployment'), ('batch', 'Job')})\n"
        "exceptions = [LabelException('a.coreweave.com/b', kinds, frozenset('abcdefgh'))]\n"
        "for scope in (False, True):\n"
        "    print(reserved_label_changes(BUILT_IN, exceptions, cluster_scope=scope).expression)\n"
        "print(requester_is_not_exempt(Exemptions(), ['a', 'b']).expression)\n"
        "print(topology_is_mentioned(BUILT_IN).expression)\n"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(_ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    conditions = {
        "requester-is-not-exempt": requester_is_not_exempt(Exemptions(), ["cks-system"]),
        "reserved-label-changes": _labels(),
        "topology-is-mentioned": topology_is_mentioned(WORKLOADS.values()),
        "not-essential": is_not_essential(Safety().writes, ()),
    }

    assert len(texts) == 1
    assert [name for name, one in conditions.items() if (one.name, len(one.expression) < 100_000) != (name, True)] == []
    assert [key for key in ANNOTATIONS if f"'{key}'" not in topology_is_mentioned(()).expression] == []


def test_accelerators() -> None:
    """A Pod that is not asked about requests an accelerator, as the rule sees it."""
    accelerators = Accelerators()
    gpus: list[list[Json]] = [[{"nvidia.com/gpu": "8"}], [{"cpu": "1"}, {"nvidia.com/mig-1g.5gb": "1"}]]
    others: list[list[Json]] = [
        [],
        [{}],
        [{"cpu": "8", "memory": "1Gi"}],
        [{"nvidia.com/gpu": "0"}],
        [{"nvidia.com/gpus": "1"}],
    ]
    pods = [
        pod(containers=[{"name": "main"}, *({"name": "x", "resources": {"limits": each}} for each in limits)])
        for limits in (*gpus, *others)
    ]
    unasked = [obj for obj in pods if not _holds(pod_requests_no_accelerator(accelerators), obj)]

    assert unasked == pods[: len(gpus)]
    assert all(accelerators.requested(obj, "default", FACTS) for obj in unasked)


_OBJECT: Json = {
    "a": {"b": 1, "c-d": {"e": 2}},
    "list": [{"b": 3}, {}, {"b": None}, 7, [1]],
    "map": {"x": {"b": [4]}, "y": {"b": [5, 6]}, "z": "b"},
}


_PLACES = ("", "a.b", "a.c-d.e", "a.b.c", "none.b", "list.b", "list[*].b", "list[*]", "map.*.b[*]", "map[*]", "a.*")


@pytest.mark.parametrize("path", _PLACES)
def test_values_at_a_path(path: str) -> None:
    """The list has what stands at the places of the pattern, in order; a predicate is asked about the one value."""
    pattern: Pattern = parse(path)
    listed = [value for _, value in locate(_OBJECT, pattern)]
    found = compiled(f"{values('object', pattern)} == dyn(params)").evaluate_exactly(names(_OBJECT, params=listed))

    assert (found.error, found.value) == (None, True)
    if path and "*" not in path:
        asked = compiled(at_place("object", pattern, "{} == 1".format)).evaluate_exactly(names(_OBJECT))
        assert (asked.error, asked.value) == (None, listed == [1])


_ROWS = [row for row in WORKLOADS.values() if row.templates and row.group_kind not in HISTORIES and row.kind != "Pod"]
_PODS, _TEMPLATES = (compiled(selectors_are_concerned(rows).expression) for rows in ((), _ROWS))
_MISTAKES = [
    row for row in mistakes() if row.subject == "selectors" and any(line.startswith("spec") for line in row.says)
]


def _asked(obj: Json, old: Json | None = None) -> bool:
    condition = _PODS if obj["kind"] == "Pod" else _TEMPLATES
    group, _, version = obj["apiVersion"].rpartition("/")
    kinds = {"kind": {"group": group, "version": version, "kind": obj["kind"]}}
    variables: dict[str, Any] = {**names({}, oldObject=old, request=kinds), "object": obj}
    found, exact = condition.evaluate(variables), condition.evaluate_exactly(variables)
    assert (found.error, exact.error, found.value) == (None, None, exact.value)
    assert found.cost < EXPRESSION_LIMIT
    return bool(exact.value)


def test_mistakes_are_asked_about() -> None:
    """The API server asks about every mistake of the table that the rule tells of."""
    assert len(_MISTAKES) > 80
    assert [row.name for row in _MISTAKES if not _asked(row.manifest)] == []


def test_what_is_not_asked_about() -> None:
    """What a controller owns, what is as it was, and labels that nearly every selector has, cost no call."""
    for obj in (_MISTAKES[0].manifest, next(row.manifest for row in _MISTAKES if row.manifest["kind"] == "Job")):
        assert not _asked({**obj, "metadata": {**obj["metadata"], **owner()}})
        assert not _asked(obj, obj)
    ordinary = {"labels of one's own", "a topology key of one's own", "Linux on amd64", "a name of a Node"}
    ordinary |= {"a control plane's toleration and selector", "a GPU's product"}

    assert {row.name for row in correct() if row.name in ordinary and not _asked(row.manifest)} == ordinary
    assert not _asked({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}})
    assert not _asked({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": {}}})


def test_every_kind_and_template() -> None:
    """A key that looks known is found in each template of each kind, behind items that have none."""
    found = []
    for row in _ROWS:
        for pattern in row.templates:
            selector = (*pattern, *row.shape.place(("spec", "nodeSelector")))
            place = render(selector).replace("[*]", "[1]").replace(".*", ".any")
            obj = at(place, {"backend.coreweave.cloud/superpod": "1"})
            kinds = {"kind": {"group": row.group, "version": "v1", "kind": row.kind}}
            written = merged({"metadata": {"name": "a"}}, obj)
            answer = _TEMPLATES.evaluate_exactly({**names({}, oldObject=None, request=kinds), "object": written})
            found.append((row.kind, place, answer.error, answer.value))

    assert [one for one in found if one[2:] != (None, True)] == []
