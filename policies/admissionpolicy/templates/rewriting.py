"""Rewrites an expression on a Pod into one on a pod template of a workload, with the same outcome.

This is an abstract evaluation as in policies/cel/reads.py: along with its new tree, every part of an expression has the
places in the Pod from which its value may come. `steps.py` says where the Pod has something else than the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from policies.admissionpolicy.templates import fields
from policies.admissionpolicy.templates.fields import shown
from policies.admissionpolicy.templates.folding import folded
from policies.admissionpolicy.templates.origin import COMPUTED, Origin, Part
from policies.admissionpolicy.templates.steps import (
    Steps,
    Subject,
    UnexportableError,
    is_amount,
    place_of,
    requests_of,
    settled,
    sibling,
    value,
)
from policies.admissionpolicy.templates.trees import call, entries, filled, has_value, literal, names, otherwise
from policies.cel.syntax.ast import (
    Call,
    Entry,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.macros import METHODS

_POD_KIND = {"group": "", "version": "v1", "kind": "Pod"}
_POD_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_SAME_ELEMENTS = frozenset({"slice", "reverse", "distinct", "sort"})
_NAMESPACES = frozenset({"optional", "sets", "math", "strings", "base64", "lists"})
"""What stands before the point in the names of functions."""

Scope = Mapping[str, Origin]


def rewritten(tree: Node, subject: Subject) -> Part:
    """The expression on the template, simplified. Raises UnexportableError."""
    part = _Walk(subject).settled_part(tree, {})
    return Part(folded(part.node), part.origin)


class _Walk(Steps):
    """One walk over one expression."""

    def part(self, node: Node, scope: Scope) -> Part:  # noqa: PLR0911 - a return for each kind of node
        """The rewritten node."""
        match node:
            case Ident():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case ListLiteral():
                return self._list(node, scope)
            case MapLiteral():
                pairs = [
                    Entry(self._whole(e.key, scope), self._whole(e.value, scope), e.optional, **place_of(e))
                    for e in node.entries
                ]
                return Part(MapLiteral(pairs, **place_of(node)))
            case StructLiteral():
                values = [
                    FieldValue(f.name, self._whole(f.value, scope), f.optional, **place_of(f)) for f in node.fields
                ]
                return Part(StructLiteral(node.type_name, values, **place_of(node)))
            case Literal():
                return Part(node, Origin(texts=frozenset({node.value})) if isinstance(node.value, str) else COMPUTED)
            case _:
                raise TypeError(node)

    def settled_part(self, node: Node, scope: Scope) -> Part:
        """The rewritten node, as a value of its own."""
        return settled(self.part(node, scope))

    def _list(self, node: ListLiteral, scope: Scope) -> Part:
        parts = [self.settled_part(element, scope) for element in node.elements]
        origin = None
        for index, part in enumerate(parts):
            own = part.origin.plain if index in node.optional else part.origin
            origin = own if origin is None else origin | own
        tree = ListLiteral([value(part) for part in parts], node.optional, **place_of(node))
        return Part(tree, Origin(items=origin))

    def _whole(self, node: Node, scope: Scope) -> Node:
        """A value that is read with everything in it: compared, computed with, or returned."""
        part = self.settled_part(node, scope)
        self.read_whole(node, part.origin)
        return part.node

    # Names

    def _name(self, node: Ident, scope: Scope) -> Part:
        if node.name in scope:
            return Part(node, scope[node.name])
        if node.name == "object":
            return Part(self.reach.new, Origin(frozenset({("object",)})))
        if node.name == "oldObject":
            return self._old_object()
        if node.name == "variables":
            raise UnexportableError(node, "reads `variables` as a whole")
        return Part(node)

    def _old_object(self) -> Part:
        """The Pod before: null if there is none, or if the rule never sees one."""
        if not self.subject.updates:
            return Part(literal(None))
        tree = filled("_fresh ? null : _old", _fresh=self.reach.fresh, _old=self.reach.old)
        return Part(tree, Origin(frozenset({("oldObject",)})))

    def _variable(self, node: Select) -> Part:
        part = self.subject.variables.get(node.field)
        if part is None:
            return Part(node)
        if self.reach.variable and self._is_of_element(part.node):
            return part
        return Part(node, part.origin)

    def _is_of_element(self, node: Node) -> bool:
        return self.reach.variable in set(names(node))

    def _select(self, node: Select, scope: Scope) -> Part:
        operand = node.operand
        if isinstance(operand, Ident) and operand.name not in scope:
            if operand.name == "variables":
                return self._variable(node)
            if operand.name == "request":
                return self._request(node, node.field)
            if operand.name == "authorizer" and node.field == "requestResource":
                return Part(filled("authorizer.group('').resource('pods').namespace(request.namespace)"))
        return self.step(node, self._operand(operand, scope), node.field, "select")

    def _operand(self, node: Node, scope: Scope) -> Part:
        """What something is selected from. The old object is there, or the selection fails."""
        if isinstance(node, Ident) and node.name == "oldObject" and node.name not in scope and self.subject.updates:
            return Part(self.reach.old, Origin(frozenset({("oldObject",)})))
        return self.part(node, scope)

    def _request(self, node: Node, name: str) -> Part:
        if name == "operation":
            return Part(self.reach.operation if self.subject.updates else literal("CREATE"))
        if name in ("kind", "resource"):
            known = _POD_KIND if name == "kind" else _POD_RESOURCE
            return Part(entries(*((key, literal(value)) for key, value in known.items())))
        if name == "name":
            raise UnexportableError(node, "reads request.name, which is not known for Pods that a controller creates")
        return Part(node)

    # Calls

    def _call(self, node: Call, scope: Scope) -> Part:
        special = _CALLS.get((node.function, node.target is not None))
        if special is not None:
            return special(self, node, scope)
        if node.target is not None and (node.function, len(node.args)) in METHODS and isinstance(node.args[0], Ident):
            return self._macro(node, node.target, scope)
        return self._generic(node, scope)

    def _generic(self, node: Call, scope: Scope) -> Part:
        """A call that reads all of its arguments."""
        target = node.target
        namespace = isinstance(target, Ident) and target.name in (
            "optional",
            "sets",
            "math",
            "strings",
            "base64",
            "lists",
        )
        made = target if target is None or namespace else self._whole(target, scope)
        return Part(Call(node.function, made, [self._whole(a, scope) for a in node.args], **place_of(node)))

    def of_has(self, node: Call, scope: Scope) -> Part:
        selected = node.args[0]
        if not isinstance(selected, Select):
            return self._generic(node, scope)
        operand = selected.operand
        if isinstance(operand, Ident) and operand.name in ("variables", "request") and operand.name not in scope:
            if (operand.name, selected.field) == ("request", "name"):
                return Part(literal(value=False))
            return Part(node)
        return self.step(selected, self._operand(operand, scope), selected.field, "has")

    def of_field(self, node: Call, scope: Scope) -> Part:
        """`a.?b`, `a['b']`, `a[?b]`."""
        operand, key = node.args
        mode = "select" if node.function == "_[_]" else "optional"
        if isinstance(operand, Ident) and operand.name == "request" and operand.name not in scope:
            if isinstance(key, Literal) and key.value == "name":
                return Part(filled("optional.none()"), Origin(optional=True))
            return Part(node, Origin(optional=mode == "optional"))
        held = self._operand(operand, scope)
        if isinstance(key, Literal) and isinstance(key.value, str):
            return self.step(node, held, key.value, mode)
        return self._computed_key(node, held, key, mode, scope)

    def _computed_key(self, node: Call, held: Part, key: Node, mode: str, scope: Scope) -> Part:
        """A step by a key or an index that is not written as a constant."""
        made = self.part(key, scope)
        origin = held.origin.elements if mode == "select" else held.origin.elements.perhaps
        base = held.node if held.soft is None or mode == "select" else held.soft
        if any(place[1:] in fields.REQUESTS for place in held.origin.at):
            holder = held.node if held.soft is None else held.soft
            limits = sibling(node, holder, "requests", "limits")
            ways = [call("_[?_]", way, value(made)) for way in (requests_of(held, limits, mode), limits)]
            return self.taken(call("or", ways[1], target=ways[0]), mode, origin)
        self.check_key(node, held.origin, made.origin)
        function = "_[_]" if mode == "select" else "_[?_]"
        return Part(Call(function, None, [base, value(made)], **place_of(node)), origin)

    def of_in(self, node: Call, scope: Scope) -> Part:
        key, over = node.args
        held = self.part(over, scope)
        if isinstance(key, Literal) and isinstance(key.value, str) and held.origin.at and not held.origin.items:
            known = {self.known(place) for place in held.origin.below(key.value).at}
            if any(known):
                return self.step(node, held, key.value, "has")
        made = self.part(key, scope)
        self.read_whole(key, made.origin)
        if any(place[1:] in fields.REQUESTS for place in held.origin.at):
            holder = held.node if held.soft is None else held.soft
            limits = sibling(node, holder, "requests", "limits")
            ways = [has_value(call("_[?_]", way, value(made))) for way in (requests_of(held, limits, "has"), limits)]
            return Part(call("_||_", *ways))
        self.check_key(node, held.origin, made.origin)
        return Part(call("@in", value(made), value(held)))

    def of_equal(self, node: Call, scope: Scope) -> Part:
        """A comparison. With null, only the presence of a value is read."""
        for one, other in (node.args, node.args[::-1]):
            if not (isinstance(one, Literal) and one.value is None):
                continue
            if isinstance(other, Ident) and other.name == "oldObject" and other.name not in scope:
                fresh = self.reach.fresh if self.subject.updates else literal(value=True)
                return Part(fresh if node.function == "_==_" else call("!_", fresh))
            return Part(call(node.function, value(self.part(other, scope)), one))
        return self._generic(node, scope)

    def of_choice(self, node: Call, scope: Scope) -> Part:
        condition = self._whole(node.args[0], scope)
        then, other = (self.settled_part(argument, scope) for argument in node.args[1:])
        known = folded(condition)
        if isinstance(known, Literal) and isinstance(known.value, bool):
            return then if known.value else other
        tree = Call(node.function, None, [condition, value(then), value(other)], **place_of(node))
        return Part(tree, then.origin | other.origin)

    def of_plus(self, node: Call, scope: Scope) -> Part:
        left, right = (self.settled_part(argument, scope) for argument in node.args)
        tree = Call(node.function, None, [value(left), value(right)], **place_of(node))
        elements = left.origin.elements | right.origin.elements
        return Part(tree, Origin(items=elements) if elements != COMPUTED else COMPUTED)

    def of_or_value(self, node: Call, scope: Scope) -> Part:
        held, other = self.part(self._target(node), scope), self.part(node.args[0], scope)
        origin = held.origin.plain | other.origin.plain
        if held.origin.at or held.origin.items:
            origin = replace(held.origin.plain | other.origin.plain, texts=None)
        if node.function == "or":
            origin = origin.perhaps
        if held.whole is not None and node.function == "orValue":
            tree, whole = (otherwise(way, value(other)) for way in (held.node, held.whole))
            return Part(tree, held.origin.plain, soft=held.soft, whole=whole)
        if held.soft is not None and held.whole is None and held.origin.optional:
            # The Pod has at least an empty map, so the other value never counts.
            empty = isinstance(node.args[0], MapLiteral) and not node.args[0].entries
            pod_has = not any(self.known(place) in (("requests",), ("labels",)) for place in held.origin.at)
            soft = held.soft if (empty or pod_has) and node.function == "orValue" else None
            return Part(otherwise(held.soft, entries() if pod_has else value(other)), origin, soft=soft)
        return Part(Call(node.function, value(held), [value(other)], **place_of(node)), origin)

    def of_value_of(self, node: Call, scope: Scope) -> Part:
        """`.value()`, and `first` and `last`, of what is at a place."""
        held = self.part(self._target(node), scope)
        if held.soft is not None and held.origin.optional and node.function == "value":
            return Part(call("value", target=held.soft), held.origin.plain, soft=held.soft)
        origin = held.origin.plain if node.function == "value" else held.origin.elements.perhaps
        return Part(Call(node.function, value(held), [], **place_of(node)), origin)

    def of_wrapped(self, node: Call, scope: Scope) -> Part:
        """`dyn(a)`, `optional.of(a)`."""
        if node.target is not None and not (isinstance(node.target, Ident) and node.target.name == "optional"):
            return self._generic(node, scope)
        held = self.part(node.args[0], scope)
        origin = held.origin if node.target is None else held.origin.perhaps
        return Part(Call(node.function, node.target, [value(held)], **place_of(node)), origin)

    def of_unread(self, node: Call, scope: Scope) -> Part:
        """A call that reads no more than whether something is there, its type and its size."""
        target = node.target
        held = self.part(node.args[0] if target is None else target, scope)
        if node.function == "size":
            for place in held.origin.at:
                self.refuse_map(node, place)
                if self.has_fields(place):
                    raise UnexportableError(node, f"reads the number of fields of {shown(place[1:])}")
        elif node.function == "hasValue" and held.soft is not None:
            if any(self.known(place) == ("map",) for place in held.origin.at):
                return Part(literal(value=True))
            return Part(has_value(held.soft))
        made = None if target is None else value(held)
        return Part(Call(node.function, made, [value(held)] if target is None else [], **place_of(node)))

    def of_elements(self, node: Call, scope: Scope) -> Part:
        """A list with the same elements, or with those of its elements."""
        held = self.part(self._target(node), scope)
        arguments = [self._whole(argument, scope) for argument in node.args]
        elements = held.origin.elements
        if node.function == "flatten":
            inner = elements.elements
            elements = elements | inner if inner != COMPUTED else elements
        if node.function in ("sort", "distinct"):
            self.read_whole(node, held.origin)
        return Part(Call(node.function, value(held), arguments, **place_of(node)), Origin(items=elements))

    def of_quantity(self, node: Call, scope: Scope) -> Part:
        """`quantity(a)`: in a custom resource, the amount may be a number."""
        part = self.part(node.args[0], scope) if node.args else COMPUTED
        if isinstance(part, Part) and any(is_amount(place[1:]) for place in part.origin.at):
            return Part(call(node.function, call("string", value(part))))
        return self._generic(node, scope)

    def _target(self, node: Call) -> Node:
        assert node.target is not None  # noqa: S101 - the table of calls says so
        return node.target

    # Macros

    def _macro(self, node: Call, over: Node, scope: Scope) -> Part:
        perhaps = node.function in ("optMap", "optFlatMap")
        held = self.part(over, scope) if perhaps else self.settled_part(over, scope)
        if held.whole is not None:
            held = settled(held)
        # Three arguments of `map` are a variable, a condition and a value; else the second is a variable, too.
        two = len(node.args) > 2 and node.function not in ("map", "sortBy")
        names = [argument.name for argument in node.args[: 2 if two else 1] if isinstance(argument, Ident)]
        inner = dict(scope)
        if perhaps:
            inner[names[0]] = held.origin.plain
        else:
            self.check_range(over, held.origin)
            elements = held.origin.elements
            inner[names[0]] = COMPUTED if two else elements
            if two:
                inner[names[1]] = elements
        declared = 2 if two else 1
        parts = [self.settled_part(argument, inner) for argument in node.args[declared:]]
        base = held.soft if perhaps and held.soft is not None else value(held)
        tree = Call(node.function, base, [*node.args[:declared], *map(value, parts)], **place_of(node))
        return Part(tree, self._of_macro(node, held, parts))

    def _of_macro(self, node: Call, held: Part, parts: list[Part]) -> Origin:
        result = parts[-1].origin
        if node.function in ("map", "transformList"):
            return Origin(items=result)
        if node.function in ("filter", "sortBy"):
            return Origin(items=held.origin.elements)
        if node.function in ("optMap", "optFlatMap"):
            return result.perhaps
        if node.function.startswith("transformMap"):
            self.read_whole(node, result)
        return COMPUTED


_Handler = Callable[[_Walk, Call, Scope], Part]
_CALLS: Mapping[tuple[str, bool], _Handler] = {
    ("has", False): _Walk.of_has,
    **dict.fromkeys((("_[_]", False), ("_[?_]", False), ("_?._", False)), _Walk.of_field),
    ("@in", False): _Walk.of_in,
    **dict.fromkeys((("_==_", False), ("_!=_", False)), _Walk.of_equal),
    ("_?_:_", False): _Walk.of_choice,
    ("_+_", False): _Walk.of_plus,
    **dict.fromkeys((("orValue", True), ("or", True)), _Walk.of_or_value),
    **dict.fromkeys((("value", True), ("first", True), ("last", True)), _Walk.of_value_of),
    **dict.fromkeys((("dyn", False), ("of", True)), _Walk.of_wrapped),
    **dict.fromkeys((("size", True), ("size", False), ("type", False), ("hasValue", True)), _Walk.of_unread),
    **{(name, True): _Walk.of_elements for name in (*_SAME_ELEMENTS, "flatten")},
    **dict.fromkeys((("quantity", False), ("isQuantity", False)), _Walk.of_quantity),
}
