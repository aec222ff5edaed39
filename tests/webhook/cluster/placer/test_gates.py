"""Serving replicas say whether somebody opens gates."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.api.fakeapi import FakeApi, named, status
from support.api.times import Times

from webhook.cluster.api.client import Connection
from webhook.cluster.placer.gates import PlacerLookout

LEASES = "/apis/coordination.k8s.io/v1/namespaces/cks/leases"
REMEDY = (
    ": gangs with a placement wait; look at the Pods of the placer, or open all gates by `cks-admission topology "
    "release`"
)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"holderIdentity": "placer-1", "renewTime": 0}, ""),
        ({"holderIdentity": "placer-1", "renewTime": -40}, ""),
        ({"holderIdentity": "placer-1", "renewTime": -50}, "placer-1 has not renewed the Lease cks/placer for 50 s"),
        ({"holderIdentity": "", "renewTime": 0}, "nobody holds the Lease cks/placer"),
        ({}, "nobody holds the Lease cks/placer"),
        (None, "there is no Lease cks/placer"),
    ],
    ids=["fresh", "late", "stale", "given-up", "empty", "none"],
)
async def test_who_holds_the_lease(
    server: FakeApi, api: Connection, times: Times, spec: dict[str, Any] | None, said: str
) -> None:
    """A holder that renews the Lease is a placer; else it is said that gangs wait, with the remedy."""
    if spec is not None:
        if "renewTime" in spec:
            at = times.date + timedelta(seconds=spec["renewTime"])
            spec = {**spec, "renewTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        server.put(LEASES, named("placer", spec=spec))

    assert await PlacerLookout(api, "cks", "placer", times.clock).look() == (said and said + REMEDY)


async def test_what_cannot_be_found_out_is_no_reason(server: FakeApi, api: Connection, times: Times) -> None:
    """A missing right or an API server in trouble says nothing about the placer."""
    server.fail(f"{LEASES}/placer", 403, status(403, "leases is forbidden"))

    assert await PlacerLookout(api, "cks", "placer", times.clock).look() == ""
