"""Terms of node affinity and Pod affinity in `spec.affinity`: they are read, and added to those that are there.

Malformed affinity is left to the API server, which refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from policies.engine.request import JsonObject
from policies.topology.term import Term, combined, to_json

NODE_AFFINITY: Final = "nodeAffinity"
POD_AFFINITY: Final = "podAffinity"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS: Final = "nodeSelectorTerms"


def selector_terms(affinity: Any) -> list[Any]:
    """The terms of which a Node must meet one; empty if absent or malformed."""
    required = (_part(affinity, NODE_AFFINITY) or {}).get(REQUIRED)
    terms = required.get(TERMS) if isinstance(required, dict) else None
    return terms if isinstance(terms, list) else []


def with_terms(affinity: Any, required: Sequence[Term], preferred: Sequence[JsonObject]) -> Any:
    """The affinity with alternatives of which a Node must meet one, and preferences; each only where it is missing."""
    node = _part(affinity, NODE_AFFINITY)
    if node is None:
        return affinity
    changed = dict(node)
    holder = node.get(REQUIRED)
    if required and holder is None:
        changed[REQUIRED] = {TERMS: [{"matchExpressions": to_json(term)} for term in required]}
    elif required and isinstance(holder, dict) and isinstance(holder.get(TERMS), list):
        changed[REQUIRED] = {**holder, TERMS: [made for own in holder[TERMS] for made in combined(own, required)]}
    _extend(changed, PREFERRED, preferred)
    return affinity if changed == node else {**(affinity or {}), NODE_AFFINITY: changed}


def with_peers(affinity: Any, required: Sequence[JsonObject], preferred: Sequence[JsonObject]) -> Any:
    """The affinity with terms of Pod affinity, each only where it is missing."""
    pods = _part(affinity, POD_AFFINITY)
    if pods is None:
        return affinity
    changed = dict(pods)
    _extend(changed, REQUIRED, required)
    _extend(changed, PREFERRED, preferred)
    return affinity if changed == pods else {**(affinity or {}), POD_AFFINITY: changed}


def _extend(holder: JsonObject, field: str, terms: Sequence[JsonObject]) -> None:
    own = holder.get(field) or []
    more = [term for term in terms if term not in own] if isinstance(own, list) else []
    if more:
        holder[field] = [*own, *more]


def _part(affinity: Any, name: str) -> JsonObject | None:
    """A part of the affinity; empty if absent, None if malformed."""
    part = affinity.get(name) if isinstance(affinity, dict) else affinity
    return {} if part is None else part if isinstance(part, dict) else None
