"""The cluster and the gangs that come to it: the same for every way, from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from cluster.gangs import Level
from cluster.topologynodes import BACKEND, RACK

FABRICS, SUPERPODS, RACKS, NODES = ("f1", "f2"), ("1", "2"), 8, 8
"""Fabrics, the superpods of each, the racks of a superpod, and the Nodes of a rack."""
GPUS = 8
"""The GPUs of a Node."""
GANGS = 200


class Load(NamedTuple):
    """How gangs come. between: the mean of the seconds between two. life: the mean of those that they last.

    Both are exponentially distributed, and no life is longer than two and a half times the mean. A second here stands
    for some minutes of a real cluster.
    """

    between: float
    life: float


USUAL = Load(0.8, 38.0)
"""Four fifths of all GPUs are asked for at any time."""
HEAVY = Load(0.5, 26.0)
"""Nearly all of them."""
_LONGEST_LIFE = 2.5


class Size(NamedTuple):
    """How many Pods of how many GPUs, and the level that they require; share: of 100 gangs."""

    pods: int
    gpus: int
    level: Level
    share: int


SIZES = (
    Size(1, 8, "rack", 12), Size(2, 8, "rack", 18), Size(3, 8, "rack", 10), Size(4, 8, "rack", 18),
    Size(6, 8, "rack", 8), Size(8, 8, "rack", 10), Size(2, 4, "rack", 6), Size(8, 4, "rack", 6),
    Size(12, 8, "superpod", 5), Size(16, 8, "superpod", 5), Size(24, 8, "superpod", 2),
)  # fmt: skip


class Arrival(NamedTuple):
    """A gang that comes, in seconds after the first one could. life: from its last Pod's start to its end."""

    name: str
    at: float
    life: float
    size: Size

    @property
    def gpus(self) -> int:
        """The GPUs of all Pods."""
        return self.size.pods * self.size.gpus


def arrivals(seed: int, load: Load = USUAL) -> tuple[Arrival, ...]:
    """The gangs in the order of their coming."""
    chance = random.Random(seed)  # noqa: S311 - no secret, and the same for every way
    at, made = 0.0, []
    for number in range(GANGS):
        at += chance.expovariate(1 / load.between)
        (size,) = chance.choices(SIZES, [size.share for size in SIZES])
        life = min(chance.expovariate(1 / load.life), _LONGEST_LIFE * load.life)
        made.append(Arrival(f"gang-{number:03}", at, life, size))
    return tuple(made)


class Beside(NamedTuple):
    """A Pod that takes a Node and belongs to no gang, in seconds as above."""

    name: str
    at: float
    life: float


BESIDE = Load(0.6, 12.0)
"""How plain Pods come beside the gangs, where they do: they take some twenty Nodes."""


def beside(seed: int, until: float) -> tuple[Beside, ...]:
    """The plain Pods that come up to a time."""
    chance = random.Random(-seed)  # noqa: S311 - as above
    at = 0.0
    made: list[Beside] = []
    while (at := at + chance.expovariate(1 / BESIDE.between)) < until:
        made.append(Beside(f"plain-{len(made):04}", at, min(chance.expovariate(1 / BESIDE.life), 3 * BESIDE.life)))
    return tuple(made)


def nodes() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The name of each Node, and its labels. Superpods are numbered anew in each fabric, racks are not."""
    for number, place in enumerate(product(FABRICS, SUPERPODS, range(RACKS), range(NODES))):
        fabric, superpod, _, _ = place
        labels = {f"{BACKEND}/fabric": fabric, f"{BACKEND}/superpod": superpod, RACK: f"r{number // NODES + 1:02}"}
        yield f"gpu-{number:03}", labels


TOTAL = len(FABRICS) * len(SUPERPODS) * RACKS * NODES * GPUS
"""All GPUs."""
