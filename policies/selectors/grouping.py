"""What is wrong with a topology key: misspelt, no place, carried by no Node, or finer than the Nodes allow."""

from __future__ import annotations

from collections import Counter

from policies.selectors.census import Census
from policies.selectors.fault import Fault, instead, misspelt, place
from policies.selectors.selection import Grouping
from policies.vocabulary import vocabulary
from policies.vocabulary.keys import ALL, HOSTNAME

SHORT = {key.short: key.name for key in reversed(ALL) if key.sort == "place" and not key.is_pattern}
"""Keys by their short names, which people write alone."""

_EFFECTS = {"together": "draws no Pods together", "apart": "keeps no Pods apart", "spread": "spreads no Pods"}


def by_key(grouping: Grouping, census: Census, allowed: Census | None) -> Fault | None:
    """The fault of a topology key. allowed: of the Nodes that the Pods may run on; None if that is not known."""
    key = grouping.key
    known = vocabulary.key(key)
    if fault := misspelt(key, census):
        return fault
    if known is not None and known.sort == "measure":
        return Fault(key, f"{vocabulary.no_place(key)}.", place(known, census))
    if not census.knows(key) or not (known is not None or vocabulary.belongs(key) or key in SHORT):
        return None
    if not census.carries(key):
        waits = grouping.is_required and grouping.effect != "apart"
        effect = "so the Pods wait for ever" if waits else f"so it {_EFFECTS[grouping.effect]}"
        return Fault(key, f"is carried by no Node, {effect}.", _named(key, census))
    return _by_allowed(grouping, allowed) if allowed is not None and allowed.nodes else None


def _named(key: str, census: Census) -> str:
    """What to write in the place of a key that no Node carries, which may be a short name."""
    right = SHORT.get(key, "")
    return f"Write {right}." if right and census.carries(right) else instead(key, census)


def _by_allowed(grouping: Grouping, allowed: Census) -> Fault | None:
    """The fault of a key by the Nodes that the Pods may run on, of which there are some."""
    key = grouping.key
    domains, count = allowed.values(key), len(allowed.nodes)
    if not domains:
        which = f"carried by none of the {count} Nodes" if count > 1 else "not carried by the one Node"
        return Fault(key, f"is {which} that the Pods may run on.", instead(key, allowed))
    is_single = count > 1 and max(domains.values()) == 1
    if grouping.effect != "together" or not (grouping.is_required and grouping.is_own and is_single) or key == HOSTNAME:
        return None
    wider = [wide for wide in allowed.places if _is_wider(allowed.values(wide), len(domains))]
    remedy = f"Write {max(wider, key=lambda wide: len(allowed.values(wide)))}." if wider else "Write a wider one."
    return Fault(key, "has one Node in each domain here, so all Pods have to fit on one Node.", remedy)


def _is_wider(domains: Counter[str], count: int) -> bool:
    return bool(domains) and len(domains) < count and max(domains.values()) > 1
