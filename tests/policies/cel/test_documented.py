"""docs/reference/cel.md says what the language is: every function with its signatures, every variable, every limit."""

from pathlib import Path

import pytest

from policies.cel import cost
from policies.cel.environment import STORED, Function, Overload
from policies.cel.kubernetes import admission
from policies.cel.syntax.macros import FUNCTIONS, METHODS
from policies.cel.types import Kind, Type

_PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cel.md").read_text(encoding="utf-8")
_ENVIRONMENT = admission(patch_types=True, dialect=STORED)
_OPERATORS = {"!_", "-_"}
_NAMED = [
    function
    for name, function in _ENVIRONMENT.functions.items()
    if not name.startswith("_") and "@" not in name and name not in _OPERATORS
]
_FAMILY = 3  # so many methods that differ in the type of the elements are written as one


@pytest.mark.parametrize("function", _NAMED, ids=lambda function: function.name)
def test_every_function_is_documented(function: Function) -> None:
    """The reference has a row for each function, with all its signatures."""
    row = f"| `{function.name}` | {'<br>'.join(signatures(function))} |"

    assert row in _PAGE.splitlines()


def test_no_function_is_documented_that_does_not_exist() -> None:
    """Every row with a signature is that of a function."""
    found = {line.split("`")[1] for line in _PAGE.splitlines() if line.startswith("| `") and " -> " in line}

    assert found <= {function.name for function in _NAMED}


def test_every_name_and_limit_is_documented() -> None:
    """Variables and the fields of request and Namespace stand there with their types, macros, and limits of cost."""
    structs = ("kubernetes.AdmissionRequest", "kubernetes.NamespaceMetadata")
    limits = (cost.EXPRESSION_LIMIT, cost.POLICY_LIMIT, cost.MATCH_CONDITIONS_LIMIT)
    said = [
        *(f"| `{name}` | `{type_}` |" for name, type_ in _ENVIRONMENT.variables.items()),
        *(f"`{name}` {type_}" for struct in structs for name, type_ in _ENVIRONMENT.structs[struct].items()),
        *(f"{name}(" for name, _ in (*FUNCTIONS, *METHODS)),
        *(f"{limit:,}".replace(",", " ") for limit in limits),
    ]

    assert [text for text in said if text not in _PAGE] == []


def signatures(function: Function) -> list[str]:
    """`string.find(string) -> string`; those that differ only in the type of the elements once, with the types."""
    elements = [element for overload in function.overloads if (element := _element(overload)) is not None]
    if not _FAMILY <= len(elements) == len(function.overloads) or len(elements) != len(set(elements)):
        return [f"`{_signature(function.name, overload)}`" for overload in function.overloads]
    results = {str(each.result) for each in function.overloads}
    if len(results) > 1:
        results = {"T" if each.result == _element(each) else "list(T)" for each in function.overloads}
    shown = f"list(T).{function.name}() -> {'/'.join(results)}"
    return [f"`{shown}` for T: {', '.join(map(str, elements))}"]


def _signature(name: str, overload: Overload) -> str:
    parameters = [str(parameter) for parameter in overload.parameters]
    target = f"{parameters.pop(0)}." if overload.member else ""
    return f"{target}{name}({', '.join(parameters)}) -> {overload.result}"


def _element(overload: Overload) -> Type | None:
    """What the list holds that a method without arguments is called on."""
    first = overload.parameters[0] if overload.member and len(overload.parameters) == 1 else None
    return first.parameters[0] if first is not None and first.kind is Kind.LIST else None
