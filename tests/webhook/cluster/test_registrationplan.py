"""What is planned about the webhook configurations: for any state of the cluster, and after any failure.

The plan is carried out on a model of the API server, which merges what is applied as the real one does.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from properties.shapes import bounded
from support.api.fakeapi import Json
from support.api.webhookapi import merged

from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, HookCondition, Rule
from policies.engine.ruleset import RuleSet
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.configuration.settings import Registration, Settings
from webhook.registration.announcement import Announcement, closed_paths
from webhook.registration.configurations import KINDS, registered
from webhook.registration.drift import difference, foreign
from webhook.registration.plan import (
    ABSENT,
    FAILED,
    NO_OWNER,
    SUSPENDED,
    UNDONE,
    UNREADABLE,
    WAITING,
    WITHHELD,
    Apply,
    CaFile,
    Conclusion,
    FindOwner,
    Memory,
    Observation,
    OwnerLookUp,
    Progress,
    ReadConfiguration,
    Remove,
    Replace,
    Step,
    WatchState,
    ca_bundle,
    plan,
)

_MUTATING, _VALIDATING = KINDS.values()
_URL = "https://127.0.0.1:9443"
_REGISTRATION = Registration(apply=True, url=_URL)
_BUNDLE, _OTHER_BUNDLE = b"first", b"second"
_PODS = ResourceRule(("CREATE",), ("",), ("pods",))
_GUARD = Hook("validate", "labels", (_PODS,), "Fail", (HookCondition("one", "1 == 1"),))
_OTHERS = (Hook("validate", "pods", (_PODS,), "Ignore"), Hook("mutate", "pods", (_PODS,), "Ignore"))
_RULES = RuleSet([Rule("labels", (_GUARD,), "deny", frozenset()), Rule("pods", _OTHERS, "deny", frozenset())])
_THEIRS = {"name": "theirs.example.org", "clientConfig": {"url": _URL}}


@cache
def configurations(bundle: bytes = _BUNDLE) -> dict[str, Json]:
    """What the rules call for, by kind; nobody changes it."""
    settings = Settings.model_validate({"registration": {"apply": True, "url": _URL}})
    return {str(each["kind"]): dict(each) for each in registered(settings, bundle, _RULES)}


class Model:
    """The configurations in a cluster, with what was applied to them. cloud: as of `WebhookApi`.

    failures: what becomes of steps, by their number in the turn.
    """

    def __init__(self, objects: dict[str, Json] | None = None, roles: dict[str, str] | None = None) -> None:
        self.objects = objects or {}
        self.roles = roles or {}
        self.cloud: list[Json] = []
        self.failures: dict[int, ClusterError] = {}
        self.steps: list[Step] = []
        self._applied: dict[str, Json] = {}
        self._version = 0

    @property
    def writes(self) -> list[tuple[type[Step], str]]:
        """Each write of the last turn."""
        return [(type(step), step.kind) for step in self.steps if isinstance(step, Apply | Replace | Remove)]

    def turn(self, observation: Observation) -> Conclusion:
        """Carry out what is planned until nothing is left to do."""
        self.steps = []
        for _ in range(6):
            planned = plan(observation)
            if not planned.steps:
                return planned.conclusion
            for step in planned.steps:
                try:
                    observation = self._carried_out(step, observation)
                except ClusterError as error:
                    observation = replace(observation, failure=error)
                    break
        raise AssertionError(f"the turn does not end: {self.steps}")

    def _carried_out(self, step: Step, observation: Observation) -> Observation:
        self.steps.append(step)
        if failure := self.failures.get(len(self.steps) - 1):
            raise failure
        if isinstance(step, FindOwner):
            return replace(observation, owner=OwnerLookUp(self.roles.get(step.name)))
        if isinstance(step, ReadConfiguration):
            after = Progress(copy.deepcopy(self.objects.get(step.kind)))
        else:
            before = observation.progress[step.kind]
            after = Progress(before.read, self._written(step), before.writes + 1)
        return replace(observation, progress={**observation.progress, step.kind: after})

    def _written(self, step: Apply | Replace | Remove) -> Json | None:
        if isinstance(step, Remove):
            del self.objects[step.kind]
            return None
        there = self.objects.get(step.kind)
        given: Any = copy.deepcopy(step.configuration)
        if isinstance(step, Apply):
            wanted = given
            if given["metadata"].pop("uid", None) not in (None, (there or given)["metadata"].get("uid")):
                raise ApiError("uid mismatch", 409)
            given = merged(copy.deepcopy(there), given, self._applied.get(step.kind, {}))
            if any({"url", "service"} <= entry["clientConfig"].keys() for entry in given["webhooks"]):
                if step.otherwise is None:
                    raise ApiError("exactly one of url or service is required", 422)
                return self._written(Replace(step.kind, step.otherwise, step.reasons))
            self._applied[step.kind] = wanted
        elif there is None or there["metadata"]["resourceVersion"] != given["metadata"]["resourceVersion"]:
            raise ApiError("the object has been modified", 409)
        return self.put(step.kind, given)

    def put(self, kind: str, configuration: Json) -> Json:
        """Store a configuration in another version."""
        self._version += 1
        for entry in configuration["webhooks"]:
            there = entry.setdefault("namespaceSelector", {}).get("matchExpressions", [])
            if added := [each for each in self.cloud if each not in there]:
                entry["namespaceSelector"] = {**entry["namespaceSelector"], "matchExpressions": [*there, *added]}
        uid = configuration["metadata"].get("uid", f"uid-{self._version}")
        configuration["metadata"] |= {"uid": uid, "resourceVersion": str(self._version)}
        self.objects[kind] = configuration
        return copy.deepcopy(configuration)

    def watch(self) -> WatchState:
        """What the watches show once they show all."""
        return WatchState(synced=True, current=copy.deepcopy(self.objects), ever=frozenset(self.objects))


def observation(model: Model, memory: Memory | None = None, **more: Any) -> Observation:
    """What a process observes that leads and is called."""
    known: dict[str, Any] = {
        "registration": _REGISTRATION,
        "watch": model.watch(),
        "memory": memory or Memory(),
        "now": 1000.0,
        "leading": True,
        "calls_arrive": True,
        "configurations": configurations(),
        "bundle": _BUNDLE,
    }
    return Observation(**known | more)


def written() -> tuple[Model, Memory]:
    """A cluster in which all is as it should be, and what the process that wrote it remembers."""
    model = Model()
    memory = model.turn(observation(model)).memory
    assert model.writes == [(Apply, _MUTATING), (Apply, _VALIDATING)]
    return model, memory


def _entry(configuration: Json) -> Json:
    entry: Json = configuration["webhooks"][0]
    return entry


def _field(**values: Any) -> Callable[[Json], None]:
    return lambda configuration: _entry(configuration).update(values)


def _never(configuration: Json) -> None:
    _entry(configuration)["matchConditions"] = [{"name": "never", "expression": "false"}]


def _other_ca(configuration: Json) -> None:
    _entry(configuration)["clientConfig"]["caBundle"] = base64.b64encode(_OTHER_BUNDLE).decode()


def _another_service(configuration: Json) -> None:
    client = _entry(configuration)["clientConfig"]
    client["service"] = {"name": "evil", "namespace": "default"}
    client.pop("url", None)


def _without_entry(configuration: Json) -> None:
    del configuration["webhooks"][0]


def _more(configuration: Json) -> None:
    configuration["webhooks"].append({**_entry(configuration), "name": "more.cks-admission.dev"})


def _unlabelled(configuration: Json) -> None:
    configuration["metadata"]["labels"] = {"theirs": "x"}


def _strangers(configuration: Json) -> None:
    configuration["webhooks"].insert(0, copy.deepcopy(_THEIRS))


def _annotated(configuration: Json) -> None:
    configuration["metadata"]["annotations"] = {"theirs": "y"}


_CHANGES = {
    "failurePolicy": _field(failurePolicy="Ignore"),
    "objectSelector": _field(objectSelector={"matchLabels": {"judge": "me"}}),
    "namespaceSelector": _field(namespaceSelector={"matchLabels": {"judge": "me"}}),
    "rules": _field(rules=[]),
    "condition": _never,
    "caBundle": _other_ca,
    "service": _another_service,
    "entry-taken-away": _without_entry,
    "entry-added": _more,
    "label": _unlabelled,
    "entry-of-others": _strangers,
    "annotation": _annotated,
}
_UNREGISTERED = WatchState(synced=True, unregistered=True)
_SPOILING = st.lists(st.sampled_from(sorted(_CHANGES)), max_size=4, unique=True)
_STATES = st.fixed_dictionaries({_MUTATING: st.none() | _SPOILING, _VALIDATING: st.none() | _SPOILING})


def spoil(model: Model, changes: dict[str, list[str] | None]) -> None:
    """Change the configurations, or delete them."""
    for kind, names in changes.items():
        if names is None:
            del model.objects[kind]
            continue
        configuration = copy.deepcopy(model.objects[kind])
        for name in names:
            if configuration["webhooks"] and "clientConfig" in _entry(configuration):
                _CHANGES[name](configuration)
        model.put(kind, configuration)


def _is_right(model: Model, kind: str, bundle: bytes = _BUNDLE) -> bool:
    return kind in model.objects and not difference(configurations(bundle)[kind], model.objects[kind])


def _right(model: Model, bundle: bytes = _BUNDLE) -> bool:
    return all(_is_right(model, kind, bundle) for kind in KINDS.values())


def _strange(model: Model) -> dict[str, Any]:
    """What others have put into the configurations: entries, labels and annotations."""
    return {
        kind: (
            [entry["name"] for entry in foreign(each)],
            {key: value for key, value in (each["metadata"].get("labels") or {}).items() if key == "theirs"},
            each["metadata"].get("annotations") or {},
        )
        for kind, each in model.objects.items()
    }


@bounded
@given(_STATES, st.booleans(), st.sampled_from([_BUNDLE, _OTHER_BUNDLE]))
def test_whatever_is_found_is_put_right(changes: dict[str, Any], remembers: bool, bundle: bytes) -> None:  # noqa: FBT001
    """In one turn, by who wrote it before and by one that has just begun to lead; and then there is nothing to do."""
    model, memory = written()
    spoil(model, changes)
    theirs = _strange(model)
    now = {"configurations": configurations(bundle), "bundle": bundle}
    spoilt = {kind for kind in changes if not _is_right(model, kind)}

    first = model.turn(observation(model, memory if remembers else None, **now))
    writes = {kind for _, kind in model.writes}
    second = model.turn(observation(model, first.memory, **now))

    assert (first.done, second.done, _right(model, bundle)) == (True, True, True)
    assert {kind: _strange(model)[kind] for kind in theirs} == theirs
    assert model.writes == []
    if remembers and bundle == _BUNDLE:
        assert writes == spoilt
        assert first.outcomes == ("repaired",) * len(spoilt)
        assert [event.event for event in first.events].count("registration repaired") == len(spoilt)
    else:
        assert first.outcomes == ("written",) * 2


@bounded
@given(_STATES, st.integers(0, 5), st.sampled_from([409, 422, 500, 0]), st.booleans())
def test_a_failed_step_is_made_up_for(changes: dict[str, Any], number: int, code: int, remembers: bool) -> None:  # noqa: FBT001
    """Whichever step fails, and however: it is told, nothing is taken for written, and the next turn ends it."""
    model, memory = written()
    spoil(model, changes)
    model.failures[number] = ApiError("no", code) if code else ClusterError("no")

    first = model.turn(observation(model, memory if remembers else None))
    failed = len(model.steps) > number
    model.failures.clear()
    second = model.turn(observation(model, first.memory))

    assert first.done is not failed
    assert ("failed" in first.outcomes, FAILED in first.memory.problems) == (failed and code != 409,) * 2
    assert (second.done, _right(model), second.memory.problems) == (True, True, {})


@bounded
@given(
    _STATES,
    st.sampled_from(
        [{"leading": False}, {"configurations": None}, {"watch": WatchState(synced=True, unregistered=True)}]
    ),
)
def test_who_may_not_write_takes_no_step(changes: dict[str, Any], may_not: dict[str, Any]) -> None:
    """Not without the Lease, not before all is known, and not where the configurations are to go for good."""
    model, memory = written()
    spoil(model, changes)

    conclusion = model.turn(observation(model, memory, **may_not))

    assert model.steps == []
    assert (SUSPENDED in conclusion.memory.problems) is ("watch" in may_not)


@bounded
@given(_STATES, st.sets(st.sampled_from([_MUTATING, _VALIDATING])))
def test_the_first_of_a_kind_waits_for_calls(changes: dict[str, Any], ever: set[str]) -> None:
    """What was there before is put back at once; what would be the first is made once somebody is there to answer."""
    model, _ = written()
    spoil(model, changes)
    watch = replace(model.watch(), ever=frozenset(ever | set(model.objects)))
    waiting = [kind for kind in KINDS.values() if kind not in watch.ever]

    early = model.turn(observation(model, watch=watch, calls_arrive=False))
    made = set(model.objects)
    late = model.turn(observation(model, early.memory))

    titles = " and ".join(f"{kind} cks-admission" for kind in waiting)
    problem = early.memory.problems.get(WAITING)
    assert (early.done, made) == (not waiting, set(KINDS.values()) - set(waiting))
    assert (problem.reason if problem else "") == (
        f"{titles}: to be made once a replica has been ready for 10 s" if waiting else ""
    )
    assert (late.done, _right(model), late.memory.problems) == (True, True, {})


def test_a_deletion_that_the_watch_has_not_shown_is_not_undone() -> None:
    """The watch tells whether they are gone for good."""
    model, memory = written()
    watch = model.watch()
    model.objects.clear()

    conclusion = model.turn(observation(model, memory, watch=watch, configurations=configurations(_OTHER_BUNDLE)))

    assert (conclusion.done, model.writes) == (False, [])


def test_an_end_that_only_the_read_shows_is_heeded() -> None:
    """Whoever reads the announcement writes nothing, and says so."""
    model, memory = written()
    model.objects[_MUTATING]["metadata"]["annotations"] = {"cks-admission.dev/unregister": "true"}

    conclusion = model.turn(observation(model, memory, watch=WatchState()))

    assert (conclusion.done, model.writes, list(conclusion.memory.problems)) == (True, [], [SUSPENDED])
    assert conclusion.memory.written == {}


def test_what_nothing_needs_is_removed() -> None:
    """Where every rule of a phase is off, the configuration goes, and is not made."""
    model, memory = written()
    wanted = {_VALIDATING: configurations()[_VALIDATING]}

    first = model.turn(observation(model, memory, configurations=wanted))
    writes = model.writes
    second = model.turn(observation(model, first.memory, configurations=wanted))

    assert (writes, model.writes, list(model.objects)) == ([(Remove, _MUTATING)], [], [_VALIDATING])
    assert (first.done, second.done) == (True, True)


def test_what_failed_may_have_been_written() -> None:
    """After a failed write it is not known what is there, so that putting the old one back is no repair."""
    model, memory = written()
    model.failures[2] = ClusterError("no answer")
    failed = model.turn(observation(model, memory, configurations=configurations(_OTHER_BUNDLE), bundle=_OTHER_BUNDLE))

    assert failed.outcomes == ("failed",)
    assert failed.memory.written == {}


def test_the_steps_say_why() -> None:
    """Applying is not enough against a condition of somebody else's; each step has its reason."""
    model, memory = written()
    spoil(model, {_VALIDATING: ["condition"]})

    model.turn(observation(model, memory))

    differences = ["labels.cks-admission.dev: matchConditions adds-reserved-labels, never"]
    shown = [(type(step), list(step.reasons)) for step in model.steps]
    assert [kind for kind, _ in shown] == [ReadConfiguration, Apply, Replace]
    assert shown[1][1][0].startswith(differences[0].split(" ", maxsplit=1)[0])
    assert shown[2][1] == ["labels.cks-admission.dev: matchConditions never"]


