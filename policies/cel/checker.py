"""The type of every part of an expression, and the overloads that a call may use (cel-go's checker package).

Then come Kubernetes' checks besides the types, such as those of literal formats and patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policies.cel import types
from policies.cel.environment import Declared, Environment, Feature, Function, Overload
from policies.cel.library.regex import compile_pattern
from policies.cel.library.strings import letters, unsuitable
from policies.cel.patchtypes import JSON_PATCH
from policies.cel.syntax import ast
from policies.cel.syntax.source import ISSUES_LIMIT, CompileError, Issue, Source
from policies.cel.types import Kind, Type, equivalent
from policies.cel.values import CelError, type_of
from policies.kubernetes.spelling import closest

_SIGNATURES = 6


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'object'?`, or empty if no name is close. Operators are not suggested."""
    near = closest(name, (other for other in known if other[:1].isalpha()))
    return f"did you mean '{near}'?" if near else ""


def signatures(function: Function) -> str:
    """The signatures of a function: `declared: string.startsWith(string) -> bool`."""
    most = _SIGNATURES if len(function.overloads) > _SIGNATURES + 1 else len(function.overloads)
    operator, shown = function.name.strip("_@"), []
    for overload in function.overloads[:most]:
        parameters = [str(parameter) for parameter in overload.parameters]
        if len(parameters) == 2 and not operator.isidentifier():
            shown.append(f"{parameters[0]} {operator} {parameters[1]}")
        else:
            target = f"{parameters.pop(0)}." if overload.member else ""
            shown.append(f"{target}{function.name}({', '.join(parameters)}) -> {overload.result}")
    if len(function.overloads) > most:
        shown.append(f"and {len(function.overloads) - most} more")
    return f"declared: {'; '.join(shown)}"


_NULLABLE = {Kind.OPAQUE, Kind.STRUCT, Kind.DURATION, Kind.TIMESTAMP}
_COMPOSED = {Kind.OPAQUE, Kind.LIST, Kind.MAP}
_WILD = {Kind.DYN, Kind.ERROR}


FIRST_STEPS, STEPS = 20_000, 50
"""The steps that the types of an expression may take, and how many more with each node.

Each link of a chain of macros may double the size of a type. Of all expressions in tests and packs the longest takes 6
steps for a node, and twenty lists in one another take 22.
"""


class TypesTooLargeError(Exception):
    """The types of an expression have too many parts."""


