"""Turns CEL policies of other products into Kubernetes' own, each by its kind.

Of Kyverno, rules of a ClusterPolicy or Policy with `validate.cel`, and ValidatingPolicies. Sources: api/kyverno/v1 and
api/policies.kyverno.io of github.com/kyverno/kyverno; its own generation of ValidatingAdmissionPolicies in
pkg/admissionpolicy/builder.go.

Of Gatekeeper, ConstraintTemplates with the engine K8sNativeValidation, and their constraints, of which each becomes a
policy with the parameters in it, so that nothing of Gatekeeper has to stay. Source: pkg/drivers/k8scel of
github.com/open-policy-agent/gatekeeper, whose ValidatingAdmissionPolicies need the kinds of the constraints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from policies.admissionpolicy.builtin.table import served_resources
from policies.admissionpolicy.documents.document import Path
from policies.admissionpolicy.model import DERIVE
from policies.golang.strconv import quote
from policies.kubernetes.spelling import with_article
from policies.objects.workload import plural

_Json = Mapping[str, Any]
_KYVERNO, _NEW_KYVERNO = "kyverno.io", "policies.kyverno.io"
_TEMPLATES, _CONSTRAINTS = "templates.gatekeeper.sh", "constraints.gatekeeper.sh"
_ENGINE = "K8sNativeValidation"


class Remark(NamedTuple):
    """Something to know. path: its place in the document. lost: whether a part of the document has no counterpart."""

    path: Path
    text: str
    lost: bool = True


class Conversion(NamedTuple):
    """The objects that a document becomes, policies before their bindings, and the remarks.

    origins: where the parts of an object come from, by the object's position and their path in it.
    """

    objects: tuple[dict[str, Any], ...] = ()
    remarks: tuple[Remark, ...] = ()
    origins: Mapping[tuple[int, Path], Path] = {}


def convert(values: Sequence[_Json]) -> list[Conversion]:
    """What becomes of each document. Objects of other groups, such as parameters, are left out without a word."""
    conversions, head = [], (_TEMPLATES, "ConstraintTemplate")
    templates = [value for value in values if _group_kind(value) == head]
    for value in values:
        try:  # nobody has checked it against the definition of its kind
            conversions.append(_converted(value, values, templates))
        except (AttributeError, KeyError, TypeError, ValueError):
            text = "its fields have not the types of their definition; the product that it is for would refuse it"
            conversions.append(_lost(text, "spec"))
    return conversions


def is_foreign(value: _Json) -> bool:
    """Whether a document is a policy of another product."""
    group, _ = _group_kind(value)
    return group in (_KYVERNO, _NEW_KYVERNO, _TEMPLATES, _CONSTRAINTS) or group.endswith(".gatekeeper.sh")


def _converted(value: _Json, values: Sequence[_Json], templates: Sequence[_Json]) -> Conversion:
    group, kind = _group_kind(value)
    if group == _CONSTRAINTS:
        return _constraint(value, templates)
    if value in templates:
        return _template(value, values)
    if group == _KYVERNO and kind in ("ClusterPolicy", "Policy"):
        return _cluster_policy(value)
    if group == _NEW_KYVERNO and kind in ("ValidatingPolicy", "NamespacedValidatingPolicy"):
        return _validating_policy(value)
    if is_foreign(value):
        return _lost(_OTHER_KINDS.get(kind, f"{with_article(kind)} cannot be turned"), "kind")
    return Conversion()


def _group_kind(value: _Json) -> tuple[str, str]:
    return str(value.get("apiVersion") or "").rpartition("/")[0], str(value.get("kind"))


def _lost(text: str, *steps: str | int) -> Conversion:
    return Conversion(remarks=(Remark(steps, text),))


def _below(value: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class _Notes:
    """Collects remarks below a path."""

    def __init__(self, path: Path = (), remarks: list[Remark] | None = None) -> None:
        self.path = path
        self.remarks: list[Remark] = [] if remarks is None else remarks

    def at(self, *steps: str | int) -> _Notes:
        return _Notes((*self.path, *steps), self.remarks)

    def lose(self, text: str, *steps: str | int) -> None:
        self.remarks.append(Remark((*self.path, *steps), text))

    def tell(self, text: str) -> None:
        self.remarks.append(Remark(self.path, text, lost=False))


# CEL as text ---------------------------------------------------------------------------------------------------------


def literal(value: Any) -> str:
    """A decoded JSON value as an expression. Entries of maps and lists are dynamic, as those of parameters are."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return quote(value)
        case Mapping():
            return "{" + ", ".join(f"{quote(str(key))}: dyn({literal(one)})" for key, one in value.items()) + "}"
        case _:
            return "[" + ", ".join(f"dyn({literal(one)})" for one in value) + "]"


