"""Calls in generated code: operators and frequent methods are written inline, others call their implementation.

Inline code checks the classes of the values, because Python's operators accept more than CEL's (`True == 1`,
`'a' in 'abc'`). If the check fails, the full implementation or the exact evaluator decides.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from policies.cel.cost import REGEX_LENGTH, STRING_TRAVERSAL, of_first, traversal
from policies.cel.errors import BudgetError, CelError
from policies.cel.evaluation.dispatch import CallBinding, arguments, bind, literal_pattern, text_only
from policies.cel.generation.certainty import trusted
from policies.cel.generation.emitter import NodeEmitter
from policies.cel.generation.support import PASS
from policies.cel.library.kubernetes.regex import matcher
from policies.cel.syntax.ast import Call, Literal, Node
from policies.cel.types import DOUBLE, INT, STRING, Kind, Type
from policies.cel.values import Value

_SCALAR = {Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.NULL, Kind.DURATION, Kind.TIMESTAMP, Kind.TYPE}
_SHORT = 10  # characters that one unit of cost passes over

_COMPARISONS = {"_<_": ("<", "less"), "_<=_": ("<=", "less_or_equal")}
_COMPARISONS |= {"_>_": (">", "greater"), "_>=_": (">=", "greater_or_equal")}
_ARITHMETIC = {"_+_": ("+", "add"), "_-_": ("-", "subtract"), "_*_": ("*", "multiply")}


def generate(generator: NodeEmitter, node: Call) -> str:
    """An expression for the value of a call. Charges the cost or writes code for it."""
    inlined = _INLINED.get(node.function)
    result = None if inlined is None else inlined(generator, node)
    return _plain(generator, node) if result is None else result


def _plain(generator: NodeEmitter, node: Call) -> str:
    """A call of the implementation. A cost that depends on sizes is computed from the arguments and the result."""
    binding = bind(node)
    known = _of_literals(node, binding)
    if known is not None:
        value, cost = known
        generator.charge(cost)
        return generator.bound(value)
    function = generator.bound(_implementation(node, binding))
    given = [generator.value(argument) for argument in arguments(node)]
    if isinstance(binding.cost, int):
        generator.charge(binding.cost)
        return f"{function}({', '.join(given)})"
    names = [generator.atom(expression) for expression in given]
    result = generator.temporary()
    generator.line(f"{result} = {function}({', '.join(names)})")
    if binding.cost is of_first:
        generator.line(f"cost += PASS[len({names[0]})]")
        return result
    arguments_ = f"({', '.join(names)},)"
    generator.line(f"cost += {generator.bound(binding.cost)}({arguments_}, {result})")
    return result


def _of_literals(node: Call, binding: CallBinding) -> tuple[Value, int] | None:
    """Value and cost of a call with literals, such as `quantity('64Gi')`, which need not run in each evaluation."""
    given = arguments(node)
    if not given or not all(isinstance(argument, Literal) for argument in given):
        return None
    values = [argument.value for argument in given if isinstance(argument, Literal)]
    try:
        value = binding.call(*values)
    except (CelError, BudgetError):
        return None
    if value.__class__ in (list, dict):  # a shared list or dict could be changed
        return None
    return value, binding.cost if isinstance(binding.cost, int) else binding.cost(values, value)


def _implementation(node: Call, binding: CallBinding) -> Callable[..., object]:
    if literal_pattern(node) is not None:
        return text_only(binding.exact or binding.call)
    fitting = len(node.overloads) == 1 and all(
        _same(argument, parameter)
        for argument, parameter in zip(arguments(node), node.overloads[0].parameters, strict=True)
    )
    return binding.exact if fitting and binding.exact is not None else binding.call


def _same(argument: Node, expected: Type) -> bool:
    """Whether the class of an argument need not be checked."""
    return argument.type == expected and not expected.parameters and trusted(argument)


def _is_text(node: Node) -> bool:
    return node.type == STRING and trusted(node)


def _is_scalar(node: Node) -> bool:
    """Whether a value is certainly of a type without a size."""
    return node.type is not None and node.type.kind in _SCALAR and trusted(node)


# Equality


def _equality(generator: NodeEmitter, node: Call) -> str | None:
    left, right = node.args
    if isinstance(left, Literal) and not isinstance(right, Literal):
        left, right = right, left
    negated = node.function == "_!=_"
    expression = _with_literal(generator, left, right) if isinstance(right, Literal) else None
    if expression is None:
        names = [generator.atom(generator.value(argument)) for argument in node.args]
        _charge_smaller(generator, node, names)
        if _is_text(node.args[0]) or _is_text(node.args[1]):
            return f"({names[0]} {'!=' if negated else '=='} {names[1]})"
        return f"{'different' if negated else 'equal'}({', '.join(names)})"
    return f"not {expression}" if negated else expression


def _with_literal(generator: NodeEmitter, node: Node, literal: Literal) -> str | None:
    """An expression for `x == literal`. The class of the literal decides which values can be equal."""
    value = literal.value
    if value.__class__ not in (str, int, bool, type(None)):
        return None
    name = generator.atom(generator.value(node))
    if value.__class__ is str:
        _charge_against_text(generator, node, name, len(value))
        return f"({name} == {value!r})"
    if _is_scalar(node):
        generator.charge(1)
    else:
        _charge_unless_empty(generator, name)
    if value is None or (value.__class__ is bool and _is_scalar(node)):
        return f"({name} is {value!r})"
    if value.__class__ is bool:  # a value that is neither true nor false may be incomparable
        return f"({name} is {value!r} or {name} is not {not value!r} and equal({name}, {value!r}))"
    return f"({name} == {value!r} if {name}.__class__ is int_ else equal({name}, {value!r}))"


def _charge_unless_empty(generator: NodeEmitter, name: str) -> None:
    generator.line(f"if {name} or {name}.__class__ not in SIZED: cost += 1")


def _charge_against_text(generator: NodeEmitter, node: Node, name: str, length: int) -> None:
    """Write the cost of a comparison with a text of known length. The shorter text counts."""
    if length == 0:
        return
    if length <= _SHORT:
        if _is_text(node):
            generator.line(f"if {name}: cost += 1")
        else:
            _charge_unless_empty(generator, name)
    elif length < len(PASS):
        count = f"len({name})" if _is_text(node) else f"size({name})"
        generator.line(f"cost += PASS[min({count}, {length})]")
    else:
        generator.line(f"cost += traversal({name}) if size({name}) < {length} else {ceil(length * STRING_TRAVERSAL)}")


def _charge_smaller(generator: NodeEmitter, node: Call, names: list[str]) -> None:
    """Charge the cost of one pass over the smaller of two values."""
    if all(map(_is_scalar, node.args)):
        generator.charge(1)
        return
    binding = bind(node)
    if isinstance(binding.cost, int):
        generator.charge(binding.cost)
    elif all(map(_is_text, node.args)):
        generator.line(f"cost += PASS[min(len({names[0]}), len({names[1]}))]")
    else:
        generator.line(f"cost += {generator.bound(binding.cost)}(({names[0]}, {names[1]}), None)")


# Order and arithmetic


def _comparison(generator: NodeEmitter, node: Call) -> str | None:
    operator, function = _COMPARISONS[node.function]
    names = [generator.atom(generator.value(argument)) for argument in node.args]
    _charge_smaller(generator, node, names)
    if all(map(_is_text, node.args)):
        return f"({names[0]} {operator} {names[1]})"
    guards = _integers(node, names)
    if guards is None:
        return f"{function}({names[0]}, {names[1]})"
    written = f"{names[0]} {operator} {names[1]}"
    return f"({written} if {guards} else {function}({names[0]}, {names[1]}))" if guards else f"({written})"


def _integers(node: Call, names: list[str]) -> str | None:
    """The condition that both operands are ints: empty if it is known to hold, None if it is unlikely to."""
    unknown = []
    for argument, name in zip(node.args, names, strict=True):
        if argument.type is None or argument.type.kind not in (Kind.INT, Kind.DYN):
            return None
        if argument.type != INT or not trusted(argument):
            unknown.append(f"{name}.__class__ is int_")
    return " and ".join(unknown)


def _arithmetic(generator: NodeEmitter, node: Call) -> str | None:
    operator, function = _ARITHMETIC[node.function]
    if all(map(_is_text, node.args)):
        return _concatenation(generator, node)
    if len(node.overloads) == 1 and node.overloads[0].id in ("add_string", "add_bytes"):
        return None
    names = [generator.atom(generator.value(argument)) for argument in node.args]
    generator.charge(1)
    whole = f"{function}({names[0]}, {names[1]})"
    guards = _integers(node, names)
    if guards is None:
        doubles = all(argument.type == DOUBLE and trusted(argument) for argument in node.args)
        return f"({names[0]} {operator} {names[1]})" if doubles else whole
    result = generator.temporary()
    inside = f"LOW <= ({result} := {names[0]} {operator} {names[1]}) <= HIGH"
    return f"({result} if {f'{guards} and ' if guards else ''}{inside} else {whole})"


def _concatenation(generator: NodeEmitter, node: Call) -> str:
    names = [generator.atom(generator.value(argument)) for argument in node.args]
    result = generator.temporary()
    generator.line(f"{result} = {names[0]} + {names[1]}")
    generator.line(f"cost += PASS[len({result})]")
    return result


# Logic, sizes, membership, texts


def _opposite(generator: NodeEmitter, node: Call) -> str:
    generator.charge(1)
    return f"(not {generator.truth(node.args[0])})"


def _size(generator: NodeEmitter, node: Call) -> str:
    generator.charge(1)
    (argument,) = arguments(node)
    expression = generator.value(argument)
    if argument.type is not None and argument.type.kind in (Kind.STRING, Kind.LIST, Kind.MAP, Kind.BYTES):
        return f"len({expression})"
    return f"length({expression})"


def _membership(generator: NodeEmitter, node: Call) -> str | None:
    item, container = node.args
    if not _is_text(item) or container.type is None:
        return None
    names = [generator.atom(generator.value(argument)) for argument in node.args]
    if container.type.kind is Kind.LIST:
        generator.line(f"cost += len({names[1]})")
    else:
        generator.charge(1)
    if container.type.kind in (Kind.LIST, Kind.MAP) and trusted(container):
        return f"({names[0]} in {names[1]})"
    guard = f"{names[1]}.__class__ is dict or {names[1]}.__class__ is list"
    return f"({names[0]} in {names[1]} if {guard} else is_in({names[0]}, {names[1]}))"


def _text_method(written: str) -> Callable[[NodeEmitter, Call], str | None]:
    def inlined(generator: NodeEmitter, node: Call) -> str | None:
        text, part = arguments(node)
        if not isinstance(part, Literal) or part.value.__class__ is not str:
            return None
        name = generator.atom(generator.value(text))
        if bind(node).cost is of_first:
            generator.line(f"cost += PASS[len({name})]")
        else:
            generator.charge(traversal(part.value))
        return f"({name}.{written.format(repr(part.value))})"

    return inlined


def _contains(generator: NodeEmitter, node: Call) -> str | None:
    text, part = arguments(node)
    if not isinstance(part, Literal) or part.value.__class__ is not str or len(part.value) >= len(PASS):
        return None
    name = generator.atom(generator.value(text))
    factor = PASS[len(part.value)]
    generator.line(f"cost += PASS[len({name})]" + (f" * {factor}" if factor != 1 else ""))
    return f"({name}.find({part.value!r}) >= 0)"


def _matches(generator: NodeEmitter, node: Call) -> str | None:
    text, _ = arguments(node)
    pattern = literal_pattern(node)
    if pattern is None:
        return None
    name = generator.atom(generator.value(text))
    if not _is_text(text):
        generator.line(f"if {name}.__class__ is not str_: fail()")
    search = f"{generator.bound(matcher(pattern))}({name})"
    price = bind(node).cost
    if isinstance(price, int):
        generator.charge(price)
    else:
        factor = ceil(len(pattern) * REGEX_LENGTH)
        generator.line(f"cost += PASS[len({name}) + 1]" + (f" * {factor}" if factor != 1 else ""))
    return search


_INLINED: dict[str, Callable[[NodeEmitter, Call], str | None]] = {
    "_==_": _equality,
    "_!=_": _equality,
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    "!_": _opposite,
    "size": _size,
    "@in": _membership,
    "startsWith": _text_method("startswith({})"),
    "endsWith": _text_method("endswith({})"),
    "contains": _contains,
    "matches": _matches,
}
