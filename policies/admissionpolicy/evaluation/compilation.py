"""A policy compiled once, when it is loaded: a program for each of its expressions.

An expression that does not compile does not stop the rest: the error is kept in its place, and the policy fails there
when it is evaluated, as in kube-apiserver. Sources: k8s.io/apiserver's pkg/admission/plugin/policy/validating/plugin.go
and mutating/compilation.go (which expression may speak of what), pkg/admission/plugin/cel/compile.go (result types).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from policies.admissionpolicy.model import Expression, Policy
from policies.cel import types
from policies.cel.checking.validation import walk
from policies.cel.environment import Environment
from policies.cel.kubernetes import VARIABLES, admission
from policies.cel.patchtypes import JSON_PATCH, OBJECT
from policies.cel.program import Composition, Program, ResultError, compile_expression
from policies.cel.reads import EVERYTHING, ROOTS, Reads, composed_reads
from policies.cel.syntax.ast import Call
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Issue
from policies.cel.types import Type
from policies.cel.values import Value

Compile = Callable[[Policy], "CompiledPolicy"]
"""Compiles a policy: compile_policy, or a Compiler, which keeps what it compiled."""

OnFault = Callable[[Policy, Program, Exception], None]
"""Is told which policy has the expression whose generated code failed, and what it raised."""

_PATCHES = {"ApplyConfiguration": OBJECT, "JSONPatch": types.list_of(JSON_PATCH)}
_ANNOTATION_TYPES = (types.STRING, types.NULL)

# Calls whose cost at most grows with the size of what they read. With these an expression stops soon after its own
# limit, so that a few of them cannot use up what a policy may cost.
_CHEAP_CALLS = frozenset(
    (
        *("_+_", "_-_", "-_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "_?_:_", "@in"),
        *("_[_]", "_[?_]", "_?._", "or", "orValue", "hasValue", "value", "optional.of", "optional.none"),
        *("size", "string", "int", "format", "slice", "trim", "lowerAscii", "upperAscii"),
    )
)
_SELECTED = re.compile(r"\bvariables\s*\.\s*\??\s*(\w+)")
_CHEAP_COUNT = 4
"""The number of expressions, variables included, that stay below a policy's limit even at twice their own limits."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An expression and its program, or what is wrong with it."""

    expression: Expression
    program: Program | CompileError


@dataclass(frozen=True, kw_only=True)
class CompiledPolicy:
    """A policy with its programs, in the order of the document.

    composition: the policy's variables, for match conditions, validations and audit annotations. speaking: the same for
    messageExpressions, which may not ask the authorizer. patching: for mutations. messages: one for each validation.
    """

    policy: Policy
    composition: Composition
    speaking: Composition
    patching: Composition
    conditions: tuple[Unit, ...] = ()
    validations: tuple[Unit, ...] = ()
    messages: tuple[Unit | None, ...] = ()
    annotations: tuple[Unit, ...] = ()
    mutations: tuple[Unit, ...] = ()

    @cached_property
    def errors(self) -> tuple[tuple[Expression, CompileError], ...]:
        """All that does not compile, in the order of the document."""
        return tuple(
            (unit.expression, unit.program) for unit in self._units() if isinstance(unit.program, CompileError)
        )

    @cached_property
    def reads_namespace(self) -> bool:
        """Whether an expression may read `namespaceObject`."""
        return any("namespaceObject" in unit.expression.text for unit in self._units())

    @cached_property
    def reads_request(self) -> bool:
        """Whether an expression may read `request` or `authorizer`."""
        return any(name in unit.expression.text for unit in self._units() for name in ("request", "authorizer"))

    @cached_property
    def reads(self) -> Mapping[str, Reads]:
        """What the expressions of a validating policy together read of `object` and `oldObject`."""
        try:
            return composed_reads((expression.source for expression in self._composed()), self.composition)
        except CompileError:
            return dict.fromkeys(ROOTS, EVERYTHING)

    @cached_property
    def quick(self) -> tuple[Program, ...] | None:
        """The validations, if they are all there is to judge and all compile."""
        programs = [unit.program for unit in self.validations]
        compiled = tuple(program for program in programs if isinstance(program, Program))
        return None if self.annotations or len(compiled) < len(programs) else compiled

    @cached_property
    def all_true(self) -> list[Value]:
        """The values of the validations where all of them hold."""
        return [True] * len(self.validations)

    @cached_property
    def speaks(self) -> bool:
        """Whether there are messageExpressions."""
        return any(message is not None for message in self.messages)

    def has_cheap_messages(self, known: Collection[str] = ()) -> bool:
        """Whether the messageExpressions can never use up the budget: then one is evaluated only if it is shown.

        known: variables that were evaluated before. They cost again what they cost then, and are not counted here.
        """
        count, more = self._message_count, self._message_reads.difference(known)
        new: set[str] = set()
        while more:
            new |= more
            more = frozenset().union(*(self._variable_reads[name] for name in more)).difference(known, new)
        return count + len(new) <= _CHEAP_COUNT and new <= self._cheap_variables

    @cached_property
    def _message_count(self) -> int:
        """How many messageExpressions there are; too many where one is dear."""
        programs = [unit.program for unit in self.messages if unit is not None]
        # A variable that asks the authorizer fails in a message, where there is none: what it cost before says nothing.
        asking = any("authorizer" in variable.expression.text for variable in self.policy.variables)
        return len(programs) if not asking and all(map(_is_cheap, programs)) else _CHEAP_COUNT + 1

    @cached_property
    def _message_reads(self) -> frozenset[str]:
        messages = (unit.expression for unit in self.messages if unit is not None)
        return frozenset().union(*(_variables_in(message, self.composition.programs) for message in messages))

    @cached_property
    def _variable_reads(self) -> Mapping[str, frozenset[str]]:
        names = self.composition.programs
        return {variable.name: _variables_in(variable.expression, names) for variable in self.policy.variables}

    @cached_property
    def _cheap_variables(self) -> frozenset[str]:
        return frozenset(name for name, program in self.composition.programs.items() if _is_cheap(program))

    def watch(self, on_fault: Callable[[Program, Exception], None]) -> None:
        """Be told where generated code fails: see Program."""
        for unit in self._units():
            if isinstance(unit.program, Program):
                unit.program.on_fault = on_fault

    def _composed(self) -> Iterator[Expression]:
        """The expressions of a validating policy but for its variables."""
        yield from (condition.expression for condition in self.policy.match_conditions)
        yield from self.policy.judged_expressions
        yield from (annotation.value_expression for annotation in self.policy.audit_annotations)

    def _units(self) -> Iterator[Unit]:
        yield from self.conditions
        for variable in self.policy.variables:
            yield Unit(variable.expression, self.composition.programs[variable.name])
        for validation, message in zip(self.validations, self.messages, strict=True):
            yield validation
            if message is not None:
                yield message
        yield from self.annotations
        yield from self.mutations