def _matches(subject: str, patterns: Iterable[object]) -> str:
    """The condition that a text is one of some, which may have the wildcards * and ?."""
    texts = list(map(str, patterns))
    plain = [text for text in texts if not _is_wild(text)]
    parts = [f"{subject} in [{', '.join(map(quote, plain))}]"] if len(plain) > 1 else []
    parts += [f"{subject} == {quote(plain[0])}"] if len(plain) == 1 else []
    for text in filter(_is_wild, texts):
        pattern = re.escape(text).replace(re.escape("*"), ".*").replace(re.escape("?"), ".")
        parts.append(f"{subject}.matches({quote(f'^{pattern}$')})")
    return _either(parts)


def _is_wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _both(parts: Iterable[str]) -> str:
    """All conditions; empty if there is none."""
    return _joined(parts, " && ")


def _either(parts: Iterable[str]) -> str:
    """Any of the conditions; empty if there is none."""
    return _joined(parts, " || ")


def _joined(parts: Iterable[str], operator: str) -> str:
    filled = list(filter(None, parts))
    if len(filled) < 2:
        return "".join(filled)
    return operator.join(f"({part})" if "&&" in part or "||" in part else part for part in filled)


# What is made --------------------------------------------------------------------------------------------------------

_VERSION = "admissionregistration.k8s.io/v1"
_NAMESPACE_OBJECT = re.compile(r"\bnamespaceObject\b")


def _policy(name: str, spec: _Json, annotations: _Json | None = None) -> dict[str, Any]:
    """A policy, without what is empty. Its messages are lines, as Kubernetes demands."""
    metadata: dict[str, Any] = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    lines = [
        {**one, "message": " ".join(one["message"].split())} if "\n" in str(one.get("message") or "").strip() else one
        for one in spec.get("validations") or ()
    ]
    whole = _with_namespace({**spec, "validations": lines})
    filled = {key: value for key, value in whole.items() if value not in (None, [], {}, "")}
    return {"apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": filled}


def _with_namespace(spec: _Json) -> _Json:
    """A specification whose match conditions on namespaceObject are a variable, by which validations begin.

    kube-apiserver evaluates match conditions without the Namespace, so that these would fail on every request. Audit
    annotations stay: they may not be null by a condition, and refuse nothing.
    """
    conditions = spec.get("matchConditions") or ()
    texts = [text for one in conditions if _NAMESPACE_OBJECT.search(text := str(one.get("expression") or ""))]
    if not texts:
        return spec
    taken = {str(one.get("name")) for one in spec.get("variables") or ()}
    name = "inScope"
    while name in taken:
        name += "_"
    return {
        **spec,
        "matchConditions": [one for one in conditions if str(one.get("expression") or "") not in texts],
        "variables": [{"name": name, "expression": _both(texts)}, *(spec.get("variables") or ())],
        "validations": [
            {**one, "expression": f"!variables.{name} || ({one.get('expression')})"}
            for one in spec.get("validations") or ()
        ],
    }


def _binding(name: str, actions: Sequence[str], namespace: str = "", param_ref: _Json | None = None) -> dict[str, Any]:
    """The binding of the policy of the same name. namespace: the only one to which it applies."""
    spec: dict[str, Any] = {"policyName": name, **({"paramRef": param_ref} if param_ref else {})}
    if namespace:
        labels = {"kubernetes.io/metadata.name": namespace}
        spec["matchResources"] = {"namespaceSelector": {"matchLabels": labels}}
    kind, metadata = "ValidatingAdmissionPolicyBinding", {"name": name}
    spec["validationActions"] = list(actions)
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}


