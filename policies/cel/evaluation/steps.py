"""An expression as a tree of steps that charge exactly the costs of kube-apiserver.

This is the exact evaluator. The function of `compiled.py` is many times faster, but hands over to these steps whenever
something fails, so that errors, their absorption and the cost up to them match the reference. Explanations also use the
steps to evaluate parts of an expression.

Source: cel-go's interpreter package (interpretable.go, runtimecost.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from policies.cel.changes import Feature
from policies.cel.cost import LIST_CREATION, MAP_CREATION, STRUCT_CREATION
from policies.cel.display import shown
from policies.cel.errors import BudgetError, CelError, no_such_overload
from policies.cel.evaluation.qualify import go_type, show_key
from policies.cel.evaluation.run import Deferred, Outcome, Run
from policies.cel.evaluation.step import Step, failed
from policies.cel.function import Cost
from policies.cel.patchtypes import construct
from policies.cel.values import ABSENT, Optional, Value, type_of


class Logic(Step):
    """`&&` (decisive False) and `||` (decisive True): a decisive side absorbs the failure of the other."""

    def __init__(self, terms: Sequence[Step], *, decisive: bool) -> None:
        self._terms = tuple(terms)
        self._decisive = decisive

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        failure: CelError | None = None
        for term in self._terms:
            outcome = term.evaluate(run)
            if outcome is self._decisive:
                run.absorbed |= failure is not None
                return outcome
            if failure is None and outcome.__class__ is not bool:
                failure = outcome if failed(outcome) else no_such_overload()
        return not self._decisive if failure is None else failure


class Lenient(Step):
    """`@not_strictly_false(x)`, the condition of `all` and `exists`: anything but False continues. Costs 1."""

    def __init__(self, argument: Step) -> None:
        self._argument = argument

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self._argument.evaluate(run)
        run.charge(1)
        return outcome is not False


class Alternative(Step):
    """`a.or(b)` and `a.orValue(b)`. Evaluates the right side only if needed; costs nothing itself."""

    def __init__(self, left: Step, right: Step, *, unwrap: bool) -> None:
        self._left, self._right, self._unwrap = left, right, unwrap

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self._left.evaluate(run)
        if outcome.__class__ is not Optional:
            if failed(outcome) or not run.dialect.has(Feature.STRICT_ALTERNATIVES):
                return outcome
            return no_such_overload()
        if outcome.value is ABSENT:
            return self._right.evaluate(run)
        return outcome.value if self._unwrap else outcome


class Membership(Step):
    """`x in [literals]`, a look-up that costs nothing."""

    def __init__(self, item: Step, contains: Callable[[Value], bool]) -> None:
        self._item, self.contains = item, contains

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self._item.evaluate(run)
        return outcome if failed(outcome) else self.contains(outcome)


class CallStep(Step):
    """A function call. `stepwise`: the first failing argument ends it. It is then free, unless the last one failed."""

    def __init__(
        self, arguments: Sequence[Step], call: Callable[..., Value], cost: Cost | int, *, stepwise: bool
    ) -> None:
        self._arguments, self._call, self._cost, self._stepwise = tuple(arguments), call, cost, stepwise

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        values: list[Outcome] = []
        for argument in self._arguments:
            values.append(argument.evaluate(run))
            if self._stepwise and failed(values[-1]):
                if len(values) < len(self._arguments):
                    return values[-1]
                break
        outcome = next(filter(failed, values), None) or self._called(values, run)
        run.charge(self._cost if isinstance(self._cost, int) else self._cost(values, outcome))
        return outcome

    def _called(self, values: list[Value], run: Run) -> Outcome:
        try:
            return self._call(*values)
        except CelError as error:
            return error
        except BudgetError as error:  # the result would cost more than the limit
            run.charge(error.cost)
            raise BudgetError(run.cost) from error


class ListStep(Step):
    """`[a, ?b]`; costs 10."""

    def __init__(self, elements: Sequence[Step], optional: frozenset[int]) -> None:
        self._elements, self._optional = tuple(elements), optional

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self.build(run)
        run.charge(LIST_CREATION)
        return outcome

    def build(self, run: Run) -> Outcome:
        """The list, without its cost."""
        values: list[Value] = []
        for index, element in enumerate(self._elements):
            value = element.evaluate(run)
            if failed(value):
                return value
            if index in self._optional:
                if value.__class__ is not Optional:
                    return CelError(f"cannot initialize optional list element from non-optional value {shown(value)}")
                if value.value is ABSENT:
                    continue
                value = value.value
            values.append(value)
        return values


def _optional_entry(name: Value, value: Outcome) -> Outcome:
    """The content of an entry with a question mark, or ABSENT."""
    if value.__class__ is Optional:
        return value.value
    return CelError(f"cannot initialize optional entry '{show_key(name)}' from non-optional value {shown(value)}")


class MapStep(Step):
    """`{key: value}`; costs 30."""

    def __init__(self, entries: Sequence[tuple[Step, Step, bool]]) -> None:
        self._entries = tuple(entries)

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self.build(run)
        run.charge(MAP_CREATION)
        return outcome

    def build(self, run: Run) -> Outcome:
        """The map, without its cost."""
        values: dict[Value, Value] = {}
        for key_step, value_step, optional in self._entries:
            key = key_step.evaluate(run)
            if failed(key):
                return key
            value = value_step.evaluate(run)
            if optional and not failed(value):
                value = _optional_entry(key, value)
            if failed(value):
                return value
            if key.__class__ in (list, dict):
                return CelError(f"unsupported key type: {type_of(key).name}")
            if value is ABSENT:
                values.pop(key, None)
            else:
                values[key] = value
        return values


class StructStep(Step):
    """`Object{field: value}`; costs 40."""

    def __init__(self, type_name: str, fields: Sequence[tuple[str, Step, bool]]) -> None:
        self._type_name, self._fields = type_name, tuple(fields)

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self._built(run)
        run.charge(STRUCT_CREATION)
        return outcome

    def _built(self, run: Run) -> Outcome:
        values: dict[str, Value] = {}
        for name, step, optional in self._fields:
            value = step.evaluate(run)
            if optional and not failed(value):
                value = _optional_entry(name, value)
            if failed(value):
                return value
            if value is ABSENT:
                values.pop(name, None)
            else:
                values[name] = value
        try:
            return construct(self._type_name, values)
        except CelError as error:
            return error


class Fold(Step):
    """A macro: a step for each element of a list or key of a map. Costs nothing itself."""

    def __init__(self, names: tuple[str, str, str | None], parts: Sequence[Step]) -> None:
        self._accumulator, self._variable, self._variable2 = names
        self._range, self._init, self._condition, self._step, self._result = parts

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        elements = self._range.evaluate(run)
        if failed(elements):
            return elements
        if elements.__class__ not in (list, dict):
            return CelError(self._not_iterable(elements))
        scope: dict[str, Value] = {self._accumulator: Deferred(self._first)}
        run.scopes.append(scope)
        try:
            self._loop(elements, scope, run)
            scope.pop(self._variable, None)
            if self._variable2 is not None:
                scope.pop(self._variable2, None)
            return _settled(self._result.evaluate(run))
        finally:
            run.scopes.pop()

    def _first(self, run: Run) -> Outcome:
        value = self._init.evaluate(run)
        if self._accumulator != "@result" or value:
            return value
        return Growing() if value.__class__ is list else dict(value) if value.__class__ is dict else value

    def _loop(self, elements: Value, scope: dict[str, Value], run: Run) -> None:
        for first, second in self._pairs(elements):
            scope[self._variable] = first
            if self._variable2 is not None:
                scope[self._variable2] = second
            if self._condition.evaluate(run) is False:
                return
            scope[self._accumulator] = self._step.evaluate(run)
            run.turn()

    def _pairs(self, elements: Value) -> Sequence[tuple[Value, Value]]:
        if self._variable2 is None:
            return [(element, None) for element in elements]
        return list(elements.items()) if elements.__class__ is dict else list(enumerate(elements))

    def _not_iterable(self, value: Value) -> str:
        if self._variable2 is None:
            return f"got '{go_type(value)}', expected iterable type"
        return f"unsupported comprehension range type: {go_type(value)}"


class Growing(list[Value]):
    """The list that a macro builds. It grows in place, to avoid n copies for n elements."""


def _settled(outcome: Outcome) -> Outcome:
    return list(outcome) if outcome.__class__ is Growing else outcome


def grow(left: Value, right: Value) -> Value:
    """`@result + [x]` in a macro."""
    left.extend(right)
    return left