def compile_policy(policy: Policy) -> CompiledPolicy:
    """Compile all expressions of a policy of either kind. Raises nothing: see CompiledPolicy.errors."""
    params = policy.param_kind is not None
    composition = Composition(admission(params=params))
    for variable in policy.variables:
        composition = composition.declare(variable.name, variable.expression.text, source=variable.expression.source)
    fields = composition.environment.structs[VARIABLES.name]
    silent = admission(params=params, authorizer_=False).with_fields(VARIABLES.name, fields)
    speaking = Composition(silent, composition.programs)
    patching = composition.for_mutations()
    known, mutable = composition.environment, patching.environment
    return CompiledPolicy(
        policy=policy,
        composition=composition,
        speaking=speaking,
        patching=patching,
        conditions=_units((condition.expression for condition in policy.match_conditions), known, types.BOOL),
        validations=_units((validation.expression for validation in policy.validations), known, types.BOOL),
        messages=tuple(
            None if message is None else _unit(message, silent, types.STRING)
            for message in (validation.message_expression for validation in policy.validations)
        ),
        annotations=tuple(_annotation(annotation.value_expression, known) for annotation in policy.audit_annotations),
        mutations=tuple(
            _unit(mutation.expression, mutable, _PATCHES[mutation.patch_type]) for mutation in policy.mutations
        ),
    )


class Compiler:
    """Compiles the new policies of a set; those that were in the set before are kept."""

    def __init__(self, on_fault: OnFault | None = None) -> None:
        self._on_fault = on_fault
        self._cache: dict[int, CompiledPolicy] = {}
        self._previous: Mapping[int, CompiledPolicy] = {}

    def begin(self) -> None:
        """Begin another set, which may have policies of the last one."""
        self._previous, self._cache = self._cache, {}

    def __call__(self, policy: Policy) -> CompiledPolicy:
        """The compiled policy. It holds the policy, so that no other one can have the same identity."""
        compiled = self._cache[id(policy)] = self._previous.get(id(policy)) or self._compiled(policy)
        return compiled

    def _compiled(self, policy: Policy) -> CompiledPolicy:
        compiled = compile_policy(policy)
        if self._on_fault is not None:
            compiled.watch(partial(self._on_fault, policy))
        return compiled


def _units(expressions: Iterable[Expression], environment: Environment, result: Type) -> tuple[Unit, ...]:
    return tuple(_unit(expression, environment, result) for expression in expressions)


def _unit(expression: Expression, environment: Environment, result: Type | None) -> Unit:
    try:
        program = compile_expression(expression.text, environment, result, source=expression.source)
    except CompileError as error:
        return Unit(expression, error)
    return Unit(expression, program)


def _annotation(expression: Expression, environment: Environment) -> Unit:
    """A valueExpression: a text, or null for no annotation."""
    unit = _unit(expression, environment, None)
    if isinstance(unit.program, CompileError) or unit.program.type in _ANNOTATION_TYPES:
        return unit
    message = f"must evaluate to one of [string null_type] but got {unit.program.type.declared}"
    return Unit(expression, ResultError(expression.source, (Issue(0, message),)))


def _variables_in(expression: Expression, names: Collection[str]) -> frozenset[str]:
    """The variables that an expression may read: all, if it uses `variables` in another way than `variables.name`."""
    selected = _SELECTED.findall(expression.text)
    if len(selected) != expression.text.count("variables"):
        return frozenset(names)
    return frozenset(selected).intersection(names)


def _is_cheap(program: Program | CompileError) -> bool:
    if isinstance(program, CompileError):
        return True  # it is not even tried
    calls = (node.function for node in walk(parse(program.source)) if isinstance(node, Call))
    return all(call in _CHEAP_CALLS for call in calls)
