"""What an expression says never becomes code: hostile texts in every place that a text can stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cel.celexpressions import EXPRESSIONS
from support.cel.celrun import names
from support.policies.admissionpolicies import validating

from policies.admissionpolicy.evaluation.compilation import part_of
from policies.cel.generation.codegen import Generated
from policies.cel.generation.fusion import Part, written
from policies.cel.generation.support import NAMESPACE
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, Program, compile_expression
from policies.cel.syntax.ast import FieldValue, Ident, Literal, Node, Select, StructLiteral, walk
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source

ENVIRONMENT = admission(patch_types=True)
NODES = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.Expr),
    *(ast.For, ast.If, ast.Break, ast.Pass, ast.IfExp, ast.Call, ast.Subscript, ast.Attribute),
    *(ast.Name, ast.Load, ast.Store, ast.Constant, ast.Tuple, ast.List, ast.Dict),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
)
ATTRIBUTES = {"__class__", "get", "startswith", "endswith", "find", "append", "pop"}
BUILTINS = {"len", "iter", "next", "min", "list", "dict"}
PARAMETERS = {"names", "limit", "expired", "cost", "mark"}
SUPPORT = {*NAMESPACE} - {"__builtins__"}

HOSTILE = {
    "single quote": "'",
    "double quote": '"',
    "triple quotes": "'''\"\"\"",
    "closing quote and code": "') or __import__('os').system('true') or ('",
    "newline and code": "\nimport os\n",
    "carriage return": "\r",
    "backslash at the end": "\\",
    "backslash and quote": "\\'",
    "escape of a newline": "\\n",
    "braces": "{cost}{{}}{0.__class__}",
    "percent": "%s%(names)s",
    "dunder": "__import__('os')",
    "comment": "# noqa",
    "null character": "\x00",
    "line separator": "\u2028\u2029",
    "next line": "\x85\x0b\x0c\x1c",
    "right to left": "\u202e\u2066",
    "byte order mark": "\ufeff",
    "astral": "\U0001f600",
    "generated names": "t1",
    "lambda": "(lambda: 0)()",
    "format": "f'{1}'",
    "coding": "# -*- coding: utf-7 -*-",
}
TEXTS = pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HOSTILE.items()])
VARIABLES = [
    *("t0", "t1", "t2", "k0", "r0", "cost", "mark", "names", "limit", "expired", "evaluate", "ABSENT", "PASS"),
    *("__builtins__", "__import__", "__class__", "print", "exec", "len", "fail", "guard", "lambda", "def", "None"),
    *("True", "del", "class", "self", "__debug__", "_", "__result", "yield"),
]


def _quoted(text: str) -> str:
    """A CEL literal of the text, with every character escaped."""
    return "'" + "".join(f"\\U{ord(character):08x}" for character in text) + "'"


def _compiled(text: str) -> tuple[Program, Generated]:
    program = compile_expression(text, ENVIRONMENT)
    assert program.generated is not None
    return program, program.generated


def _spoken(tree: Node) -> Iterator[Any]:
    """All that an expression itself says: values of literals, fields, names of variables and types."""
    for node in walk(tree):
        match node:
            case Literal():
                yield node.value
            case Select():
                yield from (node.field, node.name)
            case FieldValue() | Ident():
                yield node.name
            case StructLiteral():
                yield node.type_name
            case _:
                pass


def _strange(tree: ast.Module, known: set[str], kinds: tuple[type[ast.AST], ...] = NODES) -> set[str]:
    """Kinds of nodes, attributes and names in a source that are not among those that generated code has."""
    nodes = list(ast.walk(tree))
    of_names = ((ast.Name, "id"), (ast.arg, "arg"), (ast.FunctionDef, "name"))
    used = {getattr(node, key) for node in nodes for kind, key in of_names if isinstance(node, kind)}
    made = {name for name in used if re.fullmatch(r"[tr][0-9]+|v_[0-9]+", name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return (
        {type(node).__name__ for node in nodes if type(node) not in kinds}
        | attributes - ATTRIBUTES
        | used - made - known
    )


def _texts_in(tree: ast.Module) -> set[Any]:
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) if isinstance(node.value, str | bytes)
    }


def _assert_harmless(text: str, generated: Generated) -> None:
    """The source consists of known nodes, names, attributes and of the expression's own constants."""
    tree = ast.parse(generated.source)
    own = {value for value in _spoken(parse(Source(text))) if isinstance(value, str | bytes)}

    assert [type(statement) for statement in tree.body] == [ast.FunctionDef]
    assert _strange(tree, {*generated.constants, *BUILTINS, *PARAMETERS, *SUPPORT, "evaluate"}) == set()
    assert _texts_in(tree) - own == set()
    assert [name for name in generated.constants if not re.fullmatch(r"k[0-9]+", name)] == []


