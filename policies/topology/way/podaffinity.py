"""Pod affinity in `spec.affinity`: terms that keep Pods of one gang together are added, and removed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from policies.engine.request import JsonObject, mapping

POD_AFFINITY = "podAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Together(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Terms of Pod affinity that were written. created: the outermost map that had to be created for them."""

    required: tuple[Any, ...] = ()
    preferred: tuple[Any, ...] = ()
    created: Literal["", "podAffinity", "affinity"] = ""


APART = Together()


def with_together(affinity: Any, terms: Together) -> tuple[Any, Together]:
    """The affinity with terms added to it, and those that were not there before. Malformed affinity does not change."""
    pods = _pods(affinity)
    if pods is None:
        return affinity, APART
    changed, written = dict(pods), {}
    for field, added in ((REQUIRED, terms.required), (PREFERRED, terms.preferred)):
        own = pods.get(field) or []
        more = tuple(term for term in added if term not in own) if isinstance(own, list) else ()
        written[field] = more
        if more:
            changed[field] = [*own, *more]
    if changed == pods:
        return affinity, APART
    created: Literal["", "podAffinity", "affinity"] = "affinity" if affinity is None else "podAffinity"
    if affinity is not None and affinity.get(POD_AFFINITY) is not None:
        created = ""
    return {**(affinity or {}), POD_AFFINITY: changed}, Together(written[REQUIRED], written[PREFERRED], created)


def without_together(affinity: Any, terms: Together) -> Any:
    """The affinity without terms that were written; what was created for them goes as well if nothing else is in it."""
    pods = _pods(affinity)
    if not pods or terms == APART:
        return affinity
    changed = dict(pods)
    for field, written in ((REQUIRED, terms.required), (PREFERRED, terms.preferred)):
        own = pods.get(field)
        if isinstance(own, list) and written:
            changed[field] = [term for term in own if term not in written]
            if not changed[field]:
                del changed[field]
    if changed or not terms.created:
        return {**affinity, POD_AFFINITY: changed}
    rest = {key: value for key, value in affinity.items() if key != POD_AFFINITY}
    return rest or (None if terms.created == "affinity" else rest)


def keys(affinity: Any) -> Iterator[str]:
    """The label keys of the domains in which Pod affinity keeps Pods together."""
    pods = _pods(affinity) or {}
    for field in (REQUIRED, PREFERRED):
        terms = pods.get(field)
        for term in terms if isinstance(terms, list) else ():
            inner = mapping(term, "podAffinityTerm") if field == PREFERRED else term
            if isinstance(inner, dict):
                yield str(inner.get("topologyKey"))


def _pods(affinity: Any) -> JsonObject | None:
    """The Pod affinity in `spec.affinity`; empty if absent, None if malformed."""
    pods = affinity.get(POD_AFFINITY) if isinstance(affinity, dict) else affinity
    return {} if pods is None else pods if isinstance(pods, dict) else None
