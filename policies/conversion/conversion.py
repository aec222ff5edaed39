"""Turns policies of other products into Kubernetes' own, each by its kind.

Of Kyverno, rules of a ClusterPolicy or Policy with `validate.cel`, and ValidatingPolicies. Sources: api/kyverno/v1 and
api/policies.kyverno.io of github.com/kyverno/kyverno; its own generation of ValidatingAdmissionPolicies in
pkg/admissionpolicy/builder.go.

Of Gatekeeper, ConstraintTemplates with the engine K8sNativeValidation, and their constraints, of which each becomes a
policy with the parameters in it, so that nothing of Gatekeeper has to stay. Source: pkg/drivers/k8scel of
github.com/open-policy-agent/gatekeeper, whose ValidatingAdmissionPolicies need the kinds of the constraints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from policies.admissionpolicy.documents.document import Path
from policies.admissionpolicy.model import DERIVE
from policies.conversion.outcome import (
    ANY,
    Conversion,
    Json,
    Kind,
    Notes,
    Remark,
    Rule,
    binding,
    both,
    either,
    in_namespace,
    is_wild,
    literal,
    lost,
    matches,
    policy,
    read_kind,
    resource_rules,
    variables_in,
)
from policies.golang.strconv import quote
from policies.kubernetes.spelling import with_article

TEMPLATES, CONSTRAINTS = "templates.gatekeeper.sh", "constraints.gatekeeper.sh"
ENGINE = "K8sNativeValidation"
_OPERATIONS = ("CREATE", "UPDATE")
_ACTIONS = {"deny": "Deny", "warn": "Warn", "dryrun": "Audit"}
_POINTS = ("*", "validation.gatekeeper.sh", "vap.k8s.io")
_MATCH = frozenset(
    {"kinds", "scope", "namespaces", "excludedNamespaces", "name", "namespaceSelector", "labelSelector", "source"}
)


def _kind_of(template: Json) -> str:
    kind: Any = template
    for key in ("spec", "crd", "spec", "names", "kind"):
        kind = kind.get(key) if isinstance(kind, Mapping) else None
    return str(kind or "")


def _template(value: Json, constraints: Sequence[Json]) -> Conversion:
    """What is to be said of a template itself. constraints: those of its kind."""
    if _source(value) is None:
        return lost(f"it has no code for {ENGINE}; Rego cannot be turned", "spec", "targets")
    if not constraints:
        text = f"there is no constraint of its kind {_kind_of(value)} among the files, so it enforces nothing"
        return Conversion(remarks=(Remark(("metadata", "name"), text, lost=False),))
    return Conversion()


def _constraint(value: Json, templates: Sequence[Json]) -> Conversion:
    """The policy and the binding of a constraint. templates: all that there are."""
    named = next((one for one in templates if _kind_of(one) == value.get("kind")), None)
    if named is None:
        return lost(f"the ConstraintTemplate of {value.get('kind')} is not among the files: give it too", "kind")
    source = _source(named)
    if source is None:
        return lost(f"its ConstraintTemplate has no code for {ENGINE}; Rego cannot be turned", "kind")
    notes, spec = Notes(), value.get("spec") or {}
    match = spec.get("match") or {}
    name = f"{str(value.get('kind')).lower()}-{(value.get('metadata') or {}).get('name') or ''}"
    actions = _actions(spec, notes.at("spec"))
    conditions = [dict(one) for one in source.get("matchCondition") or ()]
    conditions += _conditions(match, notes.at("spec", "match"))
    schema = (named["spec"]["crd"]["spec"].get("validation") or {}).get("openAPIV3Schema") or {}
    given = _defaulted(spec.get("parameters") or {}, schema, notes.at("spec", "parameters"))
    own = {"anyObject": "object == null ? oldObject : object", "params": f"dyn({literal(given)})"}
    read = variables_in(source)
    made = {
        "failurePolicy": source.get("failurePolicy") or "Fail",
        "matchConstraints": _constraints(match, notes.at("spec", "match")),
        "matchConditions": conditions,
        "variables": [
            *({"name": name, "expression": text} for name, text in own.items() if name in read),
            *(source.get("variables") or ()),
        ],
        "validations": source.get("validations"),
    }
    objects = (policy(name, made), binding(name, name, actions)) if actions else ()
    origins: dict[tuple[int, Path], Path] = {(0, ()): ("kind",)}
    return Conversion(objects, tuple(notes.remarks), origins)


def _source(template: Json) -> Json | None:
    """The code of a template in CEL; None if it has none."""
    for target in (template.get("spec") or {}).get("targets") or ():
        for code in target.get("code") or ():
            if code.get("engine") == ENGINE:
                return code.get("source") or {}
    return None


def _defaulted(value: Any, schema: Json, notes: Notes) -> Any:
    """Parameters with the defaults of their schema, as the API server fills them in. Notes what is missing."""
    if isinstance(value, list):
        return [_defaulted(item, schema.get("items") or {}, notes.at(index)) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    own = {name: field["default"] for name, field in fields.items() if "default" in field} | dict(value)
    for name in schema.get("required") or ():
        if name not in own:
            notes.lose("its template requires this parameter, and the constraint has none", name)
    rest = others if isinstance(others, Mapping) else {}
    return {name: _defaulted(item, fields.get(name, rest), notes.at(name)) for name, item in own.items()}


def _actions(spec: Json, notes: Notes) -> list[str]:
    """The actions of the binding; none if the constraint is for other places than admission."""
    action = str(spec.get("enforcementAction") or "deny")
    if action != "scoped":
        if action not in _ACTIONS:
            notes.lose(f"{action!r} is no action of a policy", "enforcementAction")
        return [_ACTIONS[action]] if action in _ACTIONS else []
    chosen = []
    for index, scoped in enumerate(spec.get("scopedEnforcementActions") or ()):
        points = [str(point.get("name")) for point in scoped.get("enforcementPoints") or ()]
        if not any(point in _POINTS for point in points):
            notes.lose(f"only admission is followed, not {', '.join(points)}", "scopedEnforcementActions", index)
        elif (named := str(scoped.get("action"))) in _ACTIONS:
            chosen.append(_ACTIONS[named])
        else:
            notes.lose(f"{named!r} is no action of a policy", "scopedEnforcementActions", index, "action")
    chosen = list(dict.fromkeys(chosen))
    return [action for action in chosen if action != "Warn" or "Deny" not in chosen]


def _constraints(match: Json, notes: Notes) -> dict[str, Any]:
    written = match.get("kinds") or [{"apiGroups": [ANY], "kinds": [ANY]}]
    named = [
        Kind(str(group), ANY, str(kind))
        for entry in written
        for group in entry.get("apiGroups") or [ANY]
        for kind in entry.get("kinds") or [ANY]
    ]
    scope = str(match.get("scope") or "")
    made: dict[str, Any] = {
        "resourceRules": resource_rules(named, _OPERATIONS, notes.at("kinds"), scope if scope != ANY else "")
    }
    for name, target in (("labelSelector", "objectSelector"), ("namespaceSelector", "namespaceSelector")):
        if match.get(name):
            made[target] = match[name]
    return made


def _conditions(match: Json, notes: Notes) -> list[dict[str, str]]:
    """What a constraint matches that rules cannot say."""
    for name in sorted(match.keys() - _MATCH):
        notes.lose("this is not known here", name)
    if match.get("source") == "Generated":
        notes.lose(
            "only what people write is judged; templates of workloads are, without an ExpansionTemplate", "source"
        )
    made = []
    if match.get("namespaces"):
        inside = matches("request.namespace", list(map(str, match["namespaces"])))
        made.append({"name": "namespaces", "expression": either(["request.namespace == ''", inside])})
    if match.get("excludedNamespaces"):
        outside = matches("request.namespace", list(map(str, match["excludedNamespaces"])))
        made.append({"name": "excluded-namespaces", "expression": f"!({outside})"})
    if match.get("name"):
        made.append({"name": "name", "expression": matches("request.name", [str(match["name"])])})
    return made


_WRITES = ("CREATE", "UPDATE")
_SELECTORS = (("selector", "objectSelector"), ("namespaceSelector", "namespaceSelector"))
_SUBJECT = frozenset({"subjects", "roles", "clusterRoles"})
_RESOURCES = frozenset(
    {"kinds", "name", "names", "namespaces", "annotations", "selector", "namespaceSelector", "operations"}
)
_LABELS, _ANNOTATIONS = "object.metadata.?labels.orValue({})", "object.metadata.?annotations.orValue({})"


class _Match(NamedTuple):
    """Rules for resources, selectors beside them, and a further condition; empty if there is none."""

    rules: list[Rule]
    selectors: dict[str, Any]
    condition: str


class _Filter(NamedTuple):
    """One filter: what it says of the resource and of the user, and its place."""

    resources: Json
    user: Json
    notes: Notes

    @property
    def kinds(self) -> list[Kind]:
        return [read_kind(str(text)) for text in self.resources.get("kinds") or ()]


def _match(rule: Json, notes: Notes) -> _Match:
    any_, all_ = _filters(rule.get("match") or {}, notes.at("match"))
    filters = any_ or all_
    if not filters:
        notes.lose("it matches nothing", "match")
    first = filters if any_ else [one for one in filters if one.kinds][:1]
    made: list[Rule] = []
    for one in first:
        operations = list(one.resources.get("operations") or _WRITES)
        rules = resource_rules(one.kinds, operations, one.notes.at("resources", "kinds"))
        made += [rule for index, rule in enumerate(rules) if rule not in (*made, *rules[:index])]
    selectors: dict[str, Any] = {}
    alone = len(filters) == 1
    for name, target in _SELECTORS if alone else ():  # constraints can have those of the only filter
        selector = filters[0].resources.get(name)
        if selector and _is_plain(selector, filters[0].notes.at("resources", name)):
            selectors[target] = selector
    conditions = [_condition(one, with_kinds=not alone, with_selectors=not alone) for one in filters]
    wanted = both(conditions) if all_ else "" if "" in conditions else either(conditions)
    if any_ and len(any_) > 1 and all(set(one.resources) <= {"kinds", "operations"} and not one.user for one in any_):
        wanted = ""  # the rules alone say it
    any_, all_ = _filters(rule.get("exclude") or {}, notes.at("exclude"))
    unwanted = [_condition(one, with_kinds=True, with_selectors=True) for one in any_ or all_]
    left_out = either(unwanted) if any_ else both(unwanted)
    return _Match(made, selectors, both([wanted, f"!({left_out})" if left_out else ""]))


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


def _is_plain(selector: Json, notes: Notes) -> bool:
    if any(is_wild(f"{key}{value}") for key, value in (selector.get("matchLabels") or {}).items()):
        notes.lose("wildcards in a label selector: write them as a condition in CEL", "matchLabels")
        return False
    return True


def _condition(one: _Filter, *, with_kinds: bool, with_selectors: bool) -> str:
    """What a filter demands beyond its rules."""
    resources, notes = one.resources, one.notes.at("resources")
    named = [] if any((kind.kind, kind.group) == (ANY, ANY) for kind in one.kinds) else one.kinds
    parts = [either(dict.fromkeys(kind.condition for kind in named))] if with_kinds else []
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


def _of_annotations(annotations: Json) -> Iterator[str]:
    for key, value in annotations.items():
        if is_wild(str(key)):
            names = matches("k", [str(key)])
            yield f"{_ANNOTATIONS}.exists(k, {both([names, matches(f'{_ANNOTATIONS}[k]', [str(value)])])})"
        else:
            yield matches(f"{_ANNOTATIONS}[?{quote(str(key))}].orValue('')", [str(value)])


def _of_selector(selector: Json, notes: Notes) -> Iterator[str]:
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


KYVERNO, NEW_KYVERNO = "kyverno.io", "policies.kyverno.io"
_NOT_DONE = {
    "mutate": "a mutation: write a MutatingAdmissionPolicy",
    "generate": "this product makes no other objects",
    "verifyImages": "this product verifies no signatures of images",
}
_OTHER_KINDS = {
    "MutatingPolicy": "a mutation: write a MutatingAdmissionPolicy; its fields have the same names",
    "NamespacedMutatingPolicy": "a mutation: write a MutatingAdmissionPolicy for the Namespace",
    "ImageValidatingPolicy": "this product verifies no signatures of images",
    "GeneratingPolicy": "this product makes no other objects",
    "DeletingPolicy": "this product deletes no objects",
    "CleanupPolicy": "this product deletes no objects",
    "ClusterCleanupPolicy": "this product deletes no objects",
    "PolicyException": "write a PolicyException of cks-admission.dev, which has an end and a reason",
}
_AUTOGEN = "pod-policies.kyverno.io/autogen-controllers"
_ONLY_CEL = ("pattern", "anyPattern", "deny", "foreach", "podSecurity", "manifests", "assert")
_SPECIFIC = ("context", "preconditions")
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def _cluster_policy(value: Json) -> Conversion:
    """A policy and a binding for each rule with CEL."""
    notes, spec = Notes(), value.get("spec") or {}
    name, namespace = _metadata(value)
    for key in ("validationFailureActionOverrides", "webhookConfiguration.matchConditions"):
        if _below(spec, key):
            notes.lose("write a binding for each", "spec", *key.split("."))
    if spec.get("applyRules") == "One":
        notes.lose("all rules apply, not only the first that matches", "spec", "applyRules")
    if spec.get("admission") is False:
        notes.lose("it does not judge requests, so there is nothing to make", "spec", "admission")
        return Conversion(remarks=tuple(notes.remarks))
    rules = spec.get("rules") or ()
    objects: list[dict[str, Any]] = []
    origins: dict[tuple[int, Path], Path] = {}
    for index, rule in enumerate(rules):
        own = name if len(rules) == 1 else f"{name}-{_label(rule.get('name'), index)}"
        made = _rule(own, rule, spec, notes.at("spec", "rules", index), _derived(value))
        if made is None:
            continue
        cel = ("spec", "rules", index, "validate", "cel")
        origins |= {(len(objects), ("spec", key)): (*cel, _SAME.get(key, key)) for key in _CEL}
        origins[len(objects), ("spec", "matchConditions")] = ("spec", "rules", index, "celPreconditions")
        origins[len(objects), ()] = ("spec", "rules", index)
        more = in_namespace(namespace) if namespace else {}
        objects += [made, _bound(own, rule, spec, more)]
    return Conversion(tuple(objects), tuple(notes.remarks), origins)


_CEL = ("validations", "variables", "auditAnnotations", "paramKind")
_SAME = {"validations": "expressions"}


def _rule(name: str, rule: Json, spec: Json, notes: Notes, annotations: Json) -> dict[str, Any] | None:
    """The policy of a rule; None if it has no CEL, or matches nothing."""
    _leave(rule, notes)
    validate = rule.get("validate") or {}
    cel = validate.get("cel")
    if not cel:
        return None
    matched = _match(rule, notes)
    conditions = [
        {"name": _label(one.get("name"), index), "expression": str(one.get("expression") or "")}
        for index, one in enumerate(rule.get("celPreconditions") or ())
    ]
    if matched.condition:
        conditions.append({"name": "kyverno-match", "expression": matched.condition})
    if not matched.rules:
        return None
    webhook = spec.get("webhookConfiguration") or {}
    message = {"message": validate["message"]} if validate.get("message") else {}
    made = {
        "failurePolicy": webhook.get("failurePolicy") or spec.get("failurePolicy") or "Fail",
        "paramKind": cel.get("paramKind"),
        "matchConstraints": {"resourceRules": matched.rules, **matched.selectors},
        "matchConditions": conditions,
        "variables": cel.get("variables"),
        # A validation has the message of its rule where it has none.
        "validations": [
            {**(message if not (one.get("message") or one.get("messageExpression")) else {}), **one}
            for one in cel.get("expressions") or ()
        ],
        "auditAnnotations": cel.get("auditAnnotations"),
    }
    return policy(name, made, annotations)


def _leave(rule: Json, notes: Notes) -> None:
    for key, text in _NOT_DONE.items():
        if rule.get(key):
            notes.lose(text, key)
    validate = rule.get("validate") or {}
    for key in _ONLY_CEL:
        if validate.get(key) is not None:
            notes.lose("only rules in CEL (validate.cel) can be turned", "validate", key)
    for key in _SPECIFIC if validate.get("cel") else ():
        if rule.get(key):
            notes.lose("JMESPath cannot be turned; write it in CEL as a matchCondition", key)
    if validate.get("failureActionOverrides"):
        notes.lose("write a binding for each", "validate", "failureActionOverrides")


def _bound(name: str, rule: Json, spec: Json, where: Json) -> dict[str, Any]:
    validate = rule["validate"]
    action = str(validate.get("failureAction") or spec.get("validationFailureAction") or "Audit")
    actions = ["Deny"] if action.lower() == "enforce" else ["Audit", "Warn"]
    return binding(name, name, actions, paramRef=validate["cel"].get("paramRef"), matchResources=dict(where))


def _validating_policy(value: Json) -> Conversion:
    """A policy and its binding: the fields have the same names."""
    notes, spec = Notes(), value.get("spec") or {}
    name, namespace = _metadata(value)
    evaluation = spec.get("evaluation") or {}
    mode = evaluation.get("mode") or "Kubernetes"
    if mode != "Kubernetes":
        notes.lose(f"it judges {mode}, not requests to the API server", "spec", "evaluation", "mode")
    if (evaluation.get("admission") or {}).get("enabled") is False:
        notes.lose("it does not judge requests, so there is nothing to make", "spec", "evaluation", "admission")
    if notes.has_lost:
        return Conversion(remarks=tuple(notes.remarks))
    kept = ("matchConstraints", "matchConditions", "variables", "validations", "auditAnnotations")
    made = {"failurePolicy": spec.get("failurePolicy") or "Fail", **{key: spec.get(key) for key in kept}}
    controllers = ((spec.get("autogen") or {}).get("podControllers") or {}).get("controllers")
    annotations = {DERIVE: "false"} if controllers == [] else {}
    more = in_namespace(namespace) if namespace else {}
    actions: Sequence[str] = spec.get("validationActions") or ("Deny",)
    bound = binding(name, name, list(actions), matchResources=more)
    return Conversion((policy(name, made, annotations), bound), tuple(notes.remarks))


def _metadata(value: Json) -> tuple[str, str]:
    """The name, and the Namespace of a kind that is in one."""
    metadata = value.get("metadata") or {}
    is_in = value.get("kind") == "Policy" or str(value.get("kind")).startswith("Namespaced")
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "default") if is_in else ""


def _derived(value: Json) -> dict[str, str]:
    """The annotation that keeps a policy on Pods from the templates of workloads, where Kyverno's said so."""
    annotations = (value.get("metadata") or {}).get("annotations") or {}
    return {DERIVE: "false"} if annotations.get(_AUTOGEN) == "none" else {}