@pytest.mark.parametrize(
    ("roles", "owner", "problem", "done"),
    [
        pytest.param({"cks": "u-1"}, "u-1", "", True, id="there"),
        pytest.param(
            {},
            None,
            "there is no ClusterRole cks; without it nothing removes the webhook configurations in the end",
            True,
            id="never-there",
        ),
    ],
)
def test_the_owner_is_looked_up_first(roles: dict[str, str], owner: str | None, problem: str, *, done: bool) -> None:
    """The configurations refer to the ClusterRole where there is one, and are written without it, too."""
    model = Model(roles=roles)

    conclusion = model.turn(observation(model, registration=Registration(apply=True, url=_URL, owner="cks")))

    references = [each["metadata"].get("ownerReferences") or [] for each in model.objects.values()]
    assert isinstance(model.steps[0], FindOwner)
    assert [[each["uid"] for each in kind] for kind in references] == [[owner] if owner else []] * 2
    assert [each.reason for each in conclusion.memory.problems.values()] == (
        [f"registration.owner: {problem}"] if problem else []
    )
    assert conclusion.done is done


@pytest.mark.parametrize("bundle", [_BUNDLE, _OTHER_BUNDLE])
def test_an_owner_that_is_gone_stays_so(bundle: bytes) -> None:
    """Once the ClusterRole is gone nothing is put back, whatever else changes; a new one is taken."""
    registration = Registration(apply=True, url=_URL, owner="cks")
    model = Model(roles={"cks": "u-1"})
    memory = model.turn(observation(model, registration=registration)).memory
    model.roles.clear()
    model.objects.clear()
    more = {"registration": registration, "configurations": configurations(bundle)}
    gone = model.turn(observation(model, memory, **more))
    writes = model.writes
    model.roles["cks"] = "u-2"
    back = model.turn(observation(model, gone.memory, **more))

    assert (gone.done, writes, list(gone.memory.problems)) == (True, [], [NO_OWNER])
    assert (back.done, back.memory.problems) == (True, {})
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in model.objects.values()} == {"u-2"}


