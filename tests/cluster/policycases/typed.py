"""The cases of values of Go types: from 1.37 on, expressions see built-in objects as they are, and not as JSON.

What differs is what such a value is compared with, asked for and converted to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.policycases.case import (
    CONFIG_MAPS,
    CONTAINER,
    DENY,
    DEPLOYMENT,
    POD,
    Ask,
    Case,
    Json,
    mutating,
    validating,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIVE: Json = {"paramRef": {"name": "five", "parameterNotFoundAction": "Deny"}}
_BOUND: Json = {**DENY, **_FIVE}
_MAPS = ("object.data", "object.metadata", "params.data", "request.userInfo.groups", "namespaceObject.metadata.labels")
_TESTS = {
    "number": "dyn({0}) == dyn(1)",
    "text": "dyn('x') == dyn({0})",
    "not-number": "dyn({0}) != dyn(1)",
    "list": "dyn({0}) == dyn([])",
    "map": "dyn({0}) == dyn({{}})",
    "has-number": "dyn(1) in dyn({0})",
    "at-number": "dyn({0})[dyn(1)] == 'x'",
    "at-boolean": "dyn({0})[dyn(true)] == 'x'",
    "at-nowhere": "dyn({0})[dyn('nowhere')] == 'x'",
    "string": "string(dyn({0})) == 'x'",
    "type": "type(dyn({0})) == map",
    "in-list": "dyn({0}) in [dyn(1), dyn({{}})]",
    "plus": "dyn({0}) + dyn(1) == 2",
    "less": "dyn({0}) < dyn(1)",
    "optional": "dyn({0})[?dyn(1)].orValue('x') == 'y'",
    "not": "!dyn({0})",
    "size": "size(dyn({0})) == 99",
    "format": "'%d'.format([dyn({0})]) == 'x'",
}
_PODS = {
    "list-number": "dyn(object.spec.containers) == dyn(1)",
    "list-map": "dyn(object.spec.containers) == dyn({})",
    "list-at-text": "object.spec.containers['a'].name == 'x'",
    "list-at-fraction": "object.spec.containers[0.5].name == 'x'",
    "list-at-double": "object.spec.containers[0.0].name == 'x'",
    "list-computed": "[object.spec.containers][0][0.0].name == 'x'",
    "list-far": "object.spec.containers[7].name == 'x'",
    "list-negative": "object.spec.containers[-1].name == 'x'",
    "list-plus": "dyn(object.spec.containers) + dyn(1) == []",
    "list-string": "string(object.spec.containers) == 'x'",
    "list-in": "1 in object.spec.containers",
    "item-map": "object.spec.containers[0] == {'name': 'x'}",
    "item-in": "{'name': 'main'} in object.spec.containers",
    "map-item": "{'name': dyn(1)} == dyn(object.spec.containers[0])",
    "nested": "object.spec.containers[0].env[0].value == 'x'",
    "no-such": "object.spec.containers[0].nothing == 'x'",
}
_SPEC: Json = {"containers": [CONTAINER]}


def _validating() -> Iterator[Case]:
    for number, where in enumerate(_MAPS):
        for name, text in _TESTS.items():
            yield validating(f"typed-{number}-{name}", text.format(where), paramKind=CONFIG_MAPS, bindings=[_BOUND])
    for name, text in _PODS.items():
        yield validating(f"typed-pod-{name}", text, asks=[Ask(kind=POD, content={"spec": _SPEC})])
    memory = [{"resources": {"limits": {"memory": text}}} for text in ("1e3", "1k", "1000")]
    for name, text in (("same", "object.spec == oldObject.spec"), ("other", "object.spec != oldObject.spec")):
        asks = [
            Ask("UPDATE", kind=DEPLOYMENT, content=_workload(memory[1]), old=_workload(memory[old]))
            for old in (0, 1, 2)
        ]
        yield validating(f"typed-equal-{name}", text, asks=asks[:1])
        yield validating(f"typed-quantity-{name}", text, asks=asks[1:])


def _workload(more: Json) -> Json:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{**CONTAINER, **more}]}}
    return {"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}}


def _mutating() -> Iterator[Case]:
    condition = [{"name": "c", "expression": "has(object.data)"}]
    values = {
        "params": "params.data",
        "namespace": "namespaceObject.metadata.labels",
        "groups": "{'g': request.userInfo.groups[0]}",
        "user": "request.userInfo",
        "object": "object.data",
        "labels": "object.metadata.labels",
        "literal": "{'a': object.data.a}",
        "nested": "{'a': object.data}",
        "list": "[object.data]",
    }
    for name, value in values.items():
        given: dict[str, Json] = {"": {}, "-conditions": {"matchConditions": condition}}
        for which, more in given.items():
            for how, text in (
                ("patch", f"[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {value}}}]"),
                ("apply", f"Object{{metadata: Object.metadata{{annotations: {value}}}}}"),
            ):
                yield mutating(f"typed-{how}-{name}{which}", text, paramKind=CONFIG_MAPS, bindings=[_FIVE], **more)
    twice = "[JSONPatch{op: 'add', path: '/metadata/annotations', value: object.data}]"
    yield mutating("typed-twice", "Object{data: {'b': 'c'}}", twice, matchConditions=condition)


CASES: tuple[Case, ...] = (*_validating(), *_mutating())
DIFFERENCE = "typed values are compared and converted otherwise there"
DIFFERENT: frozenset[str] = frozenset(
    (
        *(f"v-typed-{number}-{name}" for number in (0, 1, 4) for name in ("number", "list", "has-number", "at-number")),
        *(f"v-typed-{number}-{name}" for number in (0, 1, 4) for name in ("at-boolean", "optional")),
        *("v-typed-3-number", "v-typed-3-map"),
        *(f"v-typed-pod-list-{name}" for name in ("number", "map", "at-double", "computed")),
        *("v-typed-equal-same", "v-typed-equal-other"),
        *(f"m-typed-patch-{name}{which}" for name in ("params", "namespace", "user") for which in ("", "-conditions")),
        *(f"m-typed-patch-{name}-conditions" for name in ("object", "labels", "nested", "list")),
        "m-typed-twice",
    )
)
"""Those that we answer as 1.36 does in later releases, too."""
