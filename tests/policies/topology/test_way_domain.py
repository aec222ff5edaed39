"""The way `domain`: a domain is chosen for a whole gang, written, kept, and told of."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace
from policies.topology.way.permission import Permission
from support.builders import FACTS, TODAY, WORKLOADS, Json, merged, pod_spec, request, resource
from support.choices import Chooser

from policies.engine.facts import Node, StaticFacts, Taint
from policies.engine.rule import Mutation, MutationRefusedError, Note
from policies.objects import patch
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.choice.choice import Outcome
from policies.topology.constraint import Options
from policies.topology.gang.address import Address, Step
from policies.topology.gang.gang import GangKey
from policies.topology.rule import TopologyPlacement

_TOPOLOGY = "kai.scheduler/topology"
_REQUIRED, _PREFERRED = f"{_TOPOLOGY}-required-placement", f"{_TOPOLOGY}-preferred-placement"
_RECORD, _DECISION = "cks-admission.dev/topology", "cks-admission.dev/placement"
_BACKEND, _RACK = "backend.coreweave.cloud", "node.coreweave.cloud/rack"
_RULE = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS))
_GPU = {"nvidia.com/gpu": 8}
_ABOVE = {"fabric": "f1", "superpod": "2"}


def _asked(required: str = "", preferred: str = "") -> dict[str, str]:
    levels = {_REQUIRED: required, _PREFERRED: preferred}
    return {_TOPOLOGY: "coreweave", **{key: level for key, level in levels.items() if level}}


def _job(annotations: dict[str, str], **spec: Any) -> Json:
    template = {"template": {"spec": pod_spec(_GPU)}}
    return resource("batch/v1", "Job", {"spec": {"parallelism": 8, **spec, **template}}, annotations=annotations)


def _set(annotations: dict[str, str], **spec: Any) -> Json:
    spec = {"replicas": 4, **spec, "template": {"spec": pod_spec(_GPU)}}
    return resource("apps/v1", "StatefulSet", {"spec": spec}, annotations=annotations)


def _rule(**options: Any) -> TopologyPlacement:
    return TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, **options))


def _mutation(
    obj: Json, facts: StaticFacts, old: Json | None = None, rule: TopologyPlacement = _RULE, *, dry_run: bool = False
) -> Mutation:
    return rule.mutate(request(obj, old=old, dry_run=dry_run), facts)


def _changed(obj: Json, facts: StaticFacts, old: Json | None = None, rule: TopologyPlacement = _RULE) -> Json:
    return patch.apply(deepcopy(obj), _mutation(obj, facts, old, rule).operations)


def _affinity(obj: Json) -> Any:
    return obj["spec"]["template"]["spec"].get("affinity")


def _in(**labels: str) -> list[Json]:
    keys = {"rack": _RACK, **{name: f"{_BACKEND}/{name}" for name in ("fabric", "superpod", "leafgroup")}}
    return [{"key": keys[name], "operator": "In", "values": [value]} for name, value in labels.items()]


def _preferences(obj: Json) -> Any:
    return _affinity(obj)["nodeAffinity"].get("preferredDuringSchedulingIgnoredDuringExecution", [])


def _required(*expressions: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_required_level_is_one_domain() -> None:
    """The chosen domain is written with its ancestors on the keys that Nodes carry, with a record and a sentence."""
    chooser = Chooser("12", _ABOVE)

    changed = _changed(_job(_asked("rack")), chooser.facts)

    assert _affinity(changed) == _required(*_in(fabric="f1", superpod="2", rack="12"))
    annotations = changed["metadata"]["annotations"]
    assert json.loads(annotations[_RECORD])["spec.template"]["domain"] == [
        {"tier": 2, "keys": [f"{_BACKEND}/fabric"], "values": ["f1"]},
        {"tier": 3, "keys": [f"{_BACKEND}/superpod"], "values": ["2"]},
        {"tier": 5, "keys": [_RACK], "values": ["12"]},
    ]
    assert annotations[_DECISION] == "8 Pods with 64 GPUs in fabric=f1,superpod=2,rack=12 (64 of 72 GPUs free)"
    assert _mutation(_job(_asked("rack")), chooser.facts).warnings == (f'required "rack": {annotations[_DECISION]}',)
    (gang,) = chooser.asked[0].gangs
    assert (gang.key, gang.pods, gang.accelerators, gang.required, gang.preferred) == (
        GangKey("default", "batch", "Job", "trainer"), 8, 64, 5, None,
    )  # fmt: skip


def test_a_preferred_level_is_steps() -> None:
    """Inside a required superpod the rack that is preferred is a preference, and the record has the nearest domain."""
    changed = _changed(_job(_asked("superpod", "rack")), Chooser("7", {"fabric": "f1"}).facts)

    node = _affinity(changed)["nodeAffinity"]
    assert node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": _in(fabric="f1", superpod="7")}
    ]
    assert node["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {"weight": 100, "preference": {"matchExpressions": _in(rack="7")}}
    ]


@pytest.mark.parametrize(
    ("placement", "ancestors"),
    [("superpod=3,rack", {"superpod": "3"}), ("fabric in (f1,f2),rack", {"fabric": "f1", "superpod": "2"})],
)
def test_domains_that_the_user_names_narrow_the_choice(placement: str, ancestors: dict[str, str]) -> None:
    """They are in the demand, and written beside the chosen domain; a chosen ancestor takes the place of several."""
    above = {name: value for name, value in ancestors.items() if placement != "superpod=3,rack"}
    chooser = Chooser("12", above)

    changed = _changed(_job(_asked(placement)), chooser.facts)

    expressions = _affinity(changed)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    first = expressions["nodeSelectorTerms"][0]["matchExpressions"]
    assert first == _in(**ancestors, rack="12")
    (member,) = chooser.asked[0].gangs[0].members
    assert all(any(requirement.operator == "In" for requirement in term) for term in member.terms)


@pytest.mark.parametrize(
    ("required", "preferred", "near"),
    [
        ("", "superpod=3,rack", (Step(3, (f"{_BACKEND}/superpod", "ib.coreweave.cloud/superpod"), ("3",)),)),
        ("superpod", "rack in (12,13)", (Step(5, (_RACK,), ("12", "13")),)),
        ("superpod", "rack", ()),
    ],
)
def test_domains_that_are_preferred_by_name_lead_the_choice(required: str, preferred: str, near: Address) -> None:
    """They are part of the question; those that narrow a bare level stay a preference where nothing can be chosen."""
    chooser, obj = Chooser("12"), _job(_asked(required, preferred))

    changed = _changed(obj, chooser.facts)

    (gang,) = chooser.asked[0].gangs
    assert (gang.near, "12" in json.dumps(_affinity(changed))) == (near, True)
    assert '"Exists"' not in json.dumps(_affinity(changed))
    assert [step["weight"] for step in _preferences(_changed(obj, FACTS))] == [100 for step in near for _ in step.keys]


def test_a_named_level_is_the_users_own_choice() -> None:
    """Nothing is chosen where the level itself is named."""
    chooser = Chooser()

    changed = _changed(_job(_asked("superpod=3")), chooser.facts)

    assert (chooser.asked, _DECISION in changed["metadata"]["annotations"]) == ([], False)


def test_templates_of_one_level_are_one_gang() -> None:
    """All Pods that require one rack are asked about together, with each template's number of Pods."""
    replicas = {
        name: {"replicas": count, "template": {"spec": pod_spec(_GPU)}}
        for name, count in (("Master", 1), ("Worker", 3))
    }
    obj = resource(
        "kubeflow.org/v1", "PyTorchJob", {"spec": {"pytorchReplicaSpecs": replicas}}, annotations=_asked("rack")
    )
    chooser = Chooser("12")

    changed = _changed(obj, chooser.facts)

    (gang,) = chooser.asked[0].gangs
    assert [(member.path.split(".")[2], member.count) for member in gang.members] == [("Master", 1), ("Worker", 3)]
    specs = changed["spec"]["pytorchReplicaSpecs"]
    assert [specs[name]["template"]["spec"]["affinity"] for name in specs] == [_required(*_in(rack="12"))] * 2