_ANY = "*"
_Rule = dict[str, Any]


class Kind(NamedTuple):
    """A kind, whose parts may be a `*`."""

    group: str
    version: str
    kind: str
    subresource: str = ""


def read_kind(text: str) -> Kind:
    """A kind as Kyverno writes it: `Pod`, `apps/v1/Deployment`, `v1/Pod`, `batch/*/Job`, `Pod/exec`, `Pod.exec`."""
    *before, kind = text.split("/")
    subresource = ""
    if before and kind[:1].islower():
        *before, kind, subresource = *before, kind
    elif "." in kind:
        kind, _, subresource = kind.partition(".")
    group = version = _ANY
    if len(before) > 1:
        group, version = before[:2]
    elif before and before[0].startswith("v"):
        group, version = "", before[0]
    elif before:
        group = before[0]
    return Kind(group, version, kind, subresource)


def _resource_rules(kinds: Sequence[Kind], operations: Iterable[str], notes: _Notes, scope: str = "") -> list[_Rule]:
    """A rule for each group and version of the kinds. Unknown ones need their group, and get the usual plural."""
    by_version: dict[tuple[str, str], dict[str, None]] = {}
    served = {kind.kind for kind in kinds if _served(kind)}
    for index, kind in enumerate(kinds):
        resources = _served(kind)
        if not resources:
            own, versions = notes.at(index), {one.version for one in served_resources() if one.group == kind.group}
            if kind.group == _ANY:
                own.lose(
                    f"no built-in resource has the kind {kind.kind}: write it with its group and version,"
                    f" as g/v/{kind.kind}"
                )
            elif kind.kind in served and versions and kind.version == _ANY:
                pass  # of a list of groups and one of kinds all pairs are named, of which some do not exist
            elif kind.version in versions:
                own.tell(f"it is left out, for there is no {kind.kind} in {kind.group or 'the core group'}")
            else:
                own.tell(f"the resource of {kind.kind} is taken to be {plural(kind.kind)}")
                resources = [(kind.group, kind.version, plural(kind.kind))]
        end = f"/{kind.subresource}" if kind.subresource else ""
        for group, version, resource in resources:
            by_version.setdefault((group, version), {})[resource + end] = None
    made = []
    for (group, version), names in by_version.items():
        rule: _Rule = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations)}
        made.append({**rule, "resources": list(names), **({"scope": scope} if scope else {})})
    return made


def _served(kind: Kind) -> list[tuple[str, str, str]]:
    """Group, version and name of each resource of a kind that an API server has by itself."""
    if kind.kind == _ANY:
        return [(kind.group, kind.version, _ANY)]
    served = [
        (one.group, one.version if kind.version != _ANY else _ANY, one.name)
        for one in served_resources()
        if one.kind.kind == kind.kind
        and "/" not in one.name
        and kind.group in (_ANY, one.group)
        and kind.version in (_ANY, one.version)
    ]
    return list(dict.fromkeys(served))


# Gatekeeper ----------------------------------------------------------------------------------------------------------

_KIND = "spec.crd.spec.names.kind"
_VARIABLE = re.compile(r"\bvariables\.(\w+)")
_ACTIONS = {"deny": "Deny", "warn": "Warn", "dryrun": "Audit"}
_POINTS = ("*", "validation.gatekeeper.sh", "vap.k8s.io")
_MATCH = frozenset(
    {"kinds", "scope", "namespaces", "excludedNamespaces", "name", "namespaceSelector", "labelSelector", "source"}
)


def _template(value: _Json, values: Sequence[_Json]) -> Conversion:
    if _source(value) is None:
        return _lost(f"it has no code for {_ENGINE}; Rego cannot be turned", "spec", "targets")
    kind = str(_below(value, _KIND) or "")
    text = f"there is no constraint of its kind {kind} among the files, so it enforces nothing"
    is_used = any(_group_kind(one) == (_CONSTRAINTS, kind) for one in values)
    return Conversion(remarks=() if is_used else (Remark(("metadata", "name"), text, lost=False),))