def test_repairs_that_are_undone_are_a_fight() -> None:
    """A requirement that a cloud adds, and that may not stay, is met at each write; it ends in one error."""
    model, memory = written()
    model.cloud = [{"key": "their-cloud", "operator": "DoesNotExist"}]
    spoil(model, {_VALIDATING: []})
    fights = []
    for number in range(7):
        memory = model.turn(observation(model, memory, now=1000.0 + number)).memory
        fights.append(UNDONE in memory.problems)
    model.cloud = []
    memory = model.turn(observation(model, memory, now=1010.0)).memory
    fights.append(UNDONE in memory.problems)
    quiet = model.turn(observation(model, memory, now=1080.0)).memory

    assert fights == [False] * 5 + [True] * 3
    assert quiet.problems == {}


def test_strangers_are_told_of_once() -> None:
    """Entries of others stay; that is logged when a configuration is written that has them, the first time."""
    model, memory = written()
    spoil(model, {_VALIDATING: ["entry-of-others"]})
    told = []
    for bundle in (_OTHER_BUNDLE, _BUNDLE):
        conclusion = model.turn(observation(model, memory, configurations=configurations(bundle), bundle=bundle))
        memory = conclusion.memory
        told.append([event.details["entries"] for event in conclusion.events if event.level == "warning"])

    assert told == [[["theirs.example.org"]], []]