def _evaluated(text: str, obj: Any) -> Any:
    """The value that the generated function gives, which has to be that of the exact evaluator."""
    program, generated = _compiled(text)
    _assert_harmless(text, generated)
    function = generated.load()
    assert function is not None
    value, cost = function(names(obj), 1_000_000, None)
    exact = program.evaluate_exactly(names(obj))
    assert (value, cost, None) == (exact.value, exact.cost, exact.error)
    return value


@TEXTS
def test_texts(text: str) -> None:
    """A literal text comes out as it was written, alone, in lists, as key, as value and as an alternative."""
    literal = _quoted(text)

    assert _evaluated(literal, {}) == text
    assert _evaluated(f"object.a + {literal}", {"a": ""}) == text
    assert _evaluated(f"[object.a, {literal}.size() > 0 ? dyn({literal}) : dyn('')]", {"a": 1}) == [1, text]
    assert _evaluated(f"{{{literal}: object.a}}", {"a": 1}) == {text: 1}
    assert _evaluated(f"object.?a.orValue({literal})", {}) == text


@TEXTS
def test_comparisons(text: str) -> None:
    """A literal is compared and searched for as it is."""
    literal = _quoted(text)
    for operation in (f"== {literal}", f"in [{literal}, 'a']"):
        assert _evaluated(f"object.a {operation}", {"a": text}) is True
        assert _evaluated(f"object.a {operation}", {"a": "b"}) is False
    for method in ("startsWith", "endsWith", "contains"):
        assert _evaluated(f"object.a.{method}({literal})", {"a": text}) is True
        assert _evaluated(f"object.a.{method}({literal})", {"a": "b"}) is False


@TEXTS
def test_keys(text: str) -> None:
    """A key is looked up as it is written, in each way to ask for one."""
    literal = _quoted(text)
    obj = {"a": {text: 7}}

    assert _evaluated(f"object.a[{literal}]", obj) == 7
    assert _evaluated(f"object.a[?{literal}].orValue(0)", obj) == 7
    assert _evaluated(f"{literal} in object.a", obj) is True
    assert _evaluated(f"object.a.map(k, k == {literal})", obj) == [True]


@TEXTS
def test_patterns_and_formats(text: str) -> None:
    """Patterns and formats are values that the functions get, not parts of the code."""
    pattern = _quoted(re.sub(r"([^a-z0-9_])", lambda found: f"\\x{{{ord(found[1]):x}}}", text))
    shown = _quoted(text.replace("%", "%%") + "%s")

    assert _evaluated(f"object.a.matches({pattern})", {"a": text}) is True
    assert _evaluated(f"object.a.replace({_quoted(text)}, 'x')", {"a": text}) == "x"
    assert _evaluated(f"{shown}.format([object.a])", {"a": "z"}) == text + "z"


@pytest.mark.parametrize("name", ["__import__('os')", "{cost}", "'", "\\"])
def test_signs_in_backquotes(name: str) -> None:
    """Signs that mean something to Python are not allowed in backquotes."""
    with pytest.raises(CompileError, match="Syntax error"):
        compile_expression(f"object.`{name}`", ENVIRONMENT)


@pytest.mark.parametrize("name", ["t1", "a b", "in", "app.kubernetes.io/name", "-", "--"])
def test_names_in_backquotes(name: str) -> None:
    """A name in backquotes is a field's, whatever the generated code calls so."""
    assert _evaluated(f"object.`{name}`", {name: 7}) == 7
    assert _evaluated(f"has(object.a.`{name}`) && object.a.?`{name}`.hasValue()", {"a": {name: None}}) is True


@pytest.mark.parametrize("name", VARIABLES)
def test_names_of_fields(name: str) -> None:
    """A field may have any name, also one that the generated code uses for something else, or Python."""
    assert _evaluated(f"object.{name}", {name: 7}) == 7
    assert _evaluated(f"has(object.a.{name})", {"a": {name: None}}) is True
    assert _evaluated(f"object.?{name}.orValue(0)", {name: 7}) == 7
    assert _evaluated(f"object.a.{name} + object.a.{name}", {"a": {name: 7}}) == 14


@pytest.mark.parametrize("name", VARIABLES)
def test_names_of_macro_variables(name: str) -> None:
    """The variable of a macro may have any name, and means the element all the same."""
    text = f"object.l.map({name}, {name} + 1)"
    nested = f"object.l.all({name}, object.l.exists({name}, {name} == 2) && {name} > 0)"

    assert _evaluated(text, {"l": [1, 2]}) == [2, 3]
    assert _evaluated(nested, {"l": [1, 2]}) is True
    assert _evaluated(f"object.m.transformList({name}, v1, {name})", {"m": {"a": 1}}) == ["a"]


@pytest.mark.parametrize("name", VARIABLES)
def test_names_of_policy_variables(name: str) -> None:
    """`variables.x` is the variable of that name, whatever the name is."""
    composition = Composition(admission()).declare(name, "object.a + 1")
    text = f"variables.{name} + variables.{name}"
    program = compile_expression(text, composition.environment)
    assert program.generated is not None
    _assert_harmless(text, program.generated)

    assert program.evaluate(composition.bind({"object": {"a": 1}})).value == 4