def _constraint(value: _Json, templates: Sequence[_Json]) -> Conversion:
    """The policy and the binding of a constraint. templates: all that there are."""
    template = next((one for one in templates if str(_below(one, _KIND) or "") == value.get("kind")), None)
    if template is None:
        return _lost(f"the ConstraintTemplate of {value.get('kind')} is not among the files: give it too", "kind")
    source = _source(template)
    if source is None:
        return _lost(f"its ConstraintTemplate has no code for {_ENGINE}; Rego cannot be turned", "kind")
    notes, spec = _Notes(), value.get("spec") or {}
    match, of_match = spec.get("match") or {}, notes.at("spec", "match")
    name = f"{str(value.get('kind')).lower()}-{(value.get('metadata') or {}).get('name') or ''}"
    actions = _actions(spec, notes.at("spec"))
    conditions = [*map(dict, source.get("matchCondition") or ()), *_conditions(match, of_match)]
    schema = (template["spec"]["crd"]["spec"].get("validation") or {}).get("openAPIV3Schema") or {}
    given = _defaulted(spec.get("parameters") or {}, schema, notes.at("spec", "parameters"))
    own = {"anyObject": "object == null ? oldObject : object", "params": f"dyn({literal(given)})"}
    read = _VARIABLE.findall(str(source))
    kinds = [
        Kind(str(group), _ANY, str(kind))
        for entry in match.get("kinds") or [{}]
        for group in entry.get("apiGroups") or [_ANY]
        for kind in entry.get("kinds") or [_ANY]
    ]
    scope = str(match.get("scope") or "")
    rules = _resource_rules(kinds, _WRITES, of_match.at("kinds"), scope if scope != _ANY else "")
    selectors = {"objectSelector": match.get("labelSelector"), "namespaceSelector": match.get("namespaceSelector")}
    made = {
        "failurePolicy": source.get("failurePolicy") or "Fail",
        "matchConstraints": {"resourceRules": rules, **{key: one for key, one in selectors.items() if one}},
        "matchConditions": conditions,
        "variables": [
            *({"name": name, "expression": text} for name, text in own.items() if name in read),
            *(source.get("variables") or ()),
        ],
        "validations": source.get("validations"),
    }
    objects = (_policy(name, made), _binding(name, actions)) if actions else ()
    return Conversion(objects, tuple(notes.remarks), {(0, ()): ("kind",)})


def _source(template: _Json) -> _Json | None:
    for target in (template.get("spec") or {}).get("targets") or ():
        for code in target.get("code") or ():
            if code.get("engine") == _ENGINE:
                return code.get("source") or {}
    return None


def _defaulted(value: Any, schema: _Json, notes: _Notes) -> Any:
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


def _actions(spec: _Json, notes: _Notes) -> list[str]:
    """The actions of the binding; none if the constraint is for other places than admission."""
    action = str(spec.get("enforcementAction") or "deny")
    if action != "scoped":
        if action not in _ACTIONS:
            notes.lose(f"{action!r} is no action of a policy", "enforcementAction")
        return [_ACTIONS[action]] if action in _ACTIONS else []
    chosen: dict[str, None] = {}
    for index, scoped in enumerate(spec.get("scopedEnforcementActions") or ()):
        points = [str(point.get("name")) for point in scoped.get("enforcementPoints") or ()]
        action = str(scoped.get("action"))
        if not any(point in _POINTS for point in points):
            notes.lose(f"only admission is followed, not {', '.join(points)}", "scopedEnforcementActions", index)
        elif action in _ACTIONS:
            chosen[_ACTIONS[action]] = None
        else:
            notes.lose(f"{action!r} is no action of a policy", "scopedEnforcementActions", index, "action")
    return [action for action in chosen if action != "Warn" or "Deny" not in chosen]


