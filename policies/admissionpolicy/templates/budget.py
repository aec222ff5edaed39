"""What exported expressions cost, measured with the engine: the API server estimates no cost for policies.

They are evaluated for the largest object that etcd takes, full of containers. The limits are those of one expression
and of one binding at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.admissionpolicy.evaluation.inputs import Inputs, Json
from policies.cel.cost import EXPRESSION_LIMIT, MATCH_CONDITIONS_LIMIT, POLICY_LIMIT
from policies.cel.program import Composition, Names, Program
from policies.engine.lookup import Missing
from policies.objects.fieldpath import Pattern, Wildcard, locate
from policies.objects.workload import Workload

OBJECT_SIZE: Final = 1_572_864
"""The most bytes of an object in etcd: 1.5 MiB."""
_CONTAINER_SIZE = 1_100
_TEMPLATES = 40  # in a list; a kind with more in one object is not known
_KEYS = ("Master", "Worker", "Launcher", "PS", "Chief", "Evaluator", "Server", "Scheduler")
_SHARE = 16  # of the containers, for a first look that is much cheaper
_UNLIMITED = 10**12


class Cost(NamedTuple):
    """The cost of an expression of a policy, by its path."""

    path: str
    cost: int


def exceeded(compiled: CompiledPolicy, row: Workload, params: Json | None) -> Iterator[str]:
    """A line for each limit that the largest object of a kind exceeds."""
    for update in (False, True):
        what = f"{'an update' if update else 'the creation'} of the largest {row.kind}"
        spent = list(costs(compiled, _inputs(row, largest(row, _SHARE), update=update), params))
        if sum(cost for _, cost in spent) * _SHARE**2 <= EXPRESSION_LIMIT:
            continue  # even if two macros over containers are nested
        yield from over(list(costs(compiled, _inputs(row, largest(row), update=update), params)), what)


def over(spent: Sequence[Cost], what: str) -> Iterator[str]:
    """A line for each limit that what a policy spends exceeds. what: for which it was spent."""
    for path, cost in spent:
        if not 0 <= cost <= EXPRESSION_LIMIT:
            yield f"{path} costs {cost:,} for {what}; an expression may cost {EXPRESSION_LIMIT:,}"
    conditions = sum(cost for path, cost in spent if "matchConditions" in path)
    if conditions > MATCH_CONDITIONS_LIMIT:
        yield f"its match conditions cost {conditions:,} for {what}; they may cost {MATCH_CONDITIONS_LIMIT:,}"
    total = sum(cost for _, cost in spent) - conditions
    if total > POLICY_LIMIT:
        yield f"it costs {total:,} for {what}; with one binding it may cost {POLICY_LIMIT:,}"


def costs(compiled: CompiledPolicy, inputs: Inputs, params: Json | None) -> Iterator[Cost]:
    """What each expression costs, each variable once. Those that ask the authorizer have no known cost."""
    names = inputs.names(params, namespace=True)
    for unit in (*compiled.conditions, *_variables(compiled)):
        yield from _cost(unit, compiled.composition, names)
    for validation, message in zip(compiled.validations, compiled.messages, strict=True):
        yield from _cost(validation, compiled.composition, names)
        if message is not None:
            yield from _cost(message, compiled.speaking, names)


def _variables(compiled: CompiledPolicy) -> list[Unit]:
    return [Unit(each.expression, compiled.composition.programs[each.name]) for each in compiled.policy.variables]


def _cost(unit: Unit, composition: Composition, names: Names) -> Iterator[Cost]:
    if not isinstance(unit.program, Program):
        return
    try:
        evaluation = unit.program.evaluate(composition.bind(names), limit=_UNLIMITED, exact=False)
    except Missing:
        return
    yield Cost(unit.expression.path, evaluation.cost)


def _inputs(row: Workload, obj: dict[str, Any], *, update: bool) -> Inputs:
    old = deepcopy(obj) if update else None
    if old is not None:
        _age(old, row.templates)
    version = "v1"
    request = {
        "kind": {"group": row.group, "version": version, "kind": row.kind},
        "resource": {"group": row.group, "version": version, "resource": row.resource},
        "operation": "UPDATE" if update else "CREATE",
        "name": "largest",
        "namespace": "default",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }
    namespace = {"metadata": {"name": "default", "labels": {}}, "spec": {}, "status": {}}
    return Inputs(request=request, object=obj, old_object=old, namespace=namespace)


def largest(row: Workload, share: int = 1) -> dict[str, Any]:
    """An object of a kind whose templates together fill what etcd takes, or have only a share of its containers."""
    count = sum(_count(pattern) for pattern in row.templates)
    containers = max(OBJECT_SIZE // _CONTAINER_SIZE // count // share, 1)
    obj: dict[str, Any] = {
        "apiVersion": f"{row.group}/v1".lstrip("/"),
        "kind": row.kind,
        "metadata": {"name": "largest", "namespace": "default"},
    }
    for pattern in row.templates:
        _put(obj, pattern, _template(containers))
    return obj


def _count(pattern: Pattern) -> int:
    sizes = {Wildcard.ITEMS: _TEMPLATES, Wildcard.VALUES: len(_KEYS)}
    count = 1
    for step in pattern:
        count *= sizes.get(step, 1) if isinstance(step, Wildcard) else 1
    return count


def _put(obj: dict[str, Any], pattern: Pattern, value: Any) -> None:
    """Put copies of a value at all places of a pattern."""
    step, rest = str(pattern[0]), pattern[1:]
    if not rest:
        obj[step] = deepcopy(value)
    elif rest[0] is Wildcard.ITEMS:
        parts = obj.setdefault(step, [{"name": f"part-{number}"} for number in range(_TEMPLATES)])
        for part in parts:
            _put(part, rest[1:], value)
    elif rest[0] is Wildcard.VALUES:
        entries = obj.setdefault(step, {key: {} for key in _KEYS})
        for part in entries.values():
            _put(part, rest[1:], value)
    else:
        _put(obj.setdefault(step, {}), rest, value)


def _age(obj: dict[str, Any], patterns: Iterable[Pattern]) -> None:
    """Make the templates different from the newer ones, at their last places."""
    for pattern in patterns:
        for _, template in locate(obj, pattern):
            template["spec"]["terminationGracePeriodSeconds"] = 31


def _template(containers: int) -> dict[str, Any]:
    words = {f"example.org/label-{number}": f"value-{number}" for number in range(20)}
    return {
        "metadata": {"labels": words, "annotations": dict(words)},
        "spec": {
            "containers": [_container(number) for number in range(containers - containers // 4)],
            "initContainers": [_container(number) for number in range(containers // 4)],
            "volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(10)],
            "tolerations": [{"key": f"example.org/{n}", "operator": "Exists"} for n in range(10)],
            "nodeSelector": {"node.kubernetes.io/type": "gb200-4x"},
        },
    }


def _container(number: int) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    return {
        "name": f"container-{number}",
        "image": f"registry.example.com/a-team/of-some-name/an-image-{number}:1.2.{number}",
        "resources": {"limits": amounts, "requests": dict(amounts)},
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "env": [{"name": f"VARIABLE_{index}", "value": "some value"} for index in range(8)],
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "livenessProbe": probe,
        "readinessProbe": dict(probe),
        "volumeMounts": [{"name": "volume-0", "mountPath": "/data"}],
    }
