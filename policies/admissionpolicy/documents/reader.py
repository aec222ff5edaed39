"""Reads policies, bindings and exceptions: documents in; values, all problems and other objects out.

Documents are read as by the API server: decoded strictly, validated, expressions compiled, defaults filled in
(kubernetes' pkg/apis/admissionregistration/{v1,v1beta1,v1alpha1}/defaults.go). Problems between documents come last:
duplicate names, and policies and bindings that contradict each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from operator import getitem
from typing import Any

from msgspec import convert

from policies.admissionpolicy import schema
from policies.admissionpolicy.documents.document import (
    EXCEPTION,
    EXCEPTION_GLOBS,
    KINDS,
    Document,
    Path,
    Problem,
    Report,
    Spot,
    decode,
    duplicate,
    not_found,
    required,
    show,
)
from policies.admissionpolicy.documents.validation import PATCHES, validate_binding, validate_exception, validate_policy
from policies.admissionpolicy.model import Binding, Expression, Origin, Policy
from policies.cel.environment import NEW, Dialect
from policies.engine.match import LabelSelector
from policies.engine.request import GroupVersionKind
from policies.engine.rule import PolicyException
from policies.golang.strconv import quote, trimmed
from policies.kubernetes.spelling import closest, did_you_mean

GROUP = "admissionregistration.k8s.io"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
EXCEPTION_GROUP, EXCEPTION_VERSION, EXCEPTION_KIND = "cks-admission.dev", "v1", "PolicyException"
_SOON = 14  # days before the end of an exception when warnings begin: time to fix what the exception is for
_PLACES: tuple[Path, ...] = (("metadata", "name"), ("spec", "policyName"), ("spec", "paramRef"))
"""The fields at which problems between documents are reported."""
# So many misspelt names get a hint, for which each is compared with all others.
_HINTS = 10
_SELECTORS = ("namespaceSelector", "objectSelector")
_EXPRESSIONS = {
    "matchConditions": ("expression",),
    "variables": ("expression",),
    "validations": ("expression", "messageExpression"),
    "auditAnnotations": ("valueExpression",),
}


@dataclass(frozen=True, slots=True)
class WrittenException:
    """An exception and the document that contains it."""

    value: PolicyException
    document: Document

    def unknown(self, known: Collection[str]) -> Sequence[Problem]:
        """A problem for each unknown rule in the exception. `known`: the names of all rules and policies."""
        report = Report(self.document)
        for index, name in enumerate(self.value.rules):
            if name not in known:
                hint = did_you_mean(name, known, f"there are {', '.join(known)}")
                Spot(report).child("spec", "policies", index).fault(not_found(name), hint)
        return report.problems


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
    """One object of a document. Only a policy, binding or exception has a kind, and a value if there are no errors."""

    report: Report
    kind: str = ""
    name: str = ""
    policy_name: str = ""
    value: Policy | Binding | WrittenException | None = None

    @property
    def place(self) -> str:
        """File and line of its name."""
        document = self.report.document
        return f"{document.name}:{document.place(('metadata', 'name'))[0]}"


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


def portable(part: Part) -> Part:
    """The same part, which can be sent to another process. The document of another object knows few places then."""
    document = part.report.document
    outline = replace(document.outline(_PLACES), value=document.value)
    return part if part.kind else replace(part, report=part.report.continued(outline))


def trusted(document: Document) -> Policy | Binding:
    """The policy or binding in a document that is known to have no errors, without compiling its expressions."""
    value = document.value
    return _built(decode(value, KINDS[value["kind"]], Spot(Report(document))), document)


def together(objects_read: Iterable[Part], today: date | None = None, *, complete: bool = False) -> Loaded:
    """The result for objects that `parts` returned; see `read`. The objects can be used again in another set."""
    everything = list(_first_of_each_name(replace(part, report=part.report.continued()) for part in objects_read))
    _fit([part for part in everything if part.kind], complete=complete)
    values = [part.value for part in everything]
    for part in everything:
        # An exception that has ended is no error: a date must not make documents unusable.
        if isinstance(part.value, WrittenException) and today is not None:
            until, spot = part.value.value.until, Spot(part.report, ("spec", "until"))
            days = (until - today).days
            if days < 0:
                spot.warn(f"ended on {until}: it lets nothing pass", "delete it, or write a later day")
            elif days <= _SOON:
                when = {0: "today", 1: "tomorrow"}.get(days, f"in {days} days")
                spot.warn(f"ends {when}: nothing passes by it after {until}", "fix what it is for, or extend it")
    return Loaded(
        policies=tuple(value for value in values if isinstance(value, Policy)),
        bindings=tuple(value for value in values if isinstance(value, Binding)),
        exceptions=tuple(value for value in values if isinstance(value, WrittenException)),
        context=tuple(part.report.document for part in everything if not part.kind and not part.report.failed),
        problems=tuple(problem for part in everything for problem in part.report.problems),
    )


def _first_of_each_name(everything: Iterable[Part]) -> Iterator[Part]:
    """The objects, without the values of duplicates, which would replace the first of their name in a cluster."""
    first: dict[tuple[str, str], Part] = {}
    for part in everything:
        known = first.setdefault((part.kind, part.name), part)
        if known is part or not part.name:
            yield part
            continue
        hint = f"the first {part.kind} of this name is at {known.place}: rename one"
        Spot(part.report, ("metadata", "name")).fault(duplicate(part.name), hint)
        yield replace(part, value=None)


def _fit(given: Sequence[Part], *, complete: bool) -> None:
    """Note each problem between documents at the one that has to change."""
    policies = {(part.kind, part.name): part for part in given if part.kind.endswith("Policy")}
    bindings = [part for part in given if part.kind.endswith("Binding")]
    hints = iter(range(_HINTS))
    for part in bindings:
        if part.policy_name:
            _compare(part, policies, hints)
    bound = {(part.kind.removesuffix("Binding"), part.policy_name) for part in bindings}
    for key, part in policies.items():
        if part.name and key not in bound:
            message = f"no {part.kind}Binding names this policy, and without one it does nothing"
            hint = "add a binding with this name as its policyName"
            spot = Spot(part.report, ("metadata", "name"))
            if complete:
                spot.fault(message, hint)
            else:
                spot.warn(message, f"{hint}; until then it is judged here as if one denied")


def _compare(part: Part, policies: Mapping[tuple[str, str], Part], hints: Iterator[int]) -> None:
    """Note that a binding's policy is missing, or that one of both has parameters. hints: as many may be given."""
    kind, name = part.kind.removesuffix("Binding"), part.policy_name
    known = policies.get((kind, name))
    if known is None:
        other = next((policies[each, name] for each in KINDS if (each, name) in policies), None)
        if other is not None:
            hint = f"there is a {other.kind} of this name: write {other.kind}Binding"
        else:
            same_kind = (known_name for known_kind, known_name in policies if known_kind == kind)
            meant = same_kind if next(hints, None) is not None else ()
            hint = did_you_mean(name, meant, f"a {kind} of this name must be among the documents")
        Spot(part.report, ("spec", "policyName")).fault(not_found(name), hint)
        return
    policy, binding = known.value, part.value
    if not isinstance(policy, Policy) or not isinstance(binding, Binding):
        return
    spot = Spot(part.report, ("spec", "paramRef"))
    if binding.param_ref is not None and policy.param_kind is None:
        hint = f"leave it out, or give the policy at {known.place} a paramKind"
        spot.warn("the policy has no paramKind: the parameters are ignored", hint, key=True)
    if binding.param_ref is None and policy.param_kind is not None:
        hint = f"name a {policy.param_kind.kind}, or let the policy check `params == null`"
        spot.warn("the policy has a paramKind: without a paramRef, params is null", hint)


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


