# ruff: noqa: E501 - the messages of the reference stay in one piece
from __future__ import annotations

import pytest
from support.cel.celrun import ENVIRONMENT, checked, refused
from support.cel.celtree import show

from policies.cel.checking.checker import check, optional_content, qualified_name
from policies.cel.checking.validation import walk
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, compile_expression
from policies.cel.syntax.ast import Call, Ident, Select
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source
from policies.cel.types import DYN, INT, optional_of

ADD = "declared: bytes + bytes; double + double; duration + duration; duration + timestamp; timestamp + duration; int + int; and 3 more"
CHOICE = "declared: _?_:_(bool, A, A) -> A"
INDEX = "declared: list(A) [_] int; map(A, B) [_] A; optional_type(list(V)) [_] int; optional_type(map(K, V)) [_] K"
MEMBERSHIP = "declared: @in(A, list(A)) -> bool; @in(A, map(A, B)) -> bool"


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("null", "null"),
        ("true", "bool"),
        ("1", "int"),
        ("1u", "uint"),
        ("1.0", "double"),
        ("'a'", "string"),
        ("b'a'", "bytes"),
        ("[]", "list(dyn)"),
        ("[1]", "list(int)"),
        ("[[], [1]]", "list(list(int))"),
        ("[{}, {'a': 1}]", "list(map(string, int))"),
        ("{}", "map(dyn, dyn)"),
        ("{'a': [1.5]}", "map(string, list(double))"),
        ("kubernetes.UserInfo{username: 'a'}", "kubernetes.UserInfo"),
    ],
)
def test_literals(text: str, type_: str) -> None:
    """A literal has the type of its text, a list or map that of what is in it; an empty one is of dyn."""
    assert str(checked(text).type) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("object", "dyn"),
        (".object", "dyn"),
        ("object.a.b.c", "dyn"),
        ("params.x", "dyn"),
        ("request", "kubernetes.AdmissionRequest"),
        ("request.dryRun", "bool"),
        ("request.options", "dyn"),
        ("request.userInfo.extra", "map(string, list(string))"),
        ("namespaceObject.metadata.labels['a']", "string"),
        ("namespaceObject.metadata.creationTimestamp", "timestamp"),
        ("authorizer.requestResource", "kubernetes.authorization.ResourceCheck"),
        ("authorizer.requestResource.check('get').allowed()", "bool"),
        ("int", "type(int)"),
        ("type(1)", "type(int)"),
        ("type(int)", "type(type(int))"),
        ("list", "type(list(dyn))"),
        ("map", "type(map(dyn, dyn))"),
        ("optional_type", "type(optional_type(dyn))"),
    ],
)
def test_names(text: str, type_: str) -> None:
    """A name has its declared type, fields of dyn are dyn, and the names of types are values."""
    assert str(checked(text).type) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1 + 2", "int"),
        ("object.a + 1", "int"),
        ("object.a + object.b", "dyn"),
        ("1 < 2.0", "bool"),
        ("dyn(1) < 'a'", "bool"),
        ("object.a && true", "bool"),
        ("true ? 1 : 2", "int"),
        ("true ? object.a : 2", "dyn"),
        ("true ? 2 : object.a", "dyn"),
        ("[1] + [dyn('a')]", "list(dyn)"),
        ("[1] + []", "list(int)"),
        ("['a'][0]", "string"),
        ("{'a': 1}['a']", "int"),
        ("object['a']", "dyn"),
        ("'a' in {'a': 1}", "bool"),
        ("request == null", "bool"),
        ("duration('1h') == null", "bool"),
        ("timestamp('2026-01-01T00:00:00Z') - timestamp('2026-01-01T00:00:00Z')", "duration"),
        ("timestamp('2026-01-01T00:00:00Z') - duration('1s')", "timestamp"),
        ("quantity('1').add(quantity('2'))", "kubernetes.Quantity"),
        ("ip('1.2.3.4')", "net.IP"),
        ("[3, 1].sort()", "list(int)"),
        ("has(object.a)", "bool"),
    ],
)
def test_calls(text: str, type_: str) -> None:
    """A call has the result of its overload, with the type variables replaced; dyn where overloads differ."""
    assert str(checked(text).type) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("[1].all(x, x > 0)", "bool"),
        ("object.exists(x, true)", "bool"),
        ("[1].exists_one(x, x == 1)", "bool"),
        ("['a'].map(x, x.size())", "list(int)"),
        ("[1].map(x, x > 0, 'a')", "list(string)"),
        ("{'a': 1}.map(k, k)", "list(string)"),
        ("object.map(x, x)", "list(dyn)"),
        ("[1].filter(x, x > 0)", "list(int)"),
        ("{'a': 1}.all(k, v, v > 0 && k != '')", "bool"),
        ("['a'].transformList(i, v, i)", "list(int)"),
        ("['a'].transformMap(i, v, v)", "map(int, string)"),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})", "map(int, string)"),
        ("['a'].sortBy(x, x.size())", "list(string)"),
        ("[1, 2].map(x, [x]).map(y, y[0])", "list(int)"),
        ("[[1]].map(x, x.map(x, string(x)))", "list(list(string))"),
    ],
)
def test_macros(text: str, type_: str) -> None:
    """A macro's variables have the types of elements, keys and indices, and its result is made of its body's type."""
    assert str(checked(text).type) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("optional.of(1)", "optional_type(int)"),
        ("optional.none()", "optional_type(dyn)"),
        ("object.?a", "optional_type(dyn)"),
        ("object.?a.b", "optional_type(dyn)"),
        ("request.?name", "optional_type(string)"),
        ("request.?userInfo.?groups[0]", "optional_type(string)"),
        ("request.?name.orValue('')", "string"),
        ("optional.of(['a'])[0]", "optional_type(string)"),
        ("optional.of({'a': 'b'}).a", "optional_type(string)"),
        ("[?optional.of(1)]", "list(int)"),
        ("{?'a': object.?b}", "map(string, dyn)"),
        ("optional.of(1).optMap(x, string(x))", "optional_type(string)"),
        ("optional.of(1).optFlatMap(x, optional.of(string(x)))", "optional_type(string)"),
        ("optional.of(optional.of(1)).value()", "optional_type(int)"),
    ],
)
def test_optionals(text: str, type_: str) -> None:
    """What is selected from an optional, or with a question mark, is an optional; its content has the field's type."""
    assert str(checked(text).type) == type_


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("objct.spec", 0, "undeclared reference to 'objct' (in container '')", "did you mean 'object'?"),
        ("[1].all(item, itm > 0)", 14, "undeclared reference to 'itm' (in container '')", "did you mean 'item'?"),
        ("frobnicate(1)", 10, "undeclared reference to 'frobnicate' (in container '')", ""),
        ("'a'.startWith('b')", 13, "undeclared reference to 'startWith' (in container '')", "did you mean 'startsWith'?"),
        ("Foo{}", 3, "undeclared reference to 'Foo' (in container '')", ""),
        ("request.nme", 7, "undefined field 'nme'", "did you mean 'name'?"),
        ("request.kind.knd", 12, "undefined field 'knd'", "did you mean 'kind'?"),
        ("request.object", 7, "undefined field 'object'", ""),
        ("has(request.nme)", 3, "undefined field 'nme'", "did you mean 'name'?"),
        ("variables.x", 9, "undefined field 'x'", ""),
        ("'a'.b", 3, "type 'string' does not support field selection", ""),
        ("string{}", 6, "'string' is not a message type", ""),
        ("request{}", 7, "undeclared reference to 'request' (in container '')", ""),
        ("kubernetes.UserInfo{username: 1}", 28, "expected type of field 'username' is 'string' but provided type is 'int'", ""),
        ("kubernetes.UserInfo{usernme: 'a'}", 27, "undefined field 'usernme'", "did you mean 'username'?"),
        ("'a'.startsWith(1)", 14, "found no matching overload for 'startsWith' applied to 'string.(int)'", "declared: string.startsWith(string) -> bool"),
        ("1 + 'a'", 2, "found no matching overload for '_+_' applied to '(int, string)'", ADD),
        ("[1] + ['a']", 4, "found no matching overload for '_+_' applied to '(list(int), list(string))'", ADD),
        ("!1", 0, "found no matching overload for '!_' applied to '(int)'", "declared: !_(bool) -> bool"),
        ("-'a'", 0, "found no matching overload for '-_' applied to '(string)'", "declared: -_(double) -> double; -_(int) -> int"),
        ("1 == 'a'", 2, "found no matching overload for '_==_' applied to '(int, string)'", "declared: A == A"),
        ("1 == null", 2, "found no matching overload for '_==_' applied to '(int, null)'", "declared: A == A"),
        ("1 ? 2 : 3", 2, "found no matching overload for '_?_:_' applied to '(int, int, int)'", CHOICE),
        ("true ? 1 : 'a'", 5, "found no matching overload for '_?_:_' applied to '(bool, int, string)'", CHOICE),
        ("['a']['b']", 5, "found no matching overload for '_[_]' applied to '(list(string), string)'", INDEX),
        ("{'a': 1}[1]", 8, "found no matching overload for '_[_]' applied to '(map(string, int), int)'", INDEX),
        ("1 in ['a']", 2, "found no matching overload for '@in' applied to '(int, list(string))'", MEMBERSHIP),
        ("true && 1", 8, "expected type 'bool' but found 'int'", ""),
        ("'a' || true", 0, "expected type 'bool' but found 'string'", ""),
        ("[1].all(x, x)", 11, "expected type 'bool' but found 'int'", ""),
        ("[1].filter(x, 1)", 10, "found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'", CHOICE),
        ("1.all(x, true)", 0, "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)", ""),
        ("'abc'.map(x, x)", 0, "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)", ""),
        ("[?1]", 2, "expected type 'optional_type(int)' but found 'int'", ""),
        ("{?'a': 1}", 7, "expected type 'optional_type(int)' but found 'int'", ""),
        ("optional.of(1).orValue('a')", 22, "found no matching overload for 'orValue' applied to 'optional_type(int).(string)'", "declared: optional_type(V).orValue(V) -> V"),
    ],
)  # fmt: skip
def test_errors(text: str, place: int, message: str, hint: str) -> None:
    """An error has the reference's place and words, and our hint: the nearest name, or what is declared."""
    assert refused(text) == [(place, message, hint)]


