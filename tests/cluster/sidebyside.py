"""One policy at the API server and in our engine: the answers of both for the same ConfigMap."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from support.policies import nativeanswers

from cluster import manifests
from cluster.apicalls import MERGE_PATCH, Caller
from cluster.programs import judged_as
from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.evaluation.inputs import NO_PARAMETERS, ReviewParameters, inputs_of, parameter_keys
from policies.admissionpolicy.evaluation.validator import evaluate_policy
from policies.cel.environment import Dialect
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.cluster.api.client import connect
from webhook.cluster.facts.facts import ClusterFacts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from policies.admissionpolicy.documents.reader import Loaded
    from policies.engine.facts import Facts

Json = dict[str, Any]
T = TypeVar("T")

SECONDS = 120.0  # the API server looks every 30 seconds for kinds that it did not find


async def until(probe: Callable[[], Awaitable[T | None]]) -> T:
    """Wait until something is true, and return that."""
    async with asyncio.timeout(SECONDS):
        while True:
            if found := await probe():
                return found
            await asyncio.sleep(0.1)


class Policy:
    """A policy that refuses all ConfigMaps with its name as a label, and says so by an expression: there and here."""

    def __init__(self, caller: Caller, name: str, message: str, spec: Json, ref: Json | None) -> None:
        self.name = name
        self.caller = caller
        self.documents = manifests.validating(
            name,
            manifests.rule("configmaps"),
            {"expression": "false", "messageExpression": message},
            binding={"paramRef": ref} if ref else {},
            selectors={"objectSelector": {"matchLabels": {"parameters": name}}},
            **spec,
        )

    @property
    def loaded(self) -> Loaded:
        """As it is read from a file."""
        documents = (Document(value=each, name="p.yaml", places=lambda _: (1, 1)) for each in self.documents)
        return reader.read(documents, dialect=Dialect(judged_as()))

    def there(self, namespace: str) -> str:
        """What the API server says of a ConfigMap in a namespace; nothing where it takes it."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        answer = self.caller.send("POST", f"{path}?dryRun=All", self.asked(namespace), user="alice")
        return "" if answer.code < 300 else str(answer.body["message"])

    def of_a_change(self, namespace: str) -> str:
        """What the API server says of a change of the ConfigMap that is there already."""
        path = f"/api/v1/namespaces/{namespace}/configmaps/asked?dryRun=All"
        answer = self.caller.send("PATCH", path, {"data": {"a": "b"}}, user="alice", content_type=MERGE_PATCH)
        return "" if answer.code < 300 else str(answer.body["message"])

    def here(self, namespace: str, facts: Facts) -> str:
        """What this project says of it. Raises Missing."""
        request = AdmissionRequest(
            uid="",
            kind=GroupVersionKind("", "v1", "ConfigMap"),
            resource=GroupVersionResource("", "v1", "configmaps"),
            name="asked",
            namespace=namespace,
            operation="CREATE",
            user_info=UserInfo("alice"),
            object=self.asked(namespace),
        )
        loaded = self.loaded
        compiled = compile_policy(loaded.policies[0], judged_as())
        parameters = ReviewParameters(facts, NO_PARAMETERS)
        denial = evaluate_policy(compiled, loaded.bindings, parameters, inputs_of(request, facts)).denial
        return "" if denial is None else nativeanswers.forbidden("", "configmaps", "asked", denial.native)

    def refusal(self, words: str) -> str:
        """The answer where the policy has these words."""
        return refusal(f"'{self.name}' with binding '{self.name}' denied request: {words}")

    def asked(self, namespace: str) -> Json:
        """The ConfigMap that the policy refuses."""
        metadata = {"name": "asked", "namespace": namespace, "labels": {"parameters": self.name}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def refusal(words: str) -> str:
    """The answer to a request that a policy refuses."""
    return f'configmaps "asked" is forbidden: ValidatingAdmissionPolicy {words}'


class Here:
    """The facts that the service would have, and how it asks for what is missing."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.parameters = facts.parameters

    async def says(self, policy: Policy, namespace: str) -> str:
        """What a policy says here. Raises FactUnavailable."""
        while True:
            try:
                return policy.here(namespace, self.facts.known)
            except Missing as missing:
                await self.facts.read(missing.key, SECONDS)

    async def _says(self, policy: Policy, namespace: str) -> str:
        """What a policy says here, or why it cannot be evaluated now: a kind that was just installed has its pauses."""
        try:
            return await self.says(policy, namespace)
        except FactUnavailable as missing:
            return str(missing)

    async def knows(self, policy: Policy, namespace: str) -> bool:
        """Whether a policy can be evaluated."""
        try:
            await self.says(policy, namespace)
        except FactUnavailable:
            return False
        return True

    async def watches(self) -> bool:
        """Whether the facts are there."""
        return not self.facts.unsynced()

    async def agrees(self, policy: Policy, namespace: str, words: str) -> None:
        """Wait until a policy says these words, here and at the API server."""
        there = here = None
        try:
            async with asyncio.timeout(SECONDS):
                while not there == here == words:
                    await asyncio.sleep(0.1)
                    there, here = policy.there(namespace), await self._says(policy, namespace)
        except TimeoutError:
            assert (there, here) == (words, words)


@asynccontextmanager
async def at(kubeconfig: Path, *policies: Policy) -> AsyncIterator[Here]:
    """What the service knows with these policies in force, as the user of a kubeconfig."""
    api = await connect(str(kubeconfig), in_cluster=False)
    here = Here(ClusterFacts(api, watch_nodes=False))
    try:
        await here.parameters.follow(
            parameter_keys(
                [each for p in policies for each in p.loaded.policies], [b for p in policies for b in p.loaded.bindings]
            )
        )
        yield here
    finally:
        await here.facts.stop()
        await api.close()
