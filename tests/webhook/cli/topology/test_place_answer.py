"""What `cks-admission topology place` tells of a gang: the words, the table, and the data."""

from __future__ import annotations

import click
import pytest
from msgspec.structs import replace

from policies.engine.engine import Answer, Decision
from policies.engine.request import UserInfo
from policies.engine.violation import Violation
from policies.topology.choice.choice import Candidate, Choice
from policies.topology.gang.address import Address, Step
from policies.topology.gang.gang import Gang, GangKey, Member, Tier
from webhook.cli.objects.outcome import ObjectOutcome
from webhook.cli.topology.placement import answer, text
from webhook.cli.topology.placement.answer import GangAnswer, ObjectAnswer
from webhook.files import manifest
from webhook.files.manifest import Manifest

_SUPERPOD = "backend.coreweave.cloud/superpod"
_OLD_SUPERPOD = "ib.coreweave.cloud/superpod"
_RACK = "node.coreweave.cloud/rack"
_GANG = Gang(
    GangKey("default", "batch", "Job", "train"),
    "coreweave",
    (
        Tier("superpod", (_SUPERPOD, _OLD_SUPERPOD)),
        Tier("rack", (_RACK,)),
        Tier("hostname", ("kubernetes.io/hostname",)),
    ),
    (Member("spec.template", 4, (("cpu", 8000), ("nvidia.com/gpu", 8), ("pods", 1)), 8),),
    required=1,
)


def _rack(superpod: str, rack: str) -> Address:
    return Step(0, (_SUPERPOD,), (superpod,)), Step(1, (_RACK,), (rack,))


_MISSING = (("cpu", 16000), ("nvidia.com/gpu", 16), ("pods", 2))
_FIRST = Candidate(_rack("1", "12"), nodes=4, free=32, total=32, pods=4, fits=True)
_SECOND = Candidate(_rack("2", "3"), 8, 24, 64, 2, fits=False, promised=8, missing=_MISSING)
_FITS = Choice("fits", required=_rack("1", "12"), level="rack", considered=(_FIRST, _SECOND), domains=9)
_FULL = Choice("full", "", _rack("2", "3"), (), "rack", _MISSING, 16, 2, considered=(_SECOND,), domains=1)


def _object(*gangs: GangAnswer, violation: Violation | None = None, warnings: tuple[str, ...] = ()) -> ObjectAnswer:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    request = manifest.request(job, None, user=UserInfo("user"), namespace="default")
    decisions = () if violation is None else (Decision("topology", "deny", (violation,)),)
    outcome = ObjectOutcome(Manifest("train.yaml:1", job), request, job, Answer(), Answer(decisions, (), warnings))
    return ObjectAnswer(outcome, gangs)


def _placed(choice: Choice) -> GangAnswer:
    return GangAnswer(("spec.template",), "domain", "coreweave", "rack", gang=_GANG, choice=choice)


def _lines(told: ObjectAnswer) -> list[str]:
    return [click.unstyle(line) for line in text.text(told)]


_HEAD = {
    "where": "train.yaml:1",
    "kind": "Job",
    "namespace": "default",
    "name": "train",
    "allowed": True,
    "templates": ["spec.template"],
    "placement": "domain",
    "topology": "coreweave",
    "level": "rack",
    "required": True,
}
_FIRST_TOLD = {
    "domain": {_SUPERPOD: "1", _RACK: "12"},
    "nodes": 4,
    "gpus": 32,
    "free": 32,
    "promised": 0,
    "pods": 4,
    "fits": True,
    "missing": {},
}
_SECOND_TOLD = {
    "domain": {_SUPERPOD: "2", _RACK: "3"},
    "nodes": 8,
    "gpus": 64,
    "free": 24,
    "promised": 8,
    "pods": 2,
    "fits": False,
    "missing": {"cpu": "16000m", "nvidia.com/gpu": 16},
}


def test_a_gang_that_fits_is_told_with_all_that_was_considered() -> None:
    """The domain is marked in the table, the runner-up follows it, and what that lacks is named."""
    assert _lines(_object(_placed(_FITS), warnings=("the Pods stay there",))) == [
        "train.yaml:1: Job default/train: admitted",
        "  spec.template: 4 Pods with 32 GPUs",
        "    required: one rack, topology coreweave",
        "    placement: domain (the service chooses the domain, and writes it as node affinity)",
        "    domain: superpod 1, rack 12",
        "    it fits now",
        "      RACK                 NODES  GPUS  FREE  PROMISED  PODS  MISSING",
        "    * superpod 1, rack 12      4    32    32               4",
        "      superpod 2, rack 3       8    64    24         8     2  16000m cpu, 16 nvidia.com/gpu",
        "      and 7 domains more",
        "  Warning: the Pods stay there",
    ]


