"""The match and exclude blocks of a Kyverno rule, as constraints and a condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from policies.conversion import kinds
from policies.conversion.kinds import ANY, Kind, Rule
from policies.conversion.outcome import Json, Notes
from policies.conversion.text import both, either, is_wild, literal, matches
from policies.golang.quote import quote

_WRITES = ("CREATE", "UPDATE")
_SUBJECT = frozenset({"subjects", "roles", "clusterRoles"})
_RESOURCES = frozenset(
    {"kinds", "name", "names", "namespaces", "annotations", "selector", "namespaceSelector", "operations"}
)
_LABELS, _ANNOTATIONS = "object.metadata.?labels.orValue({})", "object.metadata.?annotations.orValue({})"


class Match(NamedTuple):
    """Rules for resources, selectors beside them, and a further condition; empty if there is none."""

    rules: list[Rule]
    selectors: dict[str, Any]
    condition: str

    @property
    def constraints(self) -> dict[str, Any]:
        """The matchConstraints."""
        return {"resourceRules": self.rules, **self.selectors}


class _Filter(NamedTuple):
    """One filter: what it says of the resource and of the user, and its place."""

    resources: Json
    user: Json
    notes: Notes

    @property
    def kinds(self) -> list[Kind]:
        return [kinds.read(str(text)) for text in self.resources.get("kinds") or ()]


def match(rule: Json, notes: Notes) -> Match:
    """What a rule matches: its match block without its exclude block."""
    any_, all_ = _filters(rule.get("match") or {}, notes.at("match"))
    filters = any_ or all_
    if not filters:
        notes.lose("it matches nothing", "match")
    first = filters if any_ else [one for one in filters if one.kinds][:1]
    made = [made for one in first for made in _rules(one)]
    selectors: dict[str, Any] = {}
    alone = len(filters) == 1
    if alone:
        selectors = _selectors(filters[0])
    conditions = [_condition(one, with_kinds=not alone, with_selectors=not alone) for one in filters]
    wanted = both(conditions) if all_ else "" if "" in conditions else either(conditions)
    if any_ and len(any_) > 1 and all(set(one.resources) <= {"kinds", "operations"} and not one.user for one in any_):
        wanted = ""  # the rules alone say it
    any_, all_ = _filters(rule.get("exclude") or {}, notes.at("exclude"))
    unwanted = [_condition(one, with_kinds=True, with_selectors=True) for one in any_ or all_]
    left_out = either(unwanted) if any_ else both(unwanted)
    return Match(_merged(made), selectors, both([wanted, f"!({left_out})" if left_out else ""]))


def _filters(block: Json, notes: Notes) -> tuple[list[_Filter], list[_Filter]]:
    """The filters of which one, and of which all must match. The oldest form has one filter without a list."""
    if "any" not in block and "all" not in block:
        return ([], [_filter(block, notes)]) if block else ([], [])
    return tuple(  # type: ignore[return-value]
        [_filter(one, notes.at(name, index)) for index, one in enumerate(block.get(name) or ())]
        for name in ("any", "all")
    )


def _filter(written: Json, notes: Notes) -> _Filter:
    resources = written.get("resources") or {}
    for name in sorted(resources.keys() - _RESOURCES):
        notes.lose("this is not known here", "resources", name)
    for name in ("roles", "clusterRoles"):
        if written.get(name):
            notes.lose("CEL does not know which roles a user has; write a condition on authorizer", name)
    return _Filter(resources, {key: value for key, value in written.items() if key in _SUBJECT and value}, notes)


def _rules(one: _Filter) -> list[Rule]:
    operations = one.resources.get("operations") or _WRITES
    return kinds.rules(one.kinds, list(operations), one.notes.at("resources", "kinds"))


def _merged(rules: list[Rule]) -> list[Rule]:
    """Each rule once."""
    return [rule for index, rule in enumerate(rules) if rule not in rules[:index]]


def _selectors(one: _Filter) -> dict[str, Any]:
    """The selectors of the only filter, which constraints can have."""
    made = {}
    for name, target in (("selector", "objectSelector"), ("namespaceSelector", "namespaceSelector")):
        selector = one.resources.get(name)
        if selector and _is_plain(selector, one.notes.at("resources", name)):
            made[target] = selector
    return made


def _is_plain(selector: Json, notes: Notes) -> bool:
    if any(is_wild(f"{key}{value}") for key, value in (selector.get("matchLabels") or {}).items()):
        notes.lose("wildcards in a label selector: write them as a condition in CEL", "matchLabels")
        return False
    return True


def _condition(one: _Filter, *, with_kinds: bool, with_selectors: bool) -> str:
    """What a filter demands beyond its rules."""
    resources, notes = one.resources, one.notes.at("resources")
    parts = [either(_of_kinds(one.kinds))] if with_kinds else []
    if resources.get("operations") and with_kinds:
        parts.append(matches("request.operation", list(map(str, resources["operations"]))))
    names = [*([resources["name"]] if resources.get("name") else ()), *(resources.get("names") or ())]
    if names:
        parts.append(matches("request.name", list(map(str, names))))
    if resources.get("namespaces"):
        parts.append(matches("request.namespace", list(map(str, resources["namespaces"]))))
    parts += _of_annotations(resources.get("annotations") or {})
    if with_selectors:
        parts += _of_selector(resources.get("selector") or {}, notes.at("selector"))
        if resources.get("namespaceSelector"):
            notes.lose("a namespaceSelector beside other filters: write a policy for each filter", "namespaceSelector")
    subjects = one.user.get("subjects") or ()
    parts.append(either(_of_subjects(subjects, one.notes.at("subjects"))))
    return both(parts)


def _of_kinds(named: Sequence[Kind]) -> Iterator[str]:
    if any(kind.kind == ANY and kind.group == ANY for kind in named):
        return
    yield from dict.fromkeys(kind.condition for kind in named)


def _of_annotations(annotations: Json) -> Iterator[str]:
    for key, value in annotations.items():
        if is_wild(str(key)):
            names = matches("k", [str(key)])
            yield f"{_ANNOTATIONS}.exists(k, {both([names, matches(f'{_ANNOTATIONS}[k]', [str(value)])])})"
        else:
            yield matches(f"{_ANNOTATIONS}[?{quote(str(key))}].orValue('')", [str(value)])


def _of_selector(selector: Json, notes: Notes) -> Iterator[str]:
    """A label selector as conditions."""
    if not _is_plain(selector, notes):
        return
    for key, value in (selector.get("matchLabels") or {}).items():
        yield f"{_LABELS}[?{quote(str(key))}] == optional.of({quote(str(value))})"
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        key, values = quote(str(requirement.get("key"))), list(map(str, requirement.get("values") or ()))
        listed = "[" + ", ".join(map(literal, values)) + "]"
        match requirement.get("operator"):
            case "In":
                yield f"{_LABELS}[?{key}].orValue('') in {listed} && {key} in {_LABELS}"
            case "NotIn":
                yield f"!({key} in {_LABELS} && {_LABELS}[{key}] in {listed})"
            case "Exists":
                yield f"{key} in {_LABELS}"
            case "DoesNotExist":
                yield f"!({key} in {_LABELS})"
            case other:
                notes.lose(f"{other!r} is no operator of a label selector", "matchExpressions", index)


def _of_subjects(subjects: Sequence[Json], notes: Notes) -> Iterator[str]:
    for index, subject in enumerate(subjects):
        name = str(subject.get("name") or "")
        match subject.get("kind"):
            case "User":
                yield matches("request.userInfo.username", [name])
            case "Group":
                yield f"request.userInfo.groups.exists(g, {matches('g', [name])})"
            case "ServiceAccount":
                account = f"system:serviceaccount:{subject.get('namespace') or ''}:{name}"
                yield matches("request.userInfo.username", [account])
            case other:
                notes.lose(f"{other!r} is no kind of subject", index)
