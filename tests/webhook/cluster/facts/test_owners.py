"""The workload at the top, read from the API server."""

from __future__ import annotations

import pytest
from support.api.fakeapi import FakeApi, Json, named, status

from policies.engine.request import Owner
from policies.objects.workload import BUILT_IN, table
from webhook.audit.owners import Owners
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ApiError
from webhook.cluster.facts.workloads import owner_reader

WORKLOADS = table(row for row in BUILT_IN if row.makes_pods)
_JOBS, _SETS = "/apis/batch/v1/namespaces/team/jobs", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
_JOB = Owner("batch/v1", "Job", "train-0", "j")
_SET = Owner("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "s")
_TRAIN = Owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", "t")


def _object(owner: Owner, above: Owner | None = None) -> Json:
    found = named(owner.name, namespace="team")
    found["metadata"]["uid"] = owner.uid
    if above is not None:
        reference = {"apiVersion": above.api_version, "kind": above.kind, "name": above.name, "uid": above.uid}
        found["metadata"]["ownerReferences"] = [{**reference, "uid": "x"}, {**reference, "controller": True}]
    return found


async def test_the_top_is_found_by_metadata_alone(server: FakeApi, api: Connection) -> None:
    """Each owner is read once, by its name and without its content, up to a kind that is not known."""
    server.put(_JOBS, _object(_JOB, _SET))
    server.put(_SETS, _object(_SET, _TRAIN))
    owners = Owners(owner_reader(api, WORKLOADS))

    assert [await owners.top("team", owner) for owner in (_JOB, _JOB, _SET, _TRAIN)] == [_TRAIN] * 4
    assert [(seen.method, seen.path, seen.query["fieldSelector"]) for seen in server.seen] == [
        ("GET", _JOBS, "metadata.name=train-0"),
        ("GET", _SETS, "metadata.name=train"),
    ]
    assert all("PartialObjectMetadataList" in seen.headers["Accept"] for seen in server.seen)


async def test_who_is_gone_or_owned_by_nobody_is_the_top(server: FakeApi, api: Connection) -> None:
    """An object of the same name and another uid is not the owner."""
    server.put(_JOBS, _object(Owner("batch/v1", "Job", "train-0", "younger"), _SET))

    assert await Owners(owner_reader(api, WORKLOADS)).top("team", _JOB) == _JOB


async def test_a_missing_right_is_an_error(server: FakeApi, api: Connection) -> None:
    """It is not taken for an owner that nobody owns."""
    server.fail(_JOBS, 403, status(403, "may not list jobs"))

    with pytest.raises(ApiError, match="may not list jobs"):
        await Owners(owner_reader(api, WORKLOADS)).top("team", _JOB)
