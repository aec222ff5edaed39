"""Reads policies, bindings and exceptions: documents in; values, all problems and other objects out.

Documents are read as by the API server: decoded strictly, validated, expressions compiled, defaults filled in
(kubernetes' pkg/apis/admissionregistration/{v1,v1beta1,v1alpha1}/defaults.go). Problems between documents come last:
duplicate names, and policies and bindings that contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from policies.admissionpolicy import schema
from policies.admissionpolicy.documents import exception
from policies.admissionpolicy.documents.document import (
    Document,
    Path,
    Problem,
    Report,
    Spot,
    duplicate,
    not_found,
    required,
    show,
)
from policies.admissionpolicy.documents.exception import WrittenException
from policies.admissionpolicy.documents.fields import EXCEPTION, KINDS, decode
from policies.admissionpolicy.documents.validation import Values, validate_binding, validate_policy
from policies.admissionpolicy.model import (
    AuditAnnotation,
    Binding,
    Expression,
    MatchResources,
    MutationExpression,
    NamedExpression,
    NamedRule,
    Origin,
    ParamKind,
    ParamRef,
    Policy,
    Validation,
)
from policies.cel.dialect import NEW, Dialect
from policies.engine.match import LabelSelector
from policies.engine.request import GroupVersionKind
from policies.golang.strconv import quote
from policies.kubernetes.spelling import closest, did_you_mean


def policy(value: Values, document: Document) -> Policy:
    """The policy that a valid document describes."""
    spec = value["spec"]
    kind = spec.get("paramKind")
    return Policy(
        **_head(value, document),
        param_kind=None if kind is None else ParamKind(api_version=kind["apiVersion"], kind=kind["kind"]),
        match_constraints=_match_resources(spec["matchConstraints"]),
        match_conditions=tuple(
            NamedExpression(name=item["name"], expression=_expression(document, "matchConditions", index, "expression"))
            for index, item in enumerate(spec.get("matchConditions", ()))
        ),
        variables=tuple(
            NamedExpression(name=item["name"], expression=_expression(document, "variables", index, "expression"))
            for index, item in enumerate(spec.get("variables", ()))
        ),
        validations=tuple(_validation(item, index, document) for index, item in enumerate(spec.get("validations", ()))),
        audit_annotations=tuple(
            AuditAnnotation(
                key=item["key"], value_expression=_expression(document, "auditAnnotations", index, "valueExpression")
            )
            for index, item in enumerate(spec.get("auditAnnotations", ()))
        ),
        mutations=tuple(_mutation(item, index, document) for index, item in enumerate(spec.get("mutations", ()))),
        failure_policy=spec.get("failurePolicy", "Fail"),
        reinvocation_policy=spec.get("reinvocationPolicy", ""),
    )


def binding(value: Values, document: Document) -> Binding:
    """The binding that a valid document describes."""
    spec = value["spec"]
    return Binding(
        **_head(value, document),
        policy_name=spec["policyName"],
        param_ref=_param_ref(spec["paramRef"]) if "paramRef" in spec else None,
        match_resources=_match_resources(spec["matchResources"]) if "matchResources" in spec else None,
        validation_actions=frozenset(spec.get("validationActions", ())),
    )


def _head(value: Values, document: Document) -> dict[str, Any]:
    metadata = value["metadata"]
    return {
        "kind": value["kind"],
        "name": metadata["name"],
        "annotations": metadata.get("annotations", {}),
        "labels": metadata.get("labels", {}),
        "api_version": value["apiVersion"],
        "origin": Origin(file=document.name, line=document.line),
    }


def _expression(document: Document, *steps: str | int) -> Expression:
    path: Path = ("spec", *steps)
    line, column = document.place(path)
    text = document.value
    for step in path:
        text = text[step]
    return Expression(text=text, path=show(path), file=document.name, line=line, column=column)


def _validation(value: Values, index: int, document: Document) -> Validation:
    has_message = bool(value.get("messageExpression"))
    return Validation(
        expression=_expression(document, "validations", index, "expression"),
        message=value.get("message", ""),
        message_expression=_expression(document, "validations", index, "messageExpression") if has_message else None,
        reason=value.get("reason", "Invalid"),
    )


def _mutation(value: Values, index: int, document: Document) -> MutationExpression:
    field = "jsonPatch" if value["patchType"] == "JSONPatch" else "applyConfiguration"
    expression = _expression(document, "mutations", index, field, "expression")
    return MutationExpression(patch_type=value["patchType"], expression=expression)


def _match_resources(value: Values) -> MatchResources:
    return MatchResources(
        resource_rules=tuple(map(_rule, value.get("resourceRules", ()))),
        exclude_resource_rules=tuple(map(_rule, value.get("excludeResourceRules", ()))),
        namespace_selector=LabelSelector.of(value.get("namespaceSelector", {})),
        object_selector=LabelSelector.of(value.get("objectSelector", {})),
        match_policy=value.get("matchPolicy", "Equivalent"),
    )


def _rule(value: Values) -> NamedRule:
    return NamedRule(
        resource_names=tuple(value.get("resourceNames", ())),
        api_groups=tuple(value["apiGroups"]),
        api_versions=tuple(value["apiVersions"]),
        operations=tuple(value["operations"]),
        resources=tuple(value["resources"]),
        scope=value.get("scope", "*"),
    )


def _param_ref(value: Values) -> ParamRef:
    return ParamRef(
        name=value.get("name", ""),
        namespace=value.get("namespace", ""),
        selector=LabelSelector.of(value["selector"]) if "selector" in value else None,
        parameter_not_found_action=value["parameterNotFoundAction"],
    )


PLACES: tuple[Path, ...] = (("metadata", "name"), ("spec", "policyName"), ("spec", "paramRef"))
"""The fields at which these problems are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A policy, binding or exception that was read: its kind and name, its report, and its value.

    value: None if it has errors. policy_name: for bindings.
    """

    kind: str
    name: str
    policy_name: str = ""
    report: Report
    value: Policy | Binding | WrittenException | None = None

    @property
    def place(self) -> str:
        """File and line of its name."""
        document = self.report.document
        return f"{document.name}:{document.place(('metadata', 'name'))[0]}"


def fit(entries: Iterable[Entry], *, complete: bool = False) -> list[Entry]:
    """The entries, with each problem noted at the document that has to change.

    complete: whether there are no other entries, so that a policy without a binding is an error; else there is a
    warning. The arguments are not changed and can be used again in another set.
    """
    fitted = [replace(entry, report=entry.report.continued()) for entry in entries]
    fitted = list(_first_of_each_name(fitted))
    policies = {(entry.kind, entry.name): entry for entry in fitted if entry.kind.endswith("Policy")}
    bindings = [entry for entry in fitted if entry.kind.endswith("Binding")]
    for entry in bindings:
        if entry.policy_name:
            _binding(entry, policies)
    bound = {(_policy_kind(entry), entry.policy_name) for entry in bindings}
    for key, entry in policies.items():
        if entry.name and key not in bound:
            message = f"no {entry.kind}Binding names this policy, and without one it does nothing"
            hint = "add a binding with this name as its policyName"
            spot = Spot(entry.report, ("metadata", "name"))
            if complete:
                spot.fault(message, hint)
            else:
                spot.warn(message, f"{hint}; until then it is judged here as if one denied")
    return fitted


def _policy_kind(binding: Entry) -> str:
    return binding.kind.removesuffix("Binding")


def _first_of_each_name(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries, without the values of duplicates, which would replace the first of their name in a cluster."""
    first: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        known = first.setdefault((entry.kind, entry.name), entry)
        if known is entry or not entry.name:
            yield entry
            continue
        hint = f"the first {entry.kind} of this name is at {known.place}: rename one"
        Spot(entry.report, ("metadata", "name")).fault(duplicate(entry.name), hint)
        yield replace(entry, value=None)


