"""An expression as a tree of steps that charge exactly the costs of kube-apiserver.

An attribute, a root with the fields and indices behind it, is resolved and charged as a unit. Sources: cel-go's
interpreter/interpretable.go, attributes.go and runtimecost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from policies.cel.cost import LIST_CREATION, MAP_CREATION, STRUCT_CREATION
from policies.cel.environment import Feature
from policies.cel.errors import BudgetError, CelError, no_such_overload
from policies.cel.evaluation.run import (
    KEYS,
    Constant,
    Deferred,
    Outcome,
    Run,
    Step,
    failed,
    go_type,
    native_type,
    present,
    qualify,
    show_key,
)
from policies.cel.function import Cost
from policies.cel.patchtypes import ObjectValue, construct
from policies.cel.values import ABSENT, NONE, Incomparable, Optional, Value, shown, type_of


class Qualifier:
    """`.field`, `[index]` and their optional forms. Costs 1 when applied; with `?` only if there is a value."""

    def __init__(self, key: Step | Attribute, *, optional: bool = False, typed: bool = False) -> None:
        self.optional = optional
        self._key = key
        self._constant = key.value if isinstance(key, Constant) else ABSENT
        self._typed = typed  # the operand is statically a part of Object{...}

    def key(self, run: Run) -> Outcome:
        """The key, computed if it is not constant."""
        if self._constant is not ABSENT:
            return self._constant
        value = self._key.resolve(run) if isinstance(self._key, Attribute) else self._key.evaluate(run)
        if failed(value) or value.__class__ in KEYS:
            return value
        name = self._key.class_of(value, run) if isinstance(self._key, Attribute) else go_type(value)
        return CelError(f"invalid qualifier type: {name}")

    def apply(self, value: Value, run: Run) -> Outcome:
        """The value of the key."""
        key = self.key(run)
        outcome = key
        if not failed(key):
            try:
                outcome = self._get(value, key)
            except CelError as error:
                outcome = error
        run.charge(1)
        return outcome

    def _get(self, value: Value, key: Value) -> Value:
        if self._typed and isinstance(value, ObjectValue):
            content = value.field(key)
            return None if content is ABSENT else content
        return qualify(value, key)

    def apply_if_present(self, value: Value, run: Run) -> Outcome:
        """The value of the key, or ABSENT."""
        key = self.key(run)
        if failed(key):
            return key
        try:
            outcome = value.field(key) if self._is_part(value) else present(value, key)
        except CelError as error:
            return error
        if outcome is not ABSENT:
            run.charge(1)
        return outcome

    def _is_part(self, value: Value) -> bool:
        return self._typed and isinstance(value, ObjectValue)


class Presence(Qualifier):
    """The last field of `has(a.b)`: true or false."""

    def apply(self, value: Value, run: Run) -> Outcome:
        """Whether there is such a field."""
        try:
            outcome: Outcome = self._has(value)
        except CelError as error:
            outcome = error
        run.charge(1)
        return outcome

    def _has(self, value: Value) -> bool:
        if self._is_part(value):
            return self._constant in value.fields
        return present(value, self._constant) is not ABSENT


class Attribute:
    """A root and the qualifiers behind it. The cost of the whole is charged by `ReadStep`, not by `resolve`."""

    def __init__(self) -> None:
        self.qualifiers: list[Qualifier] = []

    def add(self, qualifier: Qualifier) -> None:
        """Add a qualifier at the end."""
        self.qualifiers.append(qualifier)

    def resolve(self, run: Run) -> Outcome:
        """The value of the attribute, or the failure."""
        root = self._root(run)
        return root if failed(root) else self._qualified(root, run)

    def _root(self, run: Run) -> Outcome:
        raise NotImplementedError

    def class_of(self, value: Value, run: Run) -> str:
        """The name of the reference's Go type for the attribute's value, which a message shows."""
        del run
        return go_type(value)

    def _qualified(self, value: Value, run: Run) -> Outcome:
        is_optional = value.__class__ is Optional
        if is_optional:
            if value.value is ABSENT:
                return value
            value = value.value if run.dialect.has(Feature.WHOLE_OPTIONALS) else _content(value.value)
            if self.qualifiers and failed(value):
                return value
        for qualifier in self.qualifiers:
            is_optional = is_optional or qualifier.optional
            value = qualifier.apply_if_present(value, run) if is_optional else qualifier.apply(value, run)
            if value is ABSENT:
                return NONE
            if failed(value):
                return value
        return Optional(value) if is_optional else value


def _content(value: Value) -> Value:
    """The content of an optional as 1.36 converts it. A nested optional is replaced by its own content."""
    if value.__class__ is Optional:
        return None if value.value is ABSENT else value.value
    if not isinstance(value, Incomparable) or (native := _NATIVE.get(value.cel_type.name)) is None:
        return value
    return CelError(f"unsupported conversion to ref.Val: ({native}){value}") if native else no_such_overload()


_NATIVE = {
    "kubernetes.URL": "*url.URL",
    "kubernetes.Quantity": "*resource.Quantity",
    "kubernetes.Semver": "semver.Version",
    "net.IP": "netip.Addr",
    "net.CIDR": "netip.Prefix",
} | dict.fromkeys(
    (
        f"kubernetes.authorization.{name}"
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    ),
    "",
)


_DECODED = frozenset({"request", "namespaceObject"})
"""Variables that the API server of 1.37 hands over as Go's own structs."""