def is_exception(group: str, kind: str) -> bool:
    """Whether a document is an exception, or is probably intended as one and would otherwise be overlooked."""
    meant = kind == EXCEPTION_KIND and (not group or bool(closest(group, [EXCEPTION_GROUP])))
    return group == EXCEPTION_GROUP or meant


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
    kind, (group, _, version) = str(value["kind"]), value["apiVersion"].rpartition("/")
    if (kind in KINDS and group == GROUP and version in VERSIONS) or (
        (group, version, kind) == (EXCEPTION_GROUP, EXCEPTION_VERSION, EXCEPTION_KIND)
    ):
        return kind
    meant, api_version = "", f"{GROUP}/v1"
    if is_exception(group, kind):
        meant, api_version = EXCEPTION_KIND, f"{EXCEPTION_GROUP}/{EXCEPTION_VERSION}"
    elif group == GROUP and not kind.endswith("WebhookConfiguration"):
        meant = closest(kind, KINDS)
    elif kind in KINDS and (not group or closest(group, [GROUP])):
        meant = kind
    if meant:
        spot.child("apiVersion" if meant == kind else "kind").fault(
            f"no matches for kind {quote(kind)} in version {quote(value['apiVersion'])}",
            f"write apiVersion: {api_version}, kind: {meant}",
            path="",
        )
    return None


