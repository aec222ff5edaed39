"""Reads policies, bindings and exceptions: documents in; values, all problems and other objects out.

Documents are read as by the API server: decoded strictly, validated, expressions compiled, defaults filled in
(kubernetes' pkg/apis/admissionregistration/{v1,v1beta1,v1alpha1}/defaults.go). Problems between documents come last:
duplicate names, and policies and bindings that contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from policies.admissionpolicy import schema
from policies.admissionpolicy.documents import builder, exception
from policies.admissionpolicy.documents.consistency import PLACES, Entry, fit
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.exception import WrittenException
from policies.admissionpolicy.documents.fields import EXCEPTION, KINDS, decode
from policies.admissionpolicy.documents.problem import Problem, Report, Spot, required, show
from policies.admissionpolicy.documents.validation import validate_binding, validate_policy
from policies.admissionpolicy.model import Binding, Policy
from policies.cel.dialect import NEW, Dialect
from policies.engine.request import GroupVersionKind
from policies.golang.strconv import quote
from policies.kubernetes.spelling import closest

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
    return builder.binding(decoded, document) if kind.endswith("Binding") else builder.policy(decoded, document)


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
    build = builder.binding if binds else builder.policy
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
