"""Replicas of two versions side by side, of which the later one has one more entry that fails closed.

Writes go on meanwhile. None is refused because a replica does not know the entry's path, and once the entry is
registered none slips through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.load import Load
from cluster.polling import NotYet, wait_for
from cluster.release import NAME, Release, events
from cluster.tiers import NEXT, Tiers, registered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane


@pytest.fixture(scope="module")
def writing(audited: ControlPlane, installed: Release) -> Iterator[Load]:
    """Writers of all other kinds, which neither version must fail."""
    installed.install()
    installed.wait_until_asked()
    with Load(audited, writers=2) as running:
        yield running


@pytest.fixture
def later(installed: Release, writing: Load) -> Release:
    """The release in the later version with its entry, as the test before leaves it."""
    del writing
    installed.install(**NEXT)
    wait_for("the entry", lambda: registered(installed))
    return installed


def test_roll_out(audited: ControlPlane, installed: Release, writing: Load) -> None:
    """The entry comes when all replicas know it, and no write fails."""
    tiers = Tiers(audited)
    with tiers.going_on(), writing.phase("roll-out") as phase:
        before = {each.name for each in installed.kubelet.named()}
        installed.install(**NEXT)
        wait_for("the entry", lambda: registered(installed))
        old = {each.name for each in installed.kubelet.named() if each.name in before and each.component == "webhook"}
        wait_for("the first refusal", lambda: tiers.verdicts[-1] == "refused")
        writing.settle(3.0)

    assert tiers.changes() == ["passed", "refused"]
    assert old == set()
    assert (phase.failures, phase.total("unasked")) == ([], 0)


def test_an_older_replica_waits_for_manage(audited: ControlPlane, later: Release, writing: Load) -> None:
    """Manage of the later version takes the entry away for an older replica, and puts it back when that has gone."""
    tiers = Tiers(audited)
    with tiers.going_on(), writing.phase("an older replica") as phase:
        wait_for("the first refusal", lambda: bool(tiers.verdicts) and tiers.verdicts[-1] == "refused")
        audited.kubectl(
            "set", "image", f"deployment/{NAME}", "webhook=cks-admission:0.1.0", "-n", NAME, user="admin", check=True
        )
        wait_for("the entry to go", lambda: not registered(later))
        later.wait()
        (manager,) = later.kubelet.ready("manage")
        told = [event["reason"] for event in events(manager, "entries wait for replicas")]
        writing.settle(2.0)
        later.install(**NEXT)

        def back() -> bool:
            if not registered(later) or tiers.verdicts[-1] != "refused":
                raise NotYet(f"{tiers.changes()}")
            return True

        wait_for("the entry to be back", back)

    assert tiers.changes() == ["refused", "passed", "refused"]
    assert (phase.failures, phase.total("unasked")) == ([], 0)
    assert any("fails closed at /validate/tiers" in reason for reason in told)


def test_roll_back(audited: ControlPlane, later: Release, writing: Load) -> None:
    """The entry goes before the first replica is ready that does not know it, and no write fails."""
    tiers = Tiers(audited)
    with tiers.going_on(), writing.phase("roll-back") as phase:
        wait_for("the first refusal", lambda: bool(tiers.verdicts) and tiers.verdicts[-1] == "refused")
        later.install()
        wait_for("the entry to go", lambda: not registered(later))
        wait_for("the last refusal", lambda: tiers.verdicts[-1] == "passed")
        writing.settle(3.0)

    assert tiers.changes() == ["refused", "passed"]
    assert (phase.failures, phase.total("unasked")) == ([], 0)
