"""The expressions of a policy, compiled as the API server compiles them when a policy is written.

Sources: kubernetes' pkg/apis/admissionregistration/validation/validation.go (the variables of each expression, and what
is trimmed), k8s.io/apiserver's pkg/admission/plugin/cel/compile.go (result types and messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from policies.admissionpolicy.documents.document import Problem, Spot, invalid, show
from policies.cel.environment import Dialect, Environment
from policies.cel.kubernetes import VARIABLES, admission
from policies.cel.patchtypes import PATCH_TYPES
from policies.cel.program import Composition, InstantiationError, compile_expression
from policies.cel.syntax.source import CompileError, Source
from policies.cel.types import BOOL, NULL, STRING, Type
from policies.golang.strconv import trimmed

_VARIABLES = "variables"


class Expressions:
    """The compiler of one policy's expressions, which notes each one that does not compile.

    dialect: what the API server knows in them. params: whether the policy has a paramKind. composed: whether
    expressions may read `variables`, because the policy declares some or is a mutating one.
    """

    def __init__(self, dialect: Dialect, *, params: bool, composed: bool) -> None:
        self._dialect = dialect
        self._params = params
        self._composed = composed
        self._composition = Composition(admission(params=params, dialect=dialect))

    def match_condition(self, spot: Spot) -> None:
        """Check a match condition: bool, without variables."""
        _check(spot, _without_variables(admission(params=self._params, dialect=self._dialect)), (BOOL,), trim=True)

    def variable(self, name: str, spot: Spot) -> None:
        """Check a variable, of any type, and declare it for all later expressions."""
        declared = self._composition.declare(name, spot.value)
        program = declared.programs[name]
        if name:  # nothing can refer to a variable without a name
            self._composition = declared
        if isinstance(program, CompileError):
            _note(program, spot.value, program, spot)

    def validation(self, spot: Spot) -> None:
        """Check a validation: bool."""
        self._check(spot, (BOOL,))

    def message(self, spot: Spot) -> None:
        """Check a messageExpression: a string, without the authorizer."""
        environment = admission(params=self._params, authorizer_=False, dialect=self._dialect)
        if self._composed:
            environment = environment.with_fields(VARIABLES.name, self._composition.environment.structs[VARIABLES.name])
        else:
            environment = _without_variables(environment)
        _check(spot, environment, (STRING,))

    def audit_annotation(self, spot: Spot) -> None:
        """Check the value of an audit annotation: a string, or null for none."""
        self._check(spot, (STRING, NULL), trim=True, shown=spot.value)

    def mutation(self, patch_type: str, spot: Spot) -> None:
        """Check an apply configuration, `Object{...}`, or a JSON Patch, a list of `JSONPatch{...}`."""
        _check(spot, self._composition.for_mutations().environment, (PATCH_TYPES[patch_type],), trim=True)

    def _check(self, spot: Spot, results: Sequence[Type], *, trim: bool = False, shown: str = "") -> None:
        """Check an expression that may read `variables` if the policy is composed.

        For evaluation they are always there. If the text does not name them, that makes no difference, and what is
        found out about it is found out for evaluation as well.
        """
        environment = self._composition.environment
        if not self._composed:
            if _VARIABLES not in spot.value and _failure(spot.value, environment, results) is None:
                return
            environment = _without_variables(environment)
        _check(spot, environment, results, trim=trim, shown=shown)


@lru_cache(maxsize=16)
def _without_variables(environment: Environment) -> Environment:
    return replace(environment, variables={k: v for k, v in environment.variables.items() if k != _VARIABLES})


def _check(
    spot: Spot, environment: Environment, results: Sequence[Type], *, trim: bool = False, shown: str = ""
) -> None:
    """Compile an expression whose result has one of some types, and note what is wrong.

    trim: whether the API server removes white space around the expression before it compiles and quotes it. shown: what
    it quotes instead of the expression.
    """
    text: str = spot.value
    error = _failure(text, environment, results)
    if error is not None:
        stripped = trimmed(text) if trim else text
        reference = error if stripped == text else _failure(stripped, environment, results) or error
        _note(error, shown or stripped, reference, spot)


def _failure(text: str, environment: Environment, results: Sequence[Type]) -> CompileError | None:
    try:
        compile_expression(text, environment, *results)
    except CompileError as error:
        return error
    return None


def _note(error: CompileError, text: str, reference: CompileError, spot: Spot) -> None:
    """Note an error with its places in the file. reference: that of the API server, whose words are the message."""
    if spot.is_hidden:
        return
    words = reference.full_reference()
    message = f"Internal error: {words}" if isinstance(reference, InstantiationError) else invalid(text, words)
    document = spot.report.document
    places, blocks = [], []
    for issue in error.issues:
        offset = max(issue.position, 0)  # an issue without a position is at the start
        place = document.place_inside(spot.path, offset)
        places.append(place or Source(error.source.text, "", *document.place(spot.path)).location(offset))
        blocks.append("\n".join((issue.message, *error.source.excerpt(offset))))
    further = [
        f"{document.name}:{line}:{column}: {block}" for (line, column), block in zip(places, blocks, strict=True)
    ]
    spot.report.problems.append(
        Problem(
            file=document.name,
            line=places[0][0],
            column=places[0][1],
            path=show(spot.path),
            message=message,
            hint=next((issue.hint for issue in error.issues if issue.hint), ""),
            excerpt="\n".join([blocks[0], *further[1:]]),
        )
    )
