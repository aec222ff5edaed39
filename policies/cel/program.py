"""Compile an expression and evaluate it: the interface for all other packages.

>>> from policies.cel.kubernetes import admission
>>> program = compile_expression("object.spec.replicas <= 5", admission(), types.BOOL)
>>> program.evaluate({"object": {"spec": {"replicas": 3}}})
Evaluation(value=True, cost=4, error=None)
>>> program.evaluate({"object": {"spec": {}}})
Evaluation(value=None, cost=4, error=CelError('no such key: replicas'))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

from msgspec import Struct

from policies.cel import types
from policies.cel.checker import check
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.environment import NEW, Dialect, Environment, Feature
from policies.cel.evaluation.plan import PlanError, plan
from policies.cel.evaluation.run import Outcome, Run, Step, failed
from policies.cel.generation.codegen import Function, Generated, generate
from policies.cel.generation.support import HandOverError
from policies.cel.kubernetes import VARIABLES, admission, variable_type
from policies.cel.recursion import NestingError, deeply
from policies.cel.syntax.ast import Node, walk
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Issue, Source
from policies.cel.types import Type
from policies.cel.values import BudgetError, CelError, Value
from policies.engine.interruption import Expired, Missing, TimeLimitError, look

_CHEAP = 2_000
"""After a more expensive evaluation, some tenths of a millisecond, the clock is looked at."""
Mark = tuple[int, int, int]
"""The cost of variables, and the numbers of those with values and with failures."""
Names = Mapping[str, Value]
"""The variables of one evaluation by name: `object`, `oldObject`, `params`, `request`, `variables`, ..."""


class InstantiationError(CompileError):
    """A constant part of an expression cannot be computed."""


class Evaluation(Struct, frozen=True):
    """The result of an evaluation: a value or an error, and the cost without that of `variables`."""

    value: Value
    cost: int
    error: CelError | BudgetError | None = None


class Program:
    """A compiled expression: a generated function, and the steps that take over if the function fails.

    The function is generated when it is first needed, because not every loaded policy is ever used.

    `faults` counts evaluations in which the function failed although the exact evaluator did not. Such a defect of the
    generator only costs time. `on_fault` is called for each, with the exception that the function raised.
    """

    def __init__(self, source: Source, type_: Type, steps: Step, tree: Node | None, dialect: Dialect = NEW) -> None:
        self.source = source
        self.dialect = dialect
        self.type = type_
        self._steps = steps
        self._tree = tree  # until the function is generated from it; None if there shall be none
        self._function: Function | None = _unloaded
        self._reads_variables = False
        self.faults = 0
        self.on_fault: Callable[[Program, Exception], None] | None = None

    def evaluate(
        self, names: Names, *, limit: int = EXPRESSION_LIMIT, expired: Expired | None = None, exact: bool = True
    ) -> Evaluation:
        """The result with these variables. `limit`: the allowed cost. `expired`: called repeatedly; True stops.

        exact: whether the cost of an evaluation over its limit has to be the reference's, the first sum above it. That
        takes the exact evaluator; otherwise one more than the limit will do. Raises TimeLimitError, and Missing if an
        authorization check has no answer yet: find the answer and evaluate again.
        """
        function = self.load()
        if function is None:
            return self.evaluate_exactly(names, limit=limit, expired=expired)
        variables = names["variables"] if self._reads_variables else NO_VARIABLES
        mark = variables.mark() if self._reads_variables else None
        raised: Exception = _TOO_EXPENSIVE
        try:
            value, cost = function(names, limit, expired)
        except Missing:
            raise
        except TimeLimitError as error:
            self._blame(error)
            raise
        except Exception as error:  # noqa: BLE001 - the exact evaluator finds out what went wrong
            raised = error.with_traceback(None)  # the traceback would keep this frame, and so the whole review
        else:
            if cost <= limit:
                if cost > _CHEAP:
                    look(expired)
                return Evaluation(value, cost)
        if isinstance(raised, BudgetError) and raised.certain and not exact:
            return Evaluation(None, raised.cost, raised)
        if mark is not None:
            variables.forget(mark)
        run = Run(names, limit, expired, self.dialect)
        evaluation = self._exactly(run)
        if evaluation.error is None and not run.absorbed and not _handed_over(raised):
            self.faults += 1
            if self.on_fault is not None:
                self.on_fault(self, raised)
        return evaluation

    def _blame(self, error: TimeLimitError) -> None:
        error.place = error.place or f"{self.source.name}:{self.source.line}"

    def evaluate_exactly(
        self, names: Names, *, limit: int = EXPRESSION_LIMIT, expired: Expired | None = None
    ) -> Evaluation:
        """The result of the exact evaluator."""
        return self._exactly(Run(names, limit, expired, self.dialect))

    def _exactly(self, run: Run) -> Evaluation:
        def evaluated() -> Outcome:
            run.cost, run.scopes = 0, []
            return self._steps.evaluate(run)

        try:
            outcome = deeply(evaluated)
        except TimeLimitError as error:
            self._blame(error)
            raise
        except BudgetError as error:
            return Evaluation(None, run.cost, error)
        except NestingError:
            outcome = CelError("values are nested too deeply")
        return Evaluation(None, run.cost, outcome) if failed(outcome) else Evaluation(outcome, run.cost)

    @cached_property
    def generated(self) -> Generated | None:
        """The source of the function; None for a construct that only the exact evaluator supports."""
        tree, self._tree = self._tree, None
        return None if tree is None else deeply(lambda: generate(tree))

    @property
    def nodes(self) -> int:
        """The number of nodes of which a function is still to be made."""
        return 0 if self._tree is None else sum(1 for _ in walk(self._tree))

    def load(self) -> Function | None:
        """The function, which is compiled now if it was not before."""
        if self._function is _unloaded:
            generated = self.generated
            self._function = None if generated is None else generated.load()
            self._reads_variables = generated is not None and generated.reads_variables
        return self._function


def _handed_over(raised: Exception) -> bool:
    """Whether a generated function left a case to the steps on purpose, or met a value of an unusual class."""
    # It reads `value["field"]` and `value.get("field")` of values of any class. PASS in support.py raises IndexError.
    return (
        isinstance(raised, HandOverError | CelError | BudgetError | IndexError | RecursionError)
        or (isinstance(raised, AttributeError) and raised.name == "get")
        or (isinstance(raised, TypeError) and str(raised).endswith("not subscriptable"))
    )


_TOO_EXPENSIVE = HandOverError()
"""Stands for a cost above the limit. The steps find out whether it really is."""


def _unloaded(_names: Names, _limit: int, _expired: Expired | None) -> tuple[Value, int]:
    """Stands for a function that is not compiled yet. A method of the program would form a reference cycle with it."""
    raise HandOverError


def compile_expression(text: str, environment: Environment, *results: Type, source: Source | None = None) -> Program:
    """The program of an expression. `results`: the allowed types, none for any. Raises CompileError with all issues."""
    source = source or Source(text)
    try:
        return deeply(lambda: _compiled(source, environment, results))
    except RecursionError:
        raise CompileError(source, (Issue(0, "expression is nested too deeply"),)) from None


def checked(source: Source, environment: Environment) -> tuple[Node, Type]:
    """The checked tree of an expression, and its type. Raises CompileError."""
    try:
        return _checked(source.text, environment)
    except CompileError as error:
        raise CompileError(source, error.issues, message=error.message) from None


# An expression is compiled when its policy is read, then for evaluation, and what it reads is found out. Until its
# function is generated, the program needs the tree anyway.
@lru_cache(maxsize=4096)
def _checked(text: str, environment: Environment) -> tuple[Node, Type]:
    source = Source(text)
    tree = parse(source, quoted=environment.dialect.has(Feature.QUOTED_FIELDS))
    return tree, check(tree, source, environment)


@lru_cache(maxsize=4096)  # for the same reasons
def _planned(text: str, environment: Environment) -> Step:
    return plan(_checked(text, environment)[0])


def _compiled(source: Source, environment: Environment, results: tuple[Type, ...]) -> Program:
    tree, actual = checked(source, environment)
    if results and actual not in results:
        declared = " ".join(result.declared for result in results)
        expected = declared if len(results) == 1 else f"one of [{declared}]"
        message, hint = f"must evaluate to {expected} but got {actual.declared}", ""
        if actual == types.DYN and results == (types.BOOL,):
            hint = "compare the value, as in `object.spec.hostNetwork == true`: fields of object have no known type"
        raise CompileError(source, (Issue(tree.start, message, hint),), message=message)
    try:
        steps = _planned(source.text, environment)
    except PlanError as error:
        message = f"program instantiation failed: {error.message}"
        issue = Issue(error.node.position, error.message, error.hint)
        raise InstantiationError(source, (issue,), message=message) from None
    return Program(source, actual, steps, tree, environment.dialect)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """The variables of a policy, in order. Each may use those before it. A composition is equal only to itself.

    >>> from policies.cel.kubernetes import admission
    >>> composition = Composition(admission()).declare("n", "object.spec.replicas + 1")
    >>> program = compile_expression("variables.n > 3", composition.environment, types.BOOL)
    >>> program.evaluate(composition.bind({"object": {"spec": {"replicas": 3}}})).value
    True
    """

    environment: Environment
    programs: Mapping[str, Program | CompileError] = field(default_factory=dict)

    def declare(self, name: str, text: str, *, source: Source | None = None) -> Composition:
        """A composition with one more variable. A variable that does not compile is dyn and fails when it is used."""
        program: Program | CompileError
        try:
            program = compile_expression(text, self.environment, source=source)
        except CompileError as error:
            program = error
        type_ = types.DYN if isinstance(program, CompileError) else variable_type(program.type)
        fields = {**self.environment.structs[VARIABLES.name], name: type_}
        return Composition(self.environment.with_fields(VARIABLES.name, fields), {**self.programs, name: program})

    def for_mutations(self) -> Composition:
        """A composition for expressions that may use `JSONPatch{...}` and `Object{...}`. Variables may not."""
        known = self.environment
        patching = admission(
            params="params" in known.variables,
            authorizer_="authorizer" in known.variables,
            patch_types=True,
            dialect=known.dialect,
        )
        fields = known.structs[VARIABLES.name]
        return Composition(patching.with_fields(VARIABLES.name, fields), self.programs)

    def bind(self, names: Names, *, expired: Expired | None = None, exact: bool = True) -> Names:
        """The names of an evaluation, with `variables` added. For `exact` see Program.evaluate."""
        if not self.programs:
            return names if "variables" in names else {**names, "variables": NO_VARIABLES}
        return {**names, "variables": Variables(self.programs, names, expired, exact=exact)}


class Variables(dict[str, Value]):
    """The value of `variables` in one evaluation. Each variable is evaluated when first read, at a separate cost."""

    __slots__ = ("_exact", "_expired", "_failures", "_inexact", "_names", "_programs", "_spent", "cost")
    cel_type = VARIABLES

    def __init__(
        self,
        programs: Mapping[str, Program | CompileError],
        names: Names,
        expired: Expired | None,
        *,
        exact: bool = True,
    ) -> None:
        self.cost = 0
        self._programs, self._names, self._expired, self._exact = programs, names, expired, exact
        self._failures: dict[str, CelError] | None = None  # None until a variable fails
        self._inexact: frozenset[str] = frozenset()  # variables that have failed or were forgotten
        self._spent: dict[str, tuple[CelError, int]] | None = None  # those over their limit, with their costs

    def cel_has(self, name: str) -> bool:
        """Whether there is such a variable."""
        return name in self._programs

    def cel_field(self, name: str) -> Value:
        """The value of a variable. Raises CelError with the reference's message if it failed."""
        return self[name]

    def mark(self) -> Mark:
        """The state of the evaluation so far, for `forget`."""
        return self.cost, len(self), len(self._failures or ())

    def forget(self, mark: Mark) -> None:
        """Forget variables evaluated since the mark: a generated function read them in its own order, then gave up.

        Next time they are evaluated exactly. With two attempts each, variables that read one another would take 2**n.
        """
        self.cost, values, failures = mark
        forgotten = [self.popitem()[0] for _ in range(len(self) - values)]
        self._inexact |= {*forgotten, *(self._failures or ())}
        if self._failures is not None:
            self._failures = dict(list(self._failures.items())[:failures])

    def __missing__(self, name: str) -> Value:
        """The value of a variable that was not read before. Raises CelError, the same one each time."""
        if self._failures is not None and name in self._failures:
            raise self._failures[name]
        value = self._evaluate(name)
        if value.__class__ is CelError:
            self._failures = {**(self._failures or {}), name: value}
            raise value
        self[name] = value
        return value

    def _evaluate(self, name: str) -> Value:
        if self._spent is not None and name in self._spent:
            error, cost = self._spent[name]
            self.cost += cost
            return error
        program = self._programs.get(name)
        if program is None:
            return CelError(f"no such key: {name}")
        if isinstance(program, CompileError):
            return CelError(f'composited variable "{name}" fails to compile: {program.full_reference()}')
        evaluate = program.evaluate_exactly if name in self._inexact else partial(program.evaluate, exact=self._exact)
        before = self.cost
        # The dict is not kept: in a reference cycle, each review's object would wait for the garbage collector.
        evaluation = evaluate({**self._names, "variables": self}, expired=self._expired)
        self.cost += evaluation.cost
        if evaluation.error is None:
            return evaluation.value
        failure = CelError(f'composited variable "{name}" fails to evaluate: {evaluation.error}')
        if isinstance(evaluation.error, BudgetError) and self.cost == before + evaluation.cost:  # it read no other one
            self._spent = {**(self._spent or {}), name: (failure, evaluation.cost)}
        return failure


NO_VARIABLES = Variables({}, {}, None)
"""The value of `variables` for a policy without variables."""
