"""Adds terms to affinity, records them, and removes recorded terms again.

Node affinity is `spec.affinity.nodeAffinity` of a Pod. Malformed affinity is left to the API server, which refuses it.
The record is an annotation of the object with the templates. It is JSON by the template's path and holds each term that
was written, with the user's term that it replaced. Its size is bounded, because the API server refuses an object with
more than 256 KiB of annotations. Terms that it has no room for are not removed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import JsonObject
from policies.topology import term
from policies.topology.gang.address import Address
from policies.topology.term import Term
from policies.topology.way.podaffinity import APART, POD_AFFINITY, Together, with_together, without_together

RECORD = "cks-admission.dev/topology"
DECISION = "cks-admission.dev/placement"
"""The annotation that says in a sentence, for people, what was chosen."""

NODE_AFFINITY = "nodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = "nodeSelectorTerms"

Created = Literal["", "nodeAffinity", "affinity"]


class Replacement(
    Struct, frozen=True, omit_defaults=True, rename={"origin": "from", "terms": "to"}, forbid_unknown_fields=True
):
    """Terms that replace one of the user's (`origin`), or were added without replacing one."""

    terms: tuple[Any, ...]
    origin: Any = None


class RecordEntry(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The terms that were written into one template. created: the outermost map that had to be created for them.

    earlier: the terms for earlier placements, latest first. A rollback restores a template that contains them. domain:
    the chosen domain that the terms stand for: the nearest that holds the whole gang. together: Pod affinity that was
    written. scheduling: the node label key of the constraint for Kubernetes' own workload scheduling. annotations: with
    their values, of the template.
    """

    required: tuple[Replacement, ...] = ()
    preferred: tuple[Any, ...] = ()
    created: Created = ""
    earlier: tuple[RecordEntry, ...] = ()
    domain: Address = ()
    together: Together = APART
    scheduling: str = ""
    annotations: tuple[tuple[str, str], ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether something that was written keeps the Pods together, or makes others do so."""
        return bool(self.domain or self.together != APART or self.scheduling or self.annotations)


NOTHING = RecordEntry()
# Kubernetes keeps as many revisions of a workload's template by default (revisionHistoryLimit).
REMEMBERED = 10
# The longest record that is written. A record from elsewhere is read up to the API server's limit for all annotations.
RECORD_LENGTH = 16 * 1024
LONGEST_READ = 256 * 1024
Record = Mapping[str, RecordEntry]
_DECODER = msgspec.json.Decoder(dict[str, RecordEntry])
_ENCODER = msgspec.json.Encoder()
_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")


def read_record(text: Any) -> Record | None:
    """The record in the annotation's value; empty without a value, None if it cannot be decoded or is too long."""
    if text is None:
        return {}
    if not isinstance(text, str) or len(text) > LONGEST_READ:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return None


def write_record(record: Record) -> tuple[str, tuple[str, ...]]:
    """The annotation's value, empty for an empty record, and the paths of the entries that it has no room for.

    A record that is too long forgets earlier placements first, and then the entries that do not fit.
    """
    entries = {path: entry for path, entry in record.items() if entry != NOTHING}
    text = _encoded(entries)
    if len(text) <= RECORD_LENGTH:
        return text, ()
    room, kept = RECORD_LENGTH - len("{}"), {}
    for path, entry in entries.items():
        last = replace(entry, earlier=())
        size = len(_encoded({path: last})) - len("{}") + len(",")
        if size <= room:
            room, kept[path] = room - size, last
    return _encoded(kept), tuple(path for path in entries if path not in kept)


def _encoded(entries: Record) -> str:
    return _ENCODER.encode(entries).decode() if entries else ""


def remembering(entry: RecordEntry, last: RecordEntry) -> RecordEntry:
    """The entry, with the last one and those before it in `earlier`."""
    former = (replace(last, earlier=()), *last.earlier)
    return replace(entry, earlier=tuple(past for past in former if past != entry and _size(past))[:REMEMBERED])


def with_terms(affinity: Any, required: Sequence[Term], preferred: Sequence[JsonObject]) -> tuple[Any, RecordEntry]:
    """The affinity with terms added to it, and the entry for the record.

    affinity: `spec.affinity` or None. required: alternatives of which a Node must meet one. Malformed affinity does not
    change.
    """
    node = node_affinity(affinity)
    if node is None:
        return affinity, NOTHING
    terms, written = _required(node.get(REQUIRED), required)
    own = node.get(PREFERRED) or []
    more = [preference for preference in preferred if preference not in own] if isinstance(own, list) else []
    if not written and not more:
        return affinity, NOTHING
    changed = dict(node)
    if written:
        changed[REQUIRED] = {**(node.get(REQUIRED) or {}), TERMS: terms}
    if more:
        changed[PREFERRED] = [*own, *more]
    created: Created = "affinity" if affinity is None else "nodeAffinity"
    if affinity is not None and affinity.get(NODE_AFFINITY) is not None:
        created = ""
    return {**(affinity or {}), NODE_AFFINITY: changed}, RecordEntry(tuple(written), tuple(more), created)


def without_terms(affinity: Any, entry: RecordEntry) -> Any:
    """The affinity as the user wrote it: recorded terms are removed, or replaced by the user's original term.

    The entry and its earlier ones may share terms. The largest one whose terms are all present applies. If there is no
    such entry, those terms of the last one that are present are removed.
    """
    if entry == NOTHING:
        return affinity
    affinity = without_together(affinity, entry.together)
    present = _present(affinity)
    complete = [written for written in (entry, *entry.earlier[:REMEMBERED]) if _has_all(present, written)]
    return _without(affinity, max(complete, key=_size, default=entry))


def are_present(affinity: Any, entry: RecordEntry) -> bool:
    """Whether all recorded terms are in the affinity."""
    return _has_all(_present(affinity), entry)


def _present(affinity: Any) -> tuple[set[bytes], set[bytes]]:
    """The keys of the required and of the preferred terms in an affinity."""
    preferred = (node_affinity(affinity) or {}).get(PREFERRED)
    return _keys(selector_terms(affinity)), _keys(preferred if isinstance(preferred, list) else [])


def _size(entry: RecordEntry) -> int:
    return sum(len(written.terms) for written in entry.required) + len(entry.preferred)


def _has_all(present: tuple[set[bytes], set[bytes]], entry: RecordEntry) -> bool:
    """Whether every term of an entry is present. present: the keys of the required and of the preferred terms."""
    required, preferred = present
    has_required = {_key(term) for written in entry.required for term in written.terms} <= required
    return has_required and _keys(entry.preferred) <= preferred


def _without(affinity: Any, entry: RecordEntry) -> Any:
    node = node_affinity(affinity)
    if not node or entry == NOTHING:
        return affinity
    changed = dict(node)
    required = node.get(REQUIRED)
    if isinstance(required, dict) and isinstance(required.get(TERMS), list):
        _put(changed, REQUIRED, required[TERMS], _restored(required[TERMS], entry.required), required)
    if isinstance(node.get(PREFERRED), list):
        removable = [Replacement((preference,)) for preference in entry.preferred]
        _put(changed, PREFERRED, node[PREFERRED], _restored(node[PREFERRED], removable), None)
    if changed or not entry.created:
        return {**affinity, NODE_AFFINITY: changed}
    rest = {key: value for key, value in affinity.items() if key != NODE_AFFINITY}
    return rest or (None if entry.created == "affinity" else rest)


def with_node_affinity(affinity: Any, node: JsonObject | None) -> Any:
    """The affinity with its node affinity replaced; empty or None removes it."""
    rest = {key: value for key, value in (affinity or {}).items() if key != NODE_AFFINITY}
    if node:
        return {**rest, NODE_AFFINITY: node}
    return affinity if affinity is None or node_affinity(affinity) == {} else rest


def _part(affinity: Any, key: str) -> Any:
    return affinity.get(key) if isinstance(affinity, dict) else None


def node_affinity(affinity: Any) -> JsonObject | None:
    """The node affinity in `spec.affinity`; empty if absent, None if malformed."""
    node = affinity.get(NODE_AFFINITY) if isinstance(affinity, dict) else affinity
    return {} if node is None else node if isinstance(node, dict) else None


def restored(own: Any, earlier: Any, entry: RecordEntry) -> Any:
    """The user's own affinity with what was written into an earlier version of it, as the entry of that one says."""
    return with_together(with_node_affinity(own, node_affinity(earlier)), entry.together)[0]


def are_alike(first: Any, second: Any) -> bool:
    """Whether two affinities have the same node affinity and Pod affinity."""
    return node_affinity(first) == node_affinity(second) and _part(first, POD_AFFINITY) == _part(second, POD_AFFINITY)


def selector_terms(affinity: Any) -> list[Any]:
    """The terms of which a Node must meet one; empty if absent or malformed."""
    required = (node_affinity(affinity) or {}).get(REQUIRED)
    terms = required.get(TERMS) if isinstance(required, dict) else None
    return terms if isinstance(terms, list) else []


def requires(affinity: Any, required: Sequence[Term]) -> bool:
    """Whether the affinity already limits Nodes to those that meet one of the alternatives."""
    return _required((node_affinity(affinity) or {}).get(REQUIRED), required) == ([], [])


def _required(required: Any, alternatives: Sequence[Term]) -> tuple[list[Any], list[Replacement]]:
    """All terms combined with the alternatives, and the replacements; both empty if nothing changes."""
    if not alternatives:
        return [], []
    if required is None:
        terms: list[Any] = [{"matchExpressions": term.to_json(alternative)} for alternative in alternatives]
        return terms, [Replacement(tuple(terms))]
    own = required.get(TERMS) if isinstance(required, dict) else None
    if not isinstance(own, list):
        return [], []
    terms, written = [], []
    for origin in own:
        made = term.combined(origin, alternatives)
        terms += made
        if made != [origin]:
            written.append(Replacement(tuple(made), origin))
    return (terms, written) if written else ([], [])


def _restored(terms: list[Any], recorded: Sequence[Replacement]) -> list[Any]:
    """The terms with recorded ones replaced by their origins. A term recorded once is replaced once."""
    kept: list[Any] = []
    waiting: dict[bytes, deque[int]] = {}  # by term, the indexes of its recorded replacements
    for index, written in enumerate(recorded):
        for written_term in written.terms:
            waiting.setdefault(_key(written_term), deque()).append(index)
    given_back = {index for index, written in enumerate(recorded) if written.origin is None}
    for present in terms:
        if not (indexes := waiting.get(_key(present))):
            kept.append(present)
        elif (index := indexes.popleft()) not in given_back:
            kept.append(recorded[index].origin)
            given_back.add(index)
    return kept


def _put(node: JsonObject, key: str, before: list[Any], after: list[Any], holder: JsonObject | None) -> None:
    """Store a list after terms were removed from it. An empty list is deleted, as it held none of the user's terms."""
    if after == before:
        return
    if not after:
        del node[key]
    else:
        node[key] = after if holder is None else {**holder, TERMS: after}


def _keys(terms: Iterable[Any]) -> set[bytes]:
    return set(map(_key, terms))


def _key(term: Any) -> bytes:
    """A key that is equal for terms which differ only in null or empty fields."""
    return _SORTED_ENCODER.encode(_plain(term))


def _plain(value: Any) -> Any:
    """A term without null and empty fields, which the API server may leave out."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner not in (None, [], {})}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
