"""Applies MutatingAdmissionPolicies with their bindings and parameters to one request, as kube-apiserver does.

Sources: k8s.io/apiserver's pkg/admission/plugin/policy mutating/{dispatcher.go,patch} and generic/policy_dispatcher.go,
and for JSON Patch gopkg.in/evanphx/json-patch.v4. That differs from RFC 6902 and from the package jsonpatch: `replace`
sets a missing field, `copy` reads null from a missing field, an index may count from the end, and a path without a
leading slash loses its first part. The result is what the next mutation is given: read into the type of its kind, so
that an empty map is gone, and with the API server's defaults. Arguments are not changed; the result shares with them
what does not change.

MutationError        fails the mutation; the policy's failurePolicy decides
└─ InternalError     a bare error 500 there, whatever the failurePolicy says
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from policies.admissionpolicy.builtin.defaults import filled
from policies.admissionpolicy.builtin.reader import DecodingError, Reader
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.admissionpolicy.evaluation.inputs import Inputs, Json, Parameters, as_mutating_policies_see
from policies.admissionpolicy.evaluation.validator import (
    Failure,
    Finding,
    Group,
    Result,
    SpentError,
    conditions_hold,
    invocations,
    result_of,
)
from policies.admissionpolicy.model import DENY, Binding
from policies.admissionpolicy.mutation import merge
from policies.admissionpolicy.schema import Schema, unknown
from policies.cel.cost import POLICY_LIMIT
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.syntax.source import CompileError
from policies.cel.values import ABSENT, Optional, Value
from policies.engine.interruption import PostponedError, SkippedPolicyError, TimeLimitError, look, spend
from policies.engine.request import JsonObject
from policies.golang.strconv import quote

MAX_COPIED_BYTES = 3 * 1024 * 1024  # --json-patch-max-copy-bytes of kube-apiserver's defaults (server/config.go)
_TOO_DEEP = "the object is nested too deeply to be changed"  # Go's stack grows where Python's does not
_MOST_VALUES = 1_000_000  # far more than in an object of 3 MiB
_EACH = 2.0  # microseconds of a value
_INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_ESCAPES = {"~0": "~", "~1": "/"}


class MutationError(Exception):
    """A mutation that cannot be applied."""


class InternalError(MutationError):
    """A patched object that cannot be decoded: the API server answers with error 500, whatever the failurePolicy is."""


class OperationError(Exception):
    """An operation that cannot be applied."""


class DisagreementError(OperationError):
    """A `test` failed, so that the whole patch is skipped."""


def apply(document: Any, operations: Iterable[JSONPatch]) -> Any:
    """The document after operations with JSON. Raises OperationError, or DisagreementError if a test fails."""
    copied = 0
    for operation in operations:
        step = operation
        try:
            if operation.op == "copy":
                value = _get(document, operation.from_)
                if value is not None:
                    copied += len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
                if copied > MAX_COPIED_BYTES:
                    raise OperationError(f"the patch copies {copied} bytes, and may copy {MAX_COPIED_BYTES}")  # noqa: TRY301
                step = replace(operation, op="add", value=value)
            document = _applied(document, step)
        except DisagreementError:
            raise
        except OperationError as error:
            origin = f" from {operation.from_}" if operation.from_ else ""
            raise OperationError(f"{operation.op} {operation.path}{origin}: {error}") from error
    return document


def _applied(document: Any, operation: JSONPatch) -> Any:
    """The document after an operation that is no copy."""
    path, value = operation.path, None if operation.value is ABSENT else operation.value
    match operation.op:
        case "add":
            return _added(document, path, value)
        case "remove":
            return _removed(document, path)
        case "replace" if not path:
            if not isinstance(value, dict | list):
                raise OperationError("the whole must be a map or a list")
            return value
        case "replace":
            document, container, last = _reached(document, path)
            container[last if isinstance(container, dict) else _index(last, len(container))] = value
            return document
        case "move":
            value = _get(document, operation.from_)
            return _added(_removed(document, operation.from_), path, value)
        case "test":
            present = _get(document, path) if path else document
            if present is None:  # null or missing: equal only to a test without a value
                agrees = operation.value is ABSENT
            else:  # a test treats null as an empty map
                agrees = present == {} if path and operation.value is None else _equal(present, operation.value)
            if not agrees:
                raise DisagreementError(f"testing value {path} failed: test failed")
            return document
        case _:
            raise OperationError("there is no such operation")


def _reached(document: Any, path: str) -> tuple[Any, Any, str]:
    """The document with copies of what leads to a path, the target's container and last part. Raises OperationError."""
    _, *parts = path.split("/")
    if not parts:
        raise OperationError("the path begins with no slash")
    whole = container = document.copy()
    for part in map(_decoded, parts[:-1]):
        key = part if isinstance(container, dict) else _index(part, len(container))
        below = container.get(key) if isinstance(container, dict) else container[key]
        if not isinstance(below, dict | list):
            raise OperationError(f"there is no map or list at {part}")
        container[key] = below.copy()
        container = container[key]
    return whole, container, _decoded(parts[-1])


