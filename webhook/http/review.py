"""AdmissionReview bytes in, AdmissionReview bytes out. Pure.

There are two kinds of errors. A malformed call is a `ReviewError`, an HTTP status. The refusal of an object is the
answer's `response.status`. Wire form: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import gc
from binascii import b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypedDict
from zlib import crc32

import msgspec
from msgspec import Struct

from policies.engine.engine import Answer, Unanimity
from policies.engine.request import AdmissionRequest, JsonObject, mapping
from policies.engine.violation import CODES, MESSAGE_LENGTH, in_order, quote
from policies.kubernetes.name import NAME_LENGTH
from policies.objects.fieldpath import Pattern, Step, Wildcard, parse

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# The fields of ObjectMeta that a rule may read. managedFields, half of a real review, is skipped while decoding.
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
# Nobody truncates audit annotations, so they are short: they name rules and paths; the message has the details.
ANNOTATION_LENGTH = 1024
# From here on the garbage collector rests while a body is decoded.
LARGE = 64 * 1024
# What policies publish is bounded in all. The API server cuts no value of a webhook.
NOTES_LENGTH = 64 * 1024


class ReviewError(Exception):
    """A call is not a valid AdmissionReview. The text is the body of the HTTP answer, `status` its code."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class UnknownGroupError(ReviewError):
    """A call is for a group of rules that this version does not have."""


