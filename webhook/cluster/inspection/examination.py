"""Reads the state that `doctor` checks, with concurrent requests. What cannot be read is reported as such."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from policies import rbac
from policies.admissionpolicy.documents.document import Document
from policies.engine.request import JsonObject, UserInfo, mapping
from policies.kubernetes.name import matches_glob
from policies.labelpolicy import LabelWriter, of_definition, of_policy
from policies.rbac import Rights
from policies.topology.nodes.tree import Machine, machines
from webhook.cluster.api.call import DEFINITIONS, ApiClient, Call, listed, named, one, resource_path, send, several
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.facts.workloads import ACCEPT
from webhook.cluster.inspection import inventory
from webhook.cluster.inspection.auditing import served_policies
from webhook.cluster.placer.gates import PlacerLookout, gated
from webhook.cluster.replicas.pods import certificates
from webhook.cluster.replicas.webhooks import path
from webhook.cluster.watches.policies import REFUSED, SELECTOR, asking, joined
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.doctor import connection, processes
from webhook.doctor.observation import (
    Component,
    Endpoint,
    InstallationState,
    PlacerState,
    PolicySource,
    Probe,
    Read,
    ShownChain,
    TopologyObjects,
    Unread,
)
from webhook.registration import outage
from webhook.registration.resources import ADMISSION, CONFIGURATIONS, POLICIES
from webhook.registration.rights import Right

T = TypeVar("T")

SECONDS = 7.0
"""The time limit of a read."""


async def tried(reading: Awaitable[T], right: str, seconds: float = SECONDS) -> Read[T]:
    """The result of a read, or why it failed. right: the required right, such as `list nodes`."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        return Unread(f"no answer within {seconds:.0f} s")
    except ApiError as error:
        return Unread(str(error), right if error.status == 403 else "")
    except ClusterError as error:
        return Unread(str(error))


_CONNECT_SECONDS = 3.0
_AT_ONCE = 8
# The API server answers from memory.
_CACHED = (("resourceVersion", "0"),)
_LIST_WRITERS = "list mutatingadmissionpolicies, mutatingadmissionpolicybindings and customresourcedefinitions"
_ACCOUNT = "system:serviceaccount:"
_ADMISSION = f"/apis/{ADMISSION}/v1"
_AUTHORIZATION = "/apis/authorization.k8s.io/v1"


class Inquiry(NamedTuple):
    """What to examine.

    account: the namespace and name of the service account whose rights are checked; None: the current account.
    is_service: whether the current account is known to be the service's. probed: the Namespace for the probe; empty for
    none.
    """

    account: tuple[str, str] | None = None
    is_service: bool = False
    probed: str = "default"


async def examine(api: ApiClient, settings: Settings, needed: Sequence[Right], asked: Inquiry) -> InstallationState:
    """The observed state. needed: the rights to check. Raises ClusterError if the API server cannot be reached."""
    version = str((await send(api, Call("GET", "/version", seconds=SECONDS))).get("gitVersion", ""))
    cluster, workspace = await asyncio.gather(_cluster(api, settings), _workspace(api, settings))
    targets = connection.targets(settings, workspace["service"], workspace["slices"])
    served, answers, probe, placer = await asyncio.gather(
        asyncio.gather(*map(_served, targets)),
        _answers(api, processes.rights_to_check(needed, cluster["groups"]), asked.account),
        tried(_probed(api, asked.probed), "") if asked.probed else asyncio.sleep(0),
        _placer(api, settings),
    )
    own = "the account that asks" if isinstance(cluster["user"], Unread) else cluster["user"].username
    user = own if asked.account is None else _ACCOUNT + ":".join(asked.account)
    return InstallationState(
        **cluster, **workspace, version=version, served=served, asked_for=user, answers=answers, probe=probe,
        is_service=asked.is_service or user.startswith(_ACCOUNT), placer=placer,
    )  # fmt: skip


async def _gathered(**reading: Awaitable[Any]) -> dict[str, Any]:
    return dict(zip(reading, await asyncio.gather(*reading.values()), strict=True))


async def _cluster(api: ApiClient, settings: Settings) -> dict[str, Any]:
    name = settings.registration.name
    plurals = CONFIGURATIONS | (POLICIES if settings.registration.apply else {})
    own = {kind: tried(one(api, path(kind, name)), f"get {plural} {name}") for kind, plural in plurals.items()}
    return await _gathered(
        own=_gathered(**own),
        user=tried(_user(api), "create selfsubjectreviews"),
        groups=tried(_groups(api), "get /apis"),
        others=tried(_others(api, name), f"list {' and '.join(CONFIGURATIONS.values())}"),
        namespaces=tried(_namespaces(api), "list namespaces"),
        natives=tried(_natives(api, settings), "list validatingadmissionpolicies and their bindings"),
        machines=tried(_machines(api, settings), "list nodes"),
        topologies=tried(_topologies(api, settings), "list topologies"),
        label_writers=tried(label_writers(api, settings), _LIST_WRITERS),
        rights=tried(_rights(api), "list roles, clusterroles and their bindings"),
        components=tried(components(api), "list daemonsets and deployments"),
    )


