"""The syntax of placement annotations: a level, optionally its domain, and optionally domains of levels above it.

`superpod`, `backend.coreweave.cloud/superpod`, `superpod=3`, `superpod in (3,4)`, `fabric=f1,superpod=3,rack=12`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from policies.engine.violation import quote
from policies.kubernetes.spelling import closest
from policies.topology.topology import Level, Topology, label_value, no_level, value_problem
from policies.vocabulary import TOPOGRAPH

FORMS = "Write LEVEL, LEVEL=DOMAIN or LEVEL in (DOMAIN, …); domains above it may follow."
# Far more than anybody needs: 16 levels, each with the long names of many switches.
LONGEST = 16_384
_PART = re.compile(r"\s*(?:[^,(]|\([^)]*\))*")
_REQUIREMENT = re.compile(
    r"(?P<name>[^\s=!(),<>]+)(?:\s*==?\s*(?P<value>[^\s=,()]*)|\s+in\s*\((?P<values>[^()]*)\))?\Z"
)


class PlacementError(Exception):
    """A placement is invalid. problem: continues a sentence that starts with the text. remedy: how to fix it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy


class Domain(Struct, frozen=True):
    """Domains of a level, by the values of their Nodes' label; without values, all domains of the level."""

    level: Level
    values: tuple[str, ...] = ()


class Placement(Struct, frozen=True):
    """The domains of a placement, farthest first. The last one is that of the level itself."""

    domains: tuple[Domain, ...]

    @property
    def level(self) -> Level:
        """The level of the placement, which is the nearest of its domains."""
        return self.domains[-1].level

    @property
    def is_named(self) -> bool:
        """Whether any domain has a name."""
        return any(domain.values for domain in self.domains)

    @property
    def is_open(self) -> bool:
        """Whether a domain of the level is still to be chosen."""
        return not self.domains[-1].values

    def called(self, topology: Topology) -> str:
        """The placement as people write it, with short names: `fabric=f1,superpod=3`."""
        return ",".join(f"{topology.called(domain.level)}{_values(domain.values)}" for domain in self.domains)


def parse(text: str, topology: Topology) -> Placement:
    """The placement in a text. Raises PlacementError."""
    if not text.strip():
        raise PlacementError("is empty.", _choose(topology))
    if len(text) > LONGEST:
        raise PlacementError(f"has {len(text)} characters, and a placement has {LONGEST} at most.", FORMS)
    domains: dict[str, Domain] = {}
    for part in _parts(text):
        domain = _domain(part, topology, text)
        if before := domains.get(domain.level.keys[0]):
            raise PlacementError(
                f"names the level {topology.called(before.level)} twice.", "Name several domains as LEVEL in (A, B)."
            )
        domains[domain.level.keys[0]] = domain
    placement = Placement(tuple(sorted(domains.values(), key=lambda domain: topology.position(domain.level))))
    for domain in placement.domains[:-1]:
        if not domain.values:
            name = topology.called(domain.level)
            raise PlacementError(
                f"names {name}, a level above {topology.called(placement.level)}, without a domain.",
                f"Name the domain, as {name}=DOMAIN, or leave it out.",
            )
    return placement


def _parts(text: str) -> Iterator[str]:
    position = 0
    while position <= len(text):
        match = _PART.match(text, position)
        end = match.end() if match else position
        if end < len(text) and text[end] != ",":
            raise PlacementError("has a parenthesis that does not close.", FORMS)
        yield text[position:end].strip()
        position = end + 1


def _domain(part: str, topology: Topology, text: str) -> Domain:
    """The domain in one part of the text. Raises PlacementError."""
    match = _REQUIREMENT.match(part)
    if match is None:
        raise PlacementError(f"has a part that cannot be read, {quote(part)}." if part else "has an empty part.", FORMS)
    level = _level(match["name"], topology, text)
    written = match["values"] if match["value"] is None else match["value"]
    if written is None:
        return Domain(level)
    values = tuple(dict.fromkeys(value.strip() for value in written.split(",")))
    for value in values:
        _check(value, level, topology)
    return Domain(level, values)


def _level(name: str, topology: Topology, text: str) -> Level:
    """The level with a name. Raises PlacementError."""
    level = topology.find(name)
    if level is not None:
        return level
    if sharing := topology.ambiguous(name):
        keys = " and ".join(candidate.name for candidate in sharing)
        raise PlacementError(f"names {name}, which stands for several levels.", f"Write the whole key: {keys}.")
    # The message starts with the text, so it does not repeat a name that is the whole text.
    whose = "" if text == name else f"names {quote(name)}, which "
    prefixes = dict.fromkeys(key.rpartition("/")[0] for known in topology.levels for key in known.keys)
    for key in (name, *(f"{prefix}/{name}" for prefix in prefixes)):
        if why := no_level(key):
            # The name is spelled correctly, so a similar name would be no help.
            raise PlacementError(f"{whose}{why}.", _choose(topology))
    problem = f"{whose}is no level of topology {quote(topology.name)}."
    raise PlacementError(problem, _choose(topology, closest(name, topology.names)))


def _check(value: str, level: Level, topology: Topology) -> None:
    """Raises PlacementError for a value that no Node's label can have."""
    name = topology.called(level)
    if not value:
        raise PlacementError(f"names an empty domain of {name}.", f"Name the domain, as {name}=DOMAIN.")
    is_shortened = level.shortened or all(key.startswith(TOPOGRAPH) for key in level.keys)
    if why := value_problem(label_value(level, level.keys[0], value) if is_shortened else value):
        raise PlacementError(
            f"names a domain of {name}, {quote(value)}, that {why}.", "Copy the value of the Nodes' label."
        )


def _values(values: tuple[str, ...]) -> str:
    if not values:
        return ""
    return f"={values[0]}" if len(values) == 1 else f" in ({', '.join(values)})"


def _choose(topology: Topology, near: str = "") -> str:
    return f"  {topology.in_order}\n{f'Did you mean {near}?' if near else 'Name one of them.'}"
