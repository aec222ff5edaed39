"""Reads what in the cluster can write labels past the guard: mutating policies with a binding, and conversions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from policies.engine.request import JsonObject, mapping
from policies.kubernetes.name import matches_glob
from policies.labelwriters import DEFINITION, POLICY, LabelWriter, of_definition, of_policy
from webhook.cluster.api.call import listed, one, several
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.events import Subject
from webhook.cluster.facts.workloads import ACCEPT
from webhook.cluster.replicas.webhooks import GROUP
from webhook.configuration import rules

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

    from webhook.configuration.settings import Settings

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "mutatingadmissionpolicies"
BINDINGS = "mutatingadmissionpolicybindings"
RIGHT = f"list {POLICIES}, {BINDINGS} and customresourcedefinitions, and get the latter"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
"""The versions of mutating policies, the newest first: Kubernetes 1.36, 1.34 and 1.32."""

# The API server answers from memory, so that a look every minute costs it little.
_CACHED = (("resourceVersion", "0"),)

_Identity = tuple[str, int]


class Sighting(NamedTuple):
    """An object that can write labels, as Events name it, and how it can."""

    about: Subject
    writer: LabelWriter


class LabelWriterReader:
    """Reads the cluster again and again. An object is judged once: definitions are large."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._judged: dict[_Identity, LabelWriter | None] = {}
        self._rules: object = None

    async def read(self, settings: Settings) -> list[Sighting]:
        """What can write labels, without what the settings trust. Raises ClusterError."""
        ruling = settings.labels, settings.organization
        if self._rules != ruling:
            self._rules, self._judged = ruling, {}
        policies = await self._policies()
        known = await several(self._api, DEFINITIONS, _CACHED, ACCEPT)
        definitions = list(_identified(known, "apiextensions.k8s.io/v1", DEFINITION))
        judged: dict[_Identity, LabelWriter | None] = {}
        sightings = []
        for about, generation, item in (*policies, *definitions):
            if matches_glob(f"{about.kind}/{about.name}", settings.labels.trusted):
                continue
            identity = about.uid, generation
            if identity not in self._judged:
                self._judged[identity] = await self._judge(about, item, settings)
            if (writer := self._judged[identity]) is not None:
                sightings.append(Sighting(about, writer))
            judged[identity] = writer
        self._judged = judged  # without what is gone
        return sightings

    async def _judge(self, about: Subject, item: JsonObject, settings: Settings) -> LabelWriter | None:
        if about.kind == DEFINITION:
            definition = await one(self._api, f"{DEFINITIONS}/{quote(about.name, safe='')}")
            return None if definition is None else of_definition(definition)
        return of_policy(item, rules.label_exceptions(settings))

    async def _policies(self) -> list[tuple[Subject, int, JsonObject]]:
        version, policies, bindings = await served_policies(
            lambda path: listed(self._api, path, _CACHED), POLICIES, BINDINGS
        )
        bound = {mapping(binding, "spec").get("policyName") for binding in bindings}
        every = _identified(policies, f"{GROUP}/{version}", POLICY)
        return [entry for entry in every if entry[0].name in bound]


async def served_policies(
    read: Callable[[str], Awaitable[list[JsonObject]]], policies: str, bindings: str
) -> tuple[str, list[JsonObject], list[JsonObject]]:
    """The newest version that is served, and its policies and bindings. read: lists a path. Raises ClusterError."""
    for version in VERSIONS:
        root = f"/apis/{GROUP}/{version}"
        try:
            return version, await read(f"{root}/{policies}"), await read(f"{root}/{bindings}")
        except ApiError as error:
            if error.status != 404:
                raise
    return "", [], []


def _identified(items: list[JsonObject], api_version: str, kind: str) -> Iterator[tuple[Subject, int, JsonObject]]:
    """Each object with its identity and its generation, which counts changes of its content."""
    for item in items:
        metadata = mapping(item, "metadata")
        about = Subject(api_version, kind, "", str(metadata.get("name", "")), str(metadata.get("uid", "")))
        yield about, int(metadata.get("generation", 0)), item
