"""Parameters of policies: which references share a watch, and what is known of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from support.api.fakeapi import FakeApi, Json, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from policies.admissionpolicy.evaluation.inputs import KnownParameters, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.parameters import ClusterParameters, plan

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
        (
            [*(key(f"ns-{n}", "", LARGE) for n in range(9)), key("x", "y")],
            {"every ConfigMap": 10},
        ),
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


async def followed(parameters: ClusterParameters, *keys: ParametersKey) -> None:
    """Follow, and wait until all is known."""
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
    await followed(parameters, FIVE)
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
    await followed(parameters, FIVE, limit)
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
    await until(lambda: tasks() == {"paramKind ConfigMap", "parameters: ConfigMap five in namespace team"})


async def test_a_wider_watch_takes_over(server: FakeApi, parameters: ClusterParameters) -> None:
    """While the first list of a wider watch is awaited, the narrow ones still answer; afterwards they end."""
    spaces = [key(f"team-{n}", f"limits-{n}") for n in range(6)]
    server.put(TEAM_MAPS, config_map("five", "5"))
    server.put(MAPS, config_map("five", "6"))
    await followed(parameters, FIVE)
    server.slow.add(MAPS)
    await parameters.follow([FIVE, *spaces[:5]])
    await until(lambda: any(seen.path == MAPS for seen in server.seen))
    assert values(parameters, FIVE) == ["5"]
    wide = {"paramKind ConfigMap", "parameters: every ConfigMap"}
    assert tasks() == {*wide, "parameters: ConfigMap five in namespace team"}
    with pytest.raises(Missing):
        parameters.known(spaces[0])

    server.slow.clear()
    await parameters.follow([FIVE, *spaces])  # the list that is never answered belongs to another watch now
    await until(lambda: tasks() == wide)
    assert values(parameters, FIVE) == ["6"]


def tasks() -> set[str]:
    """The tasks that follow parameters."""
    names = {task.get_name() for task in asyncio.all_tasks()}
    return {name for name in names if name.startswith("param")}
