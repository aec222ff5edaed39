"""Compiles a policy when it is loaded: one program for each of its expressions.

If an expression does not compile, its error takes the place of the program, and evaluating the policy fails there, as
in kube-apiserver. Sources: k8s.io/apiserver's pkg/admission/plugin/policy/validating/plugin.go and
mutating/compilation.go (the variables of each expression), pkg/admission/plugin/cel/compile.go (result types).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from policies.admissionpolicy.model import Expression, Policy
from policies.cached import cached_property
from policies.cel import types
from policies.cel.environment import Dialect, Environment
from policies.cel.generation import fusion
from policies.cel.kubernetes import VARIABLES, admission
from policies.cel.patchtypes import PATCH_TYPES
from policies.cel.program import Composition, Program, compile_expression
from policies.cel.reads import EVERYTHING, ROOTS, Reads, checked_tree, composed_reads
from policies.cel.syntax.ast import Ident, Node, walk
from policies.cel.syntax.ast import variables as variables_of
from policies.cel.syntax.source import CompileError
from policies.cel.types import Type
from policies.kubernetes.release import NEWEST, Release

Compile = Callable[[Policy], "CompiledPolicy"]
"""Compiles a policy: compile_policy, or a Compiler, which caches."""

OnFault = Callable[[Policy, Program, Exception], None]
"""Called if generated code fails, with the policy, the program and the exception."""


LARGE = 1_000
"""The nodes of a policy's trees, each of which takes 1 to 15 µs, that take over some 10 ms to become functions."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An expression with its program, or with its compile error."""

    expression: Expression
    program: Program | CompileError


@dataclass(frozen=True, kw_only=True)
class CompiledPolicy:
    """A policy with its programs, in the order of the document.

    release: that of the API server whose way of evaluating it is. composition: the policy's variables, for match
    conditions, validations and audit annotations. speaking: the variables for messageExpressions, which may not use the
    authorizer. patching: for mutations. messages: one for each validation.
    """

    policy: Policy
    release: Release
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
        """All compile errors with their expressions, in the order of the document."""
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
        """The fields of `object` and `oldObject` that any expression of a validating policy reads."""
        policy = self.policy
        composed = (
            *(condition.expression for condition in policy.match_conditions),
            *policy.judged_expressions,
            *(annotation.value_expression for annotation in policy.audit_annotations),
        )
        try:
            return composed_reads((expression.source for expression in composed), self.composition)
        except CompileError:
            return dict.fromkeys(ROOTS, EVERYTHING)

    @property
    def programs(self) -> list[Program]:
        """The programs of all expressions that compile."""
        return [unit.program for unit in self._units() if isinstance(unit.program, Program)]

    def load(self, least: int = 0) -> None:
        """Compile all functions before the first review, if their trees have so many nodes at least."""
        programs = self.programs
        if sum(program.nodes for program in programs) >= least:
            for program in programs:
                program.load()

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


def compile_policy(policy: Policy, release: Release = NEWEST) -> CompiledPolicy:
    """The policy, of either kind, with all its expressions compiled. It raises nothing; see CompiledPolicy.errors."""
    params = policy.param_kind is not None
    dialect = Dialect(release, stored=True)  # whatever an API server takes into a new policy, it evaluates stored ones
    composition = Composition(admission(params=params, dialect=dialect))
    for variable in policy.variables:
        composition = composition.declare(variable.name, variable.expression.text, source=variable.expression.source)
    fields = composition.environment.structs[VARIABLES.name]
    silent = admission(params=params, authorizer_=False, dialect=dialect).with_fields(VARIABLES.name, fields)
    speaking = Composition(silent, composition.programs)
    patching = composition.for_mutations()
    known, mutable = composition.environment, patching.environment
    return CompiledPolicy(
        policy=policy,
        release=release,
        composition=composition,
        speaking=speaking,
        patching=patching,
        conditions=tuple(_unit(condition.expression, known, types.BOOL) for condition in policy.match_conditions),
        validations=tuple(_unit(validation.expression, known, types.BOOL) for validation in policy.validations),
        messages=tuple(
            None if message is None else _unit(message, silent, types.STRING)
            for message in (validation.message_expression for validation in policy.validations)
        ),
        annotations=tuple(
            _unit(annotation.value_expression, known, types.STRING, types.NULL)
            for annotation in policy.audit_annotations
        ),
        mutations=tuple(
            _unit(mutation.expression, mutable, PATCH_TYPES[mutation.patch_type]) for mutation in policy.mutations
        ),
    )


