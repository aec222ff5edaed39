"""The expressions of a policy, compiled as the API server compiles them when a policy is written.

Sources: kubernetes' pkg/apis/admissionregistration/validation/validation.go (the variables of each expression, and what
is trimmed), k8s.io/apiserver's pkg/admission/plugin/cel/compile.go (result types and messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from policies.admissionpolicy.documents.document import Place, Problem, Spot, invalid, show
from policies.cel.dialect import Dialect
from policies.cel.environment import Environment
from policies.cel.kubernetes import VARIABLES, admission
from policies.cel.patchtypes import JSON_PATCH, OBJECT
from policies.cel.program import Composition, InstantiationError, ResultError, compile_expression
from policies.cel.syntax.source import CompileError, Issue, Source
from policies.cel.types import BOOL, NULL, STRING, Type, list_of
from policies.golang.quote import trimmed

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

    def match_condition(self, text: str, spot: Spot) -> None:
        """Check a match condition: bool, without variables."""
        _check(
            text, _without_variables(admission(params=self._params, dialect=self._dialect)), (BOOL,), spot, trim=True
        )

    def variable(self, name: str, text: str, spot: Spot) -> None:
        """Check a variable, of any type, and declare it for all later expressions."""
        declared = self._composition.declare(name, text)
        program = declared.programs[name]
        if name:  # nothing can refer to a variable without a name
            self._composition = declared
        if isinstance(program, CompileError):
            _note(program, _words(text, program), spot)

    def validation(self, text: str, spot: Spot) -> None:
        """Check a validation: bool."""
        self._check(text, (BOOL,), spot)

    def message(self, text: str, spot: Spot) -> None:
        """Check a messageExpression: a string, without the authorizer."""
        environment = admission(params=self._params, authorizer_=False, dialect=self._dialect)
        if self._composed:
            environment = environment.with_fields(VARIABLES.name, self._composition.environment.structs[VARIABLES.name])
        else:
            environment = _without_variables(environment)
        _check(text, environment, (STRING,), spot)

    def audit_annotation(self, text: str, spot: Spot) -> None:
        """Check the value of an audit annotation: a string, or null for none."""
        self._check(text, (STRING, NULL), spot, trim=True, shown=text)

    def apply_configuration(self, text: str, spot: Spot) -> None:
        """Check an apply configuration: `Object{...}`."""
        _check(text, self._composition.for_mutations().environment, (OBJECT,), spot, trim=True)

    def json_patch(self, text: str, spot: Spot) -> None:
        """Check a JSON Patch: a list of `JSONPatch{...}`."""
        _check(text, self._composition.for_mutations().environment, (list_of(JSON_PATCH),), spot, trim=True)

    def _check(self, text: str, results: Sequence[Type], spot: Spot, *, trim: bool = False, shown: str = "") -> None:
        """Check an expression that may read `variables` if the policy is composed.

        For evaluation they are always there. If the text does not name them, that makes no difference, and what is
        found out about it is found out for evaluation as well.
        """
        environment = self._composition.environment
        if not self._composed:
            if _VARIABLES not in text and _failure(text, environment, results) is None:
                return
            environment = _without_variables(environment)
        _check(text, environment, results, spot, trim=trim, shown=shown)


@lru_cache(maxsize=16)
def _without_variables(environment: Environment) -> Environment:
    return replace(environment, variables={k: v for k, v in environment.variables.items() if k != _VARIABLES})


def _check(
    text: str, environment: Environment, results: Sequence[Type], spot: Spot, *, trim: bool = False, shown: str = ""
) -> None:
    """Compile an expression whose result has one of some types, and note what is wrong.

    trim: whether the API server removes white space around the expression before it compiles and quotes it. shown: what
    it quotes instead of the expression.
    """
    error = _failure(text, environment, results)
    if error is None:
        return
    stripped = trimmed(text) if trim else text
    reference = error if stripped == text else _failure(stripped, environment, results) or error
    _note(error, _words(shown or stripped, reference), spot)


def _failure(text: str, environment: Environment, results: Sequence[Type]) -> CompileError | None:
    source, result = Source(text), results[0] if len(results) == 1 else None
    try:
        program = compile_expression(text, environment, result, source=source)
    except CompileError as error:
        return error
    if program.type in results:
        return None
    expected = " ".join(result.declared for result in results)
    return ResultError(source, (Issue(0, f"must evaluate to one of [{expected}] but got {program.type.declared}"),))


def _words(text: str, error: CompileError) -> str:
    if isinstance(error, InstantiationError):
        return f"Internal error: {error.full_reference()}"
    return invalid(text, error.full_reference())


def _note(error: CompileError, message: str, spot: Spot) -> None:
    if spot.report.hidden(spot.path):
        return
    document = spot.report.document
    start = document.place(spot.path)
    places = [_place(issue, error.source.text, start, spot) for issue in error.issues]
    blocks = [_block(issue, error.source) for issue in error.issues]
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


def _place(issue: Issue, text: str, start: Place, spot: Spot) -> Place:
    """The place of an issue in the file; the start of the expression for an issue without a position."""
    offset = max(issue.position, 0)
    return spot.report.document.place_inside(spot.path, offset) or Source(text, "", *start).location(offset)


def _block(issue: Issue, source: Source) -> str:
    """An issue with its line of the expression, and a caret below its position."""
    return "\n".join((issue.message, *source.excerpt(max(issue.position, 0))))
