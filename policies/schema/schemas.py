"""What is wrong with an object, by the schema of its kind: a built-in one, or that of a CRD."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policies.admissionpolicy.builtin.intake import kind_of
from policies.admissionpolicy.builtin.table import OBJECT_META
from policies.engine.request import GroupVersionKind, JsonObject
from policies.kubernetes.release import NEWEST, Release
from policies.kubernetes.spelling import closest
from policies.schema import builtin, crd, metadata
from policies.schema.flaw import Flaw, Flaws

_NAMELESS = "Review"
"""The end of kinds that ask something and are not stored, so that they have no name."""


class Schemas:
    """The kinds of an API server: those of a release, and those that CustomResourceDefinitions add."""

    def __init__(self, release: Release = NEWEST, definitions: Iterable[Mapping[str, Any]] = ()) -> None:
        self._shapes = builtin.shapes(release)
        self._custom = {custom.kind: custom.schema for custom in crd.kinds(definitions)}
        self._built_in = {_key(kind): name for kind, name in self._shapes.kinds.items() if self._is_object(name)}

    def flaws(self, obj: JsonObject) -> tuple[Flaw, ...]:
        """What is wrong with an object that is created; nothing if the API server would take it, as far as is known."""
        kind = kind_of(obj)
        flaws = Flaws()
        if name := self._built_in.get(kind):
            self._shapes.struct(name).judge(obj, None, flaws)
        elif (schema := self._custom.get(kind)) is not None:
            crd.judge(obj, schema, self._shapes.metadata, flaws)
        elif kind not in self._custom:
            return (self._unknown(kind),)
        if not flaws.decoding and not kind.kind.endswith(_NAMELESS):
            metadata.judge(obj, kind.group, kind.kind, flaws)
        return flaws.all

    def _is_object(self, name: str) -> bool:
        """Whether a type is that of objects that may be written, and not of answers only."""
        return self._shapes.refers(name, "metadata") == OBJECT_META

    def _unknown(self, kind: GroupVersionKind) -> Flaw:
        """What is said of a kind that nobody knows: an error if it cannot be one of a CRD that is not given."""
        api_version = f"{kind.group}/{kind.version}".lstrip("/")
        text = f'no matches for kind "{kind.kind}" in version "{api_version}"'
        near = self._near(kind)
        if near is not None:
            path = ("kind",) if (near.group, near.version) == (kind.group, kind.version) else ("apiVersion",)
            return Flaw(path, text, f"did you mean {near.kind} of {f'{near.group}/{near.version}'.lstrip('/')}?")
        if "." not in kind.group or self._knows_group(kind.group):
            return Flaw(("apiVersion",), text)
        remedy = "give its CustomResourceDefinition: in these files, with --crds, or from a cluster with --kubeconfig"
        return Flaw(("kind",), f"the schema of {kind.kind} of {api_version} is not known: it was not judged", remedy, "warning")

    def _knows_group(self, group: str) -> bool:
        return any(known.group == group for known in self._all())

    def _all(self) -> Iterator[GroupVersionKind]:
        yield from self._built_in
        yield from self._custom

    def _near(self, kind: GroupVersionKind) -> GroupVersionKind | None:
        """The kind that was probably meant: of another version, another kind of the group, or of a group much alike."""
        known = sorted(self._all(), key=lambda other: (other.group != kind.group, other.version != kind.version))
        same_group = [other for other in known if other.group == kind.group]
        groups = {other.group for other in known}
        if not same_group and "." in kind.group and not (group := closest(kind.group, groups)):
            return None
        if not same_group and "." in kind.group:
            known = [other for other in known if other.group == group]
        if any(other.kind == kind.kind for other in same_group):
            known = same_group
        name = closest(kind.kind, [other.kind for other in same_group]) if same_group else ""
        if any(other.kind == kind.kind for other in known):
            name = kind.kind
        elif not same_group:
            name = closest(kind.kind, [other.kind for other in known])
        return next((other for other in known if other.kind == name), None)


def _key(kind: str) -> GroupVersionKind:
    return GroupVersionKind(*kind.split("/", 2))
