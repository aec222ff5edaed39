"""The cases of MutatingAdmissionPolicy about verdicts and messages. `mutations` has those about resulting objects."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from cluster.policycases.case import (
    BIG_MAP,
    CONFIG_MAPS,
    CONTAINER,
    EXPENSIVE,
    IGNORE,
    LIMITS,
    NAMESPACE,
    NAMESPACE_KIND,
    ONE_CHECK,
    POD,
    PRIORITY_CLASSES,
    ROLE,
    TWO_CHECKS,
    Ask,
    Case,
    Json,
    mutating,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = "Object{metadata: Object.metadata{labels: {'mark': 'x'}}}"
PATCH = "[JSONPatch{op: 'add', path: '/data/b', value: '2'}]"
MISSING = "[JSONPatch{op: 'remove', path: '/data/nowhere'}]"
ERROR = "Object{metadata: Object.metadata{labels: {'mark': string(object.data.x)}}}"
TEST = "[JSONPatch{op: 'test', path: '/data/a', value: '9'}, JSONPatch{op: 'add', path: '/data/c', value: '3'}]"
UNKNOWN = "[JSONPatch{op: 'add', path: '/nothing', value: '3'}]"
NEXT = "[JSONPatch{op: 'add', path: '/data/d', value: object.data.b + object.data.a}]"


def mutations() -> Iterator[Case]:
    """One after the other; one that fails is left out, and the next has its turn."""
    chosen = {
        "label": [LABEL],
        "patch": [PATCH],
        "both": [LABEL, PATCH],
        "next": [PATCH, NEXT],
        "next-first": [NEXT, PATCH],
        "missing": [MISSING],
        "error": [ERROR],
        "errors": [ERROR, MISSING, ERROR],
        "error-then": [ERROR, PATCH],
        "test": [TEST],
        "test-then": [TEST, PATCH],
        "unknown": [UNKNOWN],
        "error-unknown": [ERROR, UNKNOWN],
        "wrong": ["[JSONPatch{op: 'add', path: '/data', value: 'text'}]"],
        "number": ["[JSONPatch{op: 'add', path: '/data/n', value: 1}]"],
        "empty": ["[JSONPatch{op: 'remove', path: '/data'}].filter(p, false)"],
        "nothing": ["Object{}"],
        "misnamed": ["Object{metadata: Object.spec{}}"],
        "wrong-field": ["Object{nothing: 'x'}"],
        "variable": ["Object{metadata: Object.metadata{labels: {'mark': variables.text}}}"],
        "variables": [PATCH, "[JSONPatch{op: 'add', path: '/data/e', value: variables.size}]"],
        "cost": [f"[JSONPatch{{op: 'add', path: '/data/b', value: string({TWO_CHECKS} && {ONE_CHECK})}}]"],
        "twice": [PATCH, PATCH],
        "authorizer": [
            "[JSONPatch{op: 'add', path: '/data/b', value: string(authorizer.requestResource.check('frob').allowed())}]"
        ],
        "where": ["[JSONPatch{op: 'add', path: '/data/b', value: namespaceObject.metadata.name}]"],
        "user": ["[JSONPatch{op: 'add', path: '/data/b', value: request.userInfo.username + request.operation}]"],
    }
    variables = [
        {"name": "text", "expression": "'v' + string(object.data.a)"},
        {"name": "size", "expression": "string(object.data.size())"},
    ]
    change = Ask("UPDATE", content={"data": {"a": "2"}}, old={"data": {"a": "1"}})
    for (name, texts), policy in product(chosen.items(), ("Fail", "Ignore")):
        yield mutating(
            f"{name}-{policy.lower()}",
            *texts,
            variables=variables,
            failurePolicy=policy,
            asks=(Ask(), change) if name in ("next", "user") else (Ask(),),
        )
    yield mutating("bindings", PATCH, bindings=[{}, {}])
    yield mutating("bindings-error", ERROR, bindings=[{}])
    yield mutating(
        "delete",
        PATCH,
        asks=[Ask("DELETE")],
        match={
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
            "objectSelector": {"matchLabels": {"policy-case": "m-delete"}},
        },
    )
    for policy in ("Never", "IfNeeded"):
        again = "[JSONPatch{op: 'add', path: '/data/n', value: ('n' in object.data ? object.data.n : '') + 'x'}]"
        yield mutating(f"again-{policy.lower()}", again, reinvocationPolicy=policy)
        yield mutating(f"again-{policy.lower()}-twice", again, again, reinvocationPolicy=policy)
        yield mutating(f"again-{policy.lower()}-nothing", TEST, reinvocationPolicy=policy)
        yield mutating(
            f"again-{policy.lower()}-condition",
            again,
            reinvocationPolicy=policy,
            matchConditions=[{"name": "c", "expression": "!has(object.data.n)"}],
        )


def conditions() -> Iterator[Case]:
    """Match conditions."""
    texts = {
        "t": "has(object.data)",
        "f": "object.data.a == '2'",
        "e": "object.data.x == '1'",
        "d": "object.data.y == '1'",
        "n": "namespaceObject.metadata.name == 'x'",
    }
    for letters, policy in product(("t", "f", "e", "ef", "ed", "te", "n"), ("Fail", "Ignore")):
        given = [{"name": f"c{index}", "expression": texts[letter]} for index, letter in enumerate(letters)]
        yield mutating(f"conditions-{letters}-{policy.lower()}", PATCH, matchConditions=given, failurePolicy=policy)
    given = [{"name": f"c{index}", "expression": TWO_CHECKS} for index in range(4)]
    yield mutating("conditions-budget", PATCH, matchConditions=given)
    dear = " && ".join([f"!variables.v{index}" for index in range(13)])
    yield mutating(
        "budget",
        f"[JSONPatch{{op: 'add', path: '/data/b', value: string({dear})}}]",
        asks=[BIG_MAP],
        variables=[{"name": f"v{index}", "expression": EXPENSIVE} for index in range(13)],
    )


def params() -> Iterator[Case]:
    """Parameters, and bindings that are wrong."""
    use = "[JSONPatch{op: 'add', path: '/data/b', value: params.data.limit}]"

    def case(name: str, kind: Json | None, reference: Json | None, text: str, **more: Any) -> Case:
        given: Json = {} if kind is None else {"paramKind": kind}
        binding = {} if reference is None else {"paramRef": {"parameterNotFoundAction": "Deny"} | reference}
        return mutating(f"params-{name}", text, bindings=[binding], **given, **more)

    yield case("name", CONFIG_MAPS, {"name": "five"}, use)
    yield case("elsewhere", CONFIG_MAPS, {"name": "elsewhere", "namespace": "default"}, use)
    yield case("nowhere", CONFIG_MAPS, {"name": "nowhere"}, use)
    yield case("nowhere-ignored", CONFIG_MAPS, {"name": "nowhere"}, use, **IGNORE)
    yield case("nowhere-allow", CONFIG_MAPS, {"name": "nowhere", "parameterNotFoundAction": "Allow"}, use)
    yield case("absent", CONFIG_MAPS, None, use)
    yield case("kind", CONFIG_MAPS, {"name": "five"}, "[JSONPatch{op: 'add', path: '/data/b', value: params.kind}]")
    yield case("kind-limit", LIMITS, {"name": "three"}, "[JSONPatch{op: 'add', path: '/data/b', value: params.kind}]")
    yield case("role", CONFIG_MAPS, {"name": "five"}, LABEL, asks=[ROLE])
    yield case("cluster-namespace", PRIORITY_CLASSES, {"name": "policy-cases-high", "namespace": NAMESPACE}, LABEL)
    yield case("unknown", {"apiVersion": "nowhere.example.com/v1", "kind": "Nothing"}, None, LABEL)
    yield case("unknown-ignored", {"apiVersion": "nowhere.example.com/v1", "kind": "Nothing"}, None, LABEL, **IGNORE)
    many = {"selector": {"matchLabels": {"limit": "many"}}}
    yield case("many", CONFIG_MAPS, many, "[JSONPatch{op: 'add', path: '/data/p' + params.data.limit, value: 'x'}]")
    yield mutating(
        "params-causes",
        ERROR,
        bindings=[
            {"paramRef": {"name": "nowhere", "parameterNotFoundAction": "Deny"}},
        ],
        paramKind=CONFIG_MAPS,
    )
    missing = {"paramRef": {"name": "nowhere", "parameterNotFoundAction": "Deny"}}
    there = {"paramRef": {"name": "five", "parameterNotFoundAction": "Deny"}}
    yield mutating("params-two", use, bindings=[missing, there], paramKind=CONFIG_MAPS)
    yield mutating("params-two-errors", ERROR, MISSING, bindings=[missing, there], paramKind=CONFIG_MAPS)
    yield mutating("params-two-ignored", use, bindings=[missing, there], paramKind=CONFIG_MAPS, **IGNORE)
    yield mutating("space", LABEL, asks=[Ask(kind=NAMESPACE_KIND, content={})])
    rule = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["CONNECT"],
        "resources": ["pods/exec"],
        "resourceNames": ["m-exec-old"],
    }
    pod = {"spec": {"containers": [CONTAINER], "serviceAccountName": "default"}}
    texts = {
        "exec": LABEL,
        "exec-patch": "[JSONPatch{op: 'add', path: '/command/-', value: 'x'}]",
        "exec-missing": MISSING,
    }
    for name, text in texts.items():
        rule = {**rule, "resourceNames": [f"m-{name}-old"]}
        ask = Ask("CONNECT", POD, pod, subresource="exec")
        yield mutating(name, text, asks=[ask], match={"resourceRules": [rule]})


CASES: tuple[Case, ...] = tuple(case for make in (mutations, conditions, params) for case in make())
