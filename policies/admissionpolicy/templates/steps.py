"""The step from a value of a Pod to one of its fields, made on the template instead.

Where the Pod has something else at a place than the template - a default, what a controller adds - the step is another
one. What has no short equivalent raises UnexportableError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.admissionpolicy.templates import fields
from policies.admissionpolicy.templates.controlled import depends_on_place, generate_name
from policies.admissionpolicy.templates.fields import ANNOTATIONS, LABELS, OWNERS, shown
from policies.admissionpolicy.templates.folding import folded, is_safe
from policies.admissionpolicy.templates.origin import COMPUTED, Origin, Part
from policies.admissionpolicy.templates.reach import Reach
from policies.admissionpolicy.templates.trees import (
    call,
    entries,
    filled,
    has_value,
    ident,
    literal,
    optional,
    otherwise,
    present,
    replaced,
)
from policies.cel.syntax.ast import Call, Literal, Node, Select
from policies.objects.fieldpath import Pattern, Wildcard

_COPIED = frozenset({"labels", "annotations", "finalizers"})
_REQUESTS = (
    "_requests.hasValue() || _limits.hasValue() ? optional.of(dyn("
    "(_limits.orValue({}).map(k, k) + _requests.orValue({}).map(k, k)).distinct()"
    ".transformMapEntry(i, k, {k: _requests[?k].or(_limits[?k]).value()}))) : optional.none()"
)
"""What a container requests: what it says, and what it limits."""
_Rule = tuple[object, ...]
"""What is to be done at a place: a word, and what it is about."""


class UnexportableError(Exception):
    """An expression cannot be rewritten. `position`: of the part that cannot, in the original text."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.position = node.position


@dataclass(kw_only=True)
class Subject:
    """The templates that are judged.

    labels: optional values of the labels that the controller adds, by key. annotations: of those that Pods take from
    around their template. owners: the list of owner references, None
    without any. updates: whether the rule sees the Pod before. variables: the rewritten variables of the policy, in its
    order; those that depend on the element of a list are put in place of their names. added: the labels that the
    elements of the list have to show, filled while rewriting.
    """

    reach: Reach
    labels: Mapping[str, Node]
    annotations: Mapping[str, Node]
    owners: Node | None
    updates: bool
    variables: dict[str, Part] = field(default_factory=dict)
    added: dict[str, Node] = field(default_factory=dict)

    def given(self, key: str) -> Node:
        """The optional value of a label or an annotation that the Pods get."""
        made = self.labels.get(key) or self.annotations[key]
        if not depends_on_place(made):
            return made
        self.added[key] = made
        return optional(optional(ident(self.reach.variable), "added"), key)


