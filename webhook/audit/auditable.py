"""Which policies can be asked about objects that exist, without a request that somebody made.

An audit asks about the creation of an object by somebody who is not exempt. Then there is no old object, and match
conditions that leave requesters out are true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import Struct

from policies.admissionpolicy.model import Policy
from policies.cel.checking.validation import children, walk
from policies.cel.kubernetes import admission
from policies.cel.program import NO_VARIABLES, compile_expression
from policies.cel.syntax.ast import (
    Call,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import CompileError, Source
from policies.cel.syntax.unparse import unparse
from webhook.audit.creation import ANYBODY

_WRITES: Final = frozenset({"CREATE", "*"})
_OLD, _USER, _AUTHORIZER = "oldObject", "request.userInfo", "authorizer"
_ANYBODY: Final[Mapping[str, Any]] = {
    "request": {"userInfo": {"username": ANYBODY.username, "groups": list(ANYBODY.groups)}},
    **dict.fromkeys(("object", "oldObject", "namespaceObject", "params")),
    "variables": NO_VARIABLES,
}


class NotAuditable(Struct, frozen=True):
    """A rule or policy that is not asked, and why. kind: of a policy."""

    policy: str
    reason: str
    kind: str = ""


def reason(policy: Policy) -> str:
    """Why a policy cannot be asked about objects that exist; empty if it can."""
    rules = policy.match_constraints.resource_rules
    if not any(_WRITES.intersection(rule.operations) for rule in rules):
        operations = dict.fromkeys(operation for rule in rules for operation in rule.operations)
        return f"it judges {' and '.join(operations)}, which is nothing that an object shows"
    if any(_AUTHORIZER in _names(tree) for tree in filter(None, map(_tree, _texts(policy)))):
        return f"it reads {_AUTHORIZER}, which is known of a request only"
    judging = [_known(text) for text in _texts(policy)]
    conditions = [_known(condition.expression.text) for condition in policy.match_conditions]
    read = _read(filter(None, (*judging, *conditions)), users=False) or _read(filter(None, judging), users=True)
    if read:
        return f"it reads {read}, which is known of a request only"
    if any(condition is not None and not _may_hold(condition) for condition in conditions):
        return f"it reads {_USER} to choose whose requests it judges"
    validations = [_known(validation.expression.text) for validation in policy.validations]
    if (
        validations
        and all(isinstance(tree, Literal) and tree.value is True for tree in validations)
        and _compares(policy)
    ):
        return f"it reads {_OLD}, and says nothing without one"
    return ""


def _texts(policy: Policy) -> Iterator[str]:
    """The expressions that decide, without the conditions and messages."""
    yield from (variable.expression.text for variable in policy.variables)
    yield from (validation.expression.text for validation in policy.validations)
    yield from (mutation.expression.text for mutation in policy.mutations)
    yield from (annotation.value_expression.text for annotation in policy.audit_annotations)


def _tree(text: str) -> Node | None:
    """The tree of an expression; None if it does not compile, and fails everywhere."""
    try:
        return parse(Source(text), expand=False)
    except CompileError:
        return None


def _known(text: str) -> Node | None:
    """The tree of an expression when an object is created; None if it does not compile."""
    tree = _tree(text)
    return None if tree is None else _folded(_created(tree))


def _created(node: Node) -> Node:
    """The same tree with what is known of a creation: the operation, and that there is no old object."""
    if isinstance(node, Select) and _is(node.operand, "request") and node.field == "operation" and not node.test_only:
        return _literal("CREATE")
    if isinstance(node, Call) and node.function in ("_==_", "_!=_") and _is_about_presence(node.args):
        return _literal(node.function == "_==_")
    return _rebuilt(node, _created)


def _literal(value: Any) -> Literal:
    return Literal(value, position=-1, start=-1, end=-1)


def _rebuilt(node: Node, visit: Callable[[Node], Node]) -> Node:
    """A node with other children."""
    match node:
        case Select():
            return replace(node, operand=visit(node.operand))
        case Call():
            target = None if node.target is None else visit(node.target)
            return replace(node, target=target, args=[*map(visit, node.args)])
        case ListLiteral():
            return replace(node, elements=[*map(visit, node.elements)])
        case MapLiteral():
            return replace(
                node, entries=[replace(each, key=visit(each.key), value=visit(each.value)) for each in node.entries]
            )
        case StructLiteral():
            return replace(node, fields=[replace(each, value=visit(each.value)) for each in node.fields])
        case _:
            return node


def _folded(node: Node) -> Node:
    """A tree with the same value, in which constant parts are constants and what they decide is decided."""
    node = _rebuilt(node, _folded)
    if not isinstance(node, Call):
        return node
    match node.function, node.args:
        case "_&&_" | "_||_", [left, right]:
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Literal) and isinstance(one.value, bool):
                    return other if one.value == (node.function == "_&&_") else one
        case "_?_:_", [Literal(value=bool() as chosen), then, otherwise]:
            return then if chosen else otherwise
        case _:
            pass
    return _constant(node)


def _constant(node: Call) -> Node:
    """The value of a call without variables, if it is a scalar; else the call."""
    bound = {"optional", *(arg.name for call in walk(node) if isinstance(call, Call) for arg in _declared(call))}
    if not bound.issuperset(_names(node)):
        return node
    try:
        value = compile_expression(unparse(node), admission()).evaluate({}).value
    except CompileError:
        return node
    return _literal(value) if type(value) in (bool, int, float, str) else node


def _declared(call: Call) -> Iterator[Ident]:
    """The names that a call declares, if it is a macro."""
    if call.target is not None and len(call.args) > 1:
        yield from (arg for arg in call.args[:2] if isinstance(arg, Ident))


def _names(tree: Node) -> set[str]:
    return {node.name for node in walk(tree) if isinstance(node, Ident)}


def _is_about_presence(args: Iterable[Node]) -> bool:
    old = any(_is(arg, _OLD) for arg in args)
    return old and any(isinstance(arg, Literal) and arg.value is None for arg in args)


def _is(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _read(trees: Iterable[Node], *, users: bool) -> str:
    """What trees read that only a request has. users: whether the requester counts."""
    for tree in trees:
        names = _names(tree)
        for name in (_AUTHORIZER, _OLD):
            if name in names:
                return name
        if users and _reads_user(tree):
            return _USER
    return ""


def _reads_user(node: Node) -> bool:
    """Whether the requester is read. `request` alone, as in `dyn(request)`, may be used for anything."""
    if isinstance(node, Select) and _is(node.operand, "request"):
        return node.field == "userInfo"
    return _is(node, "request") or any(map(_reads_user, children(node)))


def _may_hold(condition: Node) -> bool:
    """Whether a match condition does not depend on the requester, or is true for anybody by that alone."""
    if not _reads_user(condition):
        return True
    try:
        program = compile_expression(unparse(condition), admission())
    except CompileError:
        return False
    return program.evaluate(_ANYBODY).value is True


def _compares(policy: Policy) -> bool:
    """Whether an expression names the old object."""
    return any(_OLD in expression.text for expression in policy.expressions)
