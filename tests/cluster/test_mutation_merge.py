"""Mutations give the same object on a real API server and in our engine."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from cluster import mergeschemas, mutated
from cluster.mutated import Answer, Client, Recorded
from cluster.mutations import CASES, LENIENT, SAME, Mutation
from cluster.programs import judged_as
from policies.admissionpolicy.mutation import application
from policies.kubernetes.release import RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cluster.controlplane import ControlPlane


pytestmark = pytest.mark.differs("merges")
OLDEST = RELEASES[0]


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane) -> str:
    """Make a Namespace for all cases."""
    name = f"merge-{secrets.token_hex(4)}"
    control_plane.namespace(name)
    return name


@pytest.fixture(scope="module")
def recorded(control_plane: ControlPlane, place: str) -> Iterator[Mapping[str, Recorded]]:
    """What the API server makes of all cases; its policies are gone afterwards."""
    yield mutated.record(control_plane, place)
    mutated.remove(control_plane)
    control_plane.objects.delete("namespace", place)


@pytest.fixture(scope="module")
def client(control_plane: ControlPlane) -> Iterator[Client]:
    """One connection for all cases."""
    with Client(control_plane.identity("merge-client", ["system:masters"]), control_plane.ca_file) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mutation_is_that_of_the_api_server(
    case: Mutation,
    recorded: Mapping[str, Recorded],
    client: Client,
    place: str,
    record_property: Callable[[str, object], None],
) -> None:
    """An object comes out as kube-apiserver's own policy leaves it, or is refused with the same words and status."""
    there = mutated.relabelled(recorded[case.name].there)

    here = _ours(case, recorded[case.name], client, place)

    if case.compared == SAME or (case.compared == LENIENT and judged_as() != OLDEST):
        assert here == there
    else:
        assert (here.object is None, there.object is None) == (case.compared != LENIENT, True)
        if case.compared == LENIENT:
            record_property("difference", f"{case.name} is refused there")


def test_table_is_that_of_the_api_server(control_plane: ControlPlane) -> None:
    """The shipped tables say of each kind and resource what the API server's own documents say."""
    assert mergeschemas.TABLE.read_text(encoding="utf-8") == mergeschemas.table(control_plane)
    assert mergeschemas.RESOURCES.read_text(encoding="utf-8") == mergeschemas.resource_table(control_plane)


def _ours(case: Mutation, recorded: Recorded, client: Client, place: str) -> Answer:
    """What our engine makes of a case, with the API server's defaults."""
    try:
        obj = mutated.ours(case, recorded.given)
    except application.InternalError as error:
        return Answer(500, message=str(error))
    except application.MutationError as error:
        return Answer(403, message=f"policy '{case.name}' with binding '{case.name}' denied request: {error}")
    return mutated.relabelled(mutated.create(client, place, case.object, "none", obj))