class Steps:
    """Steps in the Pods of some templates."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.reach = subject.reach

    def read_whole(self, node: Node, origin: Origin) -> None:
        """Refuse to read a value with everything in it where the Pod may have something else in it."""
        for place in origin.at:
            self.refuse_map(node, place)
            for other in self._differing(place):
                raise UnexportableError(node, f"reads {shown(place[1:])} as a whole, but a Pod has its own {other}")
        if origin.items is not None:
            self.read_whole(node, origin.items)

    def _differing(self, place: Pattern) -> list[str]:
        """The places below one in which the Pod may differ from the template."""
        here = place[1:]
        if not here:
            return ["metadata"]
        below = [other for other in fields.differing() if len(other) > len(here) and other[: len(here)] == here]
        if here == ("metadata",):
            return ["ownerReferences"]
        return sorted(map(shown, below))[:1]

    def refuse_map(self, node: Node, place: Pattern) -> None:
        """Refuse to go through all labels if the controller adds some, and through requests, which limits complete."""
        here = place[1:]
        if here == LABELS and self.subject.labels:
            some = ", ".join(sorted(self.subject.labels)[:2])
            raise UnexportableError(
                node, f"reads all labels, but a controller adds its own to the Pods, such as {some}"
            )
        if here in fields.REQUESTS:
            raise UnexportableError(node, f"reads all of {shown(here)}, which Kubernetes completes from the limits")
        if here in fields.UNKNOWN:
            raise UnexportableError(node, f"reads {shown(here)}: {fields.UNKNOWN[here]}")

    def step(self, node: Node, operand: Part, key: str, mode: str) -> Part:
        """The value of a key: `select` it, as an `optional` value, or ask whether it is there (`has`)."""
        origin = operand.origin.below(key) if operand.origin.at else Origin(optional=operand.origin.optional)
        known = {self.known(place) for place in origin.at}
        if mode == "optional":
            origin = origin.perhaps
        if len(known) > 1:
            raise UnexportableError(node, f"reads `{key}` of different things, whose defaults are not the same")
        rule = next(iter(known), ())
        if not rule:
            return self._plain(node, operand, key, mode, origin)
        return self._ruled(node, rule, operand, key, mode, origin)

    def known(self, place: Pattern) -> _Rule:  # noqa: PLR0911 - a return for each kind of place
        """How a place differs in the Pod; empty if it does not."""
        here = place[1:]
        if here in fields.empty_maps():
            return ("map",)
        if here in fields.REQUESTS:
            return ("requests",)
        if here[:-1] in fields.REQUESTS:
            return ("request",)
        if here in fields.fallbacks():
            return "fallback", fields.fallbacks()[here]
        if here in fields.UNKNOWN:
            return "unknown", shown(here)
        if here[:1] == ("metadata",):
            return self._known_metadata(here)
        return here if here in (("apiVersion",), ("kind",), ("status",)) else ()

    def _known_metadata(self, here: Pattern) -> _Rule:
        """How a place in the metadata differs."""
        if here[:-1] == LABELS and here[2] in self.subject.labels:
            return "label", here[2]
        if here == LABELS and self.subject.labels:
            return ("labels",)
        if here[:-1] == ANNOTATIONS and here[2] in self.subject.annotations:
            return "annotation", here[2]
        if here == OWNERS:
            return ("owners",)
        return ("metadata", here[1]) if len(here) == 2 and here[1] not in _COPIED else ()

    def _plain(self, node: Node, operand: Part, key: str, mode: str, origin: Origin) -> Part:
        """A step to a place at which the Pod has what the template has."""
        soft = operand.soft
        if mode == "select":
            return Part(same_step(node, operand.node), origin)
        if mode == "optional":
            return Part(optional(operand.node if soft is None else soft, key), origin)
        return Part(present(operand.node, key) if soft is None else has_value(optional(soft, key)))

    def _ruled(self, node: Node, rule: _Rule, operand: Part, key: str, mode: str, origin: Origin) -> Part:
        holder = operand.node if operand.soft is None else operand.soft
        raw = optional(holder, key)
        word, about = str(rule[0]), rule[-1]
        if word in ("map", "requests", "labels"):
            return self._map(node, word, operand, key, mode, origin)
        if word == "request":
            limits = sibling(node, holder, "requests", "limits")
            made: Node = call("or", optional(limits, key), target=optional(requests_of(operand, limits, mode), key))
        elif word == "label":
            made = call("or", raw, target=self._given(str(about), origin))
        elif word == "annotation":
            made = call("or", self._given(str(about), origin), target=raw)
        elif word == "fallback":
            made = call("or", self._fallback(node, operand, holder, about, origin), target=raw)
        else:
            made, origin = self._replaced(node, word, str(about), origin)
        return self.taken(made, mode, origin)

    def _given(self, key: str, origin: Origin) -> Node:
        made = self.subject.given(key)
        roots = {place[0] for place in origin.at}
        return replaced(made, {"object": ident("oldObject")}) if roots == {"oldObject"} else made

    def _fallback(self, node: Node, operand: Part, holder: Node, rule: object, origin: Origin) -> Node:
        """The optional value of a field that is absent in the template."""
        if not callable(rule):
            raise TypeError(rule)
        perhaps = operand.origin.optional and operand.soft is None
        made: Node = rule(call("value", target=holder) if perhaps else holder, lambda: self._template_of(node, origin))
        if not operand.origin.optional:
            return made
        return filled("_h.hasValue() ? _m : optional.none()", _h=holder, _m=made)

    def taken(self, made: Node, mode: str, origin: Origin) -> Part:
        """An optional value: itself, what is in it, or whether there is something."""
        if mode == "has":
            return Part(folded(has_value(made)))
        if mode == "optional" or origin.optional:
            return Part(folded(made), origin.perhaps)
        return Part(folded(call("value", target=made)), origin)

    def _template_of(self, node: Node, origin: Origin) -> Node:
        roots = {str(place[0]) for place in origin.at}
        if len(roots) > 1:
            raise UnexportableError(node, "reads the same of `object` and of `oldObject` in one place")
        return self.reach.new if roots == {"object"} else self.reach.old

    def _map(self, node: Node, rule: str, operand: Part, key: str, mode: str, origin: Origin) -> Part:
        """A map that the Pod always has, or that is made of several."""
        holder = operand.node if operand.soft is None else operand.soft
        raw = optional(holder, key)
        if mode == "has":
            if rule == "requests":
                either = has_value(raw), has_value(optional(holder, "limits"))
                return Part(call("_||_", *either))
            if rule == "map" and not is_safe(operand.node):
                return Part(filled("type(_holder) == map", _holder=operand.node))
            return Part(literal(value=True)) if rule == "map" or self._surely_labelled() else Part(has_value(raw))
        tree = raw if mode == "optional" else same_step(node, operand.node)
        whole = None
        if rule == "requests":
            whole = filled(_REQUESTS, _requests=raw, _limits=optional(holder, "limits"))
            if mode == "select" and not origin.optional:
                whole = call("value", target=whole)
        return Part(tree, origin, soft=raw, whole=whole)

    def _surely_labelled(self) -> bool:
        return any(not isinstance(value, Call) or value.function == "of" for value in self.subject.labels.values())

    def _replaced(self, node: Node, word: str, about: str, origin: Origin) -> tuple[Node, Origin]:
        """The optional value of a field that the Pod has from elsewhere."""
        if word == "owners":
            if self.subject.owners is None:
                return filled("optional.none()"), COMPUTED
            return filled("optional.of(_owners)", _owners=self.subject.owners), Origin(optional=origin.optional)
        if word in ("apiVersion", "kind"):
            known = "v1" if word == "apiVersion" else "Pod"
            return filled("optional.of(_known)", _known=literal(known)), Origin(optional=origin.optional)
        if about == "namespace":
            return filled("optional.of(request.namespace)"), Origin(optional=origin.optional)
        if about == "generateName":
            return filled("optional.of(_name)", _name=generate_name()), Origin(optional=origin.optional)
        if word == "metadata" and about == "deletionTimestamp":
            return filled("optional.none()"), COMPUTED
        where = f"metadata.{about}" if word == "metadata" else about
        raise UnexportableError(node, f"reads {where}, which is not known before the Pod is there")

    def check_key(self, node: Node, held: Origin, key: Origin) -> None:
        """Refuse a computed key that may be one of a place at which the Pod differs."""
        for place in held.at:
            if place[1:] == LABELS and key.texts is not None and not key.texts & set(self.subject.labels):
                continue
            self.refuse_map(node, place)
            if key.texts is None and (place[1:] in ((), ("metadata",)) or self.has_fields(place)):
                raise UnexportableError(node, f"reads a field of {shown(place[1:])} by a name that is computed")

    def has_fields(self, place: Pattern) -> bool:
        """Whether the Pod may differ in a field directly below a place."""
        here = place[1:]
        return any(other[:-1] == here and isinstance(other[-1], str) for other in fields.differing())

    def check_range(self, node: Node, origin: Origin) -> None:
        """Refuse to go through a map whose keys are others in the Pod."""
        for place in origin.at:
            self.refuse_map(node, place)
            if place[1:] in ((), ("metadata",)) or self.has_fields(place):
                raise UnexportableError(
                    node, f"goes through all fields of {shown(place[1:])}, some of which are defaults"
                )


def settled(part: Part) -> Part:
    """The part as a value of its own, whose fields are no longer those of the template."""
    if part.whole is None:
        return Part(value(part), part.origin)
    return Part(part.whole, Origin(optional=part.origin.optional))


def value(part: Part) -> Node:
    """The expression itself; an empty map where the template may have nothing."""
    if part.whole is not None:
        return part.whole
    if part.soft is None:
        return part.node
    if part.origin.optional:
        return filled("optional.of(_map)", _map=otherwise(part.soft, entries()))
    return otherwise(part.soft, entries())


def place_of(node: Node) -> dict[str, Any]:
    """The position and the span of a node, for one in its place."""
    return {"position": node.position, "start": node.start, "end": node.end}


def same_step(node: Node, operand: Node) -> Node:
    """The step as it was written, from another operand."""
    if isinstance(node, Select):
        return Select(operand, node.field, **place_of(node))
    if isinstance(node, Call) and node.function == "_[_]":
        return Call(node.function, None, [operand, node.args[1]], **place_of(node))
    raise TypeError(node)


def requests_of(operand: Part, limits: Node, mode: str) -> Node:
    """The requests from which a step starts. A step from a field that is absent fails, unless it is an optional one."""
    holder = operand.node if operand.soft is None else operand.soft
    is_field = isinstance(operand.node, Select) or (isinstance(operand.node, Call) and operand.node.function == "_[_]")
    if mode == "select" or operand.origin.optional or not is_field:
        return holder
    return filled("_requests.or(_limits).value()", _requests=holder, _limits=limits)


def sibling(node: Node, holder: Node, key: str, other: str) -> Node:
    """The field beside one that was selected. Raises UnexportableError if it is not seen where it was selected."""
    if isinstance(holder, Call) and holder.function == "orValue" and holder.target is not None:
        holder = holder.target
    if isinstance(holder, Call) and holder.function == "_?._":
        above, field_ = holder.args
        if isinstance(field_, Literal) and field_.value == key:
            return optional(above, other)
    if isinstance(holder, Select) and holder.field == key:
        return optional(holder.operand, other)
    raise UnexportableError(node, f"reads `{key}` through a variable; read it from its container")


def is_amount(place: Pattern) -> bool:
    """Whether a quantity is at a place."""
    known = fields.quantities()
    return place in known or (*place[:-1], Wildcard.VALUES) in known
