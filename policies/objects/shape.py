"""Where a pod template holds what becomes a Pod's, in kinds whose templates are not written as Kubernetes' own.

Everything else sees such a template as `{metadata: {labels, annotations}, spec}`, and translates the places in it back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from policies.engine.request import JsonObject
from policies.objects.fieldpath import lookup

Place = tuple[str, ...]
_LABELS, _ANNOTATIONS, _SPEC = ("metadata", "labels"), ("metadata", "annotations"), ("spec",)


class Shape(Struct, frozen=True):
    """The places of the labels, the annotations and the spec of Pods, within a pod template."""

    labels: Place = _LABELS
    annotations: Place = _ANNOTATIONS
    spec: Place = _SPEC

    def place(self, location: tuple[Any, ...]) -> tuple[Any, ...]:
        """The location within the template of what is at a location of the view."""
        for standard, own in ((_LABELS, self.labels), (_ANNOTATIONS, self.annotations), (_SPEC, self.spec)):
            if location[: len(standard)] == standard:
                return (*own, *location[len(standard) :])
        return location

    def view(self, template: Any) -> Any:
        """The template as Kubernetes writes one; itself if it is one, or no map."""
        if self == STANDARD or not isinstance(template, dict):
            return template
        metadata = {"labels": lookup(template, self.labels), "annotations": lookup(template, self.annotations)}
        view: JsonObject = {"metadata": {field: value for field, value in metadata.items() if value is not None}}
        spec = lookup(template, self.spec)
        return view if spec is None else {**view, "spec": spec}


STANDARD = Shape()
"""The shape of Kubernetes' own pod templates."""
