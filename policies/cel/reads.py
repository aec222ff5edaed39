"""The parts of `object`, `oldObject` and `request` that an expression reads. The rest need not be decoded.

This is an abstract evaluation: instead of a value, every part of the expression has the places from which its value may
come. If a value is only passed through, the expression reads only what is selected from it. If a value is compared,
used in a computation, passed to a function or returned, the expression reads everything below its place.

>>> from policies.cel.kubernetes import admission
>>> text = "object.spec.containers.all(c, has(c.image) && c.image != '')"
>>> sorted(composed_reads([Source(text)], Composition(admission()))["object"].paths)
['spec.containers[*].image']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

from msgspec import Struct

from policies.cel.program import Composition, Program, checked
from policies.cel.recursion import deeply
from policies.cel.syntax import ast
from policies.cel.syntax.source import Source
from policies.cel.types import Kind
from policies.objects.fieldpath import Pattern, Step, Wildcard, parse, render

OBJECTS: Final = ("object", "oldObject")
ROOTS: Final = (*OBJECTS, "request")
_VARIABLES = "variables"
# The keys that fieldpath.parse can read. For any other key, the whole map is read.
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_SCALARS = {Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.STRING, Kind.TIMESTAMP, Kind.UINT}


class Reads(Struct, frozen=True):
    """The paths that are read in one object, such as `spec.containers[*].resources`; empty for the object itself.

    whole: places that are read with everything below them. present: places of which only the presence, the type and the
    number of elements are read.
    """

    whole: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the object that must be kept for the expression to have the same outcome.

        Parents of a path are kept too, so a place whose presence counts is a path only if nothing below it is read. The
        presence of the object itself needs no path. The cost of a comparison with null may be lower.
        """
        whole, places = set(map(parse, self.whole)), set(map(parse, self.whole | self.present))
        above = {place[:end] for place in places for end in range(len(place))} | {()} - whole
        return frozenset(
            render(place)
            for place in places
            if (place in whole or place not in above) and not any(place[:end] in whole for end in range(len(place)))
        )

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.whole | other.whole, self.present | other.present)

    def touches(self, path: str) -> bool:
        """Whether the expression can see a change at a path or below it."""
        changed = parse(path)
        return any(_meet(parse(read), changed) for read in self.whole) or any(
            len(pattern := parse(read)) >= len(changed) and _meet(pattern, changed) for read in self.present
        )


NOTHING = Reads()
EVERYTHING = Reads(whole=frozenset({""}))


def reads(tree: ast.Node, variables: Mapping[str, ast.Node]) -> Mapping[str, Reads]:
    """The reads of a checked expression in each of ROOTS. `variables`: the checked trees of the policy's.

    A variable that does not compile has no tree and reads nothing, because it fails first.
    """
    walk = _Walk(variables)
    try:
        deeply(lambda: walk.read_whole(walk.source(tree, {})))
    except RecursionError:
        return dict.fromkeys(ROOTS, EVERYTHING)
    return {root: Reads(_paths(root, walk.whole), _paths(root, walk.present)) for root in ROOTS}


def composed_reads(sources: Iterable[Source], composition: Composition) -> Mapping[str, Reads]:
    """The reads of several expressions that compile, with the variables of their policy.

    >>> from policies.cel.kubernetes import admission
    >>> composition = Composition(admission()).declare("spec", "object.spec")
    >>> composed_reads([Source("variables.spec.a > 1"), Source("has(oldObject.b)")], composition)["object"].paths
    frozenset({'spec.a'})
    """
    programs = {name: program for name, program in composition.programs.items() if isinstance(program, Program)}
    variables = {name: checked_tree(program.source, composition) for name, program in programs.items()}
    together = dict.fromkeys(ROOTS, NOTHING)
    for source in sources:
        more = reads(checked_tree(source, composition), variables)
        together = {root: together[root] | more[root] for root in ROOTS}
    return together


def checked_tree(source: Source, composition: Composition) -> ast.Node:
    """The checked tree of an expression that compiles."""
    return deeply(lambda: checked(source, composition.environment))[0]


def _paths(root: str, places: Iterable[Pattern]) -> frozenset[str]:
    return frozenset(render(place[1:]) for place in places if place[0] == root and place[1:2] != (Wildcard.ITEMS,))


def _meet(left: Pattern, right: Pattern) -> bool:
    """Whether the patterns may be equal, or one of them may be above the other."""
    pairs = zip(left, right, strict=False)
    return all(a == b or isinstance(a, Wildcard) or isinstance(b, Wildcard) for a, b in pairs)


class _Source(Struct, frozen=True):
    """The origin of a value: places in the objects, or a new list of elements from such places."""

    at: frozenset[Pattern] = frozenset()
    items: _Source | None = None

    def __or__(self, other: _Source) -> _Source:
        if self.items is None or other.items is None:
            return _Source(self.at | other.at, self.items or other.items)
        return _Source(self.at | other.at, self.items | other.items)

    @property
    def elements(self) -> _Source:
        return _Source(frozenset((*place, Wildcard.ITEMS) for place in self.at)) | (self.items or _COMPUTED)


_COMPUTED = _Source()
_Scope = Mapping[str, _Source]


