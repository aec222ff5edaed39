"""AdmissionReview bytes in, AdmissionReview bytes out. Pure.

Two error channels: a call that is malformed is a `ReviewError`, an HTTP status; an object that a rule refuses is the
answer's `response.status`. Wire form: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypedDict, cast
from zlib import crc32

import msgspec
from msgspec import Struct

from policies.engine.engine import Answer, Decision
from policies.engine.request import AdmissionRequest, GroupVersionResource, JsonObject, Operation, Target, mapping
from policies.kubernetes.label import NAME_LENGTH
from policies.kubernetes.status import CODES
from policies.objects.fieldpath import Pattern, Step, Wildcard, parse

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# The parts of ObjectMeta that a rule may read. managedFields, half of a real review, is skipped without being built.
METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "deletionTimestamp",
    "finalizers",
)
# An audit annotation is cut by nobody, so it is kept short here: it names rules and paths, the message has the rest.
ANNOTATION_LENGTH = 1024


class ReviewError(Exception):
    """A call that is not a proper AdmissionReview. The text is the body of the HTTP answer, `status` its code."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class _Envelope(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.Raw(b"null")


class _Target(Struct, frozen=True, rename="camel"):
    """What says which rules are asked (policies.engine.request.Target)."""

    operation: Operation
    resource: GroupVersionResource
    sub_resource: str = ""


class _Targeted(Struct):
    request: _Target


_TARGETED = msgspec.json.Decoder(_Targeted)


# The fields in the order in which the API server writes them (AdmissionRequest in k8s.io/api's admission/v1), before
# the user and the objects. Reading them so takes a quarter of the time that finding the end of the objects takes.
_HEAD = re.compile(
    rb'"resource":\{"group":"([^"\\]*)","version":"([^"\\]*)","resource":"([^"\\]*)"\},'
    rb'(?:"subResource":"([^"\\]*)",)?"requestKind":[^\\]*?"operation":"(CREATE|UPDATE|DELETE|CONNECT)","userInfo":'
)
_HEAD_LENGTH = 2048


def presumed_target(body: bytes) -> Target | None:
    """What a review from an API server seems to be about. It has to be compared with what the review is about."""
    head = _HEAD.search(body, 0, _HEAD_LENGTH)
    if head is None:
        return None
    group, version, resource, sub_resource, operation = (part.decode("utf-8", "replace") for part in head.groups(b""))
    return _Target(cast("Operation", operation), GroupVersionResource(group, version, resource), sub_resource)


def is_about(request: Target, presumed: Target) -> bool:
    """Whether a request is about what it seemed to be about."""
    return (
        request.resource == presumed.resource
        and request.operation == presumed.operation
        and request.sub_resource == presumed.sub_resource
    )


def target(body: bytes) -> Target | None:
    """What a review is about, read without its objects; None for anything else, about which a Decoder says more."""
    try:
        return _TARGETED.decode(body).request
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class Decoder:
    """Decodes reviews for the rules that are in force: once, strictly, and no more of the objects than they read.

    paths: what rules read in an object, as `spec.containers[*].resources`, beside `apiVersion`, `kind` and `metadata`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._projected = _projected(frozenset(paths))

    def decode(self, body: bytes) -> AdmissionRequest:
        """The request of a review. Raises ReviewError with status 400."""
        try:
            review = self._projected.decode(body)
        except msgspec.ValidationError as error:
            review = self._decode_whole(body, error)
        except RecursionError:
            raise ReviewError("The body is nested too deeply to be read.") from None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ReviewError(f"The body is not JSON: {error}. Send an AdmissionReview of {API_VERSION}.") from None
        if review.api_version != API_VERSION or review.kind != KIND:
            raise _wrong_kind(review.api_version, review.kind)
        request: AdmissionRequest = review.request
        _check(request)
        return request

    def _decode_whole(self, body: bytes, problem: msgspec.ValidationError) -> Any:
        """Decode a review whose optional fields are null, or whose objects have another shape than rules expect.

        The rules then see all of the objects, and say what is wrong in them. Raises ReviewError with the problem where
        that does not do either.
        """
        try:
            review = msgspec.json.decode(body)
            request = mapping(review, "request")
            for fields in (request, mapping(request, "userInfo")):
                for key in [key for key, value in fields.items() if value is None]:
                    del fields[key]
            return msgspec.convert(review, _WHOLE)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise _wrong_shape(body, problem) from None


@lru_cache(maxsize=256)  # most groups read the same, and most changes of policies leave that as it was
def _projected(paths: frozenset[str]) -> msgspec.json.Decoder[Any]:
    always = [("apiVersion",), ("kind",), *(("metadata", field) for field in METADATA)]
    read = [pattern for pattern in map(parse, paths) if pattern[:1] != ("metadata",) or _is_own(pattern)]
    return msgspec.json.Decoder(_review_type(_projection([*always, *read])))


def _is_own(pattern: Pattern) -> bool:
    """Whether a path in metadata has to be read besides what always is; managedFields never is."""
    return len(pattern) > 1 and pattern[1] not in (*METADATA, "managedFields")


def _projection(patterns: Iterable[Pattern]) -> Any:
    """The type of plain decoded JSON that holds what the patterns name; the decoder skips all other keys."""
    inner: dict[Step, list[Pattern]] = {}
    for pattern in patterns:
        if not pattern:
            return Any
        inner.setdefault(pattern[0], []).append(pattern[1:])
    types: dict[Any, Any] = {step: _projection(rest) for step, rest in inner.items()}
    if types.keys() == {Wildcard.ITEMS}:
        return list.__class_getitem__(types[Wildcard.ITEMS])
    if types.keys() == {Wildcard.VALUES}:
        return dict.__class_getitem__((str, types[Wildcard.VALUES]))
    if not all(isinstance(step, str) for step in types):
        return Any  # two tables disagree about the shape
    return TypedDict("projection", types, total=False)  # type: ignore[operator]


def _review_type(object_type: Any) -> Any:
    optional = object_type | None
    request = msgspec.defstruct(
        "Request",
        [("object", optional, None), ("old_object", optional, None)],
        bases=(AdmissionRequest,),
        frozen=True,
        kw_only=True,
        rename="camel",
    )
    return msgspec.defstruct("Review", [("api_version", str), ("kind", str), ("request", request)], rename="camel")


_WHOLE = _review_type(JsonObject)


def _check(request: AdmissionRequest) -> None:
    if not request.uid:
        raise ReviewError(
            "request.uid is empty. The API server sends one with every review, and the answer must repeat it."
        )
    missing = None
    if request.operation in ("CREATE", "UPDATE") and request.object is None:
        missing = "request.object"
    elif request.operation == "UPDATE" and request.old_object is None:
        missing = "request.oldObject"
    if missing:
        raise ReviewError(f"{missing} is missing from the {request.operation} review with uid {request.uid}.")


def _wrong_kind(api_version: str, kind: str) -> ReviewError:
    return ReviewError(
        f"Expected apiVersion {API_VERSION} and kind {KIND}, found {api_version or 'none'} and {kind or 'none'}. "
        f"List v1 in the webhook's admissionReviewVersions."
    )


def _wrong_shape(body: bytes, error: msgspec.ValidationError) -> ReviewError:
    """JSON, but no review of ours: say first what it is instead, then which field is wrong."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except msgspec.ValidationError:
        return ReviewError(f"The body is JSON but no {KIND}: {error}.")
    except RecursionError:
        return ReviewError("The body is nested too deeply to be read.")
    except (msgspec.DecodeError, UnicodeError) as broken:
        return ReviewError(f"The body is not JSON: {broken}. Send an AdmissionReview of {API_VERSION}.")
    if envelope.api_version != API_VERSION or envelope.kind != KIND:
        return _wrong_kind(envelope.api_version, envelope.kind)
    if bytes(envelope.request) == b"null":
        return ReviewError(f"The {KIND} has no request.")
    return ReviewError(f"The {KIND} is malformed: {error}.")


