# ruff: noqa: E501 # one case is one line
import pytest
from support.cel.celtree import show, tree

from policies.cel.syntax.ast import Call, Comprehension, MapLiteral
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("has(a.b.c)", "a.b.c?", id="has(a.b.c)"),
        pytest.param(
            "a.all(x, x > 0)",
            "all[x -> @result: a; bool:True; @not_strictly_false(@result); _&&_(@result, _>_(x, int:0)); @result]",
            id="a.all(x, x > 0)",
        ),
        pytest.param(
            "a.exists(x, x > 0)",
            "exists[x -> @result: a; bool:False; @not_strictly_false(!_(@result)); _||_(@result, _>_(x, int:0)); @result]",
            id="a.exists(x, x > 0)",
        ),
        pytest.param(
            "a.exists_one(x, x > 0)",
            "exists_one[x -> @result: a; int:0; bool:True; _?_:_(_>_(x, int:0), _+_(@result, int:1), @result); _==_(@result, int:1)]",
            id="a.exists_one(x, x > 0)",
        ),
        pytest.param(
            "a.map(x, x + 1)",
            "map[x -> @result: a; []; bool:True; _+_(@result, [_+_(x, int:1)]); @result]",
            id="a.map(x, x + 1)",
        ),
        pytest.param(
            "a.map(x, x > 0, x + 1)",
            "map[x -> @result: a; []; bool:True; _?_:_(_>_(x, int:0), _+_(@result, [_+_(x, int:1)]), @result); @result]",
            id="a.map(x, x > 0, x + 1)",
        ),
        pytest.param(
            "a.filter(x, x > 0)",
            "filter[x -> @result: a; []; bool:True; _?_:_(_>_(x, int:0), _+_(@result, [x]), @result); @result]",
            id="a.filter(x, x > 0)",
        ),
        pytest.param(
            "a.all(k, v, v > k)",
            "all[k, v -> @result: a; bool:True; @not_strictly_false(@result); _&&_(@result, _>_(v, k)); @result]",
            id="a.all(k, v, v > k)",
        ),
        pytest.param(
            "a.exists(k, v, v > k)",
            "exists[k, v -> @result: a; bool:False; @not_strictly_false(!_(@result)); _||_(@result, _>_(v, k)); @result]",
            id="a.exists(k, v, v > k)",
        ),
        pytest.param(
            "a.existsOne(k, v, v > k)",
            "existsOne[k, v -> @result: a; int:0; bool:True; _?_:_(_>_(v, k), _+_(@result, int:1), @result); _==_(@result, int:1)]",
            id="a.existsOne(k, v, v > k)",
        ),
        pytest.param(
            "a.exists_one(k, v, v > k)",
            "exists_one[k, v -> @result: a; int:0; bool:True; _?_:_(_>_(v, k), _+_(@result, int:1), @result); _==_(@result, int:1)]",
            id="a.exists_one(k, v, v > k)",
        ),
        pytest.param(
            "a.transformList(k, v, v)",
            "transformList[k, v -> @result: a; []; bool:True; _+_(@result, [v]); @result]",
            id="a.transformList(k, v, v)",
        ),
        pytest.param(
            "a.transformList(k, v, v > k, v)",
            "transformList[k, v -> @result: a; []; bool:True; _?_:_(_>_(v, k), _+_(@result, [v]), @result); @result]",
            id="a.transformList(k, v, v > k, v)",
        ),
        pytest.param(
            "a.transformMap(k, v, v)",
            "transformMap[k, v -> @result: a; {}; bool:True; cel.@mapInsert(@result, k, v); @result]",
            id="a.transformMap(k, v, v)",
        ),
        pytest.param(
            "a.transformMap(k, v, v > k, v)",
            "transformMap[k, v -> @result: a; {}; bool:True; _?_:_(_>_(v, k), cel.@mapInsert(@result, k, v), @result); @result]",
            id="a.transformMap(k, v, v > k, v)",
        ),
        pytest.param(
            "a.transformMapEntry(k, v, {v: k})",
            "transformMapEntry[k, v -> @result: a; {}; bool:True; cel.@mapInsert(@result, {v: k}); @result]",
            id="a.transformMapEntry(k, v, {v: k})",
        ),
        pytest.param(
            "a.transformMapEntry(k, v, v > k, {v: k})",
            "transformMapEntry[k, v -> @result: a; {}; bool:True; _?_:_(_>_(v, k), cel.@mapInsert(@result, {v: k}), @result); @result]",
            id="a.transformMapEntry(k, v, v > k, {v: k})",
        ),
        pytest.param(
            "a.optMap(x, x + 1)",
            "_?_:_(a.hasValue(), optional.of(optMap[#unused -> x: []; a.value(); bool:False; x; _+_(x, int:1)]), optional.none())",
            id="a.optMap(x, x + 1)",
        ),
        pytest.param(
            "a.optFlatMap(x, x.?b)",
            "_?_:_(a.hasValue(), optFlatMap[#unused -> x: []; a.value(); bool:False; x; _?._(x, str:'b')], optional.none())",
            id="a.optFlatMap(x, x.?b)",
        ),
        pytest.param(
            "a.sortBy(x, x.b)",
            "sortBy[#unused -> @__sortBy_input__: []; a; bool:False; @__sortBy_input__; @__sortBy_input__.@sortByAssociatedKeys(sortBy[x -> @result: @__sortBy_input__; []; bool:True; _+_(@result, [x.b]); @result])]",
            id="a.sortBy(x, x.b)",
        ),
    ],
)
def test_expansion(text: str, shown: str) -> None:
    """A macro becomes the reference's tree, on which cost is counted."""
    assert tree(text) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("has(a)", "1:5: invalid argument to has() macro", id="has of a name"),
        pytest.param("has(a['b'])", "1:6: invalid argument to has() macro", id="has of a key"),
        pytest.param("a.all(b.c, true)", "1:8: argument must be a simple name", id="no name"),
        pytest.param("a.map(1, x)", "1:7: argument is not an identifier", id="a point before the name"),
        pytest.param("a.filter(1, x)", "1:10: argument is not an identifier", id="filter"),
        pytest.param("a.all(x, 1, true)", "1:10: argument must be a simple name", id="no second name"),
        pytest.param("a.all(x, x, true)", "1:10: duplicate variable name: x", id="same name"),
        pytest.param(
            "a.map(__result__, 1)", "1:7: iteration variable overwrites accumulator variable", id="accumulator"
        ),
        pytest.param(
            "a.exists(x, __result__, true)",
            "1:13: iteration variable overwrites accumulator variable",
            id="second accumulator",
        ),
        pytest.param("a.optMap(1, x)", "1:10: optMap() variable name must be a simple identifier", id="optMap"),
        pytest.param(
            "a.optFlatMap(b.c, x)", "1:15: optFlatMap() variable name must be a simple identifier", id="optFlatMap"
        ),
        pytest.param(
            "{}.sortBy(x, x)",
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            id="sortBy of a map",
        ),
        pytest.param("a.sortBy(1, x)", "1:10: argument is not an identifier", id="sortBy without a name"),
    ],
)
def test_wrong_arguments(text: str, message: str) -> None:
    """Arguments that a macro does not take are refused with the reference's words."""
    with pytest.raises(CompileError) as caught:
        parse(Source(text))
    assert caught.value.reference() == f"ERROR: <input>:{message}"


