"""Decides which watches follow the references to parameters of one kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from policies.admissionpolicy.evaluation.parameters import ParametersKey
from webhook.cluster.watches.paramwatch import reach_of

# So many watches of a kind may be narrow. A narrow watch costs a connection, but spares the service all other objects,
# and needs fewer rights. A wide one brings every change of every object of the kind.
FEW = 4

Parts = Mapping[ParametersKey, frozenset[ParametersKey]]


def plan(keys: Collection[ParametersKey], refused: Collection[ParametersKey]) -> Parts:
    """The references of a kind that share a watch, by what the watch asks for.

    Each reference has a watch, or each namespace, or the whole kind: the first of these with few watches. A reach that
    the API server refused is divided further: a whole kind into namespaces, a namespace into references.
    """
    divisions = _single(keys), _by_namespace(keys)
    fits = next((division for division in divisions if len(division) <= FEW), None)
    return _divided([frozenset(keys)] if fits is None else fits, refused)


def _divided(division: Iterable[frozenset[ParametersKey]], refused: Collection[ParametersKey]) -> Parts:
    parts: dict[ParametersKey, frozenset[ParametersKey]] = {}
    for keys in division:
        reach = reach_of(keys)
        if reach in refused and len(keys) > 1:
            spaces = _by_namespace(keys)
            parts |= _divided(spaces if len(spaces) > 1 else _single(keys), refused)
        else:
            parts[reach] = parts.get(reach, frozenset()) | keys
    return parts


def _single(keys: Collection[ParametersKey]) -> list[frozenset[ParametersKey]]:
    return [frozenset((key,)) for key in sorted(keys, key=str)]


def _by_namespace(keys: Collection[ParametersKey]) -> list[frozenset[ParametersKey]]:
    spaces: dict[str, set[ParametersKey]] = {}
    for key in keys:
        spaces.setdefault(key.namespace, set()).add(key)
    return [frozenset(of_space) for _, of_space in sorted(spaces.items())]