def _conditions(match: _Json, notes: _Notes) -> Iterator[dict[str, str]]:
    """What a constraint matches that rules cannot say."""
    for name in sorted(match.keys() - _MATCH):
        notes.lose("this is not known here", name)
    if match.get("source") == "Generated":
        text = "only what people write is judged; templates of workloads are, without an ExpansionTemplate"
        notes.lose(text, "source")
    if match.get("namespaces"):
        inside = _matches("request.namespace", match["namespaces"])
        yield {"name": "namespaces", "expression": _either(["request.namespace == ''", inside])}
    if match.get("excludedNamespaces"):
        outside = _matches("request.namespace", match["excludedNamespaces"])
        yield {"name": "excluded-namespaces", "expression": f"!({outside})"}
    if match.get("name"):
        yield {"name": "name", "expression": _matches("request.name", [match["name"]])}


# Kyverno -------------------------------------------------------------------------------------------------------------

_WRITES = ("CREATE", "UPDATE")
_SELECTORS = (("selector", "objectSelector"), ("namespaceSelector", "namespaceSelector"))
_SUBJECT = frozenset({"subjects", "roles", "clusterRoles"})
_RESOURCES = frozenset(
    {"kinds", "name", "names", "namespaces", "annotations", "selector", "namespaceSelector", "operations"}
)
_LABELS, _ANNOTATIONS = "object.metadata.?labels.orValue({})", "object.metadata.?annotations.orValue({})"
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
_CEL = {name: name for name in ("variables", "auditAnnotations", "paramKind")} | {"validations": "expressions"}
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def _cluster_policy(value: _Json) -> Conversion:
    notes, spec = _Notes(), value.get("spec") or {}
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
    # The annotation keeps a policy on Pods from the templates of workloads, where Kyverno's said so.
    annotations = (value.get("metadata") or {}).get("annotations") or {}
    derived = {DERIVE: "false"} if annotations.get(_AUTOGEN) == "none" else {}
    objects: list[dict[str, Any]] = []
    origins: dict[tuple[int, Path], Path] = {}
    for index, rule in enumerate(rules):
        own = name if len(rules) == 1 else f"{name}-{_label(rule.get('name'), index)}"
        made = _rule(rule, spec, notes.at("spec", "rules", index))
        if made is None:
            continue
        at, position, validate = ("spec", "rules", index), len(objects), rule["validate"]
        origins |= {(position, ("spec", key)): (*at, "validate", "cel", source) for key, source in _CEL.items()}
        origins[position, ("spec", "matchConditions")] = (*at, "celPreconditions")
        origins[position, ()] = at
        action = str(validate.get("failureAction") or spec.get("validationFailureAction") or "Audit")
        actions = ["Deny"] if action.lower() == "enforce" else ["Audit", "Warn"]
        objects += [_policy(own, made, derived), _binding(own, actions, namespace, validate["cel"].get("paramRef"))]
    return Conversion(tuple(objects), tuple(notes.remarks), origins)


def _rule(rule: _Json, spec: _Json, notes: _Notes) -> _Json | None:
    """The specification of the policy of a rule; None if it has no CEL, or matches nothing."""
    validate = rule.get("validate") or {}
    cel = validate.get("cel")
    # What has no counterpart.
    for key in filter(rule.get, _NOT_DONE):
        notes.lose(_NOT_DONE[key], key)
    for key in _ONLY_CEL:
        if validate.get(key) is not None:
            notes.lose("only rules in CEL (validate.cel) can be turned", "validate", key)
    for key in filter(rule.get, ("context", "preconditions") if cel else ()):
        notes.lose("JMESPath cannot be turned; write it in CEL as a matchCondition", key)
    if validate.get("failureActionOverrides"):
        notes.lose("write a binding for each", "validate", "failureActionOverrides")
    if not cel:
        return None
    constraints, condition = _match(rule, notes)
    conditions = [
        {"name": _label(one.get("name"), index), "expression": str(one.get("expression") or "")}
        for index, one in enumerate(rule.get("celPreconditions") or ())
    ]
    if condition:
        conditions.append({"name": "kyverno-match", "expression": condition})
    if not constraints["resourceRules"]:
        return None
    webhook = spec.get("webhookConfiguration") or {}
    message = {"message": validate["message"]} if validate.get("message") else {}
    return {
        "failurePolicy": webhook.get("failurePolicy") or spec.get("failurePolicy") or "Fail",
        "paramKind": cel.get("paramKind"),
        "matchConstraints": constraints,
        "matchConditions": conditions,
        "variables": cel.get("variables"),
        # A validation has the message of its rule where it has none.
        "validations": [
            {**(message if not (one.get("message") or one.get("messageExpression")) else {}), **one}
            for one in cel.get("expressions") or ()
        ],
        "auditAnnotations": cel.get("auditAnnotations"),
    }