def test_names_of_messages() -> None:
    """Types and fields of messages are texts in the code."""
    for name in ("__class__", "t1", "cost", "__builtins__"):
        text = f"Object.{name}{{{name}: object.a}}"
        program, generated = _compiled(text)
        _assert_harmless(text, generated)
        value = program.evaluate(names({"a": 1})).value
        assert (value.name, dict(value.fields)) == (f"Object.{name}", {name: 1})


def test_lone_surrogates_in_the_text_of_an_expression() -> None:
    """Half a character in a policy's text ends in a value or in an error of the compilation, never in another one."""
    program, generated = _compiled("object.a == '\ud800'")
    _assert_harmless("object.a == '\ud800'", generated)

    assert program.evaluate(names({"a": "\ud800"})).value is True
    assert program.evaluate(names({"a": "b"})).value is False


_EXACT = ("exists_one", "sortBy", "optMap", "[?object", "?'b'")
"""Parts of expressions that are left to the exact evaluator."""


@pytest.mark.parametrize("text", [text for text in EXPRESSIONS if not any(part in text for part in _EXACT)])
def test_usual_expressions(text: str) -> None:
    """Any expression becomes code of the same few kinds."""
    _, generated = _compiled(text)

    _assert_harmless(text, generated)


def test_the_function_sees_nothing_but_its_namespace() -> None:
    """Generated code has no builtins but a few harmless ones, and no module, no class of ours to reach further."""
    _, generated = _compiled("object.a.all(x, x.matches('a') && x == quantity('1'))")
    function: Any = generated.load()
    space: Mapping[str, Any] = function.__globals__

    assert set(space["__builtins__"]) == BUILTINS
    assert set(space) == {"__builtins__", *SUPPORT, *generated.constants}
    assert set(function.__code__.co_names) & {"__import__", "getattr", "eval", "exec", "open", "globals"} == set()
    assert [code for code in function.__code__.co_consts if isinstance(code, CodeType)] == []
    assert all(isinstance(value, BuiltinFunctionType | type) for value in space["__builtins__"].values())


_ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
_LITERALS = _ANY_TEXT.filter(lambda text: not any("\ud800" <= character <= "\udfff" for character in text))


@settings(max_examples=300)
@given(_LITERALS)
def test_any_text(text: str) -> None:
    """Whatever a literal says comes out unchanged, and the code stays harmless."""
    literal = _quoted(text)

    assert _evaluated(f"[object.a, dyn({literal})]", {"a": text}) == [text, text]
    assert _evaluated(f"object.a == {literal} && object.m[{literal}] == 1", {"a": text, "m": {text: 1}}) is True


@settings(max_examples=200)
@given(st.text(st.sampled_from("abc'\"\\{}[]().,:?!=+-*/%&|<> \n\r\t`#_019uU\u2028"), max_size=30))
def test_any_expression(text: str) -> None:
    """Of a text that is an expression by chance the code is harmless as well; else it is refused."""
    try:
        program = compile_expression(text, ENVIRONMENT)
    except CompileError as error:
        assert error.issues  # noqa: PT017 - any other exception is the failure that this test looks for
    else:
        if program.generated is not None:
            _assert_harmless(text, program.generated)


_OF_MANY = {"names", "parameters", "asked", "expired", "blame", "evaluate"}
_OWN = {"at", "start", "cost", "limit", "mark", "error", "Exception_", "TimeLimitError_", "len", "iter", "next", "min"}
_HANDLING = (ast.Try, ast.ExceptHandler, ast.Raise)


def _parts(text: str) -> list[Part | None]:
    """Two policies with a text in each place that takes one; they share a variable and a condition."""
    quoted = _quoted(text)
    spec = {
        "variables": [
            {"name": "t1", "expression": f"object[{quoted}]"},
            {"name": "cost", "expression": "variables.t1"},
        ],
        "matchConditions": [{"name": "c", "expression": f"object.a != {quoted}"}],
    }
    policies = (
        validating(f"variables.cost == {quoted} || object.all(k, k != {quoted})", **spec),
        validating(f"variables.t1.startsWith({quoted}) || variables.cost in [{quoted}]", **spec),
    )
    return [part_of(policy, is_selective=False) for policy in policies]


@TEXTS
def test_texts_of_several_policies(text: str) -> None:
    """The source has known nodes, names and attributes only, and no text but the policies' own."""
    source, constants = written(_parts(text))
    tree = ast.parse(source)

    assert _strange(tree, {*constants, *_OF_MANY, *_OWN, *NAMESPACE}, (*NODES, *_HANDLING)) == set()
    assert _texts_in(tree) - {text, "object", "a"} == set()


def test_what_policies_share_is_written_as_shared() -> None:
    """Conditions and variables with the same text are computed once for both policies."""
    source, _ = written(_parts("x"))

    assert len(re.findall(r"^ t[0-9]+ = ABSENT$", source, re.MULTILINE)) == 3
    assert not re.search(r"^ +fail\(\)$", source, re.MULTILINE)