def test_all_errors_are_found_in_the_order_of_their_places() -> None:
    """One error does not hide the next; what is made of a wrong part is not wrong once more."""
    found = [(place, message) for place, message, _ in refused("(x + 1 == 2) && 'a'.size() == y && 1 + 'a' == 3")]

    assert found == [
        (1, "undeclared reference to 'x' (in container '')"),
        (30, "undeclared reference to 'y' (in container '')"),
        (37, "found no matching overload for '_+_' applied to '(int, string)'"),
    ]


def test_a_macro_variable_ends_with_its_macro() -> None:
    """Behind a macro its variable is unknown, and within it hides a variable of the same name."""
    assert refused("[1].all(x, x > 0) && x")[0][:2] == (21, "undeclared reference to 'x' (in container '')")
    assert refused("['a'].all(request, request.startsWith('b'))") == []
    assert refused("[1].all(request, request.name == 'a')")[0][:2] == (
        24,
        "type 'int' does not support field selection",
    )


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("op: 'add'", []),
        ("value: 1", []),
        ("op: 1", [(12, "expected type of field 'op' is 'string' but provided type is 'int'", "")]),
        (
            "pth: 'a'",
            [(13, "expected type of field 'pth' is '' but provided type is 'string'", "did you mean 'path'?")],
        ),
    ],
    ids=str,
)
def test_patches(field: str, expected: list[tuple[int, str, str]]) -> None:
    """Of JSONPatch the fields are declared, and another one is refused in the reference's odd words."""
    environment, source = admission(patch_types=True), Source(f"JSONPatch{{{field}}}")
    try:
        check(parse(source), source, environment)
        found = []
    except CompileError as error:
        found = [(issue.position, issue.message, issue.hint) for issue in error.issues]

    assert found == expected


