"""Parameters of policies: which references share a watch, what is known of them; ConfigMaps with policies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.api.fakeapi import Failure, FakeApi, Json, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from policies.admissionpolicy.evaluation.inputs import KnownParameters, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.kubernetes.release import NEWEST
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.parameters import ClusterParameters, plan
from webhook.cluster.watches.policies import REFUSED, PolicyMaps
from webhook.sources import policyset
from webhook.sources.policyset import ConfigMaps

CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")
LARGE = SelectorRequirement("size", "In", ("l",))
RED = SelectorRequirement("colour", "In", ("red",))


def key(namespace: str = "", name: str = "", *requirements: SelectorRequirement) -> ParametersKey:
    """A reference by name, or by selector."""
    selector = LabelSelector(requirements) if requirements or not name else None
    return ParametersKey(kind=CONFIG_MAP, namespace=namespace, name=name, selector=selector)


@pytest.mark.parametrize(
    ("keys", "watches"),
    [
        ([], {}),
        (
            [key("a", "x"), key("b", "y"), key(name="z"), key("", "", LARGE)],
            {
                "ConfigMap x in namespace a": 1,
                "ConfigMap y in namespace b": 1,
                "ConfigMap z": 1,
                "every ConfigMap with labels 'size in (l)'": 1,
            },
        ),
        ([key("a", f"x-{n}") for n in range(150)], {"every ConfigMap in namespace a": 150}),
        (
            [key(f"ns-{n % 2}", f"x-{n}") for n in range(150)],
            {"every ConfigMap in namespace ns-0": 75, "every ConfigMap in namespace ns-1": 75},
        ),
        ([key(f"ns-{n}", f"x-{n}") for n in range(1000)], {"every ConfigMap": 1000}),
        ([key(f"ns-{n}", "limits") for n in range(1000)], {"ConfigMap limits": 1000}),
        (
            [key(f"ns-{n}", "", LARGE, *([RED] if n else [])) for n in range(9)],
            {"every ConfigMap with labels 'size in (l)'": 9},
        ),
        ([*(key(f"ns-{n}", "", LARGE) for n in range(9)), key("x", "y")], {"every ConfigMap": 10}),
    ],
)
def test_few_watches_that_are_narrow(keys: list[ParametersKey], watches: dict[str, int]) -> None:
    """At most four watches of a kind: a reference each, or a namespace each, or one with what all have in common."""
    assert {str(reach): len(part) for reach, part in plan(keys).items()} == watches


LIMIT = ParamKind(api_version="example.org/v1", kind="Limit")
MAPS = "/api/v1/configmaps"
TEAM_MAPS = "/api/v1/namespaces/team/configmaps"
LIMITS = "/apis/example.org/v1/limits"
FIVE = ParametersKey(kind=CONFIG_MAP, namespace="team", name="five")
BIG = LabelSelector((SelectorRequirement("size", "In", ("l", "xl")),))


def serve(server: FakeApi, root: str, *resources: tuple[str, str]) -> None:
    """Serve resources, given by name and kind, of which only configmaps are in Namespaces."""
    listed = [{"name": name, "namespaced": name == "configmaps", "kind": kind} for name, kind in resources]
    server.groups[root] = {"kind": "APIResourceList", "resources": listed}


@pytest.fixture
async def parameters(server: FakeApi, api: Connection, times: Times) -> AsyncIterator[ClusterParameters]:
    """Parameters of a small API server that has ConfigMaps and Limits; whoever pauses waits until it is woken."""
    serve(server, "/api/v1", ("configmaps/odd", "ConfigMap"), ("configmaps", "ConfigMap"))
    serve(server, "/apis/example.org/v1", ("limits", "Limit"))
    times.patience = 0
    made = ClusterParameters(api, times.clock)
    yield made
    await made.stop()


def config_map(name: str, value: str, labels: Json | None = None) -> Json:
    """A ConfigMap as lists have it: without apiVersion and kind."""
    return named(name, labels, "team", data={"a": value})


def values(parameters: ClusterParameters, key: ParametersKey) -> list[str]:
    """What the ConfigMaps of a key hold, as far as they are known."""
    return [str(one["data"]["a"]) for one in parameters.known(key).objects]


async def _settled(parameters: ClusterParameters, *keys: ParametersKey) -> None:
    await parameters.follow(keys)
    await until(lambda: not parameters.unsynced())


async def test_unknown_until_the_first_list(server: FakeApi, parameters: ClusterParameters) -> None:
    """Before discovery and the first list, questions raise what is to be read, and reading it waits for them."""
    five = config_map("five", "5", labels={"size": "l"})
    server.put(TEAM_MAPS, five)
    keys = [ParametersKey(kind=CONFIG_MAP), FIVE, ParametersKey(kind=CONFIG_MAP, namespace="team", selector=BIG)]
    await parameters.follow(keys[1:])
    for key in keys:
        with pytest.raises(Missing) as caught:
            parameters.known(key)
        assert caught.value.key == key
    assert parameters.unsynced() == ["ConfigMap of v1: not known yet whether it is served: waiting for the API server"]

    read = [await parameters.read(key, PATIENCE) for key in keys]

    metadata = {key: value for key, value in five["metadata"].items() if key != "managedFields"}
    shown = {"apiVersion": "v1", "kind": "ConfigMap", **five, "metadata": metadata}
    assert read == [parameters.known(key) for key in keys]
    assert read == [KnownParameters("Namespaced", objects) for objects in ((), [shown], [shown])]


async def test_what_was_known_stays_known(server: FakeApi, parameters: ClusterParameters, times: Times) -> None:
    """Once an object is known it stays so while the API server fails; the failure is a problem."""
    server.put(TEAM_MAPS, config_map("five", "5"))
    await _settled(parameters, FIVE)
    await server.watched(TEAM_MAPS)

    server.fail(TEAM_MAPS, 500, "oops", times=99)
    server.fail("/api/v1", 503, "not now", times=99)
    server.cut(TEAM_MAPS)
    problems = [
        f"ConfigMap of v1: the API server refused GET /api/v1 at {server.url} (503: not now)",
        f"ConfigMap five in namespace team: the API server refused GET {TEAM_MAPS} at {server.url} (500: oops)",
    ]
    await times.awake(lambda: parameters.problems() == problems)

    assert parameters.unsynced() == []
    assert values(parameters, FIVE) == ["5"]

    server.failures.clear()
    await times.awake(lambda: not parameters.problems())


async def test_a_missing_right(server: FakeApi, parameters: ClusterParameters) -> None:
    """Where the service may not read parameters, the text says so, and which right is to be granted."""
    limit = ParametersKey(kind=LIMIT, name="five")
    server.fail(LIMITS, 403, status(403, "you may not"), times=99)
    await parameters.follow([limit])
    await until(parameters.problems)

    reason = (
        f"the API server refused GET {LIMITS} at {server.url} (403: you may not); "
        "a ClusterRole must allow the service's account to list and watch limits of example.org"
    )
    assert parameters.problems() == [f"{limit}: {reason}"]
    with pytest.raises(FactUnavailable) as caught:
        await parameters.read(limit, 0.01)
    assert str(caught.value) == f"{limit} could not be read: {reason}"


async def test_a_slow_answer(server: FakeApi, parameters: ClusterParameters) -> None:
    """Where nothing is wrong but the time is up, the text says so."""
    server.held = asyncio.Event()  # the list of what has no objects yet is answered as a single object is
    await parameters.follow([FIVE])

    with pytest.raises(FactUnavailable) as caught:
        await parameters.read(FIVE, 0.01)
    assert str(caught.value) == (
        f"ConfigMap five in namespace team could not be read: the API server at {server.url} took over 0.0 s"
    )
    server.held.set()


async def test_following_anew(server: FakeApi, parameters: ClusterParameters) -> None:
    """What is wanted as before is followed on without another list; what is dropped is watched no more."""
    six, limit = key(name="six"), ParametersKey(kind=LIMIT, name="five")
    server.put(TEAM_MAPS, config_map("five", "5"))
    server.put(MAPS, named("six", data={"a": "6"}))
    server.put(LIMITS, named("five"))
    await _settled(parameters, FIVE, limit)
    await server.watched(TEAM_MAPS)

    await parameters.follow([FIVE, six])
    assert values(parameters, FIVE) == ["5"]
    await until(lambda: not parameters.unsynced())
    assert values(parameters, six) == ["6"]
    await parameters.follow([FIVE])
    for dropped in (limit, six):
        with pytest.raises(Missing):
            parameters.known(dropped)
    assert len(server.lists(TEAM_MAPS)) == 1
    await until(lambda: _tasks() == {"paramKind ConfigMap", "parameters: ConfigMap five in namespace team"})


async def test_a_wider_watch_takes_over(server: FakeApi, parameters: ClusterParameters) -> None:
    """While the first list of a wider watch is awaited, the narrow ones still answer; afterwards they end."""
    spaces = [key(f"team-{n}", f"limits-{n}") for n in range(6)]
    server.put(TEAM_MAPS, config_map("five", "5"))
    server.put(MAPS, config_map("five", "6"))
    await _settled(parameters, FIVE)
    server.slow.add(MAPS)
    await parameters.follow([FIVE, *spaces[:5]])
    await until(lambda: any(seen.path == MAPS for seen in server.seen))
    assert values(parameters, FIVE) == ["5"]
    wide = {"paramKind ConfigMap", "parameters: every ConfigMap"}
    assert _tasks() == {*wide, "parameters: ConfigMap five in namespace team"}
    with pytest.raises(Missing):
        parameters.known(spaces[0])

    server.slow.clear()
    await parameters.follow([FIVE, *spaces])  # the list that is never answered belongs to another watch now
    await until(lambda: _tasks() == wide)
    assert values(parameters, FIVE) == ["6"]


def _tasks() -> set[str]:
    names = {task.get_name() for task in asyncio.all_tasks()}
    return {name for name in names if name.startswith("param")}


OWN_MAPS = "/api/v1/namespaces/cks/configmaps"
EVENTS = "/api/v1/namespaces/cks/events"


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": data}


async def _followed(api: Connection, times: Times) -> PolicyMaps:
    maps = PolicyMaps(api, "cks", times.clock)
    await maps.start()
    await maps.changed.wait()
    return maps


def _told(server: FakeApi) -> list[tuple[str, Any]]:
    """The writes: path, and the annotation or the Event's type and message."""
    bodies = [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.method != "GET"]
    return [
        (path, (body["type"], body["message"]) if path == EVENTS else body["metadata"]["annotations"][REFUSED])
        for path, body in bodies
    ]


