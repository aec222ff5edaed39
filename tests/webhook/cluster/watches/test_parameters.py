from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from support.api.fakeapi import FakeApi, Json, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from policies.admissionpolicy.evaluation.parameters import KindScope, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.match import LabelSelector, SelectorRequirement
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.parameters import ClusterParameters

CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")
LIMIT = ParamKind(api_version="example.org/v1", kind="Limit")
MAPS = "/api/v1/configmaps"
TEAM_MAPS = "/api/v1/namespaces/team/configmaps"
LIMITS = "/apis/example.org/v1/limits"
FIVE = ParametersKey(kind=CONFIG_MAP, namespace="team", name="five")
BIG = LabelSelector((SelectorRequirement("size", "In", ("l", "xl")),))


def resource(name: str, kind: str, *, namespaced: bool) -> Json:
    """An APIResource."""
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["list", "watch"]}


@pytest.fixture
async def parameters(server: FakeApi, api: Connection, times: Times) -> AsyncIterator[ClusterParameters]:
    """Parameters of a small API server that has ConfigMaps and Limits; whoever pauses waits until it is woken."""
    maps = [
        resource("configmaps/odd", "ConfigMap", namespaced=False),
        resource("configmaps", "ConfigMap", namespaced=True),
    ]
    server.groups["/api/v1"] = {"kind": "APIResourceList", "resources": maps}
    serve_limits(server)
    times.patience = 0
    made = ClusterParameters(api, times.clock)
    yield made
    await made.stop()


def serve_limits(server: FakeApi) -> None:
    """Let there be Limits, which are cluster-scoped."""
    resources = [resource("limits", "Limit", namespaced=False)]
    server.groups["/apis/example.org/v1"] = {"kind": "APIResourceList", "resources": resources}


def config_map(name: str, value: str, namespace: str = "team", labels: Json | None = None) -> Json:
    """A ConfigMap as lists have it: without apiVersion and kind."""
    return named(name, labels, namespace, data={"a": value})


