"""A kind of workload whose templates are judged: how they are reached, and what its controller adds to its Pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.admissionpolicy.pods.controller import Controller
from policies.admissionpolicy.templates import controlled, reach
from policies.admissionpolicy.templates.controlled import ITEM, KEY, depends_on_place
from policies.admissionpolicy.templates.reach import Reach
from policies.admissionpolicy.templates.steps import Subject
from policies.admissionpolicy.templates.trees import call, entries, ident, literal, rebuilt
from policies.cel.syntax.ast import Literal, MapLiteral, Node
from policies.cel.syntax.unparse import unparse
from policies.objects.fieldpath import Pattern, Wildcard, parse
from policies.objects.workload import Workload

NAME = "ownerName"
"""Stands for the names of owners in expressions that do not read them."""
_STANDARD = frozenset({"", "apps", "batch"})
"""Groups whose kinds always have a template: Kubernetes' own."""


@dataclass(frozen=True)
class Target:
    """One kind of the table. `variable`: the name of an element in the list of templates, where there are several."""

    row: Workload
    variable: str

    @property
    def is_single(self) -> bool:
        """Whether there is one template at a fixed path."""
        return reach.is_single(self.row.templates)

    @property
    def path(self) -> Pattern:
        """The path of the only template."""
        return self.row.templates[0]

    @property
    def reach(self) -> Reach:
        """The expressions for a template."""
        if self.is_single:
            return reach.single(self.path, surely=self.row.group in _STANDARD)
        return reach.of_element(self.variable)

    def subject(self, *, updates: bool, named: bool) -> Subject:
        """The templates for the rewriting of expressions. named: whether owner references have their names."""
        return Subject(
            reach=self.reach,
            labels=self._uniform([self._labels_at(pattern) for pattern in self.row.templates]),
            annotations=self._uniform([controlled.inherited(self.row, p) for p in self.row.templates]),
            owners=self._owners(named=named),
            updates=updates,
        )

    def lists(self, shown: Mapping[str, Node], *, owners: bool, old: bool) -> list[Node]:
        """The lists of templates. `shown`: the labels that are read. owners: whether the owners are read."""
        made = []
        for pattern in self.row.templates:
            known = {**controlled.inherited(self.row, pattern), **self._labels_at(pattern)}
            added = {key: value for key, value in known.items() if key in shown}
            own = self._owners_at(pattern) if owners else None
            made.append(reach.elements(pattern, self.row.shape, added, own, old=old))
        return made

    def _uniform(self, found: list[Mapping[str, Node]]) -> dict[str, Node]:
        """What is added at each pattern; a placeholder where templates get different values."""
        together: dict[str, Node] = {}
        for key in dict.fromkeys(key for known in found for key in known):
            texts = {unparse(known[key]) if key in known else "" for known in found}
            value = next(known[key] for known in found if key in known)
            together[key] = value if len(texts) == 1 else ident(ITEM)
        return together

    def _labels_at(self, pattern: Pattern) -> Mapping[str, Node]:
        """The optional values of labels at a pattern; the rows for one key of a map before the others."""
        rows = controlled.controllers(self.row.group_kind, pattern)
        found = [controlled.labels(row, pattern) for row in rows]
        labels = dict(found[-1])
        for row, known in zip(rows[-2::-1], found[-2::-1], strict=True):
            for key in {**known, **labels}:
                none = call("none", target=ident("optional"))
                one, other = known.get(key, none), labels.get(key, none)
                labels[key] = one if unparse(one) == unparse(other) else _either(row, pattern, one, other)
        return labels

    def _owners(self, *, named: bool) -> Node | None:
        """The owner references; those in the list of templates where templates get different ones."""
        found = [self._owners_at(pattern) for pattern in self.row.templates]
        if not named:
            found = [None if owners is None else _nameless(owners) for owners in found]
        first = found[0]
        if first is None:
            return None
        texts = {"" if owners is None else unparse(owners) for owners in found}
        return first if len(texts) == 1 and not depends_on_place(first) else reach.owners_of(self.variable)

    def _owners_at(self, pattern: Pattern) -> Node | None:
        rows = controlled.controllers(self.row.group_kind, pattern)
        owners = controlled.owners(rows[-1], self.row.group_kind, pattern)
        for row in rows[-2::-1]:
            other = controlled.owners(row, self.row.group_kind, pattern)
            if owners is not None and other is not None:
                owners = _either(row, pattern, other, owners)
        return owners


def _nameless(node: Node) -> Node:
    """Owner references with the placeholder NAME for their names."""
    if isinstance(node, MapLiteral):
        pairs = [(str(entry.key.value), entry.value) for entry in node.entries if isinstance(entry.key, Literal)]
        return entries(*((key, ident(NAME) if key == "name" else value) for key, value in pairs))
    return rebuilt(node, _nameless)


def _either(row: Controller, pattern: Pattern, one: Node, other: Node) -> Node:
    """The first if the template's key is the one that the row is about, else the second."""
    (key,) = (
        step
        for step, own in zip(parse(row.template), pattern, strict=True)
        if isinstance(own, Wildcard) and step != own
    )
    return call("_?_:_", call("_==_", ident(KEY), literal(str(key))), one, other)