class _Cause(Struct, omit_defaults=True):
    message: str
    field: str = ""


class _Details(Struct, omit_defaults=True):
    causes: tuple[_Cause, ...] = ()


class _Status(Struct, omit_defaults=True):
    message: str
    reason: str
    code: int
    status: str = ""
    details: _Details | None = None


class _Response(Struct, omit_defaults=True, rename="camel"):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: str = ""
    patch_type: str = ""
    audit_annotations: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class _Review(Struct, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_encoder = msgspec.json.Encoder()


def encode(uid: str, answer: Answer) -> bytes:
    """The review that answers the request with this uid."""
    response = _Response(uid, answer.allowed, audit_annotations=_annotations(answer), warnings=answer.warnings)
    if not response.allowed:
        response.status = _status(answer)
    elif answer.operations:
        # Both fields or neither: the API server takes a patchType without a patch for an error.
        response.patch = b2a_base64(_encoder.encode(answer.operations), newline=False).decode("ascii")
        response.patch_type = "JSONPatch"
    return _encoder.encode(_Review(response))


def _annotations(answer: Answer) -> dict[str, str]:
    """What the audit log says of each rule, and what policies publish there."""
    annotations: dict[str, str] = {}
    for decision in answer.decisions:
        key = decision.rule if len(decision.rule) <= NAME_LENGTH else _annotation_key(decision.rule)
        said: str = decision.verdict if decision.verdict == "admit" else _annotation(decision)
        annotations[key] = f"{annotations[key]}; {said}" if key in annotations else said
        if decision.notes:
            annotations |= {_annotation_key(note.key): note.value for note in decision.notes}
    return annotations


def _annotation_key(name: str) -> str:
    """The name under which the API server takes an annotation: it puts the webhook's before it, with a slash.

    What is behind the slash has 63 characters at most (k8s.io/apiserver's admission/attributes.go, checkKeyFormat).
    """
    key = name.replace("/", ".")
    return key if len(key) <= NAME_LENGTH else f"{key[: NAME_LENGTH - 9]}.{crc32(key.encode()):08x}"


def _status(answer: Answer) -> _Status:
    refused = [v for decision in answer.decisions if decision.verdict == "deny" for v in decision.violations]
    if not refused:
        return _Status(answer.message, "InternalError", 500, "Failure")
    reasons = {violation.status or "Forbidden" for violation in refused}
    reason = reasons.pop() if len(reasons) == 1 else "Forbidden"
    status = _Status(answer.message, reason, CODES[reason], "Failure")
    if reason == "Invalid":  # kubectl shows nothing but the causes of an Invalid answer
        causes = [
            _Cause("\n".join(filter(None, (violation.summary, violation.line, violation.remedy))), violation.path)
            for violation in sorted(refused)
        ]
        status.details = _Details((*causes, *map(_Cause, answer.ended)))
    return status


def _annotation(decision: Decision) -> str:
    """What the audit log says of a rule: the verdict, then where, the grounds of an exception, or the failure.

    Where no place is known, the message has it: nobody else hears of what is only audited.
    """
    if not (decision.violations or decision.exception or decision.failure):
        return decision.verdict
    detail = ", ".join(dict.fromkeys(violation.path or violation.summary for violation in decision.violations))
    if decision.verdict == "excepted" and decision.exception is not None:
        detail = decision.exception.grounds
    if decision.failure is not None:
        detail = type(decision.failure.error).__name__
    return f"{decision.verdict}: {detail}"[:ANNOTATION_LENGTH] if detail else decision.verdict
