"""No way to write a label gets a reserved one past the guard, and each of them writes an ordinary one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster import crds
from cluster.apicalls import Caller
from cluster.bypass.target import ORDINARY, RESERVED, Target, kinds, of, places
from cluster.bypass.ways import ALL, create_a_huge_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reserved-labels.md"
# Where an ordinary key cannot be written either: the API server does not serve CBOR by default.
NOT_SERVED = {"create_in_cbor", "put_in_cbor"}


@pytest.fixture(scope="module")
def caller(control_plane: ControlPlane) -> Iterator[Caller]:
    """A connection to the API server."""
    crds.install(control_plane, crds.JOB_SET)
    with Caller(control_plane) as connection:
        yield connection
    crds.remove(control_plane, crds.JOB_SET)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("way", ALL, ids=[way.__name__ for way in ALL])
def test_no_way_round(caller: Caller, namespace: str, way: Callable[[Target], None]) -> None:
    """A reserved label is written at no place, where the same request writes an ordinary one at some."""
    assert written(caller, namespace, way, RESERVED) == set()
    assert bool(written(caller, namespace, way, ORDINARY)) == (way.__name__ not in NOT_SERVED)


def written(caller: Caller, namespace: str, way: Callable[[Target], None], key: str) -> set[str]:
    """Return the places where a way writes the key: of an ordinary one the first, which shows that it is a way."""
    known, names = kinds(caller), set[str]()
    for number, (place, manifest) in enumerate(places(namespace, key).items()):
        if key == ORDINARY and names:
            break
        manifest["metadata"]["name"] = f"{way.__name__.replace('_', '-')}-{len(key)}-{number}"
        target = Target(caller, of(known, manifest), manifest, key)
        way(target)
        if key in json.dumps(target.all_stored()):
            names.add(place)
        target.delete()
    return names


@pytest.mark.usefixtures("service")
def test_a_huge_object_exceeds_the_cost_limit(caller: Caller, namespace: str) -> None:
    """The API server counts the guard's match conditions as failed for the two largest requests, and stores nothing."""
    before = failed_conditions(caller)
    manifest = places(namespace, RESERVED)["StatefulSet"]
    target = Target(caller, of(kinds(caller), manifest), manifest, RESERVED)

    create_a_huge_one(target)

    assert failed_conditions(caller) - before == 2
    assert target.all_stored() == []


def failed_conditions(caller: Caller) -> int:
    """Return how often the API server could not evaluate the match conditions of the guard."""
    lines = caller.send("GET", "/metrics", accept="text/plain").body["message"].splitlines()
    series = [line for line in lines if line.startswith("apiserver_admission_match_condition_evaluation_errors_total{")]
    return sum(int(line.rpartition(" ")[2]) for line in series if 'name="labels.cks-admission.dev"' in line)


def test_ways_are_listed() -> None:
    """The guide lists every way with what it sends, and no other."""
    rows = [f"| {way.__name__.replace('_', ' ')} | {' '.join((way.__doc__ or '').split())} |" for way in ALL]
    table = GUIDE.read_text(encoding="utf-8").partition("| way | what is sent |\n|---|---|\n")[2]
    assert table.partition("\n\n")[0].splitlines() == rows
