"""Keeps the cluster's webhook configurations in the desired state, whatever others do to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import structlog
from msgspec.structs import replace

from certs.errors import PemError
from certs.material import Bundle
from policies.engine.request import JsonObject
from policies.engine.ruleset import RuleSet
from policies.topology.topology import Catalog
from webhook.cluster.api.clock import Backoff, Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.replicas import webhooks as cluster
from webhook.cluster.watches.reflector import cancelled
from webhook.configuration import rules
from webhook.configuration.rules import PolicyRules
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics
from webhook.registration.announcement import Announcement
from webhook.registration.configurations import registered
from webhook.registration.plan import (
    WAITING,
    WITHHELD,
    Apply,
    CaFile,
    Calls,
    Conclusion,
    FindOwner,
    Memory,
    Observation,
    OwnerLookUp,
    Progress,
    ReadConfiguration,
    Remove,
    Step,
    Write,
    ca_bundle,
    plan,
)

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection
    from webhook.cluster.replicas.webhooks import Webhooks

# The shortest pause while somebody undoes the writes.
_UNDONE_SECONDS = 1.0
# The seconds between checks of readiness, while a configuration waits until calls reach a replica.
_READY_SECONDS = 1.0


class RegistrarInputs(NamedTuple):
    """What this process knows at one moment.

    policies: None while they are not known; another replica may know them, and its entries must stay. namespaces: those
    of the control plane. ca_bundle: PEM with which clients verify the service; empty for the system's roots, None while
    it is not known. leading: whether this process is the leader, which writes. ready: whether a replica takes calls.
    replicas: what the Pods of replicas announce; None if this process is the replica.
    """

    settings: Settings
    catalog: Catalog
    policies: PolicyRules | None
    namespaces: Sequence[str]
    ca_bundle: bytes | None
    leading: bool
    ready: bool
    replicas: tuple[Announcement, ...] | None = None


class _RuleCache(NamedTuple):
    """Rules, and everything from which they were made."""

    source: tuple[Settings, Sequence[str], PolicyRules, Catalog]
    ruleset: RuleSet


class Registrar:
    """Executes the plans of `webhook.registration.plan` when its inputs or the configurations change.

    Each process that registers has one; only the leader's writes.
    """

    def __init__(
        self,
        api: Connection,
        inputs: Callable[[], RegistrarInputs],
        webhooks: Webhooks,
        metrics: Metrics,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._inputs = inputs
        self._webhooks = webhooks
        self._metrics = metrics
        self._clock = clock or Clock()
        self._writing = asyncio.Lock()
        self._rule_cache: _RuleCache | None = None
        self._calls = Calls()
        self._memory = Memory()
        self._log = structlog.get_logger()

    def look(self) -> None:
        """Make `run` check at once, because an input of the configurations or the leader has changed."""
        self._webhooks.changed.set()

    def problems(self) -> list[str]:
        """The problems because of which the API server may not know the service properly, a line each."""
        return [problem.reason for problem in self._memory.problems.values()]

    async def run(self, seconds: float) -> NoReturn:
        """Write when there is a reason, and at the given interval, until cancelled.

        While somebody undoes the writes, the pauses grow, so that the two do not fight continuously.
        """
        backoff = Backoff(self._clock)
        while True:
            self._webhooks.changed.clear()
            try:
                await self.write()
            except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a change would stay unseen
                self._log.exception("registration failed")
            if self._memory.repairs.undone(self._clock.monotonic()):
                await self._pause(backoff)
            else:
                backoff.reset()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._reason_to_write()

    async def _pause(self, backoff: Backoff) -> None:
        """Wait for the next pause, but only shortly once entries are gone: without them, nobody is guarded."""
        pauses = [asyncio.create_task(backoff.wait()), asyncio.create_task(self._loss())]
        try:
            await asyncio.wait(pauses, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancelled(pauses)

    async def _loss(self) -> None:
        """Wait until entries are gone, and a little longer, so that whoever deletes them does not set the pace."""
        changed = self._webhooks.changed
        try:
            while not self._lost():
                changed.clear()
                await changed.wait()
            await self._clock.sleep(_UNDONE_SECONDS)
        finally:
            changed.set()  # for `run`, which has not seen these changes

    def _lost(self) -> bool:
        current = self._webhooks.state.current
        return any(target.lost(current.get(kind)) for kind, target in self._memory.written.items())

    async def write(self) -> bool:
        """Write what differs. Return whether the API server now knows everything, or nothing should be written.

        A failure is logged once for each reason, and tried again at the next call.
        """
        async with self._writing:
            observation = await self._observed()
            while steps := plan(observation).steps:
                for step in steps:
                    try:
                        observation = await self._carried_out(step, observation)
                    except ClusterError as error:
                        observation = replace(observation, failure=error)
                        break
            conclusion = plan(observation).conclusion
            self._conclude(conclusion)
        return conclusion.done

    async def _observed(self) -> Observation:
        """The current observation, on which a plan depends."""
        inputs = await self._inputs_with_rules()
        registration = inputs.settings.registration
        file = _read(registration.ca_file) if registration.ca_file else None
        bundle = ca_bundle(registration, inputs.ca_bundle, file, self._memory.ca_file)
        configurations = None
        if self._rule_cache is not None and inputs.policies is not None and bundle is not None:
            made = registered(inputs.settings, bundle, self._rule_cache.ruleset)
            configurations = {str(configuration["kind"]): configuration for configuration in made}
        return Observation(
            registration=registration,
            watch=self._webhooks.state,
            memory=self._memory,
            now=self._clock.monotonic(),
            leading=inputs.leading,
            calls_arrive=self._calls_arrive(ready=inputs.ready),
            configurations=configurations,
            bundle=bundle or b"",
            ca_file=file,
            replicas=inputs.replicas,
        )

    async def _inputs_with_rules(self) -> RegistrarInputs:
        """The current inputs, with the rules made from them in `_rule_cache`.

        Making the rules of a thousand policies takes tenths of a second, so it runs in a thread and reviews do not
        wait. The inputs are read again afterwards, because leadership and CA must be from the same moment: a new leader
        knows the current CA.
        """
        while (inputs := self._inputs()).policies is not None:
            source = inputs.settings, inputs.namespaces, inputs.policies, inputs.catalog
            if self._rule_cache is not None and self._rule_cache.source == source:
                break
            self._rule_cache = _RuleCache(source, await asyncio.to_thread(rules.build, *source))
        return inputs

    async def _carried_out(self, step: Step, observation: Observation) -> Observation:
        """The observation after a step. Raises ClusterError."""
        if isinstance(step, FindOwner):
            try:
                owner = OwnerLookUp(await cluster.owner_uid(self._api, step.name))
            except ClusterError as error:
                owner = OwnerLookUp(problem=str(error))
            return replace(observation, owner=owner)
        name, progress = observation.registration.name, observation.progress
        if isinstance(step, ReadConfiguration):
            after = Progress(await cluster.read(self._api, step.kind, name))
        else:
            before = progress[step.kind]
            after = Progress(before.read, await self._stored(step, name), before.writes + 1)
        return replace(observation, progress={**progress, step.kind: after})

    async def _stored(self, step: Write, name: str) -> JsonObject | None:
        """Execute a write. Return the configuration that is stored then. Raises ClusterError."""
        if isinstance(step, Remove):
            await cluster.remove(self._api, {step.kind: name})
            return None
        if not isinstance(step, Apply):
            return await cluster.replace(self._api, step.configuration)
        try:
            return await cluster.apply(self._api, step.configuration)
        except ApiError as error:
            if error.status != 422 or step.otherwise is None:
                raise
            return await cluster.replace(self._api, step.otherwise)

    def _conclude(self, conclusion: Conclusion) -> None:
        """Remember, log and count. A problem is logged when it appears or its reason changes."""
        for event in conclusion.events:
            getattr(self._log, event.level)(event.event, **event.details)
        for name, problem in conclusion.memory.problems.items():
            before = self._memory.problems.get(name)
            if before is None or before.reason != problem.reason:
                getattr(self._log, problem.level)(name, reason=problem.reason, **problem.details)
        for outcome in conclusion.outcomes:
            self._metrics.registrations.labels(outcome).inc()
        self._metrics.entries_withheld.set(WITHHELD in conclusion.memory.problems)
        self._memory = conclusion.memory

    def _calls_arrive(self, *, ready: bool) -> bool:
        """Whether calls reach a replica. The time counts from the first check at which one was ready."""
        self._calls = self._calls.observed(ready=ready, now=self._clock.monotonic())
        return self._calls.arrive

    async def _reason_to_write(self) -> None:
        """Wait for a change or, if a configuration waits for it, until calls reach a replica."""
        changed = self._webhooks.changed
        if WAITING not in self._memory.problems or self._calls.arrive:
            await changed.wait()
        while not changed.is_set() and not self._calls_arrive(ready=self._inputs().ready):
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_SECONDS):
                    await changed.wait()


def _read(path: str) -> CaFile:
    """The CAs in a file. The file is read at each turn, because others renew it."""
    try:
        content = Path(path).read_bytes()
        Bundle.from_pem(content)
    except OSError as error:
        return CaFile(problem=error.strerror or str(error))
    except PemError as error:
        return CaFile(problem=str(error))
    return CaFile(content)
