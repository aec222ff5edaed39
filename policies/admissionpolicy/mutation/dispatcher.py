"""Applies MutatingAdmissionPolicies with their bindings and parameters to one request, as kube-apiserver does.

Sources: k8s.io/apiserver's pkg/admission/plugin/policy/mutating/dispatcher.go and generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.admissionpolicy.evaluation.inputs import Inputs, Json
from policies.admissionpolicy.evaluation.parameters import (
    ConfigurationError,
    Parameters,
    as_mutating_policies_see,
    collect,
    scope_of,
)
from policies.admissionpolicy.evaluation.result import Finding, Result, combined, result_of
from policies.admissionpolicy.evaluation.validator import Failure, Group, SpentError, conditions_hold
from policies.admissionpolicy.model import DENY, Binding
from policies.admissionpolicy.mutation.application import (
    InternalError,
    MutationError,
    apply_configuration,
    apply_json_patch,
)
from policies.admissionpolicy.schema import Schema, unknown
from policies.cel.cost import POLICY_LIMIT
from policies.cel.patchtypes import ObjectValue
from policies.cel.syntax.source import CompileError
from policies.cel.values import Value
from policies.engine.interruption import PostponedError, SkippedPolicyError, TimeLimitError, look
from policies.engine.request import JsonObject

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
    select: Callable[[JsonObject | None], Selected],
    parameters: Parameters,
    inputs: Inputs,
    schema: Schema | None,
    *,
    budget: int = POLICY_LIMIT,
) -> Mutated:
    """The object after all policies that match, and a second round for reinvocationPolicy IfNeeded if any was applied.

    select: returns the policies and bindings that match the request with a given object, in the order of application;
    it is called before each round. schema: of the object's kind; None if it has none, as the options of CONNECT. Raises
    Missing: look the fact up, and evaluate again.
    """
    if inputs.request.get("operation") == "DELETE":  # the plugin does not handle DELETE
        return Mutated(object=inputs.object, result=Result())
    first = _Round(parameters, inputs, schema, budget)
    first.run(select(inputs.object))
    if first.refuses or not first.applied:
        return first.outcome()
    second = _Round(parameters, first.inputs, schema, budget, only=frozenset(first.reinvocable))
    second.run(select(first.inputs.object))
    outcome = second.outcome()
    result = combined([first.outcome().result, outcome.result])
    return Mutated(object=outcome.object, result=result)


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
class _Round:
    parameters: Parameters
    inputs: Inputs
    schema: Schema | None
    budget: int
    only: frozenset[tuple[str, ...]] | None = None
    findings: list[Finding] = field(default_factory=list)
    reinvocable: list[tuple[str, ...]] = field(default_factory=list)
    applied: bool = False

    @property
    def refuses(self) -> bool:
        return any(finding.denies for finding in self.findings)

    def outcome(self) -> Mutated:
        return Mutated(object=self.inputs.object, result=result_of(self.findings))

    def run(self, selected: Selected) -> None:
        """Apply the policies. All parameters are collected before the first mutation."""
        invocations = [self._invocations(compiled, bindings) for compiled, bindings in selected]
        with suppress(_HaltedError):
            for invocation in list(chain.from_iterable(invocations)):
                self._invoke_in_time(invocation)
                if self.inputs.facts.lap is not None:
                    self.inputs.facts.lap(invocation.compiled.policy.name)

    def _invoke_in_time(self, invocation: _Invocation) -> None:
        """Apply one policy, which fails if no time is left or if it is to be skipped. Raises PostponedError."""
        name = invocation.compiled.policy.name
        if name in self.inputs.facts.skipped:
            self.findings.append(_error(invocation, str(SkippedPolicyError())))
            return
        try:
            look(self.inputs.facts.expired)
            self._invoke(invocation)
        except TimeLimitError as error:
            error.blame(name)
            if isinstance(error, PostponedError):
                raise
            self.findings.append(_error(invocation, str(error)))

    def _invocations(self, compiled: CompiledPolicy, bindings: Iterable[Binding]) -> Iterator[_Invocation]:
        kind = compiled.policy.param_kind
        try:
            if kind is not None:
                scope_of(kind, self.parameters)
        except ConfigurationError as error:
            self.findings.append(_misconfigured(compiled, "", f"failed to configure policy: {error}"))
            return
        for binding in bindings:
            try:
                objects = collect(kind, binding, self.parameters, self.inputs.request_namespace)
            except ConfigurationError as error:
                self.findings.append(_misconfigured(compiled, binding.name, f"failed to configure binding: {error}"))
                continue
            for params in objects:
                yield _Invocation(compiled, binding, as_mutating_policies_see(params, kind))

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
        group = Group(compiled.patching, names, self.budget, self.inputs.facts.expired)
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
        if isinstance(value, ObjectValue):
            if self.schema is None:
                start = "error applying patch: failed to convert patch object to typed object"
                name = f"{kind.group}/{kind.version}, Kind={kind.kind}"
                raise MutationError(f"{start}: no corresponding type for {name}")
            others = [group.names[name] for name in _JSON_VARIABLES]
            return apply_configuration(current, value, self.schema, others)
        patched = apply_json_patch(current, value, self.schema or unknown(kind))
        return current if patched is None else patched


def _misconfigured(compiled: CompiledPolicy, binding: str, message: str) -> Finding:
    return _finding(compiled, binding, kind="misconfigured", message=message, reason="Forbidden")


def _error(
    invocation: _Invocation, text: str, index: int = 0, unit: Unit | None = None, group: Group | None = None
) -> Finding:
    compiled, name = invocation.compiled, invocation.binding.name
    expression, params = unit and unit.expression, invocation.key[-1]
    finding = _finding(compiled, name, kind="error", message=text, index=index, expression=expression, params=params)
    if finding.denies and unit is not None and group is not None:
        return replace(finding, reasons=group.reasons(unit))
    return finding


def _finding(compiled: CompiledPolicy, binding: str, **fields: Any) -> Finding:
    name, actions = compiled.policy.name, compiled.policy.failure_actions
    return Finding(policy_kind="MutatingAdmissionPolicy", policy=name, binding=binding, actions=actions, **fields)