def _validating_policy(value: _Json) -> Conversion:
    """A policy and its binding: the fields have the same names."""
    notes, spec = _Notes(), value.get("spec") or {}
    name, namespace = _metadata(value)
    evaluation = spec.get("evaluation") or {}
    mode = evaluation.get("mode") or "Kubernetes"
    if mode != "Kubernetes":
        notes.lose(f"it judges {mode}, not requests to the API server", "spec", "evaluation", "mode")
    if (evaluation.get("admission") or {}).get("enabled") is False:
        notes.lose("it does not judge requests, so there is nothing to make", "spec", "evaluation", "admission")
    if notes.remarks:
        return Conversion(remarks=tuple(notes.remarks))
    kept = ("matchConstraints", "matchConditions", "variables", "validations", "auditAnnotations")
    made = {"failurePolicy": spec.get("failurePolicy") or "Fail", **{key: spec.get(key) for key in kept}}
    controllers = ((spec.get("autogen") or {}).get("podControllers") or {}).get("controllers")
    annotations = {DERIVE: "false"} if controllers == [] else {}
    bound = _binding(name, spec.get("validationActions") or ("Deny",), namespace)
    return Conversion((_policy(name, made, annotations), bound))


def _metadata(value: _Json) -> tuple[str, str]:
    """The name, and the Namespace of a kind that is in one."""
    metadata = value.get("metadata") or {}
    is_in = value.get("kind") == "Policy" or str(value.get("kind")).startswith("Namespaced")
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "default") if is_in else ""


def _label(name: object, index: int) -> str:
    return _NAME.sub("-", str(name or f"rule-{index + 1}")).strip("-.").lower() or f"rule-{index + 1}"


class _Filter:
    """One filter: what it says of the resource and of the user, and its place."""

    def __init__(self, written: _Json, notes: _Notes) -> None:
        self.resources, self.notes = written.get("resources") or {}, notes
        self.user = {key: value for key, value in written.items() if key in _SUBJECT and value}
        self.kinds = [read_kind(str(text)) for text in self.resources.get("kinds") or ()]
        for name in sorted(self.resources.keys() - _RESOURCES):
            notes.lose("this is not known here", "resources", name)
        for name in ("roles", "clusterRoles"):
            if written.get(name):
                notes.lose("CEL does not know which roles a user has; write a condition on authorizer", name)

    def condition(self, *, whole: bool) -> str:
        """What it demands beyond its rules. whole: with its kinds and selectors, which are no rules and constraints."""
        resources, notes = self.resources, self.notes.at("resources")
        parts: list[str] = []
        if whole:
            is_any = any((kind.kind, kind.group) == (_ANY, _ANY) for kind in self.kinds)
            parts.append(_either(dict.fromkeys(map(_of_kind, () if is_any else self.kinds))))
            parts.append(_matches("request.operation", resources.get("operations") or ()))
        names = [*([resources["name"]] if resources.get("name") else ()), *(resources.get("names") or ())]
        parts.append(_matches("request.name", names))
        parts.append(_matches("request.namespace", resources.get("namespaces") or ()))
        for key, value in (resources.get("annotations") or {}).items():
            if _is_wild(str(key)):
                both = _both([_matches("k", [key]), _matches(f"{_ANNOTATIONS}[k]", [value])])
                parts.append(f"{_ANNOTATIONS}.exists(k, {both})")
            else:
                parts.append(_matches(f"{_ANNOTATIONS}[?{quote(str(key))}].orValue('')", [value]))
        if whole:
            parts += _of_selector(resources.get("selector") or {}, notes.at("selector"))
            if resources.get("namespaceSelector"):
                text = "a namespaceSelector beside other filters: write a policy for each filter"
                notes.lose(text, "namespaceSelector")
        parts.append(_either(_of_subjects(self.user.get("subjects") or (), self.notes.at("subjects"))))
        return _both(parts)