async def test_keys_are_files(server: FakeApi, api: Connection, times: Times) -> None:
    """Each ConfigMap is a source of its own with a version of its data; one without a file says what it lacks."""
    server.put(OWN_MAPS, _config_map("empty", notes="x"))
    server.put(OWN_MAPS, _config_map("good", **{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"}))
    maps = await _followed(api, times)

    found = await policyset.read(await ConfigMaps(maps).units(NEWEST), NEWEST)
    await maps.stop()

    assert {name: (len(content.parts), content.problem) for name, content in found.items()} == {
        "ConfigMap cks/empty": (0, "ConfigMap empty: no key of its data ends in .yaml, .yml, .json"),
        "ConfigMap cks/good": (1, ""),
    }


async def test_what_could_not_be_told_is_told_later(server: FakeApi, api: Connection, times: Times) -> None:
    """A refusal that the API server did not take is told again; the next one that looks finds it told."""
    server.put(OWN_MAPS, _config_map("team", **{"a.yaml": "{}"}))
    maps = await _followed(api, times)
    server.failures.append(Failure(f"{OWN_MAPS}/team", 503, status(503, "busy"), 1))

    await maps.report("team", "a.yaml:1:1: wrong")
    await maps.report("team", "a.yaml:1:1: wrong")
    await maps.report("gone", "a.yaml:1:1: wrong")
    await maps.stop()

    refused = "a.yaml:1:1: wrong"
    assert _told(server) == [(f"{OWN_MAPS}/team", refused)] * 2 + [(EVENTS, ("Warning", refused))]


async def test_a_warning_about_a_file(server: FakeApi, api: Connection, times: Times) -> None:
    """The ConfigMap with a policy's file gets an Event, one in an hour by its name; other files get none."""
    server.put(OWN_MAPS, _config_map("good", **{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"}))
    maps = await _followed(api, times)
    for seconds in (0, 1, 3600):
        times.pass_by(seconds)
        for file in ("good/a.yaml", "good/b.yaml", "policies/a.yaml"):
            await maps.warn(file, "PolicySlow", "Policy x is slow.")
    await maps.stop()

    events = [json.loads(seen.body) for seen in server.seen if seen.method == "POST"]
    assert {(event["reason"], event["type"], event["message"]) for event in events} == {
        ("PolicySlow", "Warning", "Policy x is slow.")
    }
    assert [event["involvedObject"]["name"] for event in events] == ["good"] * 3
    assert len({event["metadata"]["name"] for event in events}) == 2