async def _placer(api: ApiClient, settings: Settings) -> PlacerState | None:
    if not processes.opens_gates(settings):
        return None
    namespace, lease = settings.cluster.namespace, settings.place.lease
    fence = {
        kind: tried(named(api, f"{_ADMISSION}/{resource}", lease), f"list {resource}")
        for kind, resource in POLICIES.items()
    }
    found = await _gathered(
        absence=tried(PlacerLookout(api, namespace, lease).read(), f"get leases {lease} in namespace {namespace}"),
        gated=tried(gated(api), "list pods"),
        fence=_gathered(**fence),
    )
    return PlacerState(**found)


async def _workspace(api: ApiClient, settings: Settings) -> dict[str, Any]:
    namespace, service, secret = settings.cluster.namespace, settings.registration.service, settings.tls.secret
    lease = settings.cluster.lease

    def read(reading: Awaitable[Any], right: str) -> Awaitable[Any]:
        return tried(reading, f"{right} in namespace {namespace}")

    leaf = settings.manage.secret if settings.manage.apart else ""
    the_service = await read(one(api, resource_path("v1", "services", namespace, service)), f"get services {service}")
    own = (("labelSelector", processes.selector(the_service, settings)),)
    of_service = (("labelSelector", f"kubernetes.io/service-name={service}"),)
    slices = resource_path("discovery.k8s.io/v1", "endpointslices", namespace)
    deployments, pods = resource_path("apps/v1", "deployments", namespace), resource_path("v1", "pods", namespace)
    secrets, maps = resource_path("v1", "secrets", namespace), resource_path("v1", "configmaps", namespace)
    the_lease = resource_path("coordination.k8s.io/v1", "leases", namespace, lease)
    found = await _gathered(
        slices=read(several(api, slices, of_service), "list endpointslices"),
        deployments=read(several(api, deployments, own), "list deployments"),
        pods=read(several(api, pods, own), "list pods"),
        lease=read(one(api, the_lease), f"get leases {lease}"),
        secret=read(_secret(api, secrets, secret), f"list secrets {secret}"),
        leaf=read(_secret(api, secrets, leaf), f"list secrets {leaf}"),
        maps=read(_maps(api, maps, settings), "list configmaps"),
    )
    return {"service": the_service, **found}


async def _user(api: ApiClient) -> UserInfo:
    review = await send(api, _creation("/apis/authentication.k8s.io/v1", "SelfSubjectReview", {}))
    user = mapping(mapping(review, "status"), "userInfo")
    return UserInfo(user.get("username", ""), groups=tuple(user.get("groups") or ()))


async def _groups(api: ApiClient) -> Mapping[str, tuple[str, ...]]:
    answer = await send(api, Call("GET", "/apis"))
    groups = answer.get("groups") or ()
    return {group["name"]: tuple(version["version"] for version in group["versions"]) for group in groups}


async def _others(api: ApiClient, name: str) -> list[JsonObject]:
    """The webhook configurations with other names, with their kind, which the items of a list do not have."""
    lists = await asyncio.gather(*(several(api, f"{_ADMISSION}/{plural}") for plural in CONFIGURATIONS.values()))
    return [
        {**configuration, "kind": kind}
        for kind, configurations in zip(CONFIGURATIONS, lists, strict=True)
        for configuration in configurations
        if configuration["metadata"]["name"] != name
    ]


async def _namespaces(api: ApiClient) -> Mapping[str, Mapping[str, str]]:
    namespaces = await several(api, "/api/v1/namespaces", accept=ACCEPT)
    return {namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {} for namespace in namespaces}


async def _natives(api: ApiClient, settings: Settings) -> Mapping[str, list[JsonObject]]:
    """The cluster's own policies by name: those that ask for rules for pod templates with bindings, others empty."""
    if not settings.policies.native:
        return {}
    paths = (f"{_ADMISSION}/{plural}" for plural in POLICIES.values())
    policies, bindings = await asyncio.gather(*(several(api, path) for path in paths))
    return joined({policy["metadata"]["name"]: asking(policy) for policy in policies}, bindings)


async def _machines(api: ApiClient, settings: Settings) -> tuple[Machine, ...]:
    if settings.topology.action == "off":
        return ()
    return machines(await inventory.nodes(api), None, settings.tolerations.accelerators.resources)


async def _topologies(api: ApiClient, settings: Settings) -> TopologyObjects:
    if settings.topology.action == "off":
        return TopologyObjects()
    return await inventory.topologies(api)