def _decoded(part: str) -> str:
    return re.sub("~[01]", lambda escape: _ESCAPES[escape[0]], part) if "~" in part else part


def _index(text: str, size: int, *, of: int | None = None) -> int:
    """The index for a list of that size; negative indexes count from the end. of: the size that a message names."""
    if _INDEX.fullmatch(text) is None or not -size <= int(text) < size:
        raise OperationError(f"{text} is no index in a list of {size if of is None else of}")
    return int(text) % size


def _get(document: Any, path: str) -> Any:
    _, container, last = _reached(document, path)
    return container.get(last) if isinstance(container, dict) else container[_index(last, len(container))]


def _added(document: Any, path: str, value: Any) -> Any:
    whole, container, last = _reached(document, path)
    if isinstance(container, dict):
        container[last] = value
    else:
        size = len(container)
        container.insert(size if last == "-" else _index(last, size + 1, of=size), value)
    return whole


def _removed(document: Any, path: str) -> Any:
    whole, container, last = _reached(document, path)
    if isinstance(container, dict) and last not in container:
        raise OperationError(f"there is no {last}")
    container.pop(last if isinstance(container, dict) else _index(last, len(container)))
    return whole


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def apply_configuration(
    obj: JsonObject, value: ObjectValue, schema: Schema, inputs: Iterable[Any] | None = None
) -> JsonObject:
    """The object with an `Object{...}` merged into it.

    inputs: the other variables of the evaluation that hold JSON. They distinguish maps of the request from maps that
    CEL made: inside a list or another map, the API server accepts only the former. Raises MutationError.
    """
    doing = "failed to convert patch object to typed object"
    try:
        _check_size(value)
        _check_names(value)
        configuration = merge.Converter(None if inputs is None else [obj, *inputs]).fields(value)
        configuration |= {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
        merge.check(configuration, schema.root)
        if refused := list(merge.atomics(configuration, schema.root)):
            start = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs"
            raise MutationError(f"{start}: {', '.join(refused)}")
        doing = "failed to merge patch"
        merged = merge.merge(obj, configuration, schema.root)
        if not schema.typed:
            return _whole(merged)
        return filled(_whole(Reader(as_json=False).read(obj, merged, schema.root)), schema)
    except merge.ConversionError as error:
        raise MutationError("invalid return type: *dynamic.ObjectVal") from error
    except merge.MergeError as error:
        raise MutationError(f"error applying patch: {doing}: {error}") from error
    except DecodingError as error:
        kind = f"{schema.kind.group}/{schema.kind.version}, Kind={schema.kind.kind}"
        raise MutationError(f"unable to convert unstructured object to {kind}: {error}") from error
    except RecursionError as error:
        raise MutationError(_TOO_DEEP) from error


def apply_json_patch(
    obj: JsonObject, patch: Sequence[JSONPatch], schema: Schema, inputs: Iterable[Any] | None = None
) -> JsonObject | None:
    """The object after a list of operations; None if a `test` failed. inputs: as in apply_configuration.

    Raises MutationError, and InternalError if the result does not fit its kind.
    """
    converter = merge.Converter(None if inputs is None else [obj, *inputs])
    try:
        _check_size([step.value for step in patch])
        operations = []
        for step in patch:
            if isinstance(step.value, ObjectValue):
                _check_names(step.value)
            value = ABSENT if step.value is ABSENT else converter.json(step.value)
            operations.append(replace(step, value=value))
        return decoded(obj, apply(obj, operations), schema)
    except merge.ConversionError as error:
        raise MutationError(
            f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
        ) from error
    except DisagreementError:
        return None
    except OperationError as error:
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


def _whole(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise InternalError("Internal error occurred: couldn't get version/kind")
    return value


def _check_size(value: Value) -> None:
    """Raises MutationError for what is too large written out: a list may hold another one twice, and that one too."""
    size = _size(value, {})
    if size > _MOST_VALUES:
        raise MutationError(f"the patch has {size} values when it is written out, and may have {_MOST_VALUES}")
    spend(_EACH * size)


def _size(value: Value, known: dict[int, int]) -> int:
    """The number of values, with 32 characters or bytes as one. known: of lists and maps, by id."""
    if isinstance(value, Optional):
        return _size(value.value, known)
    if isinstance(value, str | bytes):
        return 1 + len(value) // 32
    parts: Any = value.fields if isinstance(value, ObjectValue) else value
    if not isinstance(parts, list | dict):
        return 1
    if id(parts) not in known:
        inner = [*parts, *parts.values()] if isinstance(parts, dict) else parts
        known[id(parts)] = 1 + sum(_size(part, known) for part in inner)
    return known[id(parts)]


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


Selected = Sequence[tuple[CompiledPolicy, Sequence[Binding]]]
"""Policies, each with its bindings that match a request."""

_JSON_VARIABLES = ("oldObject", "params", "request", "namespaceObject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """The object after the policies, and their result, with errors in the order of the API server's causes."""

    object: JsonObject | None
    result: Result

    @property
    def denial(self) -> Finding | None:
        """What the API server shows: an internal error, or the first refusal; None if the request is not refused."""
        internal = next((finding for finding in self.result.findings if finding.kind == "internal"), None)
        return internal or self.result.denial


def mutate(
    select: Callable[[JsonObject | None], Selected], parameters: Parameters, inputs: Inputs, schema: Schema | None
) -> Mutated:
    """The object after all policies that match, and a second round for reinvocationPolicy IfNeeded if any was applied.

    select: returns the policies and bindings that match the request with a given object, in the order of application;
    it is called before each round. schema: of the object's kind; None if it has none, as the options of CONNECT. Raises
    Missing: look the fact up, and evaluate again.
    """
    if inputs.request.get("operation") == "DELETE":  # the plugin does not handle DELETE
        return Mutated(object=inputs.object, result=Result())
    rounds = _Rounds(parameters, inputs, schema)
    rounds.run(select(inputs.object))
    if rounds.applied and not any(finding.denies for finding in rounds.findings):
        rounds.only = frozenset(rounds.reinvocable)
        rounds.run(select(rounds.inputs.object))
    return Mutated(object=rounds.inputs.object, result=result_of(rounds.findings))


@dataclass(frozen=True, slots=True)
class _Invocation:
    compiled: CompiledPolicy
    binding: Binding
    params: Json | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        metadata = (self.params or {}).get("metadata") or {}
        params = (str(metadata.get("namespace", "")), str(metadata.get("name", "")))
        return self.compiled.policy.name, self.binding.name, *params


class _HaltedError(Exception):
    """Evaluation ends: the API server answers with the last finding, whatever the failurePolicy is."""


@dataclass(slots=True)
class _Rounds:
    parameters: Parameters
    inputs: Inputs
    schema: Schema | None
    only: frozenset[tuple[str, ...]] | None = None
    findings: list[Finding] = field(default_factory=list)
    reinvocable: list[tuple[str, ...]] = field(default_factory=list)
    applied: bool = False

    def run(self, selected: Selected) -> None:
        """Apply the policies. All parameters are collected before the first mutation. Raises PostponedError."""
        facts, namespace = self.inputs.facts, self.inputs.request_namespace
        everything: list[_Invocation] = []
        for compiled, bindings in selected:
            for one in invocations(compiled, bindings, self.parameters, namespace):
                if isinstance(one, Finding):
                    self.findings.append(one)
                else:
                    params = as_mutating_policies_see(one[1], compiled.policy.param_kind)
                    everything.append(_Invocation(compiled, one[0], params))
        with suppress(_HaltedError):
            for invocation in everything:
                # A policy fails if no time is left, or if it is to be skipped.
                try:
                    if invocation.compiled.policy.name in facts.skipped:
                        raise SkippedPolicyError  # noqa: TRY301
                    look(facts.expired)
                    self._invoke(invocation)
                except (SkippedPolicyError, TimeLimitError) as error:
                    if isinstance(error, TimeLimitError):
                        error.blame(invocation.compiled.policy.name)
                    if isinstance(error, PostponedError):
                        raise
                    self.findings.append(_error(invocation, str(error)))
                if facts.after_rule is not None:
                    facts.after_rule(invocation.compiled.policy.name)

    def _invoke(self, invocation: _Invocation) -> None:
        compiled = invocation.compiled
        matched = conditions_hold(compiled, invocation.params, self.inputs)
        if isinstance(matched, Failure):
            self.findings.append(_error(invocation, matched.text))
            return
        if not matched or (self.only is not None and invocation.key not in self.only):
            return
        for index in range(len(compiled.mutations)):
            if self.inputs.object is not None:
                self._mutate(invocation, index)
        if compiled.policy.reinvocation_policy == "IfNeeded":
            self.reinvocable.append(invocation.key)

    def _mutate(self, invocation: _Invocation, index: int) -> None:
        """Apply one mutation. If it fails, the object is unchanged, and the next mutation follows."""
        compiled, unit = invocation.compiled, invocation.compiled.mutations[index]
        if isinstance(unit.program, CompileError):
            self.findings.append(_error(invocation, unit.program.full_reference(), index, unit))
            return
        names = self.inputs.names(invocation.params, namespace=compiled.reads_namespace)
        group = Group(compiled.patching, names, POLICY_LIMIT, self.inputs.facts.expired)
        try:
            value = group.evaluate(unit)
            if isinstance(value, Failure):
                self.findings.append(_error(invocation, value.text, index, unit, None if value.spent else group))
                return
            mutated = self._applied(value, group)
        except InternalError as error:
            finding = _error(invocation, str(error), index, unit)
            self.findings.append(replace(finding, kind="internal", reason="InternalError", actions=DENY))
            raise _HaltedError from error
        except (SpentError, MutationError) as error:
            self.findings.append(_error(invocation, str(error), index, unit))
            return
        finally:
            self.inputs.spent(compiled.policy.name, group.used)
        self.applied = True
        self.inputs = replace(self.inputs, object=mutated)

    def _applied(self, value: Value, group: Group) -> JsonObject:
        """The object after a mutation with this result; unchanged after a failed `test`. Raises MutationError."""
        current, kind = self.inputs.object or {}, self.inputs.kind
        others = [group.names[name] for name in _JSON_VARIABLES]
        if isinstance(value, ObjectValue):
            if self.schema is None:
                start = "error applying patch: failed to convert patch object to typed object"
                name = f"{kind.group}/{kind.version}, Kind={kind.kind}"
                raise MutationError(f"{start}: no corresponding type for {name}")
            return apply_configuration(current, value, self.schema, others)
        patched = apply_json_patch(current, value, self.schema or unknown(kind), others)
        return current if patched is None else patched


def _error(
    invocation: _Invocation, text: str, index: int = 0, unit: Unit | None = None, group: Group | None = None
) -> Finding:
    policy = invocation.compiled.policy
    return Finding(
        policy_kind=policy.kind,
        policy=policy.name,
        binding=invocation.binding.name,
        kind="error",
        message=text,
        actions=policy.failure_actions,
        index=index,
        expression=None if unit is None else unit.expression,
        params=invocation.key[-1],
        reasons=group.reasons(unit) if unit and group and policy.failure_actions else (),
    )
