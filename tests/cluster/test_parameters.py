"""Parameters and Namespaces from the real cluster: policies here see what the API server's own policies see."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from cluster.apicalls import MERGE_PATCH, Caller
from policies.admissionpolicy import documents, wording
from policies.admissionpolicy.bound import inputs
from policies.admissionpolicy.compilation import compile_policy
from policies.admissionpolicy.document import Document
from policies.admissionpolicy.params import UnknownParameters
from policies.admissionpolicy.validating import evaluate_policy
from policies.admissionpolicy.wanted import wanted
from policies.facts import FactUnavailable, UnknownFact
from policies.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.cluster.client import connect
from webhook.cluster.facts import ClusterFacts
from webhook.cluster.parameters import ClusterParameters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from cluster.controlplane import ControlPlane
    from policies.admissionpolicy.documents import Loaded

Json = dict[str, Any]
T = TypeVar("T")

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
_SECONDS = 60.0  # the API server looks every 30 seconds for kinds that it did not find


class Policy:
    """A policy that refuses all ConfigMaps with its name as a label, and says so by an expression: there and here."""

    def __init__(self, caller: Caller, name: str, message: str, spec: Json, ref: Json | None) -> None:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
        self.name = name
        self.caller = caller
        self.documents: tuple[Json, Json] = (
            {
                **head,
                "kind": "ValidatingAdmissionPolicy",
                "spec": {
                    "matchConstraints": {
                        "resourceRules": [rule],
                        "objectSelector": {"matchLabels": {"parameters": name}},
                    },
                    "validations": [{"expression": "false", "messageExpression": message}],
                    **spec,
                },
            },
            {
                **head,
                "kind": "ValidatingAdmissionPolicyBinding",
                "spec": {"policyName": name, "validationActions": ["Deny"], **({"paramRef": ref} if ref else {})},
            },
        )

    @property
    def loaded(self) -> Loaded:
        """As it is read from a file."""
        return documents.read(Document(value=each, name="p.yaml", places=lambda _: (1, 1)) for each in self.documents)

    def there(self, namespace: str) -> str:
        """What the API server says of a ConfigMap in a namespace; nothing where it takes it."""
        path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
        answer = self.caller.send("POST", path, self._asked(namespace), user="alice")
        return "" if answer.code < 300 else str(answer.body["message"])

    def here(self, namespace: str, parameters: ClusterParameters, facts: ClusterFacts) -> str:
        """What this project says of it. Raises UnknownParameters and UnknownFact."""
        request = AdmissionRequest(
            uid="",
            kind=GroupVersionKind("", "v1", "ConfigMap"),
            resource=GroupVersionResource("", "v1", "configmaps"),
            name="asked",
            namespace=namespace,
            operation="CREATE",
            user_info=UserInfo("alice"),
            object=self._asked(namespace),
        )
        loaded = self.loaded
        compiled = compile_policy(loaded.policies[0])
        denial = evaluate_policy(compiled, loaded.bindings, parameters, inputs(request, facts)).denial
        return "" if denial is None else wording.forbidden("", "configmaps", "asked", denial.native)

    def refusal(self, words: str) -> str:
        """The answer where the policy has these words."""
        return _refusal(f"'{self.name}' with binding '{self.name}' denied request: {words}")

    def _asked(self, namespace: str) -> Json:
        metadata = {"name": "asked", "namespace": namespace, "labels": {"parameters": self.name}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _refusal(words: str) -> str:
    return f'configmaps "asked" is forbidden: ValidatingAdmissionPolicy {words}'


class Here:
    """The facts and parameters that the service would have, and how it asks for what is missing."""

    def __init__(self, parameters: ClusterParameters, facts: ClusterFacts) -> None:
        self.parameters = parameters
        self.facts = facts

    async def says(self, policy: Policy, namespace: str) -> str:
        """What a policy says here. Raises FactUnavailable."""
        while True:
            try:
                return policy.here(namespace, self.parameters, self.facts)
            except UnknownParameters as needed:
                await self.parameters.read_parameters(needed, _SECONDS)
            except UnknownFact as needed:
                await self.facts.read_namespace(needed.namespace, _SECONDS)

    async def knows(self, policy: Policy, namespace: str) -> bool:
        """Whether a policy can be evaluated."""
        try:
            await self.says(policy, namespace)
        except FactUnavailable:
            return False
        return True

    async def agrees(self, policy: Policy, namespace: str, words: str) -> None:
        """Wait until a policy says these words, here and at the API server."""
        there = here = None
        try:
            async with asyncio.timeout(_SECONDS):
                while not there == here == words:
                    await asyncio.sleep(0.1)
                    there, here = policy.there(namespace), await self.says(policy, namespace)
        except TimeoutError:
            assert (there, here) == (words, words)


@asynccontextmanager
async def at(kubeconfig: Path, *policies: Policy) -> AsyncIterator[Here]:
    """What the service knows with these policies in force, as the user of a kubeconfig."""
    api = await connect(str(kubeconfig), in_cluster=False)
    here = Here(ClusterParameters(api), ClusterFacts(api, watch_nodes=False))
    try:
        await here.parameters.follow(
            wanted(
                [each for p in policies for each in p.loaded.policies], [b for p in policies for b in p.loaded.bindings]
            )
        )
        yield here
    finally:
        await here.parameters.stop()
        await here.facts.stop()
        await api.close()


@pytest.fixture
def caller(control_plane: ControlPlane) -> Iterator[Caller]:
    """A connection of the administrator."""
    with Caller(control_plane) as connection:
        yield connection


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
        plural = f"{kind.lower()}s"
        made.append(f"{_DEFINITIONS}/{plural}.{_GROUP}")
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{_GROUP}"},
            "spec": {"group": _GROUP, "scope": scope, "names": names, "versions": [version]},
        }
        caller.make(_DEFINITIONS, body)

    yield definition
    for path in made:
        caller.send("DELETE", path)


async def until(probe: Callable[[], Awaitable[T | None]]) -> T:
    """Wait until something is true, and return that."""
    async with asyncio.timeout(_SECONDS):
        while True:
            if found := await probe():
                return found
            await asyncio.sleep(0.1)


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
        assert (here.parameters.unsynced(), here.parameters.problems()) == ([], [])


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
        refused = _refusal(f"'later' denied request: failed to configure policy: {unknown}")
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
        control_plane.apply(_RIGHTS % {"namespace": namespace}, user="admin", check=True)
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


async def test_namespace_object_is_that_of_the_api_server(
    control_plane: ControlPlane, caller: Caller, make: Callable[..., Policy]
) -> None:
    """Every field that the API server shows of a Namespace is shown here, from the watch and from a direct read."""
    metadata = {
        "generateName": "parameters-",
        "labels": {"team": "a", "tier": "gold"},
        "annotations": {"owner": "somebody", "note": "two words"},
        "finalizers": ["example.org/kept"],
    }
    namespace = caller.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    name = namespace["metadata"]["name"]
    policy = make("namespace", _NAMESPACE, variables=[_IT])

    async with at(control_plane.kubeconfig("admin"), policy) as here:
        words = await until(lambda: asyncio.to_thread(policy.there, name))
        read = await here.says(policy, name)  # the watch is not begun yet
        await here.facts.start()

        async def synced() -> bool:
            return not here.facts.unsynced()

        await until(synced)
        watched = policy.here(name, here.parameters, here.facts)
    caller.send("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    caller.send("DELETE", f"/api/v1/namespaces/{name}")

    given = namespace["metadata"]
    shown = [name, given["uid"], given["resourceVersion"], given["creationTimestamp"], "parameters-", "-", "-"]
    shown += [f"kubernetes.io/metadata.name={name},team=a,tier=gold", "note=two words,owner=somebody"]
    shown += ["example.org/kept", "kubernetes", "-", "-", "Active", "-"]
    assert words == policy.refusal("|".join(shown))
    assert (read, watched) == (words, words)
