# one case is one line
from support.cel.celtree import show

from policies.cel.syntax.ast import Call, Comprehension, MapLiteral
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source


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