class _Walk:
    def __init__(self, variables: Mapping[str, ast.Node]) -> None:
        self.whole: set[Pattern] = set()
        self.present: set[Pattern] = set()
        self._trees = variables
        self._variables: dict[str, _Source] = {}

    def read_whole(self, source: _Source) -> None:
        """Note that a value is read with everything below it. Reading all elements of a list reads the list."""
        for place in source.at:
            while isinstance(place[-1], Wildcard):
                place = place[:-1]  # noqa: PLW2901 - shortened step by step
            self.whole.add(place)
        if source.items is not None:
            self.read_whole(source.items)

    def _passed(self, source: _Source) -> _Source:
        """Note that the presence of a value is read. An object used as a list is read as a whole."""
        self.present |= source.at
        self.whole |= {place[:1] for place in source.at if place[1:2] == (Wildcard.ITEMS,)}
        return source

    def source(self, node: ast.Node, scope: _Scope) -> _Source:  # noqa: PLR0911, PLR0912 - a case for each kind
        """The origin of the value of a node. Notes everything that its evaluation reads."""
        match node:
            case ast.Ident():
                if node.name in scope:
                    return scope[node.name]
                root = node.name.removeprefix(".")  # written so where a macro's variable has the name
                if root == _VARIABLES:
                    for name in self._trees:
                        self.read_whole(self._of_variable(name))
                return self._passed(_Source(frozenset({(root,)}))) if root in ROOTS else _COMPUTED
            case ast.Select():
                if node.name is not None or node.constant is not None:
                    return _COMPUTED  # one declared name, such as authorizer.requestResource
                if ast.variable(node) is not None and _VARIABLES not in scope:
                    return self._of_variable(node.field)
                selected = self._step(self.source(node.operand, scope), node.field)
                return _COMPUTED if node.test_only else selected
            case ast.Call():
                return self._of_call(node, scope)
            case ast.ListLiteral():
                elements = [self.source(element, scope) for element in node.elements]
                return _Source(items=reduce(_Source.__or__, elements, _COMPUTED))
            case ast.MapLiteral():
                self._read_all([part for entry in node.entries for part in (entry.key, entry.value)], scope)
            case ast.StructLiteral():
                self._read_all([field.value for field in node.fields], scope)
            case ast.Comprehension():
                inner = dict(scope)
                over = self.source(node.range, scope)
                inner[node.variable] = self._passed(over.elements)
                if node.variable2 is not None:  # the values of a map, whose keys are read too
                    inner[node.variable2] = inner[node.variable]
                    inner[node.variable] = _COMPUTED
                    if node.range.type is not None and node.range.type.kind is Kind.MAP:
                        self.read_whole(over)
                        inner[node.variable2] = _COMPUTED
                # One round tells all: a step passes the accumulator on, perhaps with an element, and no more.
                accumulated = inner[node.accumulator] = self.source(node.init, scope)
                self._read_all([node.condition], inner)
                accumulated |= self.source(node.step, inner)
                return self.source(node.result, {**scope, node.accumulator: accumulated})
            case _:
                pass
        return _COMPUTED

    def _read_all(self, nodes: Iterable[ast.Node], scope: _Scope) -> _Source:
        for node in nodes:
            self.read_whole(self.source(node, scope))
        return _COMPUTED

    def _of_variable(self, name: str) -> _Source:
        if name not in self._variables:
            tree = self._trees.get(name)
            self._variables[name] = _COMPUTED if tree is None else self.source(tree, {})
        return self._variables[name]

    def _step(self, source: _Source, key: Step) -> _Source:
        """The origin of a selected value. A new list has elements, but no fields."""
        if isinstance(key, str) and not _KEY.match(key):
            self.read_whole(source)
            return _COMPUTED
        if key is Wildcard.ITEMS:
            return self._passed(source.elements)
        return self._passed(_Source(frozenset((*place, key) for place in source.at)))

    def _of_call(self, node: ast.Call, scope: _Scope) -> _Source:  # noqa: PLR0911 - a return for each kind of call
        given = node.arguments
        match node.function:
            case "_[_]" | "_[?_]" | "_?._":
                source, key = self.source(given[0], scope), given[1]
                if isinstance(key, ast.Literal) and isinstance(key.value, str):
                    return self._step(source, key.value)
                self._read_all([key], scope)
                if key.type is not None and key.type.kind is Kind.INT:
                    return self._step(source, Wildcard.ITEMS)
                self.read_whole(source)
                return _COMPUTED
            case "_?_:_":
                self._read_all(given[:1], scope)
                return self.source(given[1], scope) | self.source(given[2], scope)
            case "orValue" | "or":
                return self.source(given[0], scope) | self.source(given[1], scope)
            case "value" | "optional.of" | "dyn":
                return self.source(given[0], scope)
            case "hasValue" | "type":
                self.source(given[0], scope)
                return _COMPUTED
            case "size" if given[0].type is not None and given[0].type.kind is Kind.LIST:
                self.source(given[0], scope)
                return _COMPUTED
            case "_==_" | "_!=_" if any(
                isinstance(argument, ast.Literal) and argument.value is None for argument in given
            ):
                for argument in given:
                    self.source(argument, scope)
                return _COMPUTED
            case "_+_" if node.type is None or node.type.kind not in _SCALARS:
                left, right = (self.source(argument, scope) for argument in given)
                return _Source(items=left.elements | right.elements)
            case _:
                return self._read_all(given, scope)