@pytest.mark.parametrize(
    "text",
    [
        "a.existsOne(x, x)",
        "a.all(x)",
        "has(a, b)",
        "a.has(b.c)",
        "all(x, x)",
        "a.transformList(k, v)",
        "cel.bind(x, 1, x)",
    ],
)
def test_no_macro(text: str) -> None:
    """Other names and other numbers of arguments are plain calls."""
    assert isinstance(parse(Source(text)), Call)


def test_body() -> None:
    """A comprehension keeps the macro's arguments after the variables, for explanations."""
    node = parse(Source("a.map(x, x > 0, x + 1)"))
    assert isinstance(node, Comprehension)
    assert [node.macro, *map(show, node.body)] == ["map", "_>_(x, int:0)", "_+_(x, int:1)"]


def test_what_optmap_is_called_on_is_copied() -> None:
    """`hasValue` and `value` get trees of their own; an entry of the copy is placed at the macro."""
    node = parse(Source("{'a': b.all(x, x)}.optMap(m, m)"))
    assert isinstance(node, Call)
    first = node.args[0]
    optional = node.args[1]
    assert isinstance(first, Call)
    assert isinstance(optional, Call)
    fold = optional.args[0]
    assert isinstance(fold, Comprehension)
    assert isinstance(fold.init, Call)
    original, copied = first.target, fold.init.target
    assert isinstance(original, MapLiteral)
    assert isinstance(copied, MapLiteral)
    places = original.entries[0].position, copied.entries[0].position
    assert (show(copied), copied is original, places) == (show(original), False, (4, 25))