def _part(document: Document, dialect: Dialect) -> Part:
    report = Report(document)
    top = Spot(report)
    kind = _kind(document, top)
    if kind is None:
        if isinstance(document.value, dict) and document.value.get("kind") == "CustomResourceDefinition":
            _try_definition(document.value, top)
        return Part(report=report)
    for path in document.duplicates:
        top.child(*path).fault(f"duplicate field {quote(show(path))}", "keep one of them", key=True)
    is_own, binds = kind == EXCEPTION_KIND, kind.endswith("Binding")
    value = decode(document.value, EXCEPTION if is_own else KINDS[kind], top)
    decoded = replace(top, value=value)
    kept = [*_PLACES]
    if is_own:
        policies = value.get("spec", {}).get("policies", ())
        kept += [("spec", "until"), *(("spec", "policies", index) for index in range(len(policies)))]
        validate_exception(decoded)
    else:
        # Before validation, as in the API server, so that defaults are validated like written values.
        reference = decoded.child("spec", "paramRef").value
        if binds and document.value["apiVersion"].endswith("/v1alpha1") and reference is not None:
            reference.setdefault("parameterNotFoundAction", "Deny")
        (validate_binding if binds else validate_policy)(decoded, dialect, mutating=kind.startswith("Mutating"))
        if dialect.release.validates_declaratively:  # of problems with the same field and message the first one stays
            firsts = {(problem.path, problem.message): problem for problem in reversed(report.problems)}
            report.problems = [one for one in report.problems if firsts[one.path, one.message] is one]
    outline, built = document.outline(kept), None
    if not report.failed:
        built = WrittenException(_exception(value), outline) if is_own else _built(value, document)
    return Part(
        report=report.continued(outline),
        kind=kind,
        name=value.get("metadata", {}).get("name", ""),
        policy_name=value.get("spec", {}).get("policyName", ""),
        value=built,
    )


def _try_definition(value: Mapping[str, Any], spot: Spot) -> None:
    """Note why the schemas in a CustomResourceDefinition cannot be used."""
    try:
        spec = value["spec"]
        for version in spec["versions"]:
            kind = GroupVersionKind(str(spec["group"]), str(version["name"]), str(spec["names"]["kind"]))
            schema.of_custom_resource(kind, (version.get("schema") or {}).get("openAPIV3Schema"))
    except Exception as error:  # noqa: BLE001 - what stands there may be anything
        reason = f"this is not a valid CustomResourceDefinition: {type(error).__name__}: {error}"
        spot.child("spec").fault(reason, "see `kubectl explain crd.spec`")


def _exception(value: Mapping[str, Any]) -> PolicyException:
    spec = value["spec"]
    match = spec.get("match", {})
    return PolicyException(
        name=value["metadata"]["name"],
        rules=tuple(spec["policies"]),
        reason=trimmed(spec["reason"]),
        until=date.fromisoformat(spec["until"]),
        **{name: tuple(match.get(name, ())) for name in EXCEPTION_GLOBS},
        object_selector=LabelSelector.of(match.get("objectSelector", {})),
    )


def _built(value: Mapping[str, Any], document: Document) -> Policy | Binding:
    """The policy or binding that a valid document describes, with the defaults of the API server filled in.

    Source: SetDefaults_* in kubernetes' pkg/apis/admissionregistration/v1/defaults.go. A validation's reason has no
    default there; an absent one acts as Invalid (pkg/admission/plugin/policy/validating/validator.go).
    """
    spec = value["spec"]
    fields: dict[str, Any] = {
        **value["metadata"],
        **spec,
        "kind": value["kind"],
        "origin": Origin(file=document.name, line=document.line),
    }
    for name in ("matchConstraints", "matchResources"):
        if name in spec:
            selectors = {each: LabelSelector.of(spec[name].get(each, {})) for each in _SELECTORS}
            fields[name] = {**spec[name], **selectors}
    if "selector" in spec.get("paramRef", {}):
        fields["paramRef"] = {**spec["paramRef"], "selector": LabelSelector.of(spec["paramRef"]["selector"])}
    for name, keys in _EXPRESSIONS.items():
        fields[name] = [
            {**item, **{key: _expression(document, "spec", name, at, key) if item.get(key) else None for key in keys}}
            for at, item in enumerate(spec.get(name, ()))
        ]
    fields["mutations"] = [
        {**item, "expression": _expression(document, "spec", "mutations", at, PATCHES[item["patchType"]], "expression")}
        for at, item in enumerate(spec.get("mutations", ()))
    ]
    return convert(fields, Binding) if value["kind"].endswith("Binding") else convert(fields, Policy)


def _expression(document: Document, *path: str | int) -> Expression:
    line, column = document.place(path)
    text = reduce(getitem, path, document.value)
    return Expression(text=text, path=show(path), file=document.name, line=line, column=column)