def test_patch_types_are_for_mutations_only() -> None:
    """`Object` is a type with any fields where mutations are written, and unknown elsewhere."""
    program = compile_expression("Object{spec: Object.spec{replicas: 1}}", admission(patch_types=True))

    assert str(program.type) == "Object"
    assert refused("Object{}") == [(6, "undeclared reference to 'Object' (in container '')", "did you mean 'object'?")]


def test_variables() -> None:
    """`variables.x` has the type of its expression, but library types and what fails to compile are dyn."""
    composition = Composition(ENVIRONMENT)
    texts = {"n": "1", "l": "['a']", "q": "quantity('1')", "lq": "[quantity('1')]", "bad": "nothing"}
    for name, text in texts.items():
        composition = composition.declare(name, text)
    shown = {name: str(compile_expression(f"variables.{name}", composition.environment).type) for name in texts}

    assert shown == {"n": "int", "l": "list(string)", "q": "dyn", "lq": "list(dyn)", "bad": "dyn"}


def test_namespaces_are_resolved() -> None:
    """A target that is a namespace disappears into the function's name; a declared name swallows its points."""
    call = checked("optional.of(object.a)")
    select = checked("authorizer.requestResource")

    assert show(call) == "optional.of(object.a)"
    assert isinstance(call, Call)
    assert (call.target, call.function, [each.id for each in call.overloads]) == (None, "optional.of", ["optional_of"])
    assert isinstance(select, Select)
    assert select.name == "authorizer.requestResource"


def test_a_constant_name() -> None:
    """The name of a type has the type as its constant, of whatever kind that is."""
    tree = checked("type(object) == int")
    constants = [node.constant for node in walk(tree) if isinstance(node, Ident) and node.constant]

    assert constants == [(INT,)]


def test_overloads_that_may_run() -> None:
    """With dyn among the arguments all overloads that fit stay candidates, in the order of their declaration."""
    tree = checked("object.a < 1")

    assert isinstance(tree, Call)
    assert [each.id for each in tree.overloads] == ["less_int64", "less_uint64_int64", "less_double_int64"]


def test_nothing_is_left_unknown() -> None:
    """After the check each node has a type without type variables."""
    tree = checked("[[]].map(x, {}).filter(y, optional.none().hasValue())")

    assert {str(node.type) for node in walk(tree) if "_var" in str(node.type)} == set()


def test_qualified_names() -> None:
    """Only names and points make a qualified name; a presence test or a literal does not."""
    chain, presence, literal = (parse(Source(text)) for text in ("a.b.c", "has(a.b)", "'a'.b"))

    assert qualified_name(chain) == "a.b.c"
    assert [qualified_name(node) for node in (presence, literal, None)] == [None, None, None]


def test_content_of_optionals() -> None:
    """An optional type is opened, any other is given back."""
    assert optional_content(optional_of(INT)) == (INT, True)
    assert optional_content(DYN) == (DYN, False)
