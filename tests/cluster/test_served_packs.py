"""The shipped packs, served: what a person reads in kubectl about the objects of every suite is what the suites say."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.packmodes import OFF
from support.policies import packs

from cluster import crds, workloads
from cluster.service import registered
from policies.suite import Case, CaseNamespace, CaseUser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster.controlplane import ControlPlane
    from cluster.kubectl import Completed
    from cluster.manifests import Manifest
    from cluster.service import Service

TEAM = CaseNamespace().name
_USUAL: tuple[object, ...] = ("CREATE", CaseUser(), CaseNamespace(), {})
# What the rule of labels refuses by itself.
_APART = ("the Deployment's own label is no Pod's", "labels and templates that are no maps")
_TOLERATIONS = [
    {"key": "node.coreweave.cloud/reserved", "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "sunk.coreweave.com/lock", "operator": "Exists"},
]
_REFUSAL = re.compile(
    r'^Error from server \(Forbidden\): error when creating "STDIN": '
    r'admission webhook "policies-ignore\.cks-admission\.dev" denied the request: ',
    re.MULTILINE,
)
_DENIAL = re.compile(r"^ValidatingAdmissionPolicy '([^']*)' with binding '\1' denied request: ", re.MULTILINE)


def _cases() -> Iterator[Case]:
    """What anybody creates in a Namespace with the parameters that are shipped, and what several policies refuse."""
    for _, case in packs.cases():
        if (case.operation, case.user, case.namespace, case.params) == _USUAL and case.name not in _APART:
            yield case
            if case.name in ("too long", "a DaemonSet"):
                several = copy.deepcopy(dict(case.object or {}))
                several["spec"]["template"]["spec"]["tolerations"] = _TOLERATIONS
                yield replace(case, object=several)


CASES = [*_cases()]


def expected(case: Case) -> tuple[list[str], list[str]]:
    """The refusals and the warnings of all policies, each as what a person reads without the policy's name."""
    said = [packs.judged(policy, case) for policy in packs.shipped()]
    return sorted(text for each in said for text in each.messages), [text for each in said for text in each.warnings]


def manifests(cases: Iterable[Case]) -> list[Manifest]:
    """The objects of cases, each with a name of its own."""
    found = [copy.deepcopy(dict(case.object or {})) for case in cases]
    for number, each in enumerate(found):
        each["metadata"]["name"] = f"case-{number}"
    return found


@pytest.fixture(scope="module")
def served(judged: ControlPlane) -> Iterator[Service]:
    """A service that enforces the packs by its settings, not those of kube-apiserver, and the kinds of the suites."""
    settings = {"packs": dict.fromkeys(OFF, "enforce"), "policies": {"native": False}, "topology": {"action": "off"}}
    with (
        crds.installed(judged, *crds.kinds_of(manifests(CASES))),
        registered(judged, **settings) as service,
    ):
        judged.namespace(TEAM)
        yield service


def _apply(service: Service, cases: Iterable[Case]) -> Completed:
    options = ("-n", TEAM, "--dry-run=server", "--validate=false")
    return service.control_plane.apply(manifests(cases), *options)


def warnings(answer: Completed) -> set[str]:
    """The warnings that kubectl shows, each of them once, without the names of policies."""
    lines = (line.removeprefix("Warning: ") for line in answer.stderr.splitlines() if line.startswith("Warning: "))
    return {line.partition(": ")[2] for line in lines}


def test_what_a_person_reads(served: Service) -> None:
    """All that policies refuse, of all policies at once, with paths into the object; and what they warn of."""
    answer = _apply(served, CASES)

    refusals = [_DENIAL.split(text.rstrip("\n")) for text in _REFUSAL.split(answer.stderr)[1:]]
    expectations = [expected(case) for case in CASES]
    names = {policy.policy.name for each in packs.shipped() for policy in each.compiled}
    assert [sorted(text.rstrip("\n") for text in parts[2::2]) for parts in refusals] == [
        messages for messages, _ in expectations if messages
    ]
    assert {name for parts in refusals for name in parts[1::2]} <= names
    assert warnings(answer) == {text for _, texts in expectations for text in texts}


def test_inference_that_could_be_interruptable(served: Service) -> None:
    """GPU inference that does not say what it is, is on record, and nobody is bothered."""
    named = {case.name: case for policy, case in packs.cases() if policy.name.endswith("/interruptable-candidate")}
    before = len(served.events("review"))
    answers = [
        _apply(served, [named[name]]) for name in ("a Deployment with GPUs", "one that says yes", "one that says no")
    ]

    decided = [event["decisions"].get("interruptable-candidate") for event in served.events("review")[before:]]
    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3
    assert [each[0] for each in decided if each] == ["audit", "admit", "admit"]


def test_by_default_they_warn(served: Service) -> None:
    """What the packs refuse is admitted with a warning, and the toleration of one's own reservation without any."""
    refused = [case for case in CASES if expected(case)[0]]
    own = {"key": "node.coreweave.cloud/reserved", "operator": "Equal", "value": "mine"}
    deployment = workloads.apps("Deployment", TEAM, template=workloads.template(tolerations=[own]))
    with served.configured(packs={}, organization={"reservedHash": "mine"}):
        others = _apply(served, refused)
        mine = served.control_plane.apply(deployment, "--dry-run=server")

    assert (mine.returncode, mine.stderr, others.returncode) == (0, "", 0)
    # A long warning is cut in the middle.
    messages = {message.splitlines()[0] for case in refused for message in expected(case)[0]}
    ends = [(line, message) for line in others.stderr.splitlines() for message in messages]
    shown = {message for line, message in ends if f": {message[:30]}" in line and line.endswith(message[-50:])}
    assert shown == messages


def test_an_outage_refuses_nothing(served: Service) -> None:
    """While no replica runs, what the packs would refuse is admitted like everything else."""
    served.kill()
    try:
        answer = _apply(served, CASES)
    finally:
        served.start()

    assert (answer.returncode, "webhook" in answer.stderr) == (0, False)
