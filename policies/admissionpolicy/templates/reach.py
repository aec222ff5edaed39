"""How an expression reaches the templates of a kind of workload: one at a fixed path, or a list of them.

One template is reached by its path: `object.spec.template`. Several become a list, the variable `templates`, whose
elements have the `path`, the template itself (`new`), on updates the one before (`old`), and what a controller adds to
its Pods where that depends on the template (`added`). The validations then go over the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from policies.admissionpolicy.templates.controlled import ITEM, KEY
from policies.admissionpolicy.templates.folding import folded
from policies.admissionpolicy.templates.trees import (
    call,
    entries,
    filled,
    has_value,
    ident,
    items,
    joined,
    literal,
    optional,
    otherwise,
    pick,
    replaced,
)
from policies.cel.syntax.ast import Node
from policies.objects.fieldpath import Pattern, Wildcard, render
from policies.objects.shape import STANDARD, Shape

TEMPLATES = "templates"
OWNERS = "owners"


class Reach(NamedTuple):
    """Expressions for the template and the one before it.

    new, old: the templates; `old` fails if there is none. fresh: whether there is no old one. operation: that of the
    Pod's request. variable: the name of a list's element, empty for a template at a fixed path.
    """

    new: Node
    old: Node
    fresh: Node
    operation: Node
    variable: str = ""


def is_single(patterns: Sequence[Pattern]) -> bool:
    """Whether a kind has one template at a fixed path."""
    return len(patterns) == 1 and not any(isinstance(step, Wildcard) for step in patterns[0])


def single(pattern: Pattern, *, surely: bool) -> Reach:
    """The template at a fixed path, for requests in which it is there. surely: whether every object has one."""
    new, old = (_along(ident(root), pattern) for root in ("object", "oldObject"))
    fresh = filled("oldObject == null")
    if surely:
        return Reach(new, old, fresh, filled("request.operation"))
    fresh = filled("_fresh || !_old.hasValue()", _fresh=fresh, _old=_optionally(ident("oldObject"), pattern))
    return Reach(new, old, fresh, filled("_fresh ? 'CREATE' : 'UPDATE'", _fresh=fresh))


def of_element(variable: str) -> Reach:
    """The template in an element of the list."""
    element = ident(variable)
    has_old = call("has", pick(element, "old"))
    operation = call("_?_:_", has_old, literal("UPDATE"), literal("CREATE"))
    return Reach(pick(element, "new"), pick(element, "old"), call("!_", has_old), operation, variable)


def changed(pattern: Pattern) -> Node:
    """The condition that there is a template at a fixed path and that it is not as it was."""
    new, old = (_optionally(ident(root), pattern) for root in ("object", "oldObject"))
    there = has_value(new)
    text = "_there && (oldObject == null || _new != _old)"
    return filled(text, _there=there, _new=new, _old=old)


def owners_of(variable: str) -> Node:
    """The owner references in an element of the list."""
    return pick(ident(variable), OWNERS)


def elements(pattern: Pattern, shape: Shape, added: Mapping[str, Node], owners: Node | None, *, old: bool) -> Node:
    """The list of the elements for the templates at a pattern. Raises ValueError if it has several wildcards.

    added: optional values of labels, in which `item` and `key` may occur, like in the owners; these are shown unless
    they are None. old: whether to show the templates before. shape: of the templates, which are shown as Kubernetes
    writes them.
    """
    wild = [index for index, step in enumerate(pattern) if isinstance(step, Wildcard)]
    if len(wild) > 1:
        raise ValueError(f"{render(pattern)} leads through several lists")
    if not wild:
        new = _optionally(ident("object"), pattern)
        before = _old(pattern, None) if old else None
        element = _element(literal(render(pattern)), ident("new"), before, added, owners)
        return call("map", ident("new"), element, target=items(new, optional=True))
    (at,) = wild
    above, below = pattern[:at], pattern[at + 1 :]
    before = _old(pattern, at) if old else None
    if pattern[at] is Wildcard.ITEMS:
        return _items(pattern, at, shape, before, (added, owners))
    over = otherwise(_optionally(ident("object"), above), entries())
    path = _path(f"{render(above)}.", ident(KEY), f".{render(below)}")
    item = call("_[_]", _along(ident("object"), above), ident(KEY))
    here = {ITEM: item}
    labels = {label: replaced(value, here) for label, value in added.items()}
    element = _element(path, _along(item, below), before, labels, None if owners is None else replaced(owners, here))
    keys = call("sort", target=call("map", ident(KEY), ident(KEY), target=over))
    there = has_value(_optionally(item, below))
    return call("map", ident(KEY), there, element, target=keys)


def _items(
    pattern: Pattern, at: int, shape: Shape, before: Node | None, more: tuple[Mapping[str, Node], Node | None]
) -> Node:
    """The elements for the templates in a list. before: the old template. more: labels and owners."""
    above, below = pattern[:at], pattern[at + 1 :]
    path = _path(f"{render(above)}[", call("string", ident("index")), f"].{render(below)}".rstrip("."))
    if shape != STANDARD and before is not None:
        before = filled("_before.optMap(before, _view)", _before=before, _view=_view(shape, ident("before")))
    element = _element(path, _view(shape, _along(ident(ITEM), below)), before, *more)
    over = otherwise(_optionally(ident("object"), above), items())
    conditions = [has_value(_optionally(ident(ITEM), below))] if below else []
    return call("transformList", ident("index"), ident(ITEM), *conditions, element, target=over)


def _view(shape: Shape, template: Node) -> Node:
    """The template as Kubernetes writes one."""
    if shape == STANDARD:
        return template
    labels, annotations, spec = (_optionally(template, part) for part in (shape.labels, shape.annotations, shape.spec))
    metadata = entries(("labels", labels), ("annotations", annotations), optional=("labels", "annotations"))
    return call("dyn", entries(("metadata", call("dyn", metadata)), ("spec", spec), optional=("spec",)))


def templates(lists: Sequence[Node], conditions: Sequence[Node], variable: str) -> Node:
    """The variable `templates`: the elements that meet the conditions."""
    whole = joined("_+_", list(lists))
    conditions = list(map(folded, conditions))
    if not conditions:
        return whole
    return call("filter", ident(variable), joined("_&&_", conditions), target=whole)


def is_changed(variable: str) -> Node:
    """The condition that an element's template is not as it was."""
    return filled("!has(_e.old) || _e.new != _e.old", _e=ident(variable))


