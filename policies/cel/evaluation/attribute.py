"""Attributes: a root with the fields and indices behind it, resolved and charged as a unit.

Source: cel-go's interpreter/attributes.go and runtimecost.go.
"""

from __future__ import annotations

from policies.cel.changes import Feature
from policies.cel.errors import CelError, no_such_overload
from policies.cel.evaluation.qualify import KEYS, go_type, native_type, present, qualify
from policies.cel.evaluation.run import Outcome, Run
from policies.cel.evaluation.step import Constant, Step, failed
from policies.cel.patchtypes import ObjectValue
from policies.cel.values import ABSENT, NONE, Incomparable, Optional, Value


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
    """The content of an optional as the reference of 1.36 converts it. A nested optional is replaced by its own content."""
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
        """The value. What `.name` is followed by is resolved outside of the macros too, as the name is."""
        if not self.name.startswith("."):
            return super().resolve(run)
        inner, run.scopes = run.scopes, []
        try:
            return super().resolve(run)
        finally:
            run.scopes = inner

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
