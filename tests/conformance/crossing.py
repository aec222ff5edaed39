"""Crosses the operators with a value of each type, as literals and as `dyn`; prints `operators.yaml` without answers.

cd tests && python -m conformance.crossing > conformance/operators.yaml
python -m conformance.record conformance/operators.yaml
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from conformance.record import dump

VALUES = {
    "int": "3",
    "uint": "2u",
    "double": "1.5",
    "string": "'a'",
    "bytes": "b'a'",
    "bool": "true",
    "null": "null",
    "list": "[3]",
    "map": "{'a': 3}",
    "duration": "duration('1m')",
    "timestamp": "timestamp('2026-01-02T03:04:05Z')",
    "type": "int",
    "optional": "optional.of(3)",
}
NUMBERS = ("int", "uint", "double")
TIMES = ("duration", "timestamp")
FORMS = ("!{}", "-({})", "{} && true", "false || {}", "{} ? 1 : 2", "{}[0]", "{{'a': 3}}[{}]")
ABOUT = {
    "note": "Operators over a value of each type on both sides, typed and dynamic.",
    "reference": "k8s.io/apiserver v0.36.3 with cel-go v0.26.0, and v0.37.2 with cel-go v0.29.2 "
    "(pkg/admission/plugin/cel, stored expressions)",
}


def expressions() -> Iterator[str]:
    """Pairs of types: all operators where both are alike; else `==`, `in`, and `<` one way round, `+` the other."""
    for (first, left), (second, right) in product(enumerate(VALUES), enumerate(VALUES)):
        alike = first == second or {left, right} <= {*NUMBERS} or {left, right} <= {*TIMES}
        operators = ["==", "<", "+", "-", ">="] if alike else ["==", "<" if first < second else "+"]
        if left in NUMBERS and (alike or right == "duration"):
            operators += ["*", "/", "%", "!=", "<=", ">"]
        if right in {"list", "map"}:
            operators.append("in")
        for operator in operators:
            if alike or operator in {"in", "==" if first < second else "in"}:
                yield f"{VALUES[left]} {operator} {VALUES[right]}"
            yield f"dyn({VALUES[left]}) {operator} dyn({VALUES[right]})"
    for value in VALUES.values():
        for form in FORMS:
            yield form.format(value)
            yield form.format(f"dyn({value})")


def main() -> None:
    """Prints the document."""
    cases = [
        {"id": f"op-{number:04}", "category": "op", "expression": expression}
        for number, expression in enumerate(dict.fromkeys(expressions()), 1)
    ]
    print(dump({"about": ABOUT, "fixtures": {}, "cases": cases}), end="")


if __name__ == "__main__":
    main()
