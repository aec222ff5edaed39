"""Mutations give the same object on a real API server and in our engine."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from cluster import builtintypes, mutations, servedresources
from cluster.apicalls import Caller
from cluster.mutations import CASES, LENIENT, SAME, Answer, Mutation, Recorded
from cluster.programs import release
from policies.admissionpolicy.builtin.table import types_of
from policies.admissionpolicy.mutation import dispatcher
from policies.kubernetes.release import RELEASES, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cluster.controlplane import ControlPlane

pytestmark = pytest.mark.differs("merges")


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane) -> str:
    """Make a Namespace for all cases."""
    name = f"merge-{secrets.token_hex(4)}"
    control_plane.namespace(name)
    return name


@pytest.fixture(scope="module")
def recorded(control_plane: ControlPlane, place: str) -> Iterator[Mapping[str, Recorded]]:
    """What the API server makes of all cases; its policies are gone afterwards."""
    yield mutations.record(control_plane, place)
    mutations.remove(control_plane)
    control_plane.objects.delete("namespace", place)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mutation_is_that_of_the_api_server(
    case: Mutation,
    recorded: Mapping[str, Recorded],
    caller: Caller,
    place: str,
    record_property: Callable[[str, object], None],
) -> None:
    """An object comes out as kube-apiserver's own policy leaves it, or is refused with the same status."""
    there = mutations.relabelled(recorded[case.name].there)

    here = _ours(case, recorded[case.name], caller, place)

    if case.compared == SAME or (case.compared == LENIENT and there.object is not None):
        assert (here.object, here.code) == (there.object, there.code)
    else:
        assert (here.object is None, there.object is None) == (case.compared != LENIENT, True)
        if case.compared == LENIENT:
            record_property("difference", f"{case.name} is refused there")


def test_tables_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    """The shipped tables say of each kind and resource what the API server's own documents say."""
    table = types_of(named(release()))
    served = servedresources.documents(control_plane)
    definitions = {name: builtintypes.reduced(each) for document in served for name, each in document.items()}
    theirs = builtintypes.compact(builtintypes.kinds(served), definitions)

    assert {kind: table.kinds.get(kind) for kind in theirs["kinds"]} == theirs["kinds"]
    assert {name: _served(table.types[name]) for name in theirs["types"]} == {
        name: _served(each) for name, each in theirs["types"].items()
    }


def test_resources_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    """The shipped table has the resources of the oldest release, which later ones serve as well."""
    recorded = servedresources.RESOURCES.read_text(encoding="utf-8")
    served = servedresources.resource_table(control_plane)

    assert set(_resources(recorded)) <= set(_resources(served))
    assert named(release()) != RELEASES[0] or recorded == served


def _resources(text: str) -> Iterator[tuple[str, ...]]:
    for version, scopes in json.loads(text).items():
        for scope, names in scopes.items():
            yield from ((version, scope, name, kind) for name, kind in names.items())


def _served(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition without what the documents do not say: enumerations, and what the encoding omits."""
    kept = {key: value for key, value in definition.items() if key not in {"enum", "omit"}}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _served(kept[key])
    if "properties" in kept:
        kept["properties"] = {name: _served(field) for name, field in kept["properties"].items()}
    return kept


def _ours(case: Mutation, recorded: Recorded, caller: Caller, place: str) -> Answer:
    """What our engine makes of a case, with the API server's defaults."""
    try:
        obj = mutations.ours(case, recorded.given)
    except dispatcher.InternalError as error:
        return Answer(500, message=str(error))
    except dispatcher.MutationError as error:
        return Answer(403, message=f"policy '{case.name}' with binding '{case.name}' denied request: {error}")
    return mutations.relabelled(mutations.create(caller, place, case.object, "none", obj))
