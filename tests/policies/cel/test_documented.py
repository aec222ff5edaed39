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
    assert row(function) in _PAGE.splitlines()


def test_no_function_is_documented_that_does_not_exist() -> None:
    """Every row with a signature is that of a function."""
    found = {line.split("`")[1] for line in _PAGE.splitlines() if line.startswith("| `") and " -> " in line}

    assert found <= {function.name for function in _NAMED}


def test_every_variable_is_documented() -> None:
    """The reference has a row for each variable, with its type."""
    rows = [f"| `{name}` | `{type_}` |" for name, type_ in _ENVIRONMENT.variables.items()]

    assert [start for start in rows if start not in _PAGE] == []


@pytest.mark.parametrize("struct", ["kubernetes.AdmissionRequest", "kubernetes.NamespaceMetadata"])
def test_every_field_is_documented(struct: str) -> None:
    """The fields of the request and of the Namespace's metadata stand there with their types."""
    fields = [f"`{name}` {type_}" for name, type_ in _ENVIRONMENT.structs[struct].items()]

    assert [field for field in fields if field not in _PAGE] == []


def test_every_macro_is_documented() -> None:
    """Each macro is named with its parentheses."""
    names = {name for name, _ in (*FUNCTIONS, *METHODS)}

    assert {name for name in names if f"{name}(" not in _PAGE} == set()


@pytest.mark.parametrize("limit", [cost.EXPRESSION_LIMIT, cost.POLICY_LIMIT, cost.MATCH_CONDITIONS_LIMIT])
def test_every_limit_is_documented(limit: int) -> None:
    """The limits of cost are written with their number."""
    assert f"{limit:,}".replace(",", " ") in _PAGE


def row(function: Function) -> str:
    """The row of a function in the reference."""
    return f"| `{function.name}` | {'<br>'.join(signatures(function))} |"


def signatures(function: Function) -> list[str]:
    """`string.find(string) -> string`; those that differ only in the type of the elements once, with the types."""
    elements = [element for overload in function.overloads if (element := _element(overload)) is not None]
    if not _FAMILY <= len(elements) == len(function.overloads) or len(elements) != len(set(elements)):
        return [f"`{_signature(function.name, overload)}`" for overload in function.overloads]
    results = {str(each.result) for each in function.overloads}
    if len(results) > 1:
        results = {_general(each) for each in function.overloads}
    shown = f"list(T).{function.name}() -> {'/'.join(results)}"
    return [f"`{shown}` for T: {', '.join(map(str, elements))}"]


def _general(overload: Overload) -> str:
    """The result in terms of what the list holds: T or list(T)."""
    return "T" if overload.result == _element(overload) else "list(T)"


def _signature(name: str, overload: Overload) -> str:
    parameters = [str(parameter) for parameter in overload.parameters]
    target = f"{parameters.pop(0)}." if overload.member else ""
    return f"{target}{name}({', '.join(parameters)}) -> {overload.result}"


def _element(overload: Overload) -> Type | None:
    """What the list holds that a method without arguments is called on."""
    first = overload.parameters[0] if overload.member and len(overload.parameters) == 1 else None
    return first.parameters[0] if first is not None and first.kind is Kind.LIST else None
