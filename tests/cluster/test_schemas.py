"""`check` judges manifests by their schemas as a real API server does, and knows what it demands of single fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.brokenmanifests import definitions, differences

from cluster import crds, fieldrules, schemacorpus
from cluster.apicalls import Caller
from cluster.programs import release
from policies.admissionpolicy.builtin.table import types_of
from policies.kubernetes.release import named

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane


def test_manifests_are_judged_as_by_the_api_server(control_plane: ControlPlane) -> None:
    """Each broken manifest is refused by both, each right one by none, and both name the same fields."""
    with crds.installed(control_plane, *definitions()), Caller(control_plane) as caller:
        answers = schemacorpus.record(caller)

    assert list(differences(named(release()), answers)) == []


def test_rules_of_fields_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    """The API server says of each field with a rule, in an object of each kind, what the table has."""
    recorded = json.loads((fieldrules.FOLDER / f"fieldrules-{release()}.json").read_bytes())
    with Caller(control_plane) as caller:
        learnt = fieldrules.learn(fieldrules.poster(caller), types_of(named(release())), 1, recorded)

    others = {
        (owner, field): (rule, learnt.get(owner, {}).get(field))
        for owner, rules in recorded.items()
        for field, rule in rules.items()
        if not rule.items() <= learnt.get(owner, {}).get(field, {}).items()
    }
    assert others == {}