def _binding(entry: Entry, policies: Mapping[tuple[str, str], Entry]) -> None:
    """Note that the policy of a binding is missing, or that only one of the two has parameters."""
    kind, name = _policy_kind(entry), entry.policy_name
    known = policies.get((kind, name))
    if known is None:
        _missing(entry, kind, policies)
        return
    policy, binding = known.value, entry.value
    if not isinstance(policy, Policy) or not isinstance(binding, Binding):
        return
    spot = Spot(entry.report, ("spec", "paramRef"))
    if binding.param_ref is not None and policy.param_kind is None:
        hint = f"leave it out, or give the policy at {known.place} a paramKind"
        spot.warn("the policy has no paramKind: the parameters are ignored", hint, key=True)
    if binding.param_ref is None and policy.param_kind is not None:
        hint = f"name a {policy.param_kind.kind}, or let the policy check `params == null`"
        spot.warn("the policy has a paramKind: without a paramRef, params is null", hint)


def _missing(entry: Entry, kind: str, policies: Mapping[tuple[str, str], Entry]) -> None:
    name = entry.policy_name
    other = next((known for known in policies.values() if known.name == name), None)
    if other is not None:
        hint = f"there is a {other.kind} of this name: write {other.kind}Binding"
    else:
        same_kind = [known for known_kind, known in policies if known_kind == kind]
        hint = did_you_mean(name, same_kind, f"a {kind} of this name must be among the documents")
    Spot(entry.report, ("spec", "policyName")).fault(not_found(name), hint)


