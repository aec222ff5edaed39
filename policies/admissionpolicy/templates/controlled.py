"""What a workload's controller adds to its Pods, as expressions on the workload.

The names `object`, `item` (the template's element of a list) and `key` (its key in a map) stand for what they are in
the expressions of `reach.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from policies.admissionpolicy.pods.controller import CONTROLLERS, INDEX, OWNERLESS, Controller
from policies.admissionpolicy.pods.derivation import INHERITED
from policies.admissionpolicy.templates.folding import surely
from policies.admissionpolicy.templates.trees import (
    call,
    entries,
    filled,
    ident,
    items,
    joined,
    literal,
    names,
    optional,
    rebuilt,
)
from policies.cel.syntax.ast import Entry, Literal, MapLiteral, Node
from policies.objects.fieldpath import Pattern, Step, Wildcard, parse
from policies.objects.workload import Workload

_STABLE = ("", "apps", "batch")
"""Groups that have one version."""
ITEM: Final = "item"
KEY: Final = "key"
_BLOCKS = "blockOwnerDeletion"
_FIELD = re.compile(r"\{([^}]*)\}")
_NAME = "object.metadata.?name.orValue(object.metadata.?generateName.orValue('') + '0')"
_PREFIX = "has(object.metadata.name) ? object.metadata.name + '-' : object.metadata.?generateName.orValue('')"


def generate_name() -> Node:
    """The generateName of the Pods."""
    return filled(_PREFIX)


def controllers(kind: tuple[str, str], template: Pattern) -> tuple[Controller, ...]:
    """The rows of the table that may be about a template of a kind, the first that fits counting."""
    rows = []
    for row in CONTROLLERS.get(kind, ()):
        pattern = parse(row.template) if row.template else template
        if len(pattern) == len(template) and all(map(_may_meet, pattern, template)):
            rows.append(row)
            if all(map(_covers, pattern, template)):
                return tuple(rows)
    return (*rows, Controller())


def _may_meet(left: Step, right: Step) -> bool:
    return left == right or isinstance(left, Wildcard) or isinstance(right, Wildcard)


def _covers(left: Step, right: Step) -> bool:
    return left == right or isinstance(left, Wildcard)


def labels(controller: Controller, template: Pattern) -> Mapping[str, Node]:
    """The optional values of the labels that are added, by key."""
    added = {key: _optional(text, template) for key, text in controller.labels.items()}
    if controller.completion_mode:
        mode = _steps(parse(controller.completion_mode), template)
        default = literal("Indexed" if controller.is_indexed else "NonIndexed")
        text = "_mode.orValue(_default) == 'Indexed' ? optional.of('0') : optional.none()"
        added[INDEX] = filled(text, _mode=mode, _default=default)
    return added


def inherited(row: Workload, template: Pattern) -> Mapping[str, Node]:
    """The optional values of the annotations that Pods take from around their template, unless it has its own."""
    holders = [template[: len(job)] for job in sorted(row.jobs, key=len, reverse=True)]
    found: dict[str, Node] = {}
    for key in INHERITED:
        ways = [optional(_steps((*holder, "metadata", "annotations"), template), key) for holder in [*holders, ()]]
        value = ways[0]
        for way in ways[1:]:
            value = call("or", way, target=value)
        found[key] = value
    return found


def owners(controller: Controller, kind: tuple[str, str], template: Pattern) -> Node | None:
    """The list of owner references; None if no controller creates Pods."""
    if kind in OWNERLESS:
        return None
    group, word = kind
    api_version = filled("request.kind.version")
    if group in _STABLE:
        api_version = literal(f"{group}/v1".lstrip("/"))
    elif group:
        api_version = joined("_+_", [literal(f"{group}/"), api_version])
    own = (("apiVersion", api_version), ("kind", literal(word)), ("name", filled(_NAME)))
    if controller.owner is None:
        return items(_reference(*own, controls=True))
    between = controller.owner
    name = _text(between.name, template)
    made = (("apiVersion", literal(between.api_version)), ("kind", literal(between.kind)), ("name", name))
    return items(_reference(*made, controls=True), _reference(*own, controls=False))


def typed(node: Node) -> Node:
    """A tree in which owner references compile: their values have several types, so that each has to be `dyn`.

    Only for a tree that is final, because `dyn` hides constants from further simplification.
    """
    node = rebuilt(node, typed)
    if not isinstance(node, MapLiteral) or not any(_is_key(entry, _BLOCKS) for entry in node.entries):
        return node
    dynamic = [Entry(e.key, call("dyn", e.value), e.optional, position=-1, start=-1, end=-1) for e in node.entries]
    return MapLiteral(dynamic, position=-1, start=-1, end=-1)


def _is_key(entry: Entry, key: str) -> bool:
    return isinstance(entry.key, Literal) and entry.key.value == key


def _reference(*fields: tuple[str, Node], controls: bool) -> Node:
    return entries(*fields, ("controller", literal(controls)), (_BLOCKS, literal(controls)))


def depends_on_place(node: Node) -> bool:
    """Whether an expression reads the template's own element or key."""
    return bool({ITEM, KEY} & set(names(node)))


def _optional(text: str, template: Pattern) -> Node:
    fields = _FIELD.findall(text)
    if len(fields) == 1 and text == f"{{{fields[0]}}}" and fields[0] not in ("*", "metadata.name"):
        return _steps(parse(fields[0]), template)
    return filled("optional.of(_text)", _text=_text(text, template))


def _text(text: str, template: Pattern) -> Node:
    parts = list(_parts(text, template))
    return joined("_+_", parts) if parts else literal("")


def _parts(text: str, template: Pattern) -> Iterator[Node]:
    """The constant parts and the fields of a text."""
    for index, part in enumerate(_FIELD.split(text)):
        if index % 2 == 0:
            if part:
                yield literal(part)
        elif part == "*":
            yield call("lowerAscii", target=ident(KEY))
        elif part == "metadata.name":
            yield filled(_NAME)
        else:
            value = _steps(parse(part), template)
            yield surely(value) or call("orValue", literal(""), target=value)


def _steps(pattern: Pattern, template: Pattern) -> Node:
    """The optional value of a field of the workload; from a wildcard on, that of the template's own element."""
    node, rest = ident("object"), pattern
    for index, step in enumerate(pattern):
        if isinstance(step, Wildcard) and index < len(template) and template[index] is step:
            node, rest = ident(ITEM), pattern[index + 1 :]
    result: Node = node
    for step in rest:
        result = call("_?._", result, literal(step))
    return result