def test_only_the_bundle_is_written_where_others_apply() -> None:
    """With caOnly the service's entries get its CA; what does not exist is not made, and is told."""
    model = Model()
    model.put(_VALIDATING, {**configurations(b"")[_VALIDATING], "webhooks": [
        {"name": name, "clientConfig": {"url": _URL}} for name in ("labels.cks-admission.dev", "theirs.example.org")
    ]})  # fmt: skip
    more: dict[str, Any] = {"registration": Registration(caOnly=True)}

    first = model.turn(observation(model, **more))
    second = model.turn(observation(model, first.memory, **more))

    bundles = [entry["clientConfig"].get("caBundle") for entry in model.objects[_VALIDATING]["webhooks"]]
    assert bundles == [base64.b64encode(_BUNDLE).decode(), None]
    assert (model.writes, list(model.objects)) == ([], [_VALIDATING])
    assert [each.reason for each in second.memory.problems.values()] == [
        f"there is no {_MUTATING} cks-admission to write the caBundle into; apply it"
    ]
    assert list(second.memory.problems) == [ABSENT]


_ANNOUNCED = st.builds(
    Announcement,
    st.sampled_from(["a", "b", "c"]),
    ready=st.booleans(),
    paths=st.none() | st.sets(st.sampled_from(["/validate/labels", "/validate/pods"])).map(frozenset),
)