def shown(item: Json) -> Json:
    """A ConfigMap as a parameter."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {"apiVersion": "v1", "kind": "ConfigMap", **item, "metadata": metadata}


async def followed(parameters: ClusterParameters, *keys: ParametersKey) -> None:
    """Follow, and wait until all is known."""
    await parameters.follow(keys)
    await until(lambda: not parameters.unsynced())


def scope(parameters: ClusterParameters, kind: ParamKind) -> KindScope | None:
    """The scope of a kind, as far as it is known."""
    return parameters.known(ParametersKey(kind=kind)).scope


def one(parameters: ClusterParameters, kind: ParamKind, namespace: str, name: str) -> Json | None:
    """The object of a name, as far as it is known."""
    objects = selected(parameters, kind, namespace, name=name)
    return objects[0] if objects else None


def selected(
    parameters: ClusterParameters,
    kind: ParamKind,
    namespace: str,
    selector: LabelSelector | None = None,
    name: str = "",
) -> list[Json]:
    """The objects of a name or selector, as far as they are known."""
    key = ParametersKey(kind=kind, namespace=namespace, name=name, selector=selector)
    return [dict(each) for each in parameters.known(key).objects]


async def test_unknown_until_the_first_list(server: FakeApi, parameters: ClusterParameters) -> None:
    """Before discovery and the first list, questions raise what is to be read, and reading it waits for them."""
    server.put(TEAM_MAPS, config_map("five", "5", labels={"size": "l"}))
    asked: list[Callable[[], object]] = [
        lambda: scope(parameters, CONFIG_MAP),
        lambda: one(parameters, CONFIG_MAP, "team", "five"),
        lambda: selected(parameters, CONFIG_MAP, "team", BIG),
    ]
    needed = []
    await parameters.follow([FIVE, ParametersKey(kind=CONFIG_MAP, namespace="team", selector=BIG)])
    for each in asked:
        with pytest.raises(Missing) as caught:
            each()
        needed.append(caught.value.key)
    assert parameters.unsynced() == ["ConfigMap of v1: not known yet whether it is served: waiting for the API server"]

    read = [await parameters.read(key, PATIENCE) for key in needed]

    assert read == [parameters.known(key) for key in needed]
    assert needed == [
        ParametersKey(kind=CONFIG_MAP),
        FIVE,
        ParametersKey(kind=CONFIG_MAP, namespace="team", selector=BIG),
    ]
    assert [bool(each()) for each in asked] == [True, True, True]


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
    await awake(times, lambda: parameters.problems() == problems)

    assert parameters.unsynced() == []
    assert one(parameters, CONFIG_MAP, "team", "five") is not None

    server.failures.clear()
    await awake(times, lambda: not parameters.problems())


@pytest.mark.parametrize(
    ("key", "path", "role"),
    [
        pytest.param(FIVE, TEAM_MAPS, "a Role in namespace team", id="namespace"),
        pytest.param(ParametersKey(kind=CONFIG_MAP, name="five"), MAPS, "a ClusterRole", id="all-namespaces"),
        pytest.param(ParametersKey(kind=LIMIT, name="five"), LIMITS, "a ClusterRole", id="group"),
    ],
)
async def test_a_missing_right(
    server: FakeApi, parameters: ClusterParameters, key: ParametersKey, path: str, role: str
) -> None:
    """Where the service may not read parameters, the text says so, and which right is to be granted."""
    server.fail(path, 403, status(403, "you may not"), times=99)
    await parameters.follow([key])
    await until(parameters.problems)

    what = "limits of example.org" if key.kind == LIMIT else "configmaps"
    reason = (
        f"the API server refused GET {path} at {server.url} (403: you may not); "
        f"{role} must allow the service's account to list and watch {what}"
    )
    assert parameters.problems() == [f"{key}: {reason}"]
    with pytest.raises(FactUnavailable) as caught:
        await parameters.read(key, 0.01)
    assert str(caught.value) == f"{key} could not be read: {reason}"


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
    first = config_map("five", "5")
    server.put(TEAM_MAPS, first)
    server.put(MAPS, config_map("six", "6"))
    server.put(LIMITS, named("five"))
    await followed(parameters, FIVE, ParametersKey(kind=LIMIT, name="five"))
    await server.watched(TEAM_MAPS)

    await parameters.follow([FIVE, ParametersKey(kind=CONFIG_MAP, name="six")])
    assert one(parameters, CONFIG_MAP, "team", "five") == shown(first)
    await until(lambda: not parameters.unsynced())
    assert one(parameters, CONFIG_MAP, "team", "six") is not None
    with pytest.raises(Missing):
        scope(parameters, LIMIT)

    await parameters.follow([FIVE])
    with pytest.raises(Missing):
        one(parameters, CONFIG_MAP, "team", "six")
    assert len(server.lists(TEAM_MAPS)) == 1
    await until(lambda: tasks() == {"paramKind ConfigMap", "parameters: ConfigMap five in namespace team"})


def in_spaces(count: int) -> list[ParametersKey]:
    """References to an object in each of so many namespaces, with a name for each."""
    return [ParametersKey(kind=CONFIG_MAP, namespace=f"team-{n}", name=f"limits-{n}") for n in range(count)]


async def test_a_wider_watch_takes_over(server: FakeApi, parameters: ClusterParameters) -> None:
    """While the first list of a wider watch is awaited, the narrow ones still answer; afterwards they end."""
    server.put(TEAM_MAPS, config_map("five", "5"))
    server.put(MAPS, config_map("five", "6"))
    await followed(parameters, FIVE)
    server.slow.add(MAPS)
    await parameters.follow([FIVE, *in_spaces(5)])
    await until(lambda: any(seen.path == MAPS for seen in server.seen))
    before = one(parameters, CONFIG_MAP, "team", "five")
    assert (before or {})["data"] == {"a": "5"}
    assert tasks() == {
        "paramKind ConfigMap", "parameters: ConfigMap five in namespace team", "parameters: every ConfigMap"
    }  # fmt: skip
    with pytest.raises(Missing):
        parameters.known(in_spaces(1)[0])

    server.slow.clear()
    server.put(MAPS, config_map("five", "6"))
    await parameters.follow([FIVE, *in_spaces(6)])  # the list that is never answered belongs to another watch now
    await until(lambda: tasks() == {"paramKind ConfigMap", "parameters: every ConfigMap"})
    after = one(parameters, CONFIG_MAP, "team", "five")
    assert (after or {})["data"] == {"a": "6"}


async def awake(times: Times, probe: Callable[[], object]) -> None:
    """Wait until something holds, and end all pauses meanwhile."""

    def woken() -> object:
        times.wake()
        return probe()

    await until(woken)


def tasks() -> set[str]:
    """The tasks that follow parameters."""
    names = {task.get_name() for task in asyncio.all_tasks()}
    return {name for name in names if name.startswith("param")}
