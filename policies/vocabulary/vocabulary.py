"""Looking label keys up in the vocabulary: what a key is, and what a misspelt one was meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from functools import cache, lru_cache

from policies.kubernetes.spelling import LONGEST
from policies.vocabulary.key import Key
from policies.vocabulary.keys import ALL, BACKEND, CAPACITY_BLOCK, FLAVOR, IB, RENAMED

_BY_NAME = {key.name: key for key in ALL if not key.is_pattern}
_PATTERNS = tuple((re.compile(re.escape(key.name).replace(r"\*", ".+")), key) for key in ALL if key.is_pattern)
_NAMES: dict[str, tuple[str, ...]] = {
    prefix: tuple(key.short for key in _BY_NAME.values() if key.prefix == prefix)
    for prefix in dict.fromkeys(key.prefix for key in ALL)
}
# Domains under which all keys belong to one vocabulary: names of one prefix are looked for under the others.
_COREWEAVE = ("coreweave.cloud", "coreweave.com")
_FAMILIES = ("topograph.run", "topology.nvidia.com", "kubernetes.io")
_SIMILAR_PREFIX, _SIMILAR_NAME = 0.85, 0.75


CONCERNS = "weave|[.]cloud/|topogra|topology|oraclecloud|gce-|gpu.?clique|nvidia[.]com/clique|kubernetes[.]io/[hzrti]"
"""A regular expression, of Python's and Go's kind, that finds something in every key of the vocabulary and in what is
near to one; it passes over the labels that nearly every selector has, such as `kubernetes.io/os`."""

ALONE = "^(zone|region|hostname|rack|superpod|leafgroup|fabric)$"
"""The same for the short names of places, which some write without their prefix."""

_concerns = re.compile(f"(?i){CONCERNS}|{ALONE}").search


@lru_cache(maxsize=1024)
def concerns(name: str) -> bool:
    """Whether a key looks as if it were of the vocabulary. Of all others, nothing is known."""
    return _concerns(name) is not None


def key(name: str) -> Key | None:
    """The known key with a name; None if it is not known."""
    exact = _BY_NAME.get(name)
    if exact is not None or "/" not in name:
        return exact
    return next((known for pattern, known in _PATTERNS if pattern.fullmatch(name)), None)


def equivalent(name: str) -> tuple[str, ...]:
    """All keys of the same label, newest first: its own, and its twin under the other prefix of CoreWeave's fabrics."""
    short = name.removeprefix(BACKEND).removeprefix(IB)
    return (BACKEND + short, IB + short) if short != name and short in RENAMED else (name,)


def twin(name: str) -> str:
    """The key of the same label under the other prefix of CoreWeave's fabrics; empty if there is none."""
    return next((other for other in equivalent(name) if other != name), "")


def belongs(name: str) -> bool:
    """Whether a key has a prefix of the vocabulary, so that nobody else has a label with it."""
    return name.partition("/")[0] in _NAMES


def no_place(name: str) -> str:
    """Why a known label does not say where a Node is, to continue a sentence; empty for places and unknown keys."""
    known = key(name)
    if known is None or known.sort == "place":
        return ""
    if known.sort == "measure":
        return "tells how a Node is connected, not where it is"
    if name == FLAVOR:
        return "tells the kind of the network, which a topology may require"
    if name == CAPACITY_BLOCK:
        return "is a reservation"
    return "tells what a Node is, not where it is"


@cache
def near(name: str) -> str:
    """The known key that a misspelt one was probably meant to be; empty if it is known itself, or nothing is near."""
    if len(name) > LONGEST or key(name) is not None:
        return ""
    prefix, _, short = name.partition("/")
    if not short:
        return ""
    for candidate in _prefixes(prefix):
        names = _NAMES[candidate]
        flat = {_flat(known): known for known in names}
        if _flat(short) in flat:
            return f"{candidate}/{flat[_flat(short)]}"
        if candidate == prefix and (close := get_close_matches(short, names, 1, _SIMILAR_NAME)):
            return f"{candidate}/{close[0]}"
    return ""


def _prefixes(prefix: str) -> Iterator[str]:
    """The known prefixes that one may stand for, the likeliest first."""
    families = _COREWEAVE if _is_within(prefix, *_COREWEAVE) else [one for one in _FAMILIES if _is_within(prefix, one)]
    kin = [known for known in _NAMES if _is_within(known, *families)]
    likeness = {known: SequenceMatcher(None, known, prefix).ratio() for known in _NAMES if known not in kin}
    alike = (known for known, ratio in likeness.items() if ratio >= _SIMILAR_PREFIX)
    yield from dict.fromkeys((*(known for known in kin if known == prefix), *kin))
    yield from sorted(alike, key=likeness.__getitem__, reverse=True)


def _is_within(prefix: str, *domains: str) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _flat(name: str) -> str:
    """A name without what people write differently."""
    return re.sub("[-_.]", "", name).lower()
