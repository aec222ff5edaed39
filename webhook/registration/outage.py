"""Which writes the API server would refuse while no replica answers. Pure.

It judges webhook configurations as the API server has them, whoever wrote them: rules, selectors and match conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from typing import Any

from policies.admissionpolicy.evaluation.inputs import inputs_of
from policies.cel.environment import STORED
from policies.cel.kubernetes import admission
from policies.cel.program import compile_expression
from policies.cel.syntax.source import CompileError
from policies.engine.facts import StaticFacts
from policies.engine.match import LabelSelector, ResourceRule, SelectorRequirement, selects
from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    Operation,
    UserInfo,
    mapping,
)
from policies.engine.safety import SYSTEM_ACCOUNTS, Safety, Writers

CONTROLLER = UserInfo(f"{SYSTEM_ACCOUNTS}daemon-set-controller", "", ("system:serviceaccounts:kube-system",))
_USERS: Mapping[Writers, UserInfo] = {
    "anybody": UserInfo("system:serviceaccount:components:component", "", ("system:serviceaccounts:components",)),
    "system": UserInfo("system:serviceaccount:components:component", "", ("system:serviceaccounts:components",)),
    "control-plane": CONTROLLER,
}
_EXAMPLE = ("apps", "deployments")


def refusal(entries: Iterable[JsonObject]) -> Callable[[AdmissionRequest, Mapping[str, str]], str]:
    """The name of the first entry that fails closed and is asked about a request; empty if there is none.

    Its second argument are the labels of the request's Namespace. A condition that fails, or that this version cannot
    compile, counts as true.
    """
    closed = []
    for entry in entries:
        if entry.get("failurePolicy", "Fail") != "Fail":
            continue
        conditions = []
        for condition in entry.get("matchConditions") or ():
            with suppress(CompileError):
                expression = str(condition.get("expression", ""))
                conditions.append(compile_expression(expression, admission(dialect=STORED)))
        selectors = selector(entry.get("namespaceSelector")), selector(entry.get("objectSelector"))
        closed.append((str(entry.get("name")), resource_rules(entry), *selectors, conditions))

    def refusing(request: AdmissionRequest, labels: Mapping[str, str]) -> str:
        for name, rules, namespaces, objects, conditions in closed:
            if not any(rule.matches(request) for rule in rules):
                continue
            # A selector chooses no cluster-scoped objects but Namespaces, these by their own labels.
            if request.namespace and not namespaces.matches(labels):
                continue
            if objects.requirements and not selects(objects, request):
                continue
            names = inputs_of(request, StaticFacts(date.min)).names(None)
            outcomes = (condition.evaluate(names) for condition in conditions)
            if all(outcome.error is not None or outcome.value is not False for outcome in outcomes):
                return name
        return ""

    return refusing


def essential_writes(safety: Safety) -> Iterator[AdmissionRequest]:
    """An example of each write that a cluster needs to come up."""
    for write in safety.writes:
        if write.seen:
            operation: Any = "UPDATE" if "*" in write.rule.operations else write.rule.operations[0]
            for group in write.rule.groups:
                for pattern in write.rule.resources:
                    resource, _, subresource = pattern.partition("/")
                    target = _EXAMPLE if group == "*" else (group, resource)
                    sub = subresource.removesuffix("*")
                    yield written(operation, target, _USERS[write.writers], {"name": "example"}, subresource=sub)


def written(
    operation: Operation,
    target: tuple[str, str],
    user: UserInfo,
    metadata: Mapping[str, Any],
    spec: Mapping[str, Any] | None = None,
    *,
    subresource: str = "",
    kind: str = "",
) -> AdmissionRequest:
    """A request about an object of a resource, which is its group and name. kind: where it matters."""
    group, resource = target
    obj: JsonObject = {"metadata": dict(metadata), "spec": dict(spec or {})}
    return AdmissionRequest(
        uid="",
        kind=GroupVersionKind(group, "v1", kind),
        resource=GroupVersionResource(group, "v1", resource),
        sub_resource=subresource,
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        operation=operation,
        user_info=user,
        object=None if operation == "DELETE" else obj,
        old_object=None if operation == "CREATE" else obj,
    )


def selector(value: Any) -> LabelSelector:
    """A label selector of the API. An unknown operator matches everything: better a false alarm than a missed one."""
    chosen = value if isinstance(value, dict) else {}
    equal = (SelectorRequirement(key, "In", (text,)) for key, text in mapping(chosen, "matchLabels").items())
    more = (
        SelectorRequirement(expression["key"], expression["operator"], tuple(expression.get("values") or ()))
        for expression in chosen.get("matchExpressions") or ()
        if expression.get("operator") in ("In", "NotIn", "Exists", "DoesNotExist")
    )
    return LabelSelector((*equal, *more))


def resource_rules(entry: JsonObject) -> list[ResourceRule]:
    """What an entry is for. Versions are left out, because the API server converts writes of other versions."""
    keys = ("operations", "apiGroups", "resources")
    return [ResourceRule(*(tuple(rule.get(key) or ()) for key in keys)) for rule in entry.get("rules") or ()]
