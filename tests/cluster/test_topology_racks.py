"""The example of the documents on a real scheduler: a workload of six Nodes lands in the one rack that has room for it.

What becomes of it without the service is measured by `python -m benchmarks placement`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster import racks
from cluster.racks import Racks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.service import Service

RUNS = 10


@pytest.fixture
def two_racks(control_plane: ControlPlane, service: Service, namespace: str) -> Iterator[Racks]:
    """Two racks, of which only one has six Nodes free."""
    del service
    with racks.standing(control_plane):
        yield Racks(control_plane, namespace)


def test_gang_is_together_whatever_the_order_of_nodes(two_racks: Racks) -> None:
    """With the annotations of the documents all Pods are in one rack, each time; those of a plain Job are split."""
    landings = []
    for run in range(RUNS):
        two_racks.arrange(run)
        landings.append(two_racks.land("gate"))

    two_racks.arrange(RUNS)
    assert (landings, two_racks.land("plain")) == (["together"] * RUNS, "split")
