"""`check` judges manifests by their schemas as a real API server does, and knows what it demands of single fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.brokenmanifests import cases, definitions, differences
from support.service.commands import run

from cluster import crds, fieldrules, schemacorpus
from cluster.apicalls import Caller
from cluster.programs import release
from policies.admissionpolicy.builtin.table import types_of
from policies.kubernetes.release import named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.controlplane import ControlPlane

pytestmark = pytest.mark.differs("schemas")


def test_manifests_are_judged_as_by_the_api_server(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    """Each broken manifest is refused by both, each right one by none, and both name the same fields."""
    record_property("cases", len(cases()))
    with crds.installed(control_plane, *definitions()), Caller(control_plane) as caller:
        answers = schemacorpus.record(caller)

    assert list(differences(named(release()), answers)) == []


def test_rules_of_fields_are_those_of_the_api_server(
    control_plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    """The API server says of each field with a rule, in an object of each kind, what the table has."""
    recorded = json.loads((fieldrules.FOLDER / f"fieldrules-{release()}.json").read_bytes())
    record_property("cases", sum(map(len, recorded.values())))
    with Caller(control_plane) as caller:
        learnt = fieldrules.learn(fieldrules.poster(caller), types_of(named(release())), 1, recorded)

    others = {
        (owner, field): (rule, learnt.get(owner, {}).get(field))
        for owner, rules in recorded.items()
        for field, rule in rules.items()
        if not rule.items() <= learnt.get(owner, {}).get(field, {}).items()
    }
    assert others == {}


def test_definitions_come_from_a_cluster(control_plane: ControlPlane, tmp_path: Path) -> None:
    """With --kubeconfig a custom resource is judged by the definition that the cluster has."""
    manifest = next(case.text for case in cases() if case.name == "a number that is more than the most")
    (tmp_path / "training.yaml").write_text(manifest, encoding="utf-8")
    with crds.installed(control_plane, *definitions()):
        arguments = (str(tmp_path / "training.yaml"), "--kubeconfig", str(control_plane.kubeconfig("alice")))
        result = run("check", *arguments)

    said = "Invalid value: 9: spec.workers in body should be less than or equal to 8"
    assert (said in result.stdout, result.exit_code) == (True, 1)