class Name(Attribute):
    """A variable, such as `object` or that of a macro."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def resolve(self, run: Run) -> Outcome:
        """The value. What follows a `.name` is resolved outside of the macros, as the name is, and costs nothing."""
        if not self.name.startswith("."):
            return super().resolve(run)
        inner, run.scopes, cost = run.scopes, [], run.cost
        try:
            return super().resolve(run)
        finally:
            run.scopes, run.cost = inner, cost

    def _root(self, run: Run) -> Outcome:
        return run.lookup(self.name.removeprefix("."))

    def class_of(self, value: Value, run: Run) -> str:
        """As above. Decoded JSON is not wrapped in variables other than those of macros and of the policy."""
        if self.name == "variables" or any(self.name in scope for scope in run.scopes):
            return go_type(value)
        if not run.dialect.has(Feature.WRAPPED_FIELDS):
            return native_type(value)
        if self.qualifiers or (value is not None and self.name not in _DECODED):
            return go_type(value)
        return native_type(value) if value is None else "*common.reflectSchemalessTypedStruct"


class Operand(Attribute):
    """Any other operand of a selection, such as `f(x)` in `f(x).y`."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def _root(self, run: Run) -> Outcome:
        return self._step.evaluate(run)


class Choice(Attribute):
    """`condition ? a : b`. A qualifier behind it is added to both branches."""

    def __init__(self, condition: Step, truthy: Attribute, falsy: Attribute) -> None:
        super().__init__()
        self._condition, self._truthy, self._falsy = condition, truthy, falsy

    def add(self, qualifier: Qualifier) -> None:
        """Add a qualifier to both branches."""
        self._truthy.add(qualifier)
        self._falsy.add(qualifier)

    def resolve(self, run: Run) -> Outcome:
        """The value of the branch that the condition chooses."""
        condition = self._condition.evaluate(run)
        if condition is True:
            return self._truthy.resolve(run)
        if condition is False:
            return self._falsy.resolve(run)
        return condition if failed(condition) else no_such_overload()

    def class_of(self, value: Value, run: Run) -> str:
        """That of the chosen branch."""
        cost = run.cost
        chosen = self._truthy if self._condition.evaluate(run) is True else self._falsy
        run.cost = cost
        return chosen.class_of(value, run)


class ReadStep(Step):
    """An attribute as a step. Costs 1, or 0 for a choice; a presence test costs 1 less."""

    def __init__(self, attribute: Attribute, *, presence: bool = False) -> None:
        self.attribute = attribute
        self.presence = presence
        self._cost = (0 if isinstance(attribute, Choice) else 1) - (1 if presence else 0)

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        outcome = self.attribute.resolve(run)
        if self.presence and outcome.__class__ is Optional:
            outcome = outcome.value is not ABSENT
        run.charge(self._cost)
        return outcome


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

    def _pairs(self, elements: Value) -> Iterable[tuple[Value, Value]]:
        if self._variable2 is None:
            return zip(elements, repeat(None))
        return elements.items() if elements.__class__ is dict else enumerate(elements)

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