@bounded
@given(st.lists(st.lists(_ANNOUNCED, max_size=3), min_size=1, max_size=6))
def test_what_fails_closed_follows_the_replicas(scenes: list[list[Announcement]]) -> None:
    """While replicas come and go, the guard is registered only where all know it, each time in one turn."""
    model, memory = written()
    guard = "/validate/labels"
    for replicas in scenes:
        before = guard in closed_paths(model.objects.values())
        lacks = [each for each in replicas if each.paths is not None and guard not in each.paths]
        ready = [each for each in replicas if each.ready]
        may_come = bool(ready) and all(each.paths is not None for each in ready)
        memory = model.turn(observation(model, memory, replicas=tuple(replicas))).memory
        after = guard in closed_paths(model.objects.values())
        open_entries = [
            entry["name"] for entry in model.objects[_VALIDATING]["webhooks"] if entry["failurePolicy"] == "Ignore"
        ]
        model.turn(observation(model, memory, replicas=tuple(replicas)))

        assert after is (not lacks and (before or may_come))
        assert (WITHHELD in memory.problems) is not after
        assert open_entries == ["pods.cks-admission.dev"]
        assert model.writes == []


def test_before_the_watch_shows_all_no_entry_is_taken_away() -> None:
    """What is registered must not be taken for new by a manage that has just started."""
    model, memory = written()
    starting = Announcement("a", ready=True, paths=None)

    model.turn(observation(model, memory, watch=WatchState(), replicas=(starting,)))

    assert model.steps == []


