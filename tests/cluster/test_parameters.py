"""Parameters and Namespaces from the real cluster: our policies see the same as the API server's own policies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from cluster import manifests
from cluster.apicalls import MERGE_PATCH, Caller
from cluster.sidebyside import Json, Policy, at, refusal, until
from policies.engine.interruption import FactUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.controlplane import ControlPlane

_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "parameters.example.org"
# A built-in kind that kube-apiserver watches anyway: of others it stops the watch with the last policy, for good.
_RANGES: Json = {"apiVersion": "v1", "kind": "LimitRange"}
_LIMITS: Json = {"apiVersion": f"{_GROUP}/v1", "kind": "Limit"}
_CEILINGS: Json = {"apiVersion": f"{_GROUP}/v1", "kind": "Ceiling"}
_FLOORS: Json = {"apiVersion": f"{_GROUP}/v1", "kind": "Floor"}
_PARAMS = (
    "params.apiVersion + ' ' + params.kind + ' ' + params.metadata.name + ' ' + params.metadata.uid + ' ' + "
    "params.metadata.resourceVersion + ' ' + string(has(params.metadata.managedFields))"
)


@pytest.fixture
def make(caller: Caller) -> Iterator[Callable[..., Policy]]:
    """Makes policies in the cluster, which end with the test."""
    made: list[str] = []

    def policy(name: str, message: str = _PARAMS, ref: Json | None = None, **spec: Any) -> Policy:
        reference = ref and {"parameterNotFoundAction": "Deny", **ref}
        found = Policy(caller, name, message, spec, reference)
        for plural, document in zip(_PLURALS, found.documents, strict=True):
            made.append(f"{_POLICIES}/{plural}/{name}")
            caller.make(f"{_POLICIES}/{plural}", document)
        return found

    yield policy
    for path in reversed(made):
        caller.send("DELETE", path)


_PLURALS = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


@pytest.fixture
def define(caller: Caller) -> Iterator[Callable[[str, str], None]]:
    """Installs CustomResourceDefinitions, which go with the test."""
    made: list[str] = []

    def definition(kind: str, scope: str) -> None:
        made.append(f"{_DEFINITIONS}/{kind.lower()}s.{_GROUP}")
        caller.make(_DEFINITIONS, manifests.custom_resource(kind, _GROUP, "v1", scope=scope))

    yield definition
    for path in made:
        caller.send("DELETE", path)


async def made(control_plane: ControlPlane, body: Json, *where: str) -> Json:
    """Create an object of a kind that may not be served yet."""

    async def applied() -> bool:
        return control_plane.apply(body, *where, user="admin").returncode == 0

    await until(applied)
    return control_plane.get(f"{body['kind']}.{_GROUP}", body["metadata"]["name"], *where)


def seen(obj: Json) -> str:
    """What _PARAMS says of an object."""
    metadata = obj["metadata"]
    managed = "false" if obj["kind"] == "LimitRange" else "true"  # built-in kinds are kept without managedFields
    fields = (obj["apiVersion"], obj["kind"], *(metadata[key] for key in ("name", "uid", "resourceVersion")), managed)
    return " ".join(fields)


async def test_parameters_are_those_that_the_api_server_takes(
    control_plane: ControlPlane,
    namespace: str,
    caller: Caller,
    make: Callable[..., Policy],
    define: Callable[[str, str], None],
) -> None:
    """By name and by selector, from the request's namespace and another, built-in kinds and custom ones: the same."""
    define("Limit", "Namespaced")
    define("Ceiling", "Cluster")
    ranges = f"/api/v1/namespaces/{namespace}/limitranges"
    spec: Json = {"limits": []}
    five = caller.make(ranges, {**_RANGES, "metadata": {"name": "five", "labels": {"size": "s"}}, "spec": spec})
    caller.make(ranges, {**_RANGES, "metadata": {"name": "six", "labels": {"size": "l"}}, "spec": spec})
    limit = await made(control_plane, {**_LIMITS, "metadata": {"name": "limit"}}, "-n", namespace)
    ceiling = await made(control_plane, {**_CEILINGS, "metadata": {"name": "ceiling"}})
    small = {"matchExpressions": [{"key": "size", "operator": "NotIn", "values": ["l"]}], "matchLabels": {"size": "s"}}
    cases = [
        (make("own", ref={"name": "five"}, paramKind=_RANGES), namespace, five),
        (make("other", ref={"name": "five", "namespace": namespace}, paramKind=_RANGES), "default", five),
        (make("selected", ref={"selector": small}, paramKind=_RANGES), namespace, five),
        (make("limit", ref={"name": "limit"}, paramKind=_LIMITS), namespace, limit),
        (make("ceiling", ref={"name": "ceiling"}, paramKind=_CEILINGS), "default", ceiling),
    ]
    missing = make("missing", ref={"name": "none"}, paramKind=_RANGES)

    async with at(control_plane.kubeconfig("admin"), missing, *(policy for policy, _, _ in cases)) as here:
        for policy, place, found in cases:
            await here.agrees(policy, place, policy.refusal(seen(found)))
        failed = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        await here.agrees(missing, namespace, missing.refusal(failed))
        assert here.parameters.unsynced() == []

        async def undisturbed() -> bool:  # a watch of a kind that was just installed may have to begin again
            return here.parameters.problems() == []

        await until(undisturbed)