def _label(name: object, index: int) -> str:
    """A name that an object may have as a part of its own."""
    return _NAME.sub("-", str(name or f"rule-{index + 1}")).strip("-.").lower() or f"rule-{index + 1}"


def _below(value: Json, dotted: str) -> object:
    for key in dotted.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)  # type: ignore[assignment]
    return value


_OWN = "admissionregistration.k8s.io"


def convert(values: Sequence[Json]) -> list[Conversion]:
    """What becomes of each document. Objects of other groups, such as parameters, are left out without a word."""
    templates = [value for value in values if _is(value, TEMPLATES, "ConstraintTemplate")]
    return [_guarded(value, values, templates) for value in values]


def is_foreign(value: Json) -> bool:
    """Whether a document is a policy of another product."""
    groups = (KYVERNO, NEW_KYVERNO, TEMPLATES, CONSTRAINTS)
    return _group(value) in groups or _group(value).endswith(".gatekeeper.sh")


def _guarded(value: Json, values: Sequence[Json], templates: Sequence[Json]) -> Conversion:
    """The conversion of a document, which nobody has checked against the definition of its kind."""
    try:
        return _converted(value, values, templates)
    except (AttributeError, KeyError, TypeError, ValueError):
        return lost(
            "its fields have not the types of their definition; the product that it is for would refuse it", "spec"
        )


def _converted(value: Json, values: Sequence[Json], templates: Sequence[Json]) -> Conversion:
    group, kind = _group(value), str(value.get("kind"))
    if group == CONSTRAINTS:
        return _constraint(value, templates)
    if value in templates:
        mine = [one for one in values if _is(one, CONSTRAINTS, _kind_of(value))]
        return _template(value, mine)
    if group == KYVERNO and kind in ("ClusterPolicy", "Policy"):
        return _cluster_policy(value)
    if group == NEW_KYVERNO and kind in ("ValidatingPolicy", "NamespacedValidatingPolicy"):
        return _validating_policy(value)
    if is_foreign(value):
        return lost(_OTHER_KINDS.get(kind, f"{with_article(kind)} cannot be turned"), "kind")
    return Conversion()


def _group(value: Json) -> str:
    return str(value.get("apiVersion") or "").rpartition("/")[0]


def _is(value: Json, group: str, kind: str) -> bool:
    return (_group(value), str(value.get("kind"))) == (group, kind)