_GOOD, _BAD = CaFile(b"file"), CaFile(problem="no such file")


@pytest.mark.parametrize(
    ("inject", "own", "file", "last", "bundle"),
    [
        pytest.param(False, b"own", None, None, b"own", id="own"),
        pytest.param(False, None, None, None, None, id="own-that-is-not-known"),
        pytest.param(True, b"own", None, None, b"", id="injected"),
        pytest.param(False, b"own", _GOOD, b"last", b"file", id="file"),
        pytest.param(False, b"own", _BAD, b"last", b"last", id="file-that-was-good"),
        pytest.param(False, b"own", _BAD, None, None, id="file-that-never-was"),
        pytest.param(True, b"own", _GOOD, None, b"file", id="injected-with-a-beginning"),
        pytest.param(True, b"own", _BAD, None, b"", id="injected-without-a-beginning"),
    ],
)
def test_the_cas_to_trust(
    own: bytes | None, file: CaFile | None, last: bytes | None, bundle: bytes | None, *, inject: bool
) -> None:
    """Those of the service, those of a file as it was good last, or none where somebody else writes them."""
    registration = Registration(apply=True, injectCaFrom="cks/serving" if inject else "")

    assert ca_bundle(registration, own, file, last) == bundle


def test_a_file_that_cannot_be_read_is_told_until_it_can() -> None:
    """Nothing else changes by it; the last good content is remembered."""
    model, memory = written()
    registration = Registration(apply=True, url=_URL, caFile="ca.crt")
    reasons: list[Sequence[str]] = []
    for file in (_BAD, _GOOD, _BAD):
        memory = model.turn(observation(model, memory, registration=registration, ca_file=file)).memory
        reasons.append([memory.problems[event].reason for event in memory.problems])

    unreadable = "registration.caFile: ca.crt: no such file"
    assert reasons == [[unreadable], [], [f"{unreadable}; what was in it before stays in force"]]
    assert (list(memory.problems), memory.ca_file, model.writes) == ([UNREADABLE], b"file", [])