class _Envelope(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.Raw(b"null")


class Decoder:
    """Decodes reviews strictly, and only those parts of objects that rules read.

    paths: what rules read in an object, such as `spec.containers[*].resources`, in addition to `apiVersion`, `kind` and
    `metadata`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._projected = _projected(frozenset(paths))

    def decode(self, body: bytes) -> AdmissionRequest:
        """The request of a review. Raises ReviewError with status 400."""
        if len(body) < LARGE or not gc.isenabled():
            return self._decode(body)
        # Decoding makes no cycles. Looking for some among a million new objects takes three quarters of its time.
        gc.disable()
        try:
            return self._decode(body)
        finally:
            gc.enable()

    def _decode(self, body: bytes) -> AdmissionRequest:
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
        return request

    def _decode_whole(self, body: bytes, problem: msgspec.ValidationError) -> Any:
        """Decode a review whose optional fields are null, or whose objects have another structure than rules expect.

        The rules then see the whole objects, and report what is wrong. Raises ReviewError with the problem if this
        fails, too.
        """
        try:
            review = msgspec.json.decode(body)
            request = mapping(review, "request")
            for fields in (request, mapping(request, "userInfo")):
                for key in [key for key, value in fields.items() if value is None]:
                    del fields[key]
            return msgspec.convert(review, _WHOLE)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
        # It is no valid review. A wrong kind takes precedence over wrong fields.
        try:
            envelope = msgspec.json.decode(body, type=_Envelope)
        except msgspec.ValidationError:
            raise ReviewError(f"The body is JSON but no {KIND}: {problem}.") from None
        except RecursionError:
            raise ReviewError("The body is nested too deeply to be read.") from None
        except (msgspec.DecodeError, UnicodeError) as broken:
            raise ReviewError(f"The body is not JSON: {broken}. Send an AdmissionReview of {API_VERSION}.") from None
        if envelope.api_version != API_VERSION or envelope.kind != KIND:
            raise _wrong_kind(envelope.api_version, envelope.kind)
        if bytes(envelope.request) == b"null":
            raise ReviewError(f"The {KIND} has no request.")
        raise ReviewError(f"The {KIND} is malformed: {problem}.")


@lru_cache(maxsize=256)  # most groups read the same paths, and most changes of policies do not change them
def _projected(paths: frozenset[str]) -> msgspec.json.Decoder[Any]:
    always = [("apiVersion",), ("kind",), *(("metadata", field) for field in METADATA)]
    read = [
        pattern
        for pattern in map(parse, paths)
        if pattern[:1] != ("metadata",) or (len(pattern) > 1 and pattern[1] not in (*METADATA, "managedFields"))
    ]
    return msgspec.json.Decoder(_review_type(_projection([*always, *read])))


def _projection(patterns: Iterable[Pattern]) -> Any:
    """The type of decoded JSON with only the keys in the patterns; the decoder skips all others."""
    inner: dict[Step, list[Pattern]] = {}
    for pattern in patterns:
        if not pattern:
            return Any
        inner.setdefault(pattern[0], []).append(pattern[1:])
    return _type(frozenset((step, _projection(rest)) for step, rest in inner.items()))


@lru_cache(maxsize=1024)  # pod templates are alike in all kinds and on all paths
def _type(fields: frozenset[tuple[Step, Any]]) -> Any:
    types: dict[Any, Any] = dict(fields)
    if types.keys() == {Wildcard.ITEMS}:  # expressions may mean a map, which is decoded whole
        return list.__class_getitem__(types[Wildcard.ITEMS]) | dict[str, Any] | None
    if types.keys() == {Wildcard.VALUES}:
        return dict.__class_getitem__((str, types[Wildcard.VALUES]))
    if not all(isinstance(step, str) for step in types):
        return Any  # two patterns disagree about the structure
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
_HEAD_ONLY = msgspec.json.Decoder(_review_type(_projection([("apiVersion",)])))


def head(body: bytes) -> AdmissionRequest | None:
    """A large review without its objects, which takes a tenth of the time of decoding; None if it is not as usual."""
    try:
        request: AdmissionRequest = _HEAD_ONLY.decode(body).request
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return request


def _wrong_kind(api_version: str, kind: str) -> ReviewError:
    sent = [quote(value) if value else "none" for value in (api_version, kind)]
    return ReviewError(
        f"Expected apiVersion {API_VERSION} and kind {KIND}, found {sent[0]} and {sent[1]}. "
        f"List v1 in the webhook's admissionReviewVersions."
    )


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
    audit_annotations: dict[str, str] | msgspec.Raw = {}
    warnings: tuple[str, ...] = ()


class _Review(Struct, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_encoder = msgspec.json.Encoder()


def encode(uid: str, answer: Answer) -> bytes:
    """The review with the answer to the request with this uid."""
    annotations = _annotations(answer) if answer.unanimity is None else _admissions(answer.unanimity)
    response = _Response(uid, answer.allowed, audit_annotations=annotations, warnings=answer.warnings)
    if not response.allowed:
        response.status = _status(answer)
    elif answer.operations:
        # Both fields or neither: for the API server a patchType without a patch is an error.
        response.patch = b2a_base64(_encoder.encode(answer.operations), newline=False).decode("ascii")
        response.patch_type = "JSONPatch"
    return _encoder.encode(_Review(response))


def _annotations(answer: Answer) -> dict[str, str]:
    annotations: dict[str, str] = {}
    for decision in answer.decisions:
        key = _rule_key(decision.rule)
        said: str = decision.verdict
        if said != "admit":
            # The verdict, then the places, the grounds of an exception, or the failure. If no place is known, it has
            # the message, because a finding that is only audited appears nowhere else.
            detail = ", ".join(dict.fromkeys(violation.path or violation.summary for violation in decision.violations))
            if said == "excepted" and decision.exception is not None:
                detail = decision.exception.grounds
            if decision.failure is not None:
                detail = type(decision.failure.error).__name__
            if decision.more:
                detail = f"{detail[: ANNOTATION_LENGTH // 2]} and {decision.more} more"
            said = f"{said}: {detail}"[:ANNOTATION_LENGTH] if detail else said
        annotations[key] = f"{annotations[key]}; {said}" if key in annotations else said
    room = NOTES_LENGTH
    for note in (note for decision in answer.decisions for note in decision.notes):
        room -= len(note.value)
        annotations[_annotation_key(note.key)] = note.value if room >= 0 else _NO_ROOM
    return annotations


@lru_cache(maxsize=256)  # one for each kind of request
def _admissions(unanimity: Unanimity) -> msgspec.Raw:
    """The audit annotations if every rule admits the request, encoded."""
    return msgspec.Raw(_encoder.encode({_rule_key(decision.rule): "admit" for decision in unanimity}))


def _rule_key(name: str) -> str:
    """The key of a rule's annotation. Names have no slash."""
    return name if len(name) <= NAME_LENGTH else _annotation_key(name)


_NO_ROOM = f"left out: the audit annotations of one review have {NOTES_LENGTH} characters at most"


def _annotation_key(name: str) -> str:
    """A valid key for an annotation. The API server prepends the webhook's name and a slash.

    The part after the slash may have at most 63 characters (k8s.io/apiserver's admission/attributes.go,
    checkKeyFormat).
    """
    key = name.replace("/", ".")
    return key if len(key) <= NAME_LENGTH else f"{key[: NAME_LENGTH - 9]}.{crc32(key.encode()):08x}"


def _status(answer: Answer) -> _Status:
    """The status of a refusal, with reason and code of the first violation, as in the API server."""
    denials = [decision for decision in answer.decisions if decision.verdict == "deny"]
    refused = in_order(violation for denial in denials for violation in denial.violations)
    if not refused:
        return _Status(answer.message, "InternalError", CODES["InternalError"], "Failure")
    first = refused[0].status
    status = _Status(answer.message, first.reason, first.code, "Failure")
    if first.reason == "Invalid":  # kubectl shows only the causes of an Invalid answer
        # A cause for each violation while they fit into a message, then how many more there are.
        more, room = sum(denial.more for denial in denials), MESSAGE_LENGTH
        causes: list[_Cause] = []
        for position, violation in enumerate(refused):
            text = "\n".join(filter(None, (violation.summary, violation.line, violation.remedy)))
            room -= len(text) + len(violation.path)
            if room < 0 and position:
                more += len(refused) - position
                break
            causes.append(_Cause(text, violation.path))
        texts = (*((f"and {more} more",) if more else ()), *answer.ended, *answer.help)
        status.details = _Details((*causes, *map(_Cause, texts)))
    return status