def test_the_jobset_of_a_trainjob() -> None:
    """What Kubeflow's Trainer makes from a TrainJob and its runtime is placed as one gang, at the TrainJob's numbers.

    It copies the annotations of both to the JobSet, and numNodes to parallelism and completions of the training step.
    """
    trainer = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "a", "controller": True}
    steps = {"dataset-initializer": (1, {}), "node": (4, _GPU)}
    jobs = [
        {
            "name": name,
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": name}},
                "spec": {"parallelism": pods, "completions": pods, "template": {"spec": pod_spec(asked)}},
            },
        }
        for name, (pods, asked) in steps.items()
    ]
    obj = resource("jobset.x-k8s.io/v1alpha2", "JobSet", {"spec": {"replicatedJobs": jobs}}, annotations=_asked("rack"))
    obj["metadata"]["ownerReferences"] = [trainer]
    chooser = Chooser("12", _ABOVE)

    changed = _changed(obj, chooser.facts)

    assert changed["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["affinity"] == _required(
        *_in(fabric="f1", superpod="2", rack="12")
    )
    (gang,) = chooser.asked[0].gangs
    assert (gang.key.kind, gang.pods, gang.accelerators) == ("JobSet", 4, 32)


@pytest.mark.parametrize(
    "edit", [{"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 2}}], ids=["label", "fewer"]
)
def test_a_gang_stays_where_it_is(edit: Json) -> None:
    """An update that asks for nothing else asks nobody, though another domain would be chosen today."""
    live = _changed(_set(_asked("rack")), Chooser("12").facts)
    chooser = Chooser("7")

    assert _changed(merged(live, edit), chooser.facts, live) == merged(live, edit)
    assert chooser.asked == []


def test_a_manifest_that_is_put_again_keeps_its_domain() -> None:
    """The domain is taken from the old object's record, with the sentence, if the new object has neither."""
    manifest = _set(_asked("rack"))
    live = _changed(manifest, Chooser("12").facts)

    assert _changed(manifest, Chooser("7").facts, live) == live


def _own_terms(obj: Json) -> Json:
    obj["spec"]["template"]["spec"]["affinity"] = deepcopy(_required(*_in(leafgroup="1")))
    return obj


@pytest.mark.parametrize("asked", [("rack", ""), ("superpod", "rack"), ("", "rack"), ("superpod", "rack=12")], ids=str)
@pytest.mark.parametrize("suspend", [{}, {"suspend": True}], ids=["going", "suspended"])
@pytest.mark.parametrize("make", [_job, _set], ids=["job", "set"])
@pytest.mark.parametrize("own", [dict, _own_terms], ids=["plain", "own-terms"])
def test_a_manifest_that_is_applied_again(make: Any, own: Any, asked: tuple[str, str], suspend: Json) -> None:
    """Whichever way it arrives nothing changes, nothing is told, and nobody is asked, though the choice differs now."""
    manifest = own(make(_asked(*asked), **suspend))
    live = _changed(manifest, Chooser("12", _ABOVE).facts)
    forced = deepcopy(live)  # server-side, with conflicts forced: the affinity is the manifest's, the record stays
    forced["spec"]["template"]["spec"] = deepcopy(manifest["spec"]["template"]["spec"])
    chooser = Chooser("7")

    for arrived in (live, manifest, forced):
        mutation = _mutation(arrived, chooser.facts, live)
        assert patch.apply(deepcopy(arrived), mutation.operations) == live
        assert mutation.warnings == ()
        assert list(_RULE.validate(request(live, old=live), chooser.facts)) == []
    assert chooser.asked == []


def test_another_demand_is_another_choice() -> None:
    """Where the affinity may change, a template that asks for something else is placed anew."""
    live = _changed(_set(_asked("rack")), Chooser("12").facts)
    other = deepcopy(live)
    other["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}

    assert _affinity(_changed(other, Chooser("7").facts, live)) == _required(*_in(rack="7"))


def test_a_domain_is_not_given_up() -> None:
    """While no other domain can be chosen, a gang stays in the one that it has, whatever it asks for."""
    live = _changed(_set(_asked("rack")), Chooser("12").facts)
    other = merged(live, {"metadata": {"annotations": {"cks-admission.dev/repin": "1"}}})
    other["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}

    assert _changed(other, FACTS, live) == other


def test_a_gang_that_is_pinned_again() -> None:
    """Another value of the annotation asks for another choice, where the affinity may change; else that is said."""
    again: Json = {"metadata": {"annotations": {"cks-admission.dev/repin": "1"}}}
    live, running = (_changed(make(_asked("rack")), Chooser("12").facts) for make in (_set, _job))
    pinned = _changed(merged(live, again), Chooser("7").facts, live)
    mutation = _mutation(merged(running, again), Chooser("7").facts, running)

    assert _affinity(pinned) == _required(*_in(rack="7"))
    assert _changed(pinned, Chooser("8").facts, pinned) == pinned
    assert (mutation.operations, mutation.warnings) == (
        (),
        ("cks-admission.dev/repin has no effect: the placement of a Job is fixed; delete the Job and create it again",),
    )


def test_another_spelling_is_no_other_placement() -> None:
    """A running Job may call its level by another name, and stays as it is."""
    live = _changed(_job(_asked("rack")), Chooser("12").facts)
    spelt = merged(live, {"metadata": {"annotations": {_REQUIRED: _RACK}}})

    assert _changed(spelt, Chooser("7").facts, live) == spelt
    assert list(_RULE.validate(request(spelt, old=live), FACTS)) == []


def test_more_pods_stay_in_the_domain() -> None:
    """A gang that grows beyond its domain is warned of, and not moved."""
    live = _changed(_set(_asked("rack")), Chooser("12").facts)
    chooser = Chooser("12", outcome="full")

    mutation = _mutation(merged(live, {"spec": {"replicas": 40}}), chooser.facts, live)

    assert (mutation.operations, chooser.asked[0].kept) == ((), ((Step(5, (_RACK,), ("12",)),),))
    assert mutation.warnings == (
        (
            'required "rack": 40 Pods with 320 GPUs stay in rack=12, which has 64 of 72 GPUs free and room for 8 Pods; '
            "the others wait there; to choose again, delete the StatefulSet and create it again"
        ),
    )


def test_a_suspended_job_is_placed_when_it_is_resumed() -> None:
    """Nothing is written or promised at its creation; at its resume the domain is chosen."""
    chooser = Chooser("12")
    suspended = _changed(_job(_asked("rack"), suspend=True), chooser.facts)
    resumed = merged(suspended, {"spec": {"suspend": False}})

    assert (_affinity(suspended), chooser.asked[0].dry_run) == (None, True)
    assert list(_RULE.validate(request(suspended), FACTS)) == []
    assert _affinity(_changed(resumed, chooser.facts, suspended)) == _required(*_in(rack="12"))
    assert chooser.asked[1].dry_run is False


def test_a_dry_run_is_promised_nothing() -> None:
    """The choice for a dry run is not to be remembered."""
    chooser = Chooser("12")

    _mutation(_job(_asked("rack")), chooser.facts, dry_run=True)

    assert chooser.asked[0].dry_run is True


@pytest.mark.parametrize(("rack", "hint"), [("12", " fabric=f1,superpod=2 would fit;"), ("1" * 70, "")])
def test_a_wider_domain_that_would_fit_is_named(rack: str, hint: str) -> None:
    """The warning of a full domain names the wider one, if there is room for that beside what to do."""
    keys = ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/superpod")
    wider = tuple(Step(tier, (key,), (value,)) for tier, key, value in zip((2, 3), keys, ("f1", "2"), strict=True))
    chooser = Chooser(rack, outcome="full")
    facts = StaticFacts(TODAY, chooser=lambda key: tuple(replace(choice, wider=wider) for choice in chooser(key)))

    mutation = _mutation(_job(_asked("rack")), facts)

    assert mutation.warnings == (
        (
            f'required "rack": rack={rack} has 64 of 72 GPUs free and room for 8 Pods; 2 Pods have no place '
            f"yet and wait there;{hint} to choose again, delete the Job and create it again"
        ),
    )


def test_a_full_domain_is_pinned() -> None:
    """By default a gang waits in the best domain, and the answer says what is missing."""
    mutation = _mutation(_job(_asked("rack")), Chooser("12", outcome="full").facts)

    assert _affinity(patch.apply(_job(_asked("rack")), mutation.operations)) == _required(*_in(rack="12"))
    assert mutation.warnings == (
        (
            'required "rack": rack=12 has 64 of 72 GPUs free and room for 8 Pods; '
            "2 Pods have no place yet and wait there; to choose again, delete the Job and create it again"
        ),
    )


def test_a_gang_without_gpus() -> None:
    """It is told of in CPUs, and nobody speaks of GPUs."""
    job = _job(_asked("rack"))
    job["spec"]["template"]["spec"] = pod_spec({"cpu": "1500m"})

    (warning,) = _mutation(job, Chooser("12").facts).warnings

    assert warning == 'required "rack": 8 Pods with 12 CPUs in rack=12'


def test_a_job_waits_for_room() -> None:
    """Where it is configured a Job without room is suspended, at its creation and resume; others are pinned."""
    rule, chooser = _rule(full="wait"), Chooser("12", outcome="full")
    waiting = _changed(_job(_asked("rack")), chooser.facts, rule=rule)
    resumed = merged(waiting, {"spec": {"suspend": False}})

    assert (waiting["spec"]["suspend"], _affinity(waiting)) == (True, None)
    assert _changed(resumed, chooser.facts, waiting, rule) == waiting
    assert _affinity(_changed(resumed, Chooser("12").facts, waiting, rule)) == _required(*_in(rack="12"))
    assert _affinity(_changed(_set(_asked("rack")), chooser.facts, rule=rule)) == _required(*_in(rack="12"))


def test_a_job_that_is_resumed_too_early() -> None:
    """It stays suspended and is told why, however often it is tried, until there is room; then it is placed."""
    rule, chooser = _rule(full="wait"), Chooser("12", outcome="full")
    waiting = _changed(_job(_asked("rack")), chooser.facts, rule=rule)
    resumed = merged(waiting, {"spec": {"suspend": False}})
    told = {}
    for outcome in ("full", "never", "fits"):
        chooser.outcome = outcome
        mutation = _mutation(resumed, chooser.facts, waiting, rule)
        told[patch.apply(deepcopy(resumed), mutation.operations)["spec"]["suspend"], outcome] = mutation.warnings[0]

    assert told == {
        (True, "full"): (
            'required "rack": no rack has room for 8 Pods with 64 GPUs now, so it stays suspended: resume it later'
        ),
        (True, "never"): (
            'required "rack": no rack can hold 8 Pods with 64 GPUs, and the best one, with 72 GPUs, holds 8 Pods, '
            "so it stays suspended: resume it later"
        ),
        (False, "fits"): 'required "rack": 8 Pods with 64 GPUs in rack=12 (64 of 72 GPUs free)',
    }
    assert _mutation(waiting, chooser.facts, waiting, rule) == Mutation()


def test_a_job_that_its_author_suspends_waits_for_its_author() -> None:
    """Nobody says that there is no room before it is resumed, unless it would be kept suspended for that."""
    suspended = _job(_asked("rack"), suspend=True)

    mutation = _mutation(suspended, Chooser("12", outcome="full").facts)

    assert mutation.warnings == ('required "rack": the domain is chosen when it is resumed',)


@pytest.mark.parametrize(
    ("options", "outcome", "summary", "problem"),
    [
        (
            {"full": "refuse"}, "full", "The Job cannot be placed now.",
            "no rack has room for 8 Pods with 64 GPUs now: 64 of 72 GPUs free and room for 8 Pods.",
        ),
        (
            {"autoscaling": "off"}, "never", "The Job can never be placed.",
            "no rack can hold 8 Pods with 64 GPUs, and the best one, with 72 GPUs, holds 8 Pods.",
        ),
    ],
)  # fmt: skip
def test_gangs_that_are_refused(options: Json, outcome: Any, summary: str, problem: str) -> None:
    """Where it is configured, with both numbers; a rule that only warns refuses nothing."""
    facts = Chooser("12", outcome=outcome).facts

    with pytest.raises(MutationRefusedError) as refused:
        _mutation(_job(_asked("rack")), facts, rule=_rule(**options))
    violation = refused.value.violation
    assert (violation.path, violation.summary, violation.problem) == (
        f"metadata.annotations[{_REQUIRED}]", summary, problem,
    )  # fmt: skip
    assert _mutation(_job(_asked("rack")), facts, rule=_rule(**options, refuses=False)).warnings


def test_a_gang_that_no_domain_holds_is_kept_together_otherwise() -> None:
    """Where Nodes may come, one that is too large gets Pod affinity, and the answer says why."""
    mutation = _mutation(_job(_asked("rack")), Chooser("12", outcome="never").facts)

    affinity = _affinity(patch.apply(_job(_asked("rack")), mutation.operations))
    assert list(affinity) == ["nodeAffinity", "podAffinity"]
    assert mutation.warnings[0].startswith(
        'required "rack": no domain was chosen (no rack can hold 8 Pods with 64 GPUs'
    )


def test_warnings_are_whole() -> None:
    """However long names are, the API server cuts no warning."""
    chooser = Chooser("r" * 63, {"fabric": "f" * 63, "superpod": "s" * 63, "leafgroup": "l" * 63})
    found: list[str] = []
    outcomes: tuple[Outcome, ...] = ("fits", "preempts", "full", "never", "unknown")
    for outcome in outcomes:
        chooser.outcome = outcome
        found += _mutation(_job(_asked("rack")), chooser.facts).warnings

    assert [len(line) for line in found if len(line) > 250] == []
    assert len(found) == 5


def test_what_is_counted_and_noted() -> None:
    """A change tells by which way each template was placed, and the audit log what was chosen; a suspended Job none."""
    sentence = "8 Pods with 64 GPUs in fabric=f1,superpod=2,rack=12 (64 of 72 GPUs free)"
    placed = _mutation(_job(_asked("rack")), Chooser("12", _ABOVE).facts)
    later = _mutation(_job(_asked("rack"), suspend=True), Chooser("12", _ABOVE).facts)
    alone = _mutation(_job(_asked("rack")), FACTS, rule=_rule(placement=(Permission(ways=()),)))

    assert (placed.ways, placed.notes) == (("domain",), (Note("placement", sentence),))
    assert (later.ways, later.notes, alone.ways, alone.notes) == ((), (), ("none",), ())


def _node(name: str, rack: str, *taints: str) -> Node:
    labels = {f"{_BACKEND}/fabric": "f1", f"{_BACKEND}/superpod": "2", _RACK: rack}
    return Node(name, labels, tuple(Taint(taint, "NoSchedule") for taint in taints))


@pytest.mark.parametrize(
    ("make", "remedy"),
    [(_job, "delete it and create it again"), (_set, "set cks-admission.dev/repin to a new value")],
)
def test_an_update_of_a_gang_whose_domain_is_lost(make: Any, remedy: str) -> None:
    """A warning says that no Node of the domain takes Pods, and what can be done; one Node that does is enough."""
    placed = _changed(make(_asked("rack")), Chooser("12", _ABOVE).facts)
    asked = request(merged(placed, {"metadata": {"labels": {"a": "b"}}}), old=placed)
    elsewhere, cordoned = _node("a", "13"), _node("b", "12", "node.kubernetes.io/unschedulable")

    lost = _RULE.validate(asked, replace(FACTS, cluster_nodes=(elsewhere, cordoned)))
    kept = _RULE.validate(asked, replace(FACTS, cluster_nodes=(elsewhere, cordoned, _node("c", "12"))))

    text = (
        "no Node of fabric=f1,superpod=2,rack=12 takes Pods now, where those of this placement must run: "
        f"bring them back, or {remedy}"
    )
    assert ([violation.problem + violation.summary for violation in lost], kept) == ([text], [])