class Unifier:
    """The type variables of one expression and their known types.

    steps: how many parts of types have been looked at. allowed: how many may be; what is beyond raises
    TypesTooLargeError.
    """

    def __init__(self) -> None:
        self.steps, self.allowed = 0, FIRST_STEPS
        self._known: dict[Type, Type] = {}
        self._before: list[tuple[Type, Type | None]] = []  # what the variables changed by a comparison were known as
        self._count = 0

    def step(self) -> None:
        """Count a look at a part of a type."""
        self.steps += 1
        if self.steps > self.allowed:
            raise TypesTooLargeError

    def measure(self, type_: Type) -> None:
        """Count all parts of a type."""
        self.step()
        for parameter in type_.parameters:
            self.measure(parameter)

    def fresh(self) -> Type:
        """A new type variable."""
        self._count += 1
        return types.parameter(f"_var{self._count - 1}")

    def assignable(self, given: tuple[Type, ...], expected: tuple[Type, ...]) -> bool:
        """Whether the given types are assignable to the expected. If so, keeps what that implies for type variables."""
        self._before.clear()
        if len(given) == len(expected) and all(map(self._fits, given, expected)):
            return True
        for variable, known in reversed(self._before):
            if known is None:
                del self._known[variable]
            else:
                self._known[variable] = known
        return False

    def _bind(self, variable: Type, type_: Type) -> None:
        self._before.append((variable, self._known.get(variable)))
        self._known[variable] = type_

    def _fits(self, given: Type, expected: Type) -> bool:  # noqa: PLR0911 - one return per kind of type
        self.step()
        kind, other = given.kind, expected.kind
        if other is Kind.PARAMETER:
            valid, known = self._substitutes(given, expected)
            if valid or known:
                return valid
        if kind is Kind.PARAMETER:
            return self._substitutes(expected, given)[0]
        if kind in _WILD or other in _WILD:
            return True
        if kind is Kind.NULL:
            return other is Kind.NULL or other in _NULLABLE
        if other is Kind.NULL:
            return kind in _NULLABLE
        if kind is Kind.TYPE:
            return other is Kind.TYPE
        if kind in _COMPOSED:
            return (
                kind is other
                and given.name == expected.name
                and len(given.parameters) == len(expected.parameters)
                and all(map(self._fits, given.parameters, expected.parameters))
            )
        return kind is other and given.name == expected.name

    def _substitutes(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the type may replace the variable, and whether the variable already had a type."""
        if type_ == variable:
            return True, True
        known = self._known.get(variable)
        if known is None:
            if not self._free_of(variable, type_):
                return False, False
            self._bind(variable, type_)
            return True, False
        if type_ is known:
            return True, True
        if not self._fits(type_, known):
            return False, True
        if _less_specific(type_, known) and self._free_of(variable, type_):
            self._bind(variable, type_)
        return True, True

    def _free_of(self, variable: Type, type_: Type) -> bool:
        """Whether the variable does not occur in the type. Without this check a type could contain itself."""
        self.step()
        if variable == type_:
            return False
        if type_.kind is Kind.PARAMETER:
            known = self._known.get(type_)
            return known is None or self._free_of(variable, known)
        return all(self._free_of(variable, parameter) for parameter in type_.parameters)

    def resolve(self, type_: Type, *, unknown_is_dyn: bool = False) -> Type:
        """The type with its variables replaced by their known types."""
        self.step()
        if type_.kind is Kind.PARAMETER:
            known = self._known.get(type_)
            if known is not None:
                return self.resolve(known, unknown_is_dyn=unknown_is_dyn)
            return types.DYN if unknown_is_dyn else type_
        if not type_.parameters:
            return type_
        parameters = tuple(self.resolve(parameter, unknown_is_dyn=unknown_is_dyn) for parameter in type_.parameters)
        return type_ if parameters == type_.parameters else Type(type_.kind, type_.name, parameters)

    def instance(self, signature: tuple[Type, ...]) -> tuple[Type, ...]:
        """A signature with its type variables renamed to new ones."""
        names: dict[Type, Type] = {}
        return tuple(self._renamed(type_, names) for type_ in signature)

    def _renamed(self, type_: Type, names: dict[Type, Type]) -> Type:
        if type_.kind is Kind.PARAMETER:
            if type_ not in names:
                names[type_] = self.fresh()
            return names[type_]
        if not type_.parameters:
            return type_
        return Type(type_.kind, type_.name, tuple(self._renamed(parameter, names) for parameter in type_.parameters))


def _less_specific(left: Type, right: Type) -> bool:
    if left.kind in (Kind.DYN, Kind.PARAMETER):
        return True
    if right.kind in (Kind.DYN, Kind.PARAMETER) or left.kind is not right.kind:
        return False
    if left.kind is Kind.TYPE:
        return True
    if left.kind in _COMPOSED:
        return (
            left.name == right.name
            and len(left.parameters) == len(right.parameters)
            and all(map(_less_specific, left.parameters, right.parameters))
        )
    return left == right


_LOGIC = ("_&&_", "_||_")
_ITERABLE_AS_DYN = {Kind.DYN, Kind.ERROR, Kind.PARAMETER}


def check(tree: ast.Node, source: Source, environment: Environment) -> Type:
    """The type of an expression. Writes the types of all parts onto its tree. Raises CompileError."""
    checker = _Checker(environment)
    try:
        checker.check(tree)
        checker.settle()
    except TypesTooLargeError:
        hint = "put dyn(...) around a list or map within lists and maps"
        issue = Issue(checker.nodes[-1].position, "the types of its parts are too large", hint)
        raise CompileError(source, (issue,)) from None
    if checker.untyped and not checker.issues:
        # Kubernetes has no type for an unknown field of JSONPatch, and fails later.
        message = "unexpected compilation error: missing type conversion to proto: "
        raise CompileError(source, tuple(checker.untyped), message=message)
    issues = checker.issues or further_issues(tree)
    if issues:
        raise CompileError(source, tuple(issues))
    return checker.type(tree)


def qualified_name(node: ast.Node | None) -> str | None:
    """`a.b.c` if a node consists only of names and points, else None."""
    fields: list[str] = []
    while isinstance(node, ast.Select) and not node.test_only:
        fields.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(fields)]) if isinstance(node, ast.Ident) else None


def optional_content(type_: Type) -> tuple[Type, bool]:
    """The type of an optional's content, and whether the type is an optional."""
    if type_.kind is Kind.OPAQUE and type_.name == "optional_type":
        return type_.parameters[0], True
    return type_, False


class _Checker:
    """One walk over one tree."""

    def __init__(self, environment: Environment) -> None:
        self.issues: list[Issue] = []
        self.untyped: list[Issue] = []
        self._environment = environment
        self._unifier = Unifier()
        self._scopes: list[dict[str, Type]] = []
        self.nodes: list[ast.Node] = []

    def settle(self) -> None:
        """Replace type variables by the types found for them, or by dyn."""
        for node in self.nodes:
            if node.type is not None:
                node.type = self._unifier.resolve(node.type, unknown_is_dyn=True)

    def type(self, node: ast.Node) -> Type:
        return types.ERROR if node.type is None else node.type

    def check(self, node: ast.Node) -> None:  # noqa: PLR0912 - a case for each kind of node
        """Check one node and all below it. Raises TypesTooLargeError."""
        self.nodes.append(node)
        self._unifier.allowed += STEPS
        match node:
            case ast.Literal():
                node.type = type_of(node.value)
            case ast.Ident() if (declared := self._lookup(node.name)) is not None:
                node.type, node.constant, node.name = declared.type, declared.constant, declared.name
            case ast.Ident():
                node.type = types.ERROR
                self._undeclared(node, node.name)
            case ast.Select():
                self._check_select(node)
            case ast.Call():
                self._check_call(node)
            case ast.ListLiteral():
                joined: Type | None = None
                for index, element in enumerate(node.elements):
                    self.check(element)
                    joined = self._join(joined, self._content(element, optional=index in node.optional))
                node.type = types.list_of(joined or self._unifier.fresh())
            case ast.MapLiteral():
                key: Type | None = None
                value: Type | None = None
                for entry in node.entries:
                    self.check(entry.key)
                    key = self._join(key, self.type(entry.key))
                    self.check(entry.value)
                    value = self._join(value, self._content(entry.value, optional=entry.optional))
                if key is None or value is None:
                    key, value = self._unifier.fresh(), self._unifier.fresh()
                node.type = types.map_of(key, value)
            case ast.StructLiteral():
                self._check_struct(node)
            case ast.Comprehension():
                self._check_comprehension(node)
            case _:
                raise TypeError(f"not an expression: {node}")
        self._unifier.measure(self.type(node))

    def _report(self, node: ast.Node, message: str, hint: str = "") -> None:
        self.issues.append(Issue(node.position, message, hint))

    def _lookup(self, name: str) -> Declared | None:
        outer, shadows = name.startswith("."), self._environment.dialect.has(Feature.SHADOWING)
        first, _, rest = name.removeprefix(".").partition(".")
        local = next((scope[first] for scope in reversed(self._scopes) if first in scope), None)
        if local is None or (rest and not shadows):
            return self._environment.lookup(name)
        if shadows and outer:
            declared = self._environment.lookup(name)
            return None if declared is None else replace(declared, name=f".{declared.name}")
        return None if rest else Declared(first, local)

    def _undeclared(self, node: ast.Node, name: str) -> None:
        local = {known for scope in self._scopes for known in scope if known.isidentifier()}
        functions = isinstance(node, ast.Call)
        known = self._environment.functions if functions else local.union(self._environment.variables)
        hint = nearest(name, {*known} - {name}) if len(self.issues) < ISSUES_LIMIT else ""
        self._report(node, f"undeclared reference to '{name}' (in container '')", hint)

    def _check_select(self, node: ast.Select) -> None:
        name = qualified_name(node)
        declared = None if name is None else self._lookup(name)
        if declared is not None:
            node.type, node.constant, node.name = declared.type, declared.constant, declared.name
            return
        result = self._field_type(node, node.operand, node.field, optional=False)
        if result == types.ERROR and node.operand.type == JSON_PATCH and not node.test_only:
            hint = nearest(node.field, self._environment.fields(JSON_PATCH.name))
            self.untyped.append(Issue(node.position, f"undefined field '{node.field}'", hint))
        node.type = types.BOOL if node.test_only else self._unifier.resolve(result)

    def _field_type(self, node: ast.Node, operand: ast.Node, field: str, *, optional: bool) -> Type:
        self.check(operand)
        target, is_optional = optional_content(self._unifier.resolve(self.type(operand)))
        result = types.DYN
        match target.kind:
            case Kind.MAP:
                result = target.parameters[1]
            case Kind.STRUCT:
                result = self._struct_field(node, target.name, field)
            case Kind.PARAMETER:
                self._unifier.assignable((types.DYN,), (target,))
            case Kind.DYN | Kind.ERROR:
                pass
            case _:
                self._report(node, f"type '{target}' does not support field selection")
        return types.optional_of(result) if is_optional or optional else result

    def _struct_field(self, node: ast.Node, struct: str, field: str) -> Type:
        if not self._environment.is_struct(struct):
            self._report(node, f"unexpected failed resolution of '{struct}'")
            return types.ERROR
        declared = self._environment.field(struct, field)
        if declared is None:
            self._report(node, f"undefined field '{field}'", nearest(field, self._environment.fields(struct)))
            return types.ERROR
        return declared

    def _check_call(self, node: ast.Call) -> None:
        if node.function == "_?._":
            operand, field = node.args
            if isinstance(field, ast.Literal) and isinstance(field.value, str):
                node.type = self._unifier.resolve(self._field_type(node, operand, field.value, optional=True))
                node.declared = self._environment.function("_?._")
            else:
                self._report(field, "unsupported optional field selection")
                node.type = types.ERROR
            return
        for arg in node.args:
            self.check(arg)
        if node.target is not None:
            prefix = qualified_name(node.target)
            namespaced = None if prefix is None else self._environment.function(f"{prefix}.{node.function}")
            if namespaced is not None:
                node.target, node.function = None, namespaced.name
                self._resolve(node, namespaced)
                return
            self.check(node.target)
        function = self._environment.function(node.function)
        if function is None:
            node.type = types.ERROR
            self._undeclared(node, node.function)
            return
        node.function = function.name
        self._resolve(node, function)

    def _resolve(self, node: ast.Call, function: Function) -> None:
        given = [*([] if node.target is None else [node.target]), *node.args]
        if function.name in _LOGIC:
            node.declared, node.overloads, node.type = function, function.overloads, types.BOOL
            for arg in node.args:
                if not self._expect(arg, types.BOOL):
                    node.type = types.ERROR
            return
        match = self._matching(function, tuple(map(self.type, given)), member=node.target is not None)
        if match is not None:
            node.declared = function
            node.overloads, node.type = match
            return
        node.type = types.ERROR
        shown = [str(self._unifier.resolve(self.type(arg), unknown_is_dyn=True)) for arg in given]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        message = f"found no matching overload for '{function.name}' applied to '{target}({', '.join(shown)})'"
        self._report(node, message, signatures(function))

    def _matching(
        self, function: Function, given: tuple[Type, ...], *, member: bool
    ) -> tuple[tuple[Overload, ...], Type] | None:
        overloads: list[Overload] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.member is not member:
                continue
            *expected, declared = self._unifier.instance((*overload.parameters, overload.result))
            if len(expected) != len(given) or not self._unifier.assignable(given, tuple(expected)):
                continue
            overloads.append(overload)
            declared = self._unifier.resolve(declared)
            if result is None:
                result = declared
            elif not result.is_dyn and declared != result:
                result = types.DYN
        return None if result is None else (tuple(overloads), result)

    def _content(self, node: ast.Node, *, optional: bool) -> Type:
        """The type of an element, entry or field. With a question mark it must be optional or dyn."""
        own = self.type(node)
        if not optional:
            return own
        content, is_optional = optional_content(own)
        if not is_optional and not content.is_dyn:
            self._report(node, f"expected type '{types.optional_of(content)}' but found '{content}'")
        return content

    def _join(self, previous: Type | None, current: Type) -> Type:
        """The common type of the elements so far. `further_issues` later reports elements of different types."""
        if previous is None:
            return current
        if not self._unifier.assignable((previous,), (current,)):
            return types.DYN
        return previous if _less_specific(previous, current) else current

    def _check_struct(self, node: ast.StructLiteral) -> None:
        shadows = self._environment.dialect.has(Feature.SHADOWING)
        declared = (self._environment.type_named if shadows else self._lookup)(node.type_name)
        if declared is None:
            self._undeclared(node, node.type_name)
            node.type = types.ERROR
            return
        node.type_name, node.type = declared.name, types.ERROR
        described = declared.type.parameters[0] if declared.type.parameters else types.TYPE
        if declared.type.kind is not Kind.TYPE:
            self._report(node, f"'{declared.type.name}' is not a type")
        elif described.kind is not Kind.STRUCT:
            self._report(node, f"'{described.name}' is not a message type")
        else:
            node.type = described
        for field in node.fields:
            self.check(field.value)
            expected = self._struct_field(field, node.type_name, field.name)
            given = self._content(field.value, optional=field.optional)
            if expected == types.ERROR and node.type_name == "JSONPatch":  # the reference shows an empty type for it
                message = f"expected type of field '{field.name}' is '' but provided type is '{given}'"
                self._report(field, message, nearest(field.name, self._environment.fields(node.type_name)))
            elif not self._unifier.assignable((expected,), (given,)):
                self._report(
                    field, f"expected type of field '{field.name}' is '{expected}' but provided type is '{given}'"
                )

    def _check_comprehension(self, node: ast.Comprehension) -> None:
        self.check(node.range)
        self.check(node.init)
        range_type = self._unifier.resolve(self.type(node.range))
        accumulated = self.type(node.init)
        self._scopes.append({node.accumulator: accumulated})
        names = [node.variable] if node.variable2 is None else [node.variable, node.variable2]
        elements: tuple[Type, ...] = (types.DYN, types.DYN)
        if range_type.kind is Kind.LIST:
            elements = (types.INT, *range_type.parameters)[-len(names) :]
        elif range_type.kind is Kind.MAP:
            elements = range_type.parameters
        elif range_type.kind in _ITERABLE_AS_DYN:
            self._unifier.assignable((types.DYN,), (range_type,))
        else:
            needs = "cannot be range of a comprehension (must be list, map, or dynamic)"
            self._report(node.range, f"expression of type '{range_type}' {needs}")
            elements = (types.ERROR, types.ERROR)
        self._scopes.append(dict(zip(names, elements, strict=False)))
        self.check(node.condition)
        self._expect(node.condition, types.BOOL)
        self.check(node.step)
        self._expect(node.step, accumulated)
        self._scopes.pop()
        self.check(node.result)
        self._scopes.pop()
        node.type = self._unifier.resolve(self.type(node.result))

    def _expect(self, node: ast.Node, expected: Type) -> bool:
        """Whether a node has a type; report it otherwise."""
        fits = self._unifier.assignable((expected,), (self.type(node),))
        if not fits:
            self._report(node, f"expected type '{expected}' but found '{self.type(node)}'")
        return fits


_WHOLE = {Kind.INT, Kind.UINT}
_SUITABLE = {
    "d": _WHOLE,
    "o": _WHOLE,
    "b": _WHOLE | {Kind.BOOL},
    "f": {Kind.DOUBLE, Kind.STRING},
    "e": {Kind.DOUBLE, Kind.STRING},
    "x": _WHOLE | {Kind.STRING, Kind.BYTES},
    "X": _WHOLE | {Kind.STRING, Kind.BYTES},
}
_SHOWN = _WHOLE | {
    Kind.LIST, Kind.MAP, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES, Kind.DURATION, Kind.TYPE,
    Kind.NULL,
}  # fmt: skip


def format_issues(node: ast.Call) -> Iterator[Issue]:
    """The issues of a call of `format`."""
    text, arguments = node.target, node.args[0] if len(node.args) == 1 else None
    if not (isinstance(text, ast.Literal) and isinstance(text.value, str) and isinstance(arguments, ast.ListLiteral)):
        return
    count, given = 0, len(arguments.elements)
    try:
        for letter in letters(text.value, given):
            unfit = _unfit(letter, arguments.elements[count])
            if unfit is not None:
                yield Issue(unfit.position, unsuitable(letter, unfit.type.name if unfit.type is not None else ""))
                return
            count += 1
    except CelError as error:
        yield Issue(node.position, error.message)
        return
    if given > count:
        message = f"too many arguments supplied to string.format (expected {count}, got {given})"
        yield Issue(node.position, message)


def _unfit(letter: str, node: ast.Node) -> ast.Node | None:
    """The part of an argument that a clause cannot format, or None."""
    kind = Kind.DYN if node.type is None else node.type.kind
    if letter != "s":
        return None if kind is Kind.DYN or kind in _SUITABLE[letter] else node
    if kind is not Kind.DYN and kind not in _SHOWN:
        return node
    parts: list[ast.Node] = []
    if isinstance(node, ast.ListLiteral):
        parts = node.elements
    elif isinstance(node, ast.MapLiteral):
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((unfit for part in parts if (unfit := _unfit("s", part)) is not None), None)


_READ = ("duration", "timestamp", "matches")


def further_issues(tree: ast.Node) -> list[Issue]:
    """The issues of a well-typed tree, in the reference's order."""
    nodes = list(ast.walk(tree))
    formats = [node for node in nodes if isinstance(node, ast.Call) and node.function == "format"]
    exempt = {id(below) for node in formats for below in ast.walk(node)}
    problems = [issue for node in formats for issue in format_issues(node)]
    problems += [issue for name in _READ for node in nodes for issue in _literal(node, name)]
    for node in nodes:
        if isinstance(node, ast.ListLiteral | ast.MapLiteral) and id(node) not in exempt:
            problems += _mixed(node)
    return problems


def _literal(node: ast.Node, name: str) -> Iterator[Issue]:
    if not isinstance(node, ast.Call) or node.function != name or not node.args:
        return
    literal = node.args[0]
    if not isinstance(literal, ast.Literal) or (name == "matches" and not isinstance(literal.value, str)):
        return
    read = compile_pattern if name == "matches" else node.overloads[0].call
    try:
        if read is not None:
            read(literal.value)
    except CelError as error:
        yield Issue(literal.position, f"invalid {name} argument", error.message)


def _mixed(node: ast.ListLiteral | ast.MapLiteral) -> Iterator[Issue]:
    """The elements, keys or values whose types are not those of the first; of a list only the first such element."""
    if isinstance(node, ast.ListLiteral):
        rows = [[(element, index in node.optional)] for index, element in enumerate(node.elements)]
    else:
        rows = [[(entry.key, False), (entry.value, entry.optional)] for entry in node.entries]
    for row in rows[1:]:
        for first, (part, optional) in zip(rows[0], row, strict=True):
            expected, own = _content(*first), _content(part, optional)
            if not equivalent(expected, own):
                hint = "all elements have to be of one type; wrap each in dyn(...) where they really differ"
                yield Issue(part.position, f"expected type '{expected}' but found '{own}'", hint)
                if isinstance(node, ast.ListLiteral):
                    return


def _content(node: ast.Node, optional: bool) -> Type:  # noqa: FBT001 - it belongs to the node
    type_ = node.type
    assert type_ is not None  # noqa: S101 - the checker has set it
    return type_.parameters[0] if optional and type_.parameters else type_
