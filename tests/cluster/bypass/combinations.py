"""Ways to write a label that come together, drawn by a seed: `SEED=7 pytest tests/cluster/test_bypass.py`."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

from cluster.bypass.ways import WAYS, create_a_huge_one
from policies.engine.request import MIRROR_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.bypass.target import Target
    from cluster.manifests import Manifest

_COUNT = 3
_COMBINED = tuple(way for way in WAYS if way is not create_a_huge_one)  # which takes seconds
# A kind that nobody knows, or the garbage collector would delete the object.
_OWNER = {"apiVersion": "example.org/v1", "kind": "None", "name": "x", "uid": "x", "controller": True}
_METADATA: tuple[Manifest, ...] = (
    {"annotations": None, "finalizers": None},
    {"annotations": {MIRROR_ANNOTATION: "x"}},
    {"ownerReferences": [_OWNER]},
    {"managedFields": [{}]},
    {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "selfLink": "/x", "uid": None},
)


def combinations(target: Target) -> None:
    """Three of these ways in turn, drawn by a seed, for any version of the object, with null and forged metadata."""
    random = Random(f"{os.environ.get('SEED', '1')} {target.name}")  # noqa: S311 - the same ones again is the point
    for way in random.sample(_COMBINED, _COUNT):
        metadata = {key: value for part in _METADATA if random.random() < 1 / 3 for key, value in part.items()}
        way(target.changed(random.choice((target.kind.resource, *target.kind.versions)), metadata))


ALL: tuple[Callable[[Target], None], ...] = (*WAYS, combinations)
