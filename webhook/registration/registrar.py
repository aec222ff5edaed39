"""Keeps the cluster's webhook configurations as the settings want them, whatever others do to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

import structlog

from certs.bundle import Bundle
from certs.errors import PemError
from policies.engine.request import JsonObject
from policies.engine.ruleset import RuleSet
from policies.topology.catalog import Catalog
from webhook.cluster.api.clock import Backoff, Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.replicas import registration as cluster
from webhook.configuration import rules
from webhook.configuration.rules import PolicyRules
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics
from webhook.registration.configuration import KINDS, UNREGISTER, Owner, registered
from webhook.registration.drift import BundleOnly, Managed, Target, changed_by, foreign, is_unregistered
from webhook.registration.problems import Problems
from webhook.registration.reachability import REACHED_SECONDS
from webhook.registration.repairs import Repairs

if TYPE_CHECKING:
    from webhook.cluster.facts.facts import ClusterFacts
    from webhook.cluster.watches.webhooks import Webhooks

FAILED = "not registered"
SUSPENDED = "registration is suspended"
UNDONE = "registration is undone"
UNREADABLE = "CA bundle not read"
NO_OWNER = "owner of the registration not found"
ABSENT = "no configuration for the CA bundle"
WAITING = "registration waits"

# How often is looked whether calls reach this process, where a configuration waits for that.
_REACHED_LOOK_SECONDS = 1.0


class Bundled(Protocol):
    """Whoever knows by which CAs the service is to be trusted."""

    @property
    def ca_bundle(self) -> bytes | None:
        """They as PEM; empty for those that every system trusts, None while it is not known."""
        ...


class _Made(NamedTuple):
    """Rules, and all that they were made of."""

    source: tuple[Settings, Sequence[str], PolicyRules, Catalog]
    ruleset: RuleSet


class Registrar:
    """Writes the webhook configurations: when the CA bundle or the rules change, and when they are not as written.

    Each process that registers has one; only the one that is `leading` writes. policies: None while it is not known
    which there are: another replica may know, and its entries must not go. reached: whether calls reach this process;
    until then no first configuration is made, for what fails closed would be refused.
    """

    def __init__(
        self,
        settings: Settings,
        certificates: Bundled,
        facts: ClusterFacts,
        policies: Callable[[], PolicyRules | None],
        catalog: Catalog,
        *,
        webhooks: Webhooks,
        leading: Callable[[], bool],
        reached: Callable[[], bool],
        metrics: Metrics,
        clock: Clock | None = None,
    ) -> None:
        self._settings, self._catalog = settings, catalog
        self._certificates, self._facts, self._policies = certificates, facts, policies
        self._webhooks, self._leading, self._reached = webhooks, leading, reached
        self._metrics, self._clock = metrics, clock or Clock()
        self._asked = webhooks.changed
        self._writing = asyncio.Lock()
        self._made: _Made | None = None
        self._written: dict[str, Target] = {}
        self._owner: Owner | None = None
        self._ca_file: bytes | None = None
        self._strangers: set[tuple[str, str]] = set()
        self._repairs = Repairs(self._clock.monotonic)
        self._problems = Problems()
        self._log = structlog.get_logger()

    def use(self, settings: Settings, catalog: Catalog) -> None:
        """Take another configuration from the next write on."""
        self._settings, self._catalog = settings, catalog

    def look(self) -> None:
        """Have `run` write at once: something that the configurations are made of has changed, or who leads."""
        self._asked.set()

    def problems(self) -> list[str]:
        """Why the API server may not know the service as it should, a line each."""
        return self._problems.reasons

    async def run(self, seconds: float) -> NoReturn:
        """Write whenever there is reason to, and every so many seconds, until cancelled.

        While somebody undoes what is written the pauses grow, or the two would do nothing else.
        """
        backoff = Backoff(self._clock)
        while True:
            self._reached()  # it counts from when it is asked first
            self._asked.clear()
            try:
                await self.write()
            except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a change would stay unseen
                self._log.exception("registration failed")
            if self._repairs.undone:
                await backoff.wait()
            else:
                backoff.reset()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._reason_to_write()

    async def write(self) -> bool:
        """Write what is not as it should be; whether the API server knows all now, or nothing is to be written.

        A failure is logged, once for each reason, and tried again at the next call.
        """
        async with self._writing:
            try:
                done = await self._write()
            except ClusterError as error:
                self._failed(error)
                return False
        if done:
            self._problems.solved(FAILED)
        if not self._repairs.undone:
            self._problems.solved(UNDONE)
        return done

    @property
    def _name(self) -> str:
        return self._settings.registration.name

    async def _write(self) -> bool:
        if self._webhooks.unregistered:
            self._suspend()
            return True
        if (policies := self._policies()) is None:
            return False
        ruleset = await self._rules(policies, self._facts.control_plane_namespaces())
        # At one moment: whoever has begun to lead knows the CA that counts.
        leading, bundle = self._leading(), self._bundle()
        if bundle is None:
            return False
        targets = self._targets(ruleset, bundle)
        if not leading:
            return self._follow(targets)
        if self._settings.registration.apply and self._settings.registration.owner:
            if (self._owner is None or self._pending(targets)) and not await self._find_owner():
                return True
            targets = self._targets(ruleset, bundle)
        return await self._reconcile({kind: targets[kind] for kind in self._pending(targets)})

    async def _rules(self, policies: PolicyRules, namespaces: Sequence[str]) -> RuleSet:
        """The rules to register; a thousand policies take tenths of a second, which no review should wait for."""
        source = self._settings, namespaces, policies, self._catalog
        if self._made is None or self._made.source != source:
            self._made = _Made(source, await asyncio.to_thread(rules.build, *source))
        return self._made.ruleset

    def _targets(self, ruleset: RuleSet, bundle: bytes) -> dict[str, Target]:
        """What each configuration should be like, by kind."""
        chosen = self._settings.registration
        found = {str(each["kind"]): each for each in registered(self._settings, bundle, ruleset, self._owner)}
        if chosen.apply:
            return {kind: Managed(found.get(kind), chosen.kept) for kind in KINDS.values()}
        return {kind: BundleOnly(b"" if chosen.inject_ca_from else bundle) for kind in found}

    def _pending(self, targets: Mapping[str, Target]) -> list[str]:
        """The kinds of which something has to be written, or may have to."""
        if self._webhooks.unsynced():
            return list(targets)
        known = self._webhooks.known
        return [
            kind
            for kind, target in targets.items()
            if self._written.get(kind) != target or target.step(known.get(kind)).differences
        ]

    def _follow(self, targets: Mapping[str, Target]) -> bool:
        """Leave it to whoever leads, and say whether that is done."""
        self._written.clear()
        self._problems.solved(FAILED, SUSPENDED, UNDONE, NO_OWNER, ABSENT, WAITING)
        known = self._webhooks.known
        return not any(target.step(known.get(kind)).differences for kind, target in targets.items())

    async def _reconcile(self, targets: Mapping[str, Target]) -> bool:
        """Look at the configurations themselves, since what is followed lags behind, and write what is not so."""
        observed = {kind: await cluster.read(self._facts.api, kind, self._name) for kind in targets}
        known = self._webhooks.known
        if any(found is None and kind in known for kind, found in observed.items()):
            return False  # deleted just now: whether for good, the watch shows first
        if any(found is not None and is_unregistered(found) for found in observed.values()):
            self._suspend()
            return True
        self._problems.solved(SUSPENDED)
        later = self._later(targets, observed)
        targets = {kind: target for kind, target in targets.items() if kind not in later}
        news = [kind for kind, target in targets.items() if await self._settle(kind, target, observed[kind])]
        if news:
            self._log.info("registered", configurations=[f"{kind}/{self._name}" for kind in news])
        absent = [kind for kind, target in targets.items() if isinstance(target, BundleOnly) and observed[kind] is None]
        if absent:
            names = " and ".join(f"{kind} {self._name}" for kind in absent)
            self._problems.raised(ABSENT, f"there is no {names} to write the caBundle into; apply it", "warning")
        else:
            self._problems.solved(ABSENT)
        return not later

    def _later(self, targets: Mapping[str, Target], observed: Mapping[str, JsonObject | None]) -> list[str]:
        """The kinds of which nothing is made yet: it would be the first, and calls do not reach this process."""
        new = [kind for kind, found in observed.items() if found is None and kind not in self._webhooks.seen]
        waiting = [kind for kind in new if targets[kind].step(None).wanted is not None and not self._reached()]
        if waiting:
            names = " and ".join(f"{kind} {self._name}" for kind in waiting)
            reason = f"{names}: to be made once this process has been ready for {REACHED_SECONDS:.0f} s"
            self._problems.raised(WAITING, reason, "info")
        else:
            self._problems.solved(WAITING)
        return waiting

    async def _reason_to_write(self) -> None:
        """Wait until somebody asks, or calls reach this process where something waits for that."""
        if WAITING not in self._problems or self._reached():
            await self._asked.wait()
        while not self._reached() and not self._asked.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_REACHED_LOOK_SECONDS):
                    await self._asked.wait()

    async def _settle(self, kind: str, target: Target, observed: JsonObject | None) -> bool:
        """Write one configuration if need be; whether that was for a change here."""
        step, is_new = target.step(observed), self._written.get(kind) != target
        if is_new:
            self._written.pop(kind, None)  # what fails may have been written all the same
        if not (step.differences or (is_new and step.wanted is not None)):
            if observed is not None or not isinstance(target, BundleOnly):
                self._written[kind] = target
            return False
        left = await self._store(kind, target, step.wanted, observed)
        self._written[kind] = target
        self._metrics.registrations.labels("written" if is_new else "repaired").inc()
        if not is_new:
            self._say_repaired(kind, observed, step.differences, left)
        return is_new

    async def _store(
        self, kind: str, target: Target, wanted: JsonObject | None, observed: JsonObject | None
    ) -> Sequence[str]:
        """Make a configuration what it should be; what is different nevertheless."""
        if wanted is None:
            # Where every rule of a phase is off, an old configuration would go on asking for nothing.
            await cluster.remove(self._facts.api, {kind: self._name})
            return []
        try:
            answer = await cluster.apply(self._facts.api, wanted)
        except ApiError as error:
            # What belongs to others can make it invalid, as a url beside the service.
            restored = target.restored(observed) if error.status == 422 and observed is not None else None
            if restored is None:
                raise
            answer = await cluster.replace(self._facts.api, restored)
        # Applying takes away nothing that others added to lists and maps, such as a condition that is never true.
        if target.step(answer).differences and (restored := target.restored(answer)) is not None:
            answer = await cluster.replace(self._facts.api, restored)
        self._say_foreign(kind, answer)
        return target.step(answer).differences

    async def _find_owner(self) -> bool:
        """Look the owner up; whether the configurations may be written.

        They may not once it is gone: it takes them with it, and whoever put them back would leave them for ever.
        """
        name = self._settings.registration.owner
        try:
            uid = await cluster.owner_uid(self._facts.api, name)
        except ClusterError as error:
            self._problems.raised(NO_OWNER, f"registration.owner: {error}", "warning")
            return True
        if uid is None and self._owner is not None:
            reason = f"ClusterRole {name} is gone, and the webhook configurations go with it; they are not put back"
            self._problems.raised(NO_OWNER, f"registration.owner: {reason}", "warning")
            return False
        if uid is None:
            reason = f"there is no ClusterRole {name}; without it nothing removes the webhook configurations in the end"
            self._problems.raised(NO_OWNER, f"registration.owner: {reason}", "warning")
            return True
        self._owner = Owner(name, uid)
        self._problems.solved(NO_OWNER)
        return True

    def _bundle(self) -> bytes | None:
        """The CAs to tell the API server of; None while they are not known. Files are read anew: others renew them."""
        chosen = self._settings.registration
        if not chosen.ca_file:
            return b"" if chosen.inject_ca_from else self._certificates.ca_bundle
        try:
            found = Path(chosen.ca_file).read_bytes()
            Bundle.from_pem(found)
        except (OSError, PemError) as error:
            problem = (isinstance(error, OSError) and error.strerror) or error
            still = "" if self._ca_file is None else "; what was in it before stays in force"
            self._problems.raised(UNREADABLE, f"registration.caFile: {chosen.ca_file}: {problem}{still}")
            # An issuer that shows no CA leaves no such file, and cert-manager may come with what it has.
            return b"" if self._ca_file is None and chosen.inject_ca_from else self._ca_file
        self._problems.solved(UNREADABLE)
        self._ca_file = found
        return found

    def _suspend(self) -> None:
        """Write nothing, for the configurations are to go for good."""
        self._written.clear()
        suspended = "nothing is written until the next start, or until they are there without it"
        self._problems.raised(SUSPENDED, f"{UNREGISTER} was set on a webhook configuration; {suspended}", "warning")

    def _failed(self, error: ClusterError) -> None:
        if isinstance(error, ApiError) and error.status == 409:
            # The watch shows what they wrote, and then it is looked at again.
            self._log.info("somebody else writes the registration, too", reason=str(error))
            return
        self._metrics.registrations.labels("failed").inc()
        self._problems.raised(FAILED, str(error))

    def _say_repaired(
        self, kind: str, observed: JsonObject | None, differences: Sequence[str], left: Sequence[str]
    ) -> None:
        self._repairs.add()
        configuration, writer = f"{kind}/{self._name}", changed_by(observed or {"metadata": {}})
        self._log.warning(
            "registration repaired",
            configuration=configuration,
            differences=list(differences),
            by=writer.manager,
            at=writer.time,
            **({"left": list(left)} if left else {}),
        )
        if self._repairs.undone:
            reason = (
                f"{writer.manager or 'somebody'} undoes the webhook configurations again and again; end that, or where "
                "a cloud adds requirements to every namespaceSelector, name them in registration.kept"
            )
            self._problems.raised(UNDONE, reason, configuration=configuration, differences=list(differences))

    def _say_foreign(self, kind: str, configuration: JsonObject) -> None:
        """Say once of entries that somebody else put beside the service's: they stay, and go with the configuration."""
        names = [entry["name"] for entry in foreign(configuration)]
        if new := [name for name in names if (kind, name) not in self._strangers]:
            self._strangers.update((kind, name) for name in new)
            self._log.warning("entries of others are left alone", configuration=f"{kind}/{self._name}", entries=new)