GROUP = "admissionregistration.k8s.io"
VERSIONS = ("v1", "v1beta1", "v1alpha1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The result of reading a set of documents.

    policies, bindings, exceptions: those without errors, in the order of the documents, like the problems. context: all
    other objects, such as parameters, Namespaces and CRDs, undecoded. A set with an error should not be used.
    """

    policies: tuple[Policy, ...] = ()
    bindings: tuple[Binding, ...] = ()
    exceptions: tuple[WrittenException, ...] = ()
    context: tuple[Document, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that make the set unusable."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not make the set unusable."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One object of a document. Only policies, bindings and exceptions have an entry."""

    report: Report
    entry: Entry | None


def read(
    documents: Iterable[Document], today: date | None = None, *, complete: bool = False, dialect: Dialect = NEW
) -> Loaded:
    """The contents of all documents, items of Lists included, with all problems. It raises nothing.

    today: if given, there are warnings about exceptions that have ended or soon will. complete: whether there are no
    other documents; then a policy without a binding is an error. dialect: what the API server knows in expressions.
    """
    return together((part for document in documents for part in parts(document, dialect)), today, complete=complete)


def parts(document: Document, dialect: Dialect = NEW) -> tuple[Part, ...]:
    """The objects of a document, each read independently. This is the expensive part of `read`."""
    return tuple(_part(item, dialect) for item in objects([document]))


def trusted(document: Document) -> Policy | Binding:
    """The policy or binding in a document that is known to have no errors, without compiling its expressions."""
    value = document.value
    kind, version = value["kind"], value["apiVersion"].rpartition("/")[2]
    decoded = decode(value, KINDS[kind], Spot(Report(document)), version)
    return binding(decoded, document) if kind.endswith("Binding") else policy(decoded, document)


def together(objects_read: Iterable[Part], today: date | None = None, *, complete: bool = False) -> Loaded:
    """The result for objects that `parts` returned; see `read`. The objects can be used again in another set."""
    read_before = tuple(objects_read)
    fitted = fit((part.entry for part in read_before if part.entry is not None), complete=complete)
    rest = iter(fitted)
    reports = [part.report if part.entry is None else next(rest).report for part in read_before]
    for entry in fitted:
        if isinstance(entry.value, WrittenException) and today is not None:
            exception.warn(entry.value.value, Spot(entry.report), today)
    return Loaded(
        policies=tuple(entry.value for entry in fitted if isinstance(entry.value, Policy)),
        bindings=tuple(entry.value for entry in fitted if isinstance(entry.value, Binding)),
        exceptions=tuple(entry.value for entry in fitted if isinstance(entry.value, WrittenException)),
        context=tuple(p.report.document for p in read_before if p.entry is None and not p.report.failed),
        problems=tuple(problem for report in reports for problem in report.problems),
    )


def _part(document: Document, dialect: Dialect) -> Part:
    report = Report(document)
    kind = _kind(document, Spot(report))
    if kind is None:
        _definition(document.value, Spot(report))
        return Part(report=report, entry=None)
    entry = _exception(document, report) if kind == exception.KIND else _entry(document, kind, report, dialect)
    return Part(report=entry.report, entry=entry)


def _definition(value: Any, spot: Spot) -> None:
    """Note a malformed CustomResourceDefinition, because code that reads schemas relies on its form."""
    if not isinstance(value, dict) or value.get("kind") != "CustomResourceDefinition":
        return
    try:
        spec = value["spec"]
        for version in spec["versions"]:
            kind = GroupVersionKind(str(spec["group"]), str(version["name"]), str(spec["names"]["kind"]))
            schema.of_custom_resource(kind, (version.get("schema") or {}).get("openAPIV3Schema"))
    except Exception as error:  # noqa: BLE001 - what stands there may be anything
        reason = f"{type(error).__name__}: {error}"
        spot.child("spec").fault(
            f"this is not a valid CustomResourceDefinition: {reason}", "see `kubectl explain crd.spec`"
        )


def objects(documents: Iterable[Document]) -> Iterator[Document]:
    """The objects in documents. The items of a List are separate objects."""
    for document in documents:
        value = document.value
        if not _is_list(value):
            yield document
            continue
        for index in range(len(value.get("items") or ())):
            item = document.at("items", index)
            if isinstance(item.value, dict) and value["kind"] != "List":
                # As in the output of `kubectl get --raw`: only the list states the kind of its items.
                inherited = {"apiVersion": value["apiVersion"], "kind": value["kind"].removesuffix("List")}
                item = replace(item, value={**inherited, **item.value})
            yield from objects([item])


def _is_list(value: Any) -> bool:
    """Whether an object is a list. An object with a name is not, even if its kind ends in `List`."""
    if not isinstance(value, dict) or not isinstance(value.get("items", ()), (list, tuple, type(None))):
        return False
    kind, metadata = value.get("kind"), value.get("metadata")
    if not isinstance(kind, str) or not isinstance(value.get("apiVersion"), str) or not kind.endswith("List"):
        return False
    return kind == "List" or ("items" in value and not (isinstance(metadata, dict) and "name" in metadata))


def _kind(document: Document, spot: Spot) -> str | None:
    """The kind of a policy, binding or exception; None for other objects. A value that is not an object is noted."""
    value = document.value
    if not isinstance(value, dict):
        spot.fault("this is not a Kubernetes object", "a document is a map with apiVersion, kind and metadata")
        return None
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str) or not value[name]:
            spot.child(name).fault(required(), "every object of Kubernetes says what it is by apiVersion and kind")
    if spot.report.failed:
        return None
    kind, (group, _, version) = value["kind"], value["apiVersion"].rpartition("/")
    if kind in KINDS and group == GROUP and version in VERSIONS:
        return str(kind)
    if (group, version, kind) == (exception.GROUP, exception.VERSION, exception.KIND):
        return str(kind)
    if exception.is_meant(group, kind):
        meant, api_version = exception.KIND, f"{exception.GROUP}/{exception.VERSION}"
    else:
        meant, api_version = _misspelt(kind, group), f"{GROUP}/v1"
    if meant:
        spot.child("apiVersion" if meant == kind else "kind").fault(
            f"no matches for kind {quote(kind)} in version {quote(value['apiVersion'])}",
            f"write apiVersion: {api_version}, kind: {meant}",
            path="",
        )
    return None