async def label_writers(api: ApiClient, settings: Settings) -> list[LabelWriter]:
    """What can write labels past the guard: mutating policies with a binding, and conversions. Raises ClusterError.

    What the settings trust is left out.
    """
    if settings.labels.action == "off":
        return []
    exceptions = rules.label_exceptions(settings)
    _, policies, bindings = await served_policies(partial(listed, api, query=_CACHED), "mutating")
    bound = {mapping(binding, "spec").get("policyName") for binding in bindings}
    made = [of_policy(one, exceptions) for one in policies if mapping(one, "metadata").get("name") in bound]
    made += [of_definition(one) for one in await several(api, DEFINITIONS, _CACHED)]
    return [one for one in made if one and not matches_glob(f"{one.kind}/{one.name}", settings.labels.trusted)]


async def _rights(api: ApiClient) -> Rights | None:
    kinds = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    lists = await asyncio.gather(*(several(api, f"/apis/{rbac.API_VERSION}/{kind.lower()}s") for kind in kinds))
    documents = (
        Document(value={**item, "apiVersion": rbac.API_VERSION, "kind": kind}, name=kind, places=lambda _: (1, 1))
        for kind, items in zip(kinds, lists, strict=True)
        for item in items
    )
    try:
        return rbac.read(documents)
    except rbac.RbacError as error:
        raise ClusterError(str(error)) from None


async def _secret(api: ApiClient, where: str, name: str) -> Mapping[str, bytes] | None:
    """The data of a Secret, or None. The service's account may list the Secret, but not get it. Raises ClusterError."""
    secret = await named(api, where, name) if name else None
    if secret is None:
        return None
    try:
        return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    except binascii.Error as error:
        raise ClusterError(f"the data at {where} are no base64: {error}") from None


async def _maps(api: ApiClient, where: str, settings: Settings) -> Mapping[str, PolicySource]:
    if not settings.policies.config_maps:
        return {}
    maps = await several(api, where, (("labelSelector", SELECTOR),))
    return {
        metadata["name"]: PolicySource(data or {}, (metadata.get("annotations") or {}).get(REFUSED, ""))
        for metadata, data in ((one["metadata"], one.get("data")) for one in maps)
    }


async def _served(target: Endpoint) -> ShownChain:
    try:
        return ShownChain(target, await certificates(target.host, target.port, target.name, _CONNECT_SECONDS))
    except ClusterError as error:
        return ShownChain(target, Unread(str(error)))


async def _answers(
    api: ApiClient, needed: Sequence[Right], account: tuple[str, str] | None
) -> Mapping[Right, Read[bool]]:
    free = asyncio.Semaphore(_AT_ONCE)
    kind, who = "SelfSubjectAccessReview", JsonObject()
    if account is not None:  # with the groups of every service account
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}", "system:authenticated"]
        kind, who = "SubjectAccessReview", {"user": _ACCOUNT + ":".join(account), "groups": groups}
    fields = ("verb", "group", "resource", "subresource", "name", "namespace")

    async def answer(right: Right) -> bool:
        what = {field: value for field in fields if (value := getattr(right, field))}
        async with free:
            spec = {**who, "resourceAttributes": what}
            review = await send(api, _creation(_AUTHORIZATION, kind, {"spec": spec}))
        return bool(mapping(review, "status").get("allowed"))

    plural = f"{kind.lower()}s"
    answers = await asyncio.gather(*(tried(answer(right), f"create {plural}") for right in needed))
    return dict(zip(needed, answers, strict=True))


async def _probed(api: ApiClient, namespace: str) -> Probe:
    """The API server's answer to a dry run of an object with a reserved label. Raises ClusterError."""
    where = resource_path("v1", "configmaps", namespace)
    try:
        await send(api, Call("POST", where, (("dryRun", "All"),), body=connection.probe_object(namespace)))
    except ApiError as error:
        return Probe(namespace, error.status, str(error))
    return Probe(namespace, 201)


def _creation(root: str, kind: str, content: JsonObject) -> Call:
    """The call that creates a review, an object that is answered but not stored."""
    return Call(
        "POST", f"{root}/{kind.lower()}s", body={"apiVersion": root.removeprefix("/apis/"), "kind": kind, **content}
    )


_PLURALS = {"DaemonSet": "daemonsets", "Deployment": "deployments"}
_PRIORITIES = ("system-node-critical", "system-cluster-critical")


async def components(api: ApiClient) -> list[Component]:
    """DaemonSets and Deployments in the Nodes' network or with a priority of the system. Raises ClusterError."""
    needed = []
    for kind, plural in _PLURALS.items():
        for workload in await several(api, f"/apis/apps/v1/{plural}"):
            spec = mapping(mapping(mapping(workload, "spec"), "template"), "spec")
            if spec.get("hostNetwork") or spec.get("priorityClassName") in _PRIORITIES:
                needed.append(component(kind, workload))
    return needed


def component(kind: str, workload: JsonObject) -> Component:
    """A workload, with the request that creates one of its Pods."""
    metadata, template = mapping(workload, "metadata"), mapping(mapping(workload, "spec"), "template")
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    pod = {**mapping(template, "metadata"), "name": name, "namespace": namespace}
    request = outage.written("CREATE", ("", "pods"), outage.CONTROLLER, pod, mapping(template, "spec"), kind="Pod")
    return Component(kind, namespace, name, request)
