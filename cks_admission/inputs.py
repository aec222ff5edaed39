"""What the library is given: documents, as text or decoded, and requests, as far as policies see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cks_admission.errors import DocumentError, ReleaseError, RequestError
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.evaluation.inputs import as_json
from policies.cel.environment import Dialect
from policies.engine.request import AdmissionRequest, GroupVersionResource, Operation, UserInfo, mapping
from policies.kubernetes.release import NEWEST, Release, named
from policies.lint import review
from policies.lint.finding import LintFinding
from webhook.files import manifest
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles, PolicyFilesError

Documents = Document | Mapping[str, Any] | Iterable[Document | Mapping[str, Any]]
"""One document or several, as `read` returns them or decoded by other means."""


def read(text: str | bytes, name: str = "<text>") -> tuple[Document, ...]:
    """The documents in a text of YAML or JSON, as kubectl reads it; name: of the file, for messages.

    Raises DocumentError.
    """
    try:
        return tuple(policyfiles.parse(text, name))
    except FileError as error:
        raise DocumentError(str(error)) from None


def lint(documents: Documents, *, kubernetes: str = NEWEST.name) -> tuple[LintFinding, ...]:
    """The mistakes in policies that Kubernetes accepts, each with its place and a remedy.

    kubernetes: a release, such as `1.37`. Raises DocumentError and ReleaseError.
    """
    given, release = listed(documents), release_of(kubernetes)
    return review.review(files(given, release).loaded, given, release)


def release_of(kubernetes: str) -> Release:
    """The release of Kubernetes with a name. Raises ReleaseError."""
    try:
        return named(kubernetes)
    except ValueError as error:
        raise ReleaseError(str(error)) from None


def files(documents: Documents, release: Release) -> PolicyFiles:
    """What is in documents. A policy without a binding counts as if one denied. Raises DocumentError."""
    read = (part for document in listed(documents) for part in reader.parts(document, Dialect(release)))
    try:
        return policyfiles.of_parts(read, drafts=True, release=release)
    except PolicyFilesError as error:
        raise DocumentError(str(error), error.problems) from None


def listed(documents: Documents) -> list[Document]:
    """The documents one by one. Decoded objects have no places; kind and name stand for the file."""
    listed = []
    for number, given in enumerate([documents] if isinstance(documents, Document | Mapping) else documents, 1):
        match given:
            case Document():
                listed.append(given)
                continue
            case {"kind": str(kind), "metadata": {"name": str(name)}}:
                named = f"{kind} {name}"
            case _:
                named = f"document {number}"
        listed.append(Document(value=given, name=named, places=lambda _: (1, 1)))
    return listed


_EVERYBODY = "system:authenticated"


class Request(Struct, frozen=True, kw_only=True):
    """One write.

    object: as it would be stored; None for a DELETE. old_object: as it is now; None for a CREATE. operation: what the
    objects tell, unless given. resource: the one that is written, as kubectl takes it, `deployments.v1.apps`, or
    `deployments` in the group of the object; the kind's usual one, unless given. name: the object's, unless given.
    namespace: for objects that name none. user, groups, extra: of the requester, who is always in system:authenticated.
    params, namespace_object: what an expression reads by these names; policies have theirs from the documents.
    """

    object: Mapping[str, Any] | None = None
    old_object: Mapping[str, Any] | None = None
    operation: Operation | None = None
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = "default"
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}
    options: Mapping[str, Any] | None = None
    dry_run: bool = False
    params: Mapping[str, Any] | None = None
    namespace_object: Mapping[str, Any] | None = None

    @property
    def verb(self) -> Operation:
        """The operation."""
        if self.operation is not None:
            return self.operation
        if self.object is None:
            return "DELETE"
        return "CREATE" if self.old_object is None else "UPDATE"


def admission_request(request: Request) -> AdmissionRequest:
    """The AdmissionRequest that the API server makes of a request. Raises RequestError."""
    shown = _plain(request.object if request.object is not None else request.old_object)
    if shown is None:
        raise RequestError("a request needs an object, an old_object, or both")
    if problem := _problem(shown):
        raise RequestError(problem)
    groups = tuple(dict.fromkeys((*request.groups, _EVERYBODY)))
    user = UserInfo(request.user, groups=groups, extra=dict(request.extra))
    made = manifest.request(shown, None, user=user, namespace=request.namespace, uid="")
    return replace(
        made,
        name=request.name or made.name,
        operation=request.verb,
        resource=_resource(request.resource, made.resource),
        sub_resource=request.subresource,
        object=_plain(request.object),
        old_object=_plain(request.old_object),
        options=_plain(request.options),
        dry_run=request.dry_run,
    )


def request_json(request: Request) -> Mapping[str, Any]:
    """What an expression reads as `request`; of an object without kind only operation, name and namespace."""
    shown = _plain(request.object if request.object is not None else request.old_object) or {}
    if _problem(shown):
        metadata = mapping(shown, "metadata")
        names = {name: metadata[name] for name in ("name", "namespace") if metadata.get(name)}
        return {"operation": request.verb, **names, "userInfo": {"username": request.user, "groups": request.groups}}
    return as_json(admission_request(request))


def _problem(shown: Mapping[str, Any]) -> str:
    """Why something is no object of Kubernetes; empty if it is one."""
    for field in ("apiVersion", "kind"):
        if not isinstance(shown.get(field), str) or not shown[field]:
            return f"the object has no {field}, by which the API server knows the policies that match"
    return "" if isinstance(shown.get("metadata", {}), dict) else "the object's metadata is no map"


def _resource(written: str, usual: GroupVersionResource) -> GroupVersionResource:
    """The resource that is written, as `deployments.v1.apps`, `pods.v1.` or `pods`; the usual one if none is."""
    resource, _, rest = written.partition(".")
    version, _, group = rest.partition(".")
    if version:
        return GroupVersionResource(group, version, resource)
    return replace(usual, resource=resource) if resource else usual


def _plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return value if value is None or isinstance(value, dict) else dict(value)