def _filters(block: _Json, notes: _Notes) -> tuple[list[_Filter], list[_Filter]]:
    """The filters of which one, and of which all must match. The oldest form has one filter without a list."""
    if "any" not in block and "all" not in block:
        return [], [_Filter(block, notes)] if block else []
    any_, all_ = (
        [_Filter(one, notes.at(name, index)) for index, one in enumerate(block.get(name) or ())]
        for name in ("any", "all")
    )
    return any_, all_


def _match(rule: _Json, notes: _Notes) -> tuple[dict[str, Any], str]:
    """What rules and selectors say of what a rule matches, and a further condition; empty if there is none."""
    any_, all_ = _filters(rule.get("match") or {}, notes.at("match"))
    filters = any_ or all_
    if not filters:
        notes.lose("it matches nothing", "match")
    rules: list[_Rule] = []
    for one in filters if any_ else [one for one in filters if one.kinds][:1]:
        operations = one.resources.get("operations") or _WRITES
        made = _resource_rules(one.kinds, operations, one.notes.at("resources", "kinds"))
        rules += [rule for rule in made if rule not in rules]
    constraints: dict[str, Any] = {"resourceRules": rules}
    alone = len(filters) == 1
    for name, target in _SELECTORS if alone else ():  # constraints can have those of the only filter
        selector = filters[0].resources.get(name)
        if selector and _is_plain(selector, filters[0].notes.at("resources", name)):
            constraints[target] = selector
    conditions = [one.condition(whole=not alone) for one in filters]
    wanted = _both(conditions) if all_ else "" if "" in conditions else _either(conditions)
    if len(any_) > 1 and all(set(one.resources) <= {"kinds", "operations"} and not one.user for one in any_):
        wanted = ""  # the rules alone say it
    any_, all_ = _filters(rule.get("exclude") or {}, notes.at("exclude"))
    unwanted = [one.condition(whole=True) for one in any_ or all_]
    left_out = _either(unwanted) if any_ else _both(unwanted)
    return constraints, _both([wanted, f"!({left_out})" if left_out else ""])


def _is_plain(selector: _Json, notes: _Notes) -> bool:
    is_plain = not any(_is_wild(f"{key}{value}") for key, value in (selector.get("matchLabels") or {}).items())
    if not is_plain:
        notes.lose("wildcards in a label selector: write them as a condition in CEL", "matchLabels")
    return is_plain


def _of_kind(kind: Kind) -> str:
    group = "" if kind.group == _ANY else f"request.kind.group == {quote(kind.group)}"
    name = "" if kind.kind == _ANY else f"request.kind.kind == {quote(kind.kind)}"
    return " && ".join(filter(None, (group, name))) or "true"


def _of_selector(selector: _Json, notes: _Notes) -> Iterator[str]:
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


def _of_subjects(subjects: Sequence[_Json], notes: _Notes) -> Iterator[str]:
    for index, subject in enumerate(subjects):
        name = str(subject.get("name") or "")
        match subject.get("kind"):
            case "User":
                yield _matches("request.userInfo.username", [name])
            case "Group":
                yield f"request.userInfo.groups.exists(g, {_matches('g', [name])})"
            case "ServiceAccount":
                account = f"system:serviceaccount:{subject.get('namespace') or ''}:{name}"
                yield _matches("request.userInfo.username", [account])
            case other:
                notes.lose(f"{other!r} is no kind of subject", index)