async def test_changes_are_noticed(
    control_plane: ControlPlane, namespace: str, caller: Caller, make: Callable[..., Policy]
) -> None:
    """A parameter that is changed, deleted and made again is so here as at the API server."""
    ranges = f"/api/v1/namespaces/{namespace}/limitranges"

    def limit(cpu: str) -> Json:
        return {**_RANGES, "metadata": {"name": "five"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": cpu}}]}}

    policy = make("changes", "'limit: ' + params.spec.limits[0].max.cpu", ref={"name": "five"}, paramKind=_RANGES)
    caller.make(ranges, limit("5"))

    async with at(control_plane.kubeconfig("admin"), policy) as here:
        await here.agrees(policy, namespace, policy.refusal("limit: 5"))
        caller.send("PUT", f"{ranges}/five", limit("6"))
        await here.agrees(policy, namespace, policy.refusal("limit: 6"))
        caller.send("DELETE", f"{ranges}/five")
        failed = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        await here.agrees(policy, namespace, policy.refusal(failed))
        caller.make(ranges, limit("7"))
        await here.agrees(policy, namespace, policy.refusal("limit: 7"))


async def test_a_definition_that_is_installed_later(
    control_plane: ControlPlane,
    namespace: str,
    caller: Caller,
    make: Callable[..., Policy],
    define: Callable[[str, str], None],
) -> None:
    """A kind that is not served fails the policy in the API server's words until its definition is installed."""
    policy = make("later", ref={"name": "floor"}, paramKind=_FLOORS)

    async with at(control_plane.kubeconfig("admin"), policy) as here:
        unknown = f"failed to find resource referenced by paramKind: '{_GROUP}/v1, Kind=Floor'"
        refused = refusal(f"'later' denied request: failed to configure policy: {unknown}")
        await here.agrees(policy, namespace, refused)

        define("Floor", "Cluster")
        floor = await made(control_plane, {**_FLOORS, "metadata": {"name": "floor"}})
        await here.agrees(policy, namespace, policy.refusal(seen(floor)))

        caller.send("DELETE", f"{_DEFINITIONS}/floors.{_GROUP}")

        async def gone() -> bool:  # the API server itself goes on with what it knows
            return await here.says(policy, namespace) == refused

        await until(gone)


async def test_a_missing_right(
    control_plane: ControlPlane, namespace: str, caller: Caller, make: Callable[..., Policy]
) -> None:
    """Without the right to read parameters the policy cannot be evaluated; with what the text says to grant it can."""
    account = control_plane.service_account(namespace, "blind")
    policy = make("blind", ref={"name": "five", "namespace": namespace}, paramKind=_RANGES)
    ranges = f"/api/v1/namespaces/{namespace}/limitranges"
    five = caller.make(ranges, {**_RANGES, "metadata": {"name": "five"}, "spec": {"limits": []}})

    async with at(account, policy) as here:
        with pytest.raises(FactUnavailable) as caught:
            await here.says(policy, namespace)
        control_plane.objects.apply(_RIGHTS % {"namespace": namespace})
        await until(lambda: here.knows(policy, namespace))
        await here.agrees(policy, namespace, policy.refusal(seen(five)))

    assert str(caught.value) == (
        f"LimitRange five in namespace {namespace} could not be read: the API server refused GET {ranges} at "
        f'{control_plane.server} (403: limitranges "five" is forbidden: User "system:serviceaccount:{namespace}:blind" '
        f'cannot list resource "limitranges" in API group "" in the namespace "{namespace}"); a Role in namespace '
        f"{namespace} must allow the service's account to list and watch limitranges"
    )


_RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: seeing, namespace: %(namespace)s}
rules:
- {apiGroups: [""], resources: [limitranges], resourceNames: [five], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: seeing, namespace: %(namespace)s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: seeing}
subjects: [{kind: ServiceAccount, name: blind, namespace: %(namespace)s}]
"""


def _text(field: str) -> str:
    return f"(has(variables.it.{field}) ? string(variables.it.{field}) : '-')"


def _list(field: str) -> str:
    return f"(has(variables.it.{field}) ? variables.it.{field}.map(x, string(x)).sort().join(',') : '-')"


def _map(field: str) -> str:
    pairs = f"variables.it.{field}.map(k, k + '=' + string(variables.it.{field}[k])).sort().join(',')"
    return f"(has(variables.it.{field}) ? {pairs} : '-')"


_IT = {"name": "it", "expression": "dyn(namespaceObject)"}  # its declared type lacks some of what it has
_CONDITIONS = "variables.it.status.conditions.map(c, c.type + '=' + c.status + '/' + c.reason).sort().join(',')"
_NAMESPACE = " + '|' + ".join(
    [
        *map(_text, ("metadata.name", "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp")),
        *map(_text, ("metadata.generateName", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds")),
        *map(_map, ("metadata.labels", "metadata.annotations")),
        *map(_list, ("metadata.finalizers", "spec.finalizers")),
        *map(_text, ("metadata.generation", "metadata.managedFields", "status.phase")),
        f"(has(variables.it.status.conditions) ? {_CONDITIONS} : '-')",
    ]
)


@pytest.fixture
def kept(caller: Caller) -> Iterator[Json]:
    """A Namespace that a finalizer keeps from vanishing until the end of the test."""
    metadata = {
        "generateName": "parameters-",
        "labels": {"team": "a", "tier": "gold"},
        "annotations": {"owner": "somebody", "note": "two words"},
        "finalizers": ["example.org/kept"],
    }
    namespace = caller.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield namespace["metadata"]
    path = f"/api/v1/namespaces/{namespace['metadata']['name']}"
    caller.send("DELETE", path)
    for held in (f"{path}/configmaps/asked", path):
        caller.send("PATCH", held, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)


async def test_namespace_object_is_that_of_the_api_server(
    control_plane: ControlPlane, make: Callable[..., Policy], kept: Json
) -> None:
    """Every field that the API server shows of a Namespace is shown here, from the watch and from a direct read."""
    name = kept["name"]
    policy = make("namespace", _NAMESPACE, variables=[_IT])

    async with at(control_plane.kubeconfig("admin"), policy) as here:
        words = await until(lambda: asyncio.to_thread(policy.there, name))
        read = await here.says(policy, name)  # the watch is not begun yet
        await here.facts.start()
        await until(here.watches)
        watched = policy.here(name, here.facts.known)

    shown = [name, kept["uid"], kept["resourceVersion"], kept["creationTimestamp"], "parameters-", "-", "-"]
    shown += [f"kubernetes.io/metadata.name={name},team=a,tier=gold", "note=two words,owner=somebody"]
    shown += ["example.org/kept", "kubernetes", "-", "-", "Active", "-"]
    assert words == policy.refusal("|".join(shown))
    assert (read, watched) == (words, words)


async def test_namespace_object_of_one_that_is_being_deleted(
    control_plane: ControlPlane, caller: Caller, make: Callable[..., Policy], kept: Json
) -> None:
    """A Namespace that is being deleted is shown with its phase, its conditions and the time of its deletion."""
    name = kept["name"]
    asked = Policy(caller, "deleted", "", {}, None).asked(name)
    asked["metadata"] |= {"finalizers": ["example.org/kept"]}
    caller.make(f"/api/v1/namespaces/{name}/configmaps", asked)
    policy = make("deleted", _NAMESPACE, variables=[_IT])

    async with at(control_plane.kubeconfig("admin"), policy) as here:
        await here.facts.start()
        await until(here.watches)
        caller.send("DELETE", f"/api/v1/namespaces/{name}")

        async def terminating() -> bool:
            there = policy.of_a_change(name)
            return "NamespaceContentRemaining=True" in there and there == await here.says(policy, name)

        await until(terminating)
