"""The declared names that the reference suggests for an unknown one (cel-go's common/env/catalog.go)."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 64 * 64  # the product of two lengths that is still compared


def similar(name: str, known: Iterable[str]) -> list[str]:
    """At most two names: the known one itself, those at the least distance, or those that begin with the name.

    >>> similar("objec", ["object", "oldObject", "list"]), similar("transform", ["transformMap", "transformList"])
    (['object'], ['transformMap', 'transformList'])
    """
    candidates = [other for other in {*known} if ("." in other) == ("." in name)]
    if name in candidates or not name:
        return [name] if name else []
    most = 1 if len(name) <= 3 else 2 if len(name) <= 8 else len(name) // 3
    distances = {other: _distance(name, other) for other in candidates if abs(len(other) - len(name)) <= most}
    near = [other for other, distance in distances.items() if distance <= min([most, *distances.values()])]
    if not near and len(name) > 1:
        near = [other for other in candidates if other.startswith(name)]
    return sorted(near, key=lambda other: (len(other), other))[:2]


def suggestion(name: str, names: list[str]) -> str:
    """What the reference adds to its message about an unknown name: ` (did you mean 'object'?)`."""
    return f" (did you mean {' or '.join(map(repr, names))}?)" if names and names != [name] else ""


def _distance(left: str, right: str) -> float:
    """The least number of insertions, deletions, substitutions and swaps of neighbours; infinite where it is large."""
    longest, shortest = max(len(left), len(right)), min(len(left), len(right))
    if longest >= 16 and longest * 2 >= shortest * 3:
        return longest - shortest
    if longest * shortest > _LONGEST:
        return float("inf")
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, start=1):
        above, row = row, [i]
        for j, other in enumerate(right, start=1):
            least = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        if min(row) > longest // 3:
            return float("inf")
        before = above
    return row[-1]
