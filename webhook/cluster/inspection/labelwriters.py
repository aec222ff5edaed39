"""Reads what in the cluster can write labels past the guard: mutating policies with a binding, and conversions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from policies.engine.request import JsonObject, mapping
from policies.kubernetes.name import matches_glob
from policies.labelwriters import LabelWriter, of_definition, of_policy
from webhook.cluster.api.call import listed, several
from webhook.cluster.api.errors import ApiError
from webhook.cluster.replicas.webhooks import GROUP
from webhook.configuration import rules

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

    from webhook.configuration.settings import Settings

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "mutatingadmissionpolicies"
BINDINGS = "mutatingadmissionpolicybindings"
RIGHT = f"list {POLICIES}, {BINDINGS} and customresourcedefinitions"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
"""The versions of mutating policies, the newest first: Kubernetes 1.36, 1.34 and 1.32."""

# The API server answers from memory.
_CACHED = (("resourceVersion", "0"),)


async def read(api: ApiClient, settings: Settings) -> list[LabelWriter]:
    """What can write labels, without what the settings trust. Raises ClusterError."""
    exceptions = rules.label_exceptions(settings)
    _, policies, bindings = await served_policies(partial(listed, api, query=_CACHED), POLICIES, BINDINGS)
    bound = {mapping(binding, "spec").get("policyName") for binding in bindings}
    made = [of_policy(one, exceptions) for one in policies if mapping(one, "metadata").get("name") in bound]
    made += [of_definition(one) for one in await several(api, DEFINITIONS, _CACHED)]
    return [one for one in made if one and not matches_glob(f"{one.kind}/{one.name}", settings.labels.trusted)]


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
