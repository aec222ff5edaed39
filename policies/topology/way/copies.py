"""Annotations that templates get, beside those that their author wrote."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from policies.engine.request import mapping
from policies.topology.affinity import RecordEntry
from policies.topology.annotation import Template
from policies.topology.way.assignment import Edit


def edits(template: Template, entry: RecordEntry) -> Iterator[Edit]:
    """The edit that leads from a template's recorded annotations to those of a new entry.

    One that somebody has changed since is theirs, and stays. Malformed metadata is left to the API server.
    """
    if not isinstance(template.value.get("metadata") or {}, dict):
        return
    present = mapping(mapping(template.value, "metadata"), "annotations")
    own = {key: value for key, value in present.items() if (key, value) not in template.entry.annotations}
    changed = {**own, **dict(entry.annotations)}
    if changed != present:
        yield template.at("metadata", "annotations"), changed or UNSET


def are_lost(template: Template, entry: RecordEntry) -> bool:
    """Whether a template lacks annotations that an entry says it has."""
    present = mapping(mapping(template.value, "metadata"), "annotations")
    return any(present.get(key) != value for key, value in entry.annotations)
