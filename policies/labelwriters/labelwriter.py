"""Objects that can write labels which the guard is not asked about, because the requester is exempt or there is none.

The API server asks no webhook about MutatingAdmissionPolicies, so whoever may write one can add a label to what an
exempt component writes. It converts custom resources after admission, and a conversion may change labels and
annotations. Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
custom-resource-definition-versioning/#response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from policies.cel.syntax.ast import Node
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source
from policies.engine.request import JsonObject, mapping
from policies.labels import KEPT_KINDS, POD, LabelException, is_reserved, places_of
from policies.labelwriters.mutation import MutationReader, TooLargeError
from policies.labelwriters.write import EVERYTHING, Write, key_written
from policies.objects.fieldpath import Pattern
from policies.objects.workload import Workload, plural

POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"
DEFINITION: Final = "CustomResourceDefinition"

MOST_TEXT: Final = 30_000
"""Characters of all expressions of a policy. More are not looked through, because that would take long."""

_SHOWN: Final = 3
_ANY = frozenset({"*"})
_KEPT = frozenset(plural(kind) for _, kind in KEPT_KINDS)

Verdict = Literal["reserved", "possible"]


class LabelWriter(Struct, frozen=True):
    """An object that can write labels.

    verdict: whether it names reserved ones, or may write some. text: how, a sentence without a full stop that begins
    with "it" or "its".
    """

    kind: str
    name: str
    verdict: Verdict
    text: str


class _Targets(Struct, frozen=True):
    """What a policy's rules match. labels: the maps of labels. kept: whether there are kinds that keep their labels.

    pods: whether all of it is Pods and what they are made from.
    """

    labels: frozenset[Pattern]
    kept: bool
    pods: bool


def of_policy(
    policy: JsonObject, workloads: Mapping[tuple[str, str], Workload], exceptions: Sequence[LabelException]
) -> LabelWriter | None:
    """What a MutatingAdmissionPolicy can do, if it is bound; None if it cannot write a reserved label.

    exceptions: reserved labels that people may set. The policy's conditions and selectors do not count.
    """
    targets = _targets(_rules(policy), workloads)
    allowed = {one.key for one in exceptions if POD in one.kinds and not one.values} if targets.pods else set()
    reserved: dict[str, None] = {}
    places: dict[str, None] = {}
    for path, write in dict.fromkeys(_writes(policy)):
        for labels in targets.labels:
            key = key_written(write, labels, kept=targets.kept)
            if key is None or (key.whole and key.text in allowed):
                continue
            if "/" in key.text and is_reserved(key.text):
                reserved.setdefault(key.text if key.whole else f"{key.text}*")
            elif not key.whole and "/" not in key.text:
                places.setdefault(path)
    name = str(mapping(policy, "metadata").get("name", ""))
    if reserved:
        return LabelWriter(POLICY, name, "reserved", f"it writes reserved labels: {_listed(list(reserved))}")
    if places:
        text = f"it may write any label: which ones cannot be told from {_listed(list(places))}"
        return LabelWriter(POLICY, name, "possible", text)
    return None


def of_definition(definition: JsonObject) -> LabelWriter | None:
    """What the conversion of a CustomResourceDefinition can do; None if no webhook converts its objects.

    The API server does not convert objects of a kind with a single version.
    """
    spec = mapping(definition, "spec")
    conversion = mapping(spec, "conversion")
    if conversion.get("strategy") != "Webhook" or len(spec.get("versions") or ()) < 2:
        return None
    client = mapping(mapping(conversion, "webhook"), "clientConfig")
    service = mapping(client, "service")
    who = (
        f"{service.get('namespace')}/{service.get('name')}" if service else str(client.get("url", "")).partition("?")[0]
    )
    text = f"its conversion webhook, {who}, may change the labels of its objects after admission"
    return LabelWriter(DEFINITION, str(mapping(definition, "metadata").get("name", "")), "possible", text)


def _writes(policy: JsonObject) -> Iterator[tuple[str, Write]]:
    """The writes of all mutations, each with the path of its mutation."""
    spec = mapping(policy, "spec")
    mutations = _maps(spec.get("mutations"))
    expressions = [_expression(mutation) for mutation in mutations]
    variables = {str(one.get("name", "")): str(one.get("expression", "")) for one in _maps(spec.get("variables"))}
    if sum(map(len, (*expressions, *variables.values()))) > MOST_TEXT:
        yield "spec.mutations, which are too long to read", EVERYTHING
        return
    reader = MutationReader({name: _tree(text) for name, text in variables.items()})
    for index, (mutation, text) in enumerate(zip(mutations, expressions, strict=True)):
        path, tree = f"spec.mutations[{index}]", _tree(text)
        read = reader.patch if mutation.get("jsonPatch") else reader.configuration
        try:
            yield from ((path, write) for write in ((EVERYTHING,) if tree is None else tuple(read(tree))))
        except (TooLargeError, RecursionError):
            yield path, EVERYTHING


def _expression(mutation: JsonObject) -> str:
    return str((mapping(mutation, "jsonPatch") or mapping(mutation, "applyConfiguration")).get("expression", ""))


def _tree(text: str) -> Node | None:
    """The tree of an expression; None if it cannot be parsed."""
    try:
        return parse(Source(text))
    except (CompileError, RecursionError):
        return None


def _rules(policy: JsonObject) -> list[JsonObject]:
    constraints = mapping(mapping(policy, "spec"), "matchConstraints")
    return _maps(constraints.get("resourceRules"))


def _targets(rules: Sequence[JsonObject], workloads: Mapping[tuple[str, str], Workload]) -> _Targets:
    labels: set[Pattern] = {("metadata", "labels")}
    kept, pods = False, True
    for rule in rules:
        groups = frozenset(rule.get("apiGroups") or ())
        resources = frozenset(str(resource).partition("/")[0] for resource in rule.get("resources") or ())
        rows = [row for row in workloads.values() if _names(groups, row.group) and _names(resources, row.resource)]
        labels |= {place.pattern for row in rows for place in places_of(row.group_kind, row)}
        kept = kept or (_names(groups, "") and any(_names(resources, kind) for kind in _KEPT))
        pods = pods and resources <= {row.resource for row in rows if row.templates}
    return _Targets(frozenset(labels), kept, pods)


def _names(names: frozenset[str], name: str) -> bool:
    return name in names or not names.isdisjoint(_ANY)


def _maps(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
