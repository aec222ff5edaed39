"""Applying the result of a mutation to an object, as kube-apiserver's MutatingAdmissionPolicy does.

Source: k8s.io/apiserver's pkg/admission/plugin/policy/mutating/patch (smd.go, json_patch.go) and dispatcher.go. The
result is what the next mutation is given: read into the type of its kind, so that an empty map is gone, and with the
API server's defaults. The argument is not changed; the result shares with it what does not change.

MutationError        fails the mutation; the policy's failurePolicy decides
└─ InternalError     a bare error 500 there, whatever the failurePolicy says
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from policies.admissionpolicy.builtin.intake import filled
from policies.admissionpolicy.builtin.reader import DecodingError, Reader
from policies.admissionpolicy.mutation import conversion, jsonpatch, merge
from policies.admissionpolicy.schema import Schema
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.values import ABSENT, Value
from policies.engine.request import JsonObject
from policies.golang.strconv import quote

_TOO_DEEP = "the object is nested too deeply to be changed"  # Go's stack grows where Python's does not
_NO_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"


class MutationError(Exception):
    """A mutation that cannot be applied; the text is the API server's."""


class InternalError(MutationError):
    """A patched object that cannot be decoded: the API server answers with error 500, whatever the failurePolicy is."""


def apply_configuration(
    obj: JsonObject, value: ObjectValue, schema: Schema, inputs: Iterable[Any] | None = None
) -> JsonObject:
    """The object with an `Object{...}` merged into it.

    inputs: the other variables of the evaluation that hold JSON. They distinguish maps of the request from maps that
    CEL made: inside a list or another map, the API server accepts only the former. Raises MutationError.
    """
    try:
        return _configured(obj, value, schema, conversion.Converter(None if inputs is None else [obj, *inputs]))
    except RecursionError as error:
        raise MutationError(_TOO_DEEP) from error


def _configured(obj: JsonObject, value: ObjectValue, schema: Schema, converter: conversion.Converter) -> JsonObject:
    _check_names(value)
    try:
        configuration = converter.fields(value)
    except conversion.ConversionError as error:
        raise MutationError("invalid return type: *dynamic.ObjectVal") from error
    configuration |= {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    return _merged(obj, configuration, schema)


def apply_json_patch(
    obj: JsonObject, patch: Sequence[JSONPatch], schema: Schema, inputs: Iterable[Any] | None = None
) -> JsonObject | None:
    """The object after a list of JSONPatch operations; None if a `test` failed.

    inputs: as in apply_configuration, for values that are an `Object{...}`. Raises MutationError, and InternalError if
    the result does not fit its kind.
    """
    converter = conversion.Converter(None if inputs is None else [obj, *inputs])
    try:
        patched = jsonpatch.apply(obj, [_operation(step, converter) for step in patch])
        return decoded(obj, patched, schema)
    except jsonpatch.DisagreementError:
        return None
    except jsonpatch.OperationError as error:
        raise MutationError(f"JSON Patch: {error}") from error
    except RecursionError as error:
        raise MutationError(_TOO_DEEP) from error


def decoded(obj: JsonObject, patched: Any, schema: Schema) -> JsonObject:
    """A patched object as the strict decoder reads it. Only what differs from `obj` is read. Raises InternalError."""
    whole = _whole(patched)
    if not schema.typed:
        return whole
    reader = Reader(as_json=True)
    try:
        result = reader.read(obj, whole, schema.root)
    except DecodingError as error:
        raise InternalError(f"Internal error occurred: {error}") from error
    if reader.unknown:
        words = ", ".join(f"unknown field {quote(path)}" for path in reader.unknown)
        raise InternalError(f"Internal error occurred: strict decoding error: {words}")
    return filled(_whole(result), schema)


def _merged(obj: JsonObject, configuration: JsonObject, schema: Schema) -> JsonObject:
    try:
        merge.check(configuration, schema.root)
    except merge.MergeError as error:
        words = f"error applying patch: failed to convert patch object to typed object: {error}"
        raise MutationError(words) from error
    if refused := list(merge.atomics(configuration, schema.root)):
        start = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
        raise MutationError(f"{start}: {', '.join(refused)}")
    try:
        merged = merge.merge(obj, configuration, schema.root)
    except merge.MergeError as error:
        raise MutationError(f"error applying patch: failed to merge patch: {error}") from error
    if not schema.typed:
        return _whole(merged)
    try:
        return filled(_whole(Reader(as_json=False).read(obj, merged, schema.root)), schema)
    except DecodingError as error:
        kind = f"{schema.kind.group}/{schema.kind.version}, Kind={schema.kind.kind}"
        raise MutationError(f"unable to convert unstructured object to {kind}: {error}") from error


def _whole(value: Any) -> JsonObject:
    """The value if it is an object. Raises InternalError otherwise."""
    if not isinstance(value, dict):
        raise InternalError("Internal error occurred: couldn't get version/kind")
    return value


def _operation(patch: JSONPatch, converter: conversion.Converter) -> jsonpatch.Operation:
    if patch.value is ABSENT:
        return jsonpatch.Operation(patch.op, patch.path, patch.from_)
    if isinstance(patch.value, ObjectValue):
        _check_names(patch.value)
    try:
        value = converter.json(patch.value)
    except conversion.ConversionError as error:
        raise MutationError(f"{_NO_JSON}: {error}") from error
    return jsonpatch.Operation(patch.op, patch.path, patch.from_, value)


def _check_names(value: ObjectValue) -> None:
    if mismatches := list(_misnamed(value, value.name)):
        raise MutationError("type mismatch: " + "\n".join(mismatches))


def _misnamed(value: Value, path: str) -> Iterator[str]:
    """A message for each object whose type does not fit its path, as in `Object{spec: Object.status{}}`."""
    if isinstance(value, ObjectValue):
        if value.name != path:
            yield (
                f"unexpected type name {quote(value.name)}, expected {quote(path)}, "
                "which matches field name path from root Object type"
            )
        for name, item in value.fields.items():
            yield from _misnamed(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _misnamed(item, path)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _misnamed(item, path)
