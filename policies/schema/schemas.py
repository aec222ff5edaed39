"""What is wrong with an object, by the schema of its kind: a built-in one, or that of a CRD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policies.admissionpolicy.builtin.intake import kind_of
from policies.admissionpolicy.builtin.table import OBJECT_META
from policies.engine.request import GroupVersionKind, JsonObject
from policies.kubernetes.release import NEWEST, Release
from policies.kubernetes.spelling import closest
from policies.schema import builtin, crd, metadata
from policies.schema.flaw import Flaw, Flaws

_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
_NAMELESS = "Review"
"""The end of kinds that ask something and are not stored, so that they have no name."""

_GIVE_IT = "give its CustomResourceDefinition: among the files, with --crds, or from a cluster with --kubeconfig"


class Schemas:
    """The kinds of an API server: those of a release, and those that CustomResourceDefinitions add."""

    def __init__(self, release: Release = NEWEST, definitions: Iterable[Mapping[str, Any]] = ()) -> None:
        self._shapes = builtin.shapes(release)
        readable = filter(self._is_readable, definitions)
        self._custom = {custom.kind: custom.schema for custom in crd.kinds(readable)}
        self._built_in = {_key(kind): name for kind, name in self._shapes.kinds.items() if self._is_object(name)}

    def flaws(self, obj: JsonObject) -> tuple[Flaw, ...]:
        """What is wrong with an object that is created; nothing if the API server would take it, as far as is known."""
        return self.judge(obj).all

    def judge(self, obj: JsonObject) -> Flaws:
        """The same, apart by whether the API server can read the object."""
        kind = kind_of(obj)
        flaws = Flaws()
        if name := self._built_in.get(kind):
            self._shapes.struct(name).judge(obj, None, flaws)
            flaws.forgive("status")  # which a create does not set
        elif (schema := self._custom.get(kind)) is not None:
            crd.judge(obj, schema, self._shapes.metadata, flaws)
        elif kind not in self._custom:
            flaws.decoding.append(self._unknown(kind))
        if not flaws.decoding and not kind.kind.endswith(_NAMELESS):
            metadata.judge(obj, kind.group, kind.kind, flaws)
        return flaws

    def _is_readable(self, definition: Mapping[str, Any]) -> bool:
        """Whether a definition has the form of one; else its flaws are said where it is judged itself."""
        flaws = Flaws()
        self._shapes.struct(_DEFINITION).judge(definition, None, flaws)
        return not flaws.decoding

    def _is_object(self, name: str) -> bool:
        """Whether a type is that of objects that may be written, and not of answers only."""
        return self._shapes.refers(name, "metadata") == OBJECT_META

    def _unknown(self, kind: GroupVersionKind) -> Flaw:
        """What is said of a kind that is not known: an error, unless a CRD that is not given may define it."""
        text = f'no matches for kind "{kind.kind}" in version "{_api_version(kind)}"'
        near = self._near(kind)
        hint = f"did you mean {near.kind} of {_api_version(near)}?" if near else ""
        if near is not None and (near.group == kind.group or "." not in kind.group):
            field = "kind" if _api_version(near) == _api_version(kind) else "apiVersion"
            return Flaw((field,), text, hint)
        if "." not in kind.group or any(known.group == kind.group for known in self._built_in):
            return Flaw(("apiVersion",), text)  # the group of a CRD has a dot, and is none of the API server's
        text = f"the schema of {kind.kind} in {_api_version(kind)} is not known, so it was not judged"
        return Flaw(("kind",), text, f"{hint} Else {_GIVE_IT}" if hint else _GIVE_IT, "warning")

    def _near(self, kind: GroupVersionKind) -> GroupVersionKind | None:
        """The kind that was probably meant: in another version or group, or one with almost this name."""
        group = [other for other in (*self._built_in, *self._custom) if other.group == kind.group]
        beside = sorted(group, key=lambda other: other.version != kind.version)
        if same := next((other for other in beside if other.kind == kind.kind), None):
            return same
        if elsewhere := self._elsewhere(kind):
            return elsewhere
        known = beside or ([] if "." in kind.group else list(self._built_in))
        name = closest(kind.kind, [other.kind for other in known])
        if not name and not kind.group:
            known = list(self._built_in)
            name = closest(kind.kind, [other.kind for other in known])
        return next((other for other in known if other.kind == name), None)

    def _elsewhere(self, kind: GroupVersionKind) -> GroupVersionKind | None:
        """The built-in kind of this name in another group, if the group was forgotten or has almost this name."""
        others = {other.group: other for other in self._built_in if other.kind == kind.kind}
        if "." not in kind.group:
            return next(iter(others.values()), None)
        return others.get(closest(kind.group, others))


def _api_version(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}".lstrip("/")


def _key(kind: str) -> GroupVersionKind:
    return GroupVersionKind(*kind.split("/", 2))