class Compiler:
    """Compiles the policies of a set, and reuses those that were compiled for the previous set."""

    def __init__(self, on_fault: OnFault | None = None) -> None:
        self._on_fault = on_fault
        self._release = NEWEST
        self._cache: dict[int, CompiledPolicy] = {}
        self._previous: Mapping[int, CompiledPolicy] = {}

    def begin(self, release: Release) -> None:
        """Begin a new set, which may contain policies of the last one, to be evaluated as by a release."""
        self._previous = self._cache if release == self._release else {}
        self._release, self._cache = release, {}

    def __call__(self, policy: Policy) -> CompiledPolicy:
        """The compiled policy. It keeps the policy alive, so that no other object can have the same id."""
        compiled = self._previous.get(id(policy))
        if compiled is None:
            compiled = compile_policy(policy, self._release)
            compiled.load(LARGE)
            if self._on_fault is not None:
                for program in compiled.programs:
                    program.on_fault = partial(self._on_fault, policy)
        self._cache[id(policy)] = compiled
        return compiled


def _unit(expression: Expression, environment: Environment, *results: Type) -> Unit:
    try:
        program = compile_expression(expression.text, environment, *results, source=expression.source)
    except CompileError as error:
        return Unit(expression, error)
    return Unit(expression, program)


def part_of(compiled: CompiledPolicy, *, is_selective: bool) -> fusion.Part | None:
    """What of a validating policy goes into the function that judges many together.

    None if only its own evaluation can tell that it has nothing to say. is_selective: whether it depends on more than
    the kind of a request, and on its Namespace, if the policy applies.
    """
    units = (*compiled.conditions, *compiled.validations)
    programs = (*(unit.program for unit in units), *compiled.composition.programs.values())
    if compiled.annotations or not all(isinstance(program, Program) for program in programs):
        return None
    variables: dict[str, fusion.Expression] = {}
    for variable in compiled.policy.variables:
        variables[variable.name] = _fusible(compiled, variable.expression, variables)
    conditions, validations = (
        [_fusible(compiled, unit.expression, variables) for unit in each]
        for each in (compiled.conditions, compiled.validations)
    )
    # Match conditions do not see the Namespace, not even through variables.
    if any("namespaceObject" in _names_in(condition.tree, variables) for condition in conditions):
        return None
    return fusion.Part(
        conditions,
        validations,
        variables,
        is_selective or compiled.policy.param_kind is not None,
    )


def _fusible(
    compiled: CompiledPolicy, expression: Expression, variables: Mapping[str, fusion.Expression]
) -> fusion.Expression:
    """An expression with a text for it and its variables; None for one that may mean something else elsewhere."""
    tree = checked_tree(expression.source, compiled.composition)
    reads = variables_of(tree)
    names = sorted(reads or ())
    texts = [variables[name].text if name in variables else None for name in names]
    if reads is None or None in texts or any(isinstance(node, Ident) and node.name == "params" for node in walk(tree)):
        return fusion.Expression(tree, None)
    shared = repr((expression.text, list(zip(names, texts, strict=True)))).encode(errors="surrogatepass")
    return fusion.Expression(tree, sha256(shared).hexdigest())


def _names_in(tree: Node, variables: Mapping[str, fusion.Expression]) -> set[str]:
    pending, seen, names = [tree], set[str](), set[str]()
    while pending:
        current = pending.pop()
        names |= {node.name for node in walk(current) if isinstance(node, Ident)}
        reads = variables_of(current)
        new = (variables.keys() if reads is None else variables.keys() & reads) - seen
        seen |= new
        pending += [variables[name].tree for name in new]
    return names