def _element(path: Node, new: Node, old: Node | None, added: Mapping[str, Node], owners: Node | None) -> Node:
    fields: list[tuple[str, Node]] = [("path", call("dyn", path)), ("new", new)]
    if old is not None:
        fields.append(("old", old))
    if added:
        fields.append(("added", call("dyn", entries(*added.items(), optional=tuple(added)))))
    if owners is not None:
        fields.append((OWNERS, call("dyn", owners)))
    return entries(*fields, optional=("old",))


def _old(pattern: Pattern, wild: int | None) -> Node:
    """The optional old template at the same place."""
    node: Node = ident("oldObject")
    for index, step in enumerate(pattern):
        if index == wild:
            node = call("_[?_]", node, ident("index" if step is Wildcard.ITEMS else KEY))
        else:
            node = optional(node, str(step))
    none = filled("optional.none()")
    return call("_?_:_", filled("oldObject == null"), none, node)


def _path(before: str, middle: Node, after: str) -> Node:
    return joined("_+_", [literal(before), middle, literal(after)])


def _along(node: Node, steps: Pattern) -> Node:
    for step in steps:
        node = pick(node, str(step))
    return node


def _optionally(node: Node, steps: Pattern) -> Node:
    for step in steps:
        node = optional(node, str(step))
    return node