def _misspelt(kind: str, group: str) -> str:
    """The kind of policy or binding that is probably intended; empty for an object of another kind or group."""
    if group == GROUP:
        return "" if kind.endswith("WebhookConfiguration") else closest(kind, KINDS)
    return kind if kind in KINDS and (not group or closest(group, [GROUP])) else ""


def _entry(document: Document, kind: str, report: Report, dialect: Dialect) -> Entry:
    """The entry for a policy or binding, decoded and validated."""
    top = Spot(report)
    version = str(document.value["apiVersion"]).rpartition("/")[2]
    _duplicates(top)
    value = decode(document.value, KINDS[kind], top, version)
    mutating, binds = kind.startswith("Mutating"), kind.endswith("Binding")
    # Before validation, as in the API server, so that defaults are validated like written values.
    if binds and version == "v1alpha1" and "paramRef" in value.get("spec", {}):
        value["spec"]["paramRef"].setdefault("parameterNotFoundAction", "Deny")
    (validate_binding if binds else validate_policy)(value, top, dialect, mutating=mutating)
    if dialect.release.validates_declaratively:
        report.forget_repetitions()
    build = binding if binds else policy
    return Entry(
        kind=kind,
        name=value.get("metadata", {}).get("name", ""),
        policy_name=value.get("spec", {}).get("policyName", ""),
        report=report.outline(PLACES),
        value=None if report.failed else build(value, document),
    )


def _exception(document: Document, report: Report) -> Entry:
    """The entry for an exception, decoded and validated."""
    top = Spot(report)
    _duplicates(top)
    value = decode(document.value, EXCEPTION, top, exception.VERSION)
    exception.validate(value, top)
    return Entry(
        kind=exception.KIND,
        name=value.get("metadata", {}).get("name", ""),
        report=report,
        value=None if report.failed else WrittenException(exception.build(value), document),
    )


def _duplicates(top: Spot) -> None:
    for path in top.report.document.duplicates:
        top.child(*path).fault(f"duplicate field {quote(show(path))}", "keep one of them", key=True)


__all__ = [
    "GROUP",
    "VERSIONS",
    "Document",
    "Loaded",
    "Part",
    "Problem",
    "objects",
    "parts",
    "read",
    "together",
    "trusted",
]
