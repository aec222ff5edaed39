"""Turns policies of other products into Kubernetes' own, each by its kind; Kyverno's are in a module of their own.

Of Gatekeeper, ConstraintTemplates with the engine K8sNativeValidation, and their constraints. Source:
pkg/drivers/k8scel of github.com/open-policy-agent/gatekeeper, which makes ValidatingAdmissionPolicies, too. Those need
the kinds of the constraints for their parameters. Here each constraint becomes a policy of its own with the parameters
in it, so that nothing of Gatekeeper has to stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policies.admissionpolicy.documents.document import Path
from policies.conversion import kyverno, outcome
from policies.conversion.outcome import (
    ANY,
    Conversion,
    Json,
    Kind,
    Notes,
    Remark,
    binding,
    either,
    literal,
    lost,
    matches,
    policy,
)
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
    given = _defaulted(spec.get("parameters") or {}, _schema(named), notes.at("spec", "parameters"))
    own = {"anyObject": "object == null ? oldObject : object", "params": f"dyn({literal(given)})"}
    read = outcome.variables_in(source)
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


def _schema(template: Json) -> Json:
    validation = template["spec"]["crd"]["spec"].get("validation") or {}
    return validation.get("openAPIV3Schema") or {}


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
        "resourceRules": outcome.resource_rules(named, _OPERATIONS, notes.at("kinds"), scope if scope != ANY else "")
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


_OWN = "admissionregistration.k8s.io"


def convert(values: Sequence[Json]) -> list[Conversion]:
    """What becomes of each document. Objects of other groups, such as parameters, are left out without a word."""
    templates = [value for value in values if _is(value, TEMPLATES, "ConstraintTemplate")]
    return [_guarded(value, values, templates) for value in values]


def is_foreign(value: Json) -> bool:
    """Whether a document is a policy of another product."""
    groups = (kyverno.GROUP, kyverno.NEW_GROUP, TEMPLATES, CONSTRAINTS)
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
    if group == kyverno.GROUP and kind in ("ClusterPolicy", "Policy"):
        return kyverno.cluster_policy(value)
    if group == kyverno.NEW_GROUP and kind in ("ValidatingPolicy", "NamespacedValidatingPolicy"):
        return kyverno.validating_policy(value)
    if is_foreign(value):
        return lost(kyverno.OTHER_KINDS.get(kind, f"{with_article(kind)} cannot be turned"), "kind")
    return Conversion()


def _group(value: Json) -> str:
    return str(value.get("apiVersion") or "").rpartition("/")[0]


def _is(value: Json, group: str, kind: str) -> bool:
    return (_group(value), str(value.get("kind"))) == (group, kind)