def test_data_of_a_gang_that_fits_have_nothing_missing() -> None:
    """`missing` is absent, and the domain is a map from node label key to value."""
    told = _object(_placed(_FITS))

    assert answer.data(told.gangs[0], told.outcome) == {
        **_HEAD,
        "domain": {_SUPERPOD: "1", _RACK: "12"},
        "pods": 4,
        "gpus": 32,
        "outcome": "fits",
        "preferred": [],
        "considered": [_FIRST_TOLD, _SECOND_TOLD],
        "domains": 9,
        "reason": "",
        "message": "",
        "warnings": [],
    }
    assert told.fits


def test_what_is_missing_is_told_in_pods_and_gpus() -> None:
    """A domain that is full is told with the Pods without a place, their GPUs, and each resource that lacks."""
    told = _object(_placed(_FULL))

    assert _lines(told)[4:6] == [
        "    domain: superpod 2, rack 3",
        (
            "    it is full now: 2 of 4 Pods with 16 GPUs without a place "
            "(16000m cpu, 16 nvidia.com/gpu missing) until other work ends"
        ),
    ]
    assert answer.data(told.gangs[0], told.outcome) == {
        **_HEAD,
        "domain": {_SUPERPOD: "2", _RACK: "3"},
        "pods": 4,
        "gpus": 32,
        "outcome": "full",
        "preferred": [],
        "missing": 16,
        "missingPods": 2,
        "missingResources": {"cpu": "16000m", "nvidia.com/gpu": 16},
        "considered": [_SECOND_TOLD],
        "domains": 1,
        "reason": "",
        "message": "",
        "warnings": [],
    }
    assert not told.fits


@pytest.mark.parametrize(
    ("choice", "line", "fits"),
    [
        pytest.param(
            replace(_FULL, outcome="never", required=()),
            "    it can never fit on these Nodes: 2 of 4 Pods with 16 GPUs without a place "
            "(16000m cpu, 16 nvidia.com/gpu missing)",
            False,
            id="never",
        ),
        pytest.param(
            replace(_FITS, outcome="preempts"),
            "    it fits now if Pods of lower priority make room",
            True,
            id="preempts",
        ),
    ],
)
def test_every_outcome_has_its_words(choice: Choice, line: str, fits: bool) -> None:  # noqa: FBT001 - a column
    """What can never fit is told from what is full, and only these two are findings."""
    told = _object(_placed(choice))

    assert line in _lines(told)
    assert told.fits is fits


def test_preferred_domains_are_told_nearest_first() -> None:
    """A required domain has its preferred ones beside it; without a required level the nearest one is the domain."""
    inner = (*_rack("1", "12"), Step(2, ("kubernetes.io/hostname",), ("g1", "g2")))
    both = replace(_FITS, preferred=(inner,))
    preferred = replace(_FITS, required=(), preferred=(_rack("1", "12"), _rack("1", "12")[:1]))
    gang = GangAnswer(
        ("spec.template",), "domain", "coreweave", "rack", is_required=False, gang=_GANG, choice=preferred
    )

    assert _lines(_object(_placed(both)))[5] == "    preferred: superpod 1, rack 12, hostname g1 or g2"
    assert _lines(_object(gang))[2:7] == [
        "    preferred: one rack, topology coreweave",
        "    placement: domain (the service chooses the domain, and writes it as node affinity)",
        "    domain: superpod 1, rack 12",
        "    preferred: superpod 1",
        "    it fits now",
    ]
    told = answer.data(gang, _object(gang).outcome)
    assert (told["domain"], told["preferred"], told["required"]) == (
        {_SUPERPOD: "1", _RACK: "12"},
        [{_SUPERPOD: ["1"], _RACK: ["12"]}, {_SUPERPOD: ["1"]}],
        False,
    )


def test_a_gang_that_nothing_was_asked_about_is_told_with_the_reason() -> None:
    """Where a scheduler reads the annotations itself, nothing is written, and it is said why."""
    told = _object(GangAnswer(("",), "none", "coreweave", "rack", reason="its scheduler reads the annotations itself"))

    assert _lines(told) == [
        "train.yaml:1: Job default/train: admitted",
        "  the Pod itself",
        "    required: one rack, topology coreweave",
        "    placement: none (its scheduler reads the annotations itself)",
    ]
    assert answer.data(told.gangs[0], told.outcome) == {
        **_HEAD,
        "templates": [""],
        "placement": "none",
        "domain": {},
        "reason": "its scheduler reads the annotations itself",
        "message": "",
        "warnings": [],
    }


def test_a_refusal_is_told_below_its_gangs() -> None:
    """An object that is refused does not fit, and the refusal is shown."""
    violation = Violation("topology", "spec", "", "is no place", "The gang can never fit.", "Ask for less.")
    told = _object(_placed(_FITS), violation=violation)

    assert (_lines(told)[0], _lines(told)[-3:], told.fits) == (
        "train.yaml:1: Job default/train: refused",
        ["  The gang can never fit.", "    spec: is no place", "  Ask for less."],
        False,
    )
