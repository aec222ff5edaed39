"""Keeps the cluster's webhook configurations in the desired state, whatever others do to them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import structlog

from certs.errors import PemError
from certs.material import Bundle
from policies.engine.request import JsonObject
from policies.engine.rule import RuleSet
from policies.kubernetes.release import Release
from policies.topology.topology import Catalog
from webhook.cluster.api.call import Connection
from webhook.cluster.api.errors import ApiError, Clock, ClusterError
from webhook.cluster.replicas import webhooks as cluster
from webhook.cluster.replicas.webhooks import Webhooks
from webhook.configuration import rules
from webhook.configuration.rules import PolicyRules
from webhook.configuration.settings import Registration, Settings
from webhook.metrics import Metrics
from webhook.registration.configurations import (
    KINDS,
    POLICY_KINDS,
    STATIC,
    UNREGISTER,
    Announcement,
    BundleOnly,
    Correction,
    Managed,
    WriteTarget,
    announced,
    changed_by,
    foreign,
    guards,
    is_unregistered,
    policy,
    registered,
    without_guard,
)

# A Service includes a process only after a probe found it ready, every 5 s in the chart. Then the endpoints and the
# proxies of all Nodes have to be updated.
REACHED_SECONDS = 10.0
# The pause between writes while somebody undoes them.
UNDONE_SECONDS = 2.0
# The seconds between checks of readiness, while a configuration waits until calls reach a replica.
_READY_SECONDS = 1.0
# More repairs than this within the time mean a fight: people do not write that often.
_MANY_REPAIRS = 5
_FIGHT_SECONDS = 60.0


class RegistrarInputs(NamedTuple):
    """What this process knows at one moment.

    policies: None while they are not known; another replica may know them, and its entries must stay. namespaces: those
    of the control plane. ca_bundle: PEM with which clients verify the service; empty for the system's roots, None while
    it is not known. leading: whether this process is the leader, which writes. ready: whether a replica takes calls.
    release: that of the API server; None while it is not known. replicas: what the Pods of replicas announce; None if
    this process is the replica.
    """

    settings: Settings
    catalog: Catalog
    policies: PolicyRules | None
    namespaces: Sequence[str]
    ca_bundle: bytes | None
    leading: bool
    ready: bool
    release: Release | None
    replicas: tuple[Announcement, ...] | None = None


class Problem(NamedTuple):
    """A problem by the event under which it is logged: when it appears, and when its reason changes."""

    event: str
    level: Literal["info", "warning", "error"] = "error"


_FAILED = Problem("not registered")
_SUSPENDED = Problem("registration is suspended", "warning")
_UNDONE = Problem("registration is undone")
_UNREADABLE = Problem("could not read the CA bundle")
_NO_OWNER = Problem("owner of the registration not found", "warning")
_ABSENT = Problem("no configuration for the CA bundle", "warning")
_WAITING = Problem("registration waits", "info")
_OWN = "no policy in files of the API server refuses reserved labels; the service writes its own"
_NO_FILES = Problem("the guard of reserved labels is not in files", "warning")
_MOVING = Problem("the guard of reserved labels moves", "info")
_WITHHELD = Problem("entries wait for replicas", "info")


class Registrar:
    """Writes the configurations when its inputs or the configurations change.

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
        self._source: tuple[Settings, Sequence[str], PolicyRules, Catalog] | None = None  # of the rules
        self._ruleset: RuleSet | None = None
        self._ready_since: float | None = None
        self._calls_arrive = False
        self._moved_since: float | None = None  # since when the guard is in force where it moves to
        self._problems: dict[Problem, str] = {}
        self._repairs: deque[float] = deque(maxlen=_MANY_REPAIRS + 1)  # their times
        self._fight = False  # whether there were too many
        self._written: dict[str, WriteTarget] = {}  # the last written target of each configuration, by kind
        self._owner: JsonObject | None = None  # the reference to it
        self._ca_file: bytes | None = None  # the last usable content of registration.caFile
        self._strangers: set[tuple[str, str]] = set()  # kind and name of foreign entries that were logged
        self._log = structlog.get_logger()

    def look(self) -> None:
        """Make `run` check at once, because an input of the configurations or the leader has changed."""
        self._webhooks.changed.set()

    def problems(self) -> list[str]:
        """The problems because of which the API server may not know the service properly, a line each."""
        return list(self._problems.values())

    async def run(self, seconds: float) -> NoReturn:
        """Write when there is a reason, and at the given interval, until cancelled."""
        while True:
            self._webhooks.changed.clear()
            try:
                await self.write()
            except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a change would stay unseen
                self._log.exception("registration failed")
            if self._undone():
                await self._clock.sleep(UNDONE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_READY_SECONDS if _MOVING in self._problems else seconds):
                    changed = self._webhooks.changed
                    if _WAITING not in self._problems or self._calls_arrive:
                        await changed.wait()
                    while not changed.is_set() and not self._calls_arrive:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_READY_SECONDS):
                                await changed.wait()
                        self._look_at_readiness(ready=self._inputs().ready)

    async def write(self) -> bool:
        """Write what differs. Return whether the API server now knows everything, or nothing should be written.

        A failure is logged once for each reason, and tried again at the next call.
        """
        async with self._writing:
            try:
                return await self._turn()
            except ClusterError as error:
                if error.status == 409:
                    # The watch will show the other write, and then there is another turn.
                    self._log.info("another writer changed the registration", reason=str(error))
                else:
                    self._note(_FAILED, str(error))
                    self._metrics.registrations.labels("failed").inc()
                return False

    async def _turn(self) -> bool:
        """One look at everything, and the writes that follow. Raises ClusterError."""
        inputs = await self._inputs_with_rules()
        registration, watch = inputs.settings.registration, self._webhooks.state
        bundle = self._bundle(registration, inputs.ca_bundle)
        self._look_at_readiness(ready=inputs.ready)
        if not self._undone():
            self._clear(_UNDONE)
        if watch.unregistered:
            return self._suspended()
        if self._ruleset is None or inputs.policies is None or bundle is None or inputs.release is None:
            self._withhold([])
            return False
        made = registered(inputs.settings, bundle, self._ruleset)
        configurations = {str(configuration["kind"]): configuration for configuration in made}
        enforced = rules.enforces_labels(inputs.settings, inputs.release)
        if registration.apply and not watch.synced and (inputs.replicas is not None or enforced):
            self._withhold([])
            return False  # what is registered already must not be taken for new
        withheld: list[str] = []
        if inputs.replicas is not None and registration.apply:
            configurations, withheld = announced(configurations, watch.current, inputs.replicas)
        self._withhold(withheld)
        if registration.apply and watch.synced:
            spec = rules.labels_policy(
                inputs.settings, inputs.namespaces, self._ruleset.exceptions, self._clock.now().date()
            )
            native = policy(registration.name, spec)
            configurations = await self._with_guard(configurations, native, inputs, enforced=enforced)
        targets = self._targets(registration, configurations, bundle)
        if inputs.leading:
            return await self._reconciled(registration, configurations, bundle, targets)
        self._written = {}
        self._clear(_FAILED, _SUSPENDED, _UNDONE, _NO_OWNER, _ABSENT, _WAITING, _MOVING)
        return not any(target.correction(watch.current.get(kind)).differences for kind, target in targets.items())

    async def _with_guard(
        self,
        configurations: Mapping[str, JsonObject],
        made: Mapping[str, JsonObject],
        inputs: RegistrarInputs,
        *,
        enforced: bool,
    ) -> dict[str, JsonObject]:
        """The configurations with the guard of reserved labels where it belongs: in entries, in the policy, or nowhere.

        While it moves, it stays where it was, until the API server has gone by the new one for a while. made: the
        policy and its binding, by kind. enforced: whether the API server enforces it. Raises ClusterError.
        """
        guard: Literal["policy", "webhook", "files"] = "policy" if enforced else "webhook"
        if enforced and inputs.settings.labels.enforced_by == "static":  # not before the API server goes by files
            in_files = (await cluster.guarding(self._api, inputs.settings.cluster.namespace)).endswith(STATIC)
            self._note(_NO_FILES, "" if in_files else _OWN)
            guard = "files" if in_files else "policy"
        validating, there, now = KINDS["validate"], self._webhooks.state.current, self._clock.monotonic()
        has_entries, has_policy = guards(there.get(validating)), any(kind in there for kind in made)
        if guard == "policy":
            moves = has_entries
            arrived = moves and inputs.leading and all(kind in there for kind in made)
            arrived = arrived and bool(await cluster.guarding(self._api, inputs.settings.cluster.namespace))
        elif guard == "webhook":
            moves, arrived = has_policy and guards(configurations.get(validating)), has_entries
        else:
            moves, arrived = has_entries or has_policy, True
        if not (moves and arrived):
            self._moved_since = None
        elif self._moved_since is None:
            self._moved_since = now
        moves = moves and (self._moved_since is None or now - self._moved_since < REACHED_SECONDS)
        where = "the policy in files" if guard == "files" else f"the {guard}"
        self._note(
            _MOVING,
            f"{where} takes over reserved labels; until the API server uses it, both refuse them" if moves else "",
        )
        stays = guard == "webhook" or (moves and has_entries)
        entries = dict(configurations) if stays else without_guard(configurations)
        return {**entries, **made} if guard == "policy" or (moves and has_policy) else entries

    def _suspended(self) -> bool:
        """End a turn without writes, because the configurations were unregistered permanently."""
        self._withhold([])
        self._clear(_FAILED)
        until = "nothing is written until the next start, or until they are there without it"
        self._note(_SUSPENDED, f"{UNREGISTER} was set on a webhook configuration; {until}")
        self._written = {}
        return True

    async def _reconciled(
        self,
        registration: Registration,
        configurations: Mapping[str, JsonObject],
        bundle: bytes,
        targets: Mapping[str, WriteTarget],
    ) -> bool:
        if registration.apply and registration.owner and (self._owner is None or self._pending(targets)):
            if not await self._find_owner(registration.owner):
                # Its deletion deletes the configurations. If they were recreated, nothing would delete them any more.
                self._clear(_FAILED)
                return True
            targets = self._targets(registration, configurations, bundle)
        pending = self._pending(targets)
        # They may differ although nothing shows it yet, because what is followed lags behind.
        there = {kind: await cluster.read(self._api, kind, registration.name) for kind in pending}
        if any(configuration is not None and is_unregistered(configuration) for configuration in there.values()):
            return self._suspended()
        watch = self._webhooks.state
        if any(there[kind] is None and kind in watch.current for kind in pending):
            return False  # it was just deleted; the watch will show whether that is permanent
        self._clear(_SUSPENDED)
        # Entries may fail closed, so a configuration is not made before calls reach a replica.
        known = {*POLICY_KINDS, *watch.ever}
        waiting = [
            kind
            for kind, target in pending.items()
            if not self._calls_arrive and there[kind] is None and kind not in known
            if target.correction(None).configuration is not None
        ]
        titles = " and ".join(f"{kind} {registration.name}" for kind in waiting)
        reason = f"{titles}: to be made once a replica has been ready for {REACHED_SECONDS:.0f} s"
        self._note(_WAITING, reason if waiting else "")
        bundles = [kind for kind, target in pending.items() if isinstance(target, BundleOnly) and there[kind] is None]
        titles = " and ".join(f"{kind} {registration.name}" for kind in bundles)
        self._note(_ABSENT, f"there is no {titles} to write the caBundle into; apply it" if bundles else "")
        news: list[str] = []
        try:
            for kind, target in pending.items():
                if kind not in waiting and await self._brought(kind, registration.name, target, there[kind]):
                    news.append(f"{kind}/{registration.name}")
        finally:
            if news:
                self._log.info("registered", configurations=news)
        if not waiting:
            self._clear(_FAILED)
        return not waiting

    async def _brought(self, kind: str, name: str, target: WriteTarget, there: JsonObject | None) -> bool:
        """Write a configuration if need be. Return whether what was written is new. Raises ClusterError."""
        correction, is_new = target.correction(there), self._written.get(kind) != target
        is_written = bool(correction.differences) or (is_new and correction.configuration is not None)
        if is_written:
            try:
                stored = await self._stored(kind, name, target, correction, there)
            except ClusterError:
                if is_new:
                    self._written.pop(kind, None)  # a failed write may nevertheless have been stored
                raise
            self._metrics.registrations.labels("written" if is_new else "repaired").inc()
            if not is_new:
                self._repaired(f"{kind}/{name}", target, there, stored)
            names = [entry["name"] for entry in foreign(stored or {}) if (kind, entry["name"]) not in self._strangers]
            self._strangers.update((kind, entry) for entry in names)
            if names:
                self._log.warning("configuration has entries of others", configuration=f"{kind}/{name}", entries=names)
        if there is not None or not isinstance(target, BundleOnly):
            self._written[kind] = target
        return is_written and is_new

    async def _stored(
        self, kind: str, name: str, target: WriteTarget, correction: Correction, there: JsonObject | None
    ) -> JsonObject | None:
        """Carry out a correction, and return the configuration that is stored then. Raises ClusterError."""
        if correction.configuration is None:
            # If every rule of a phase is off, an old configuration would cause useless calls.
            await cluster.remove(self._api, {kind: name})
            return None
        try:
            stored = await cluster.write(self._api, correction.configuration)
        except ApiError as error:
            # Fields that others own can make it invalid, as a url beside the service.
            replacement = None if there is None else target.replacement(there)
            if error.status != 422 or replacement is None:
                raise
            stored = await cluster.write(self._api, replacement, replaces=True)
        # Applying does not remove what others added to lists and maps, such as a condition that is never true.
        if target.correction(stored).differences and (replacement := target.replacement(stored)) is not None:
            stored = await cluster.write(self._api, replacement, replaces=True)
        return stored

    def _undone(self) -> bool:
        """Whether there were too many repairs, and the last one was not long ago."""
        return self._fight and self._clock.monotonic() - self._repairs[-1] <= _FIGHT_SECONDS

    def _repaired(self, title: str, target: WriteTarget, there: JsonObject | None, stored: JsonObject | None) -> None:
        now, undone = self._clock.monotonic(), self._undone()
        self._repairs.append(now)
        self._fight = undone or (len(self._repairs) > _MANY_REPAIRS and now - self._repairs[0] <= _FIGHT_SECONDS)
        left = [] if stored is None else list(target.correction(stored).differences)
        differences = list(target.correction(there).differences)
        writer = changed_by(there or {"metadata": {}})
        self._log.warning(
            "registration repaired",
            configuration=title,
            differences=differences,
            by=writer.manager,
            at=writer.time,
            **({"left": left} if left else {}),
        )
        if self._fight:
            reason = (
                f"{writer.manager or 'somebody'} undoes the webhook configurations again and again; end that, or where "
                "a cloud adds requirements to every namespaceSelector, name them in registration.kept"
            )
            self._note(_UNDONE, reason, configuration=title, differences=differences)

    async def _find_owner(self, name: str) -> bool:
        """Look up the ClusterRole that owns the configurations. Return whether it was not deleted."""
        try:
            uid = await cluster.owner_uid(self._api, name)
        except ClusterError as error:
            self._note(_NO_OWNER, f"registration.owner: {error}")
            return True
        if uid is not None:
            owner = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name, "uid": uid}
            # Without blockOwnerDeletion it needs no right to the owner's finalizers.
            self._owner = {**owner, "controller": False, "blockOwnerDeletion": False}
            self._clear(_NO_OWNER)
            return True
        without = f"there is no ClusterRole {name}; without it nothing removes the webhook configurations in the end"
        gone = f"ClusterRole {name} is gone, and the webhook configurations go with it; they are not put back"
        self._note(_NO_OWNER, f"registration.owner: {without if self._owner is None else gone}")
        return self._owner is None

    def _targets(
        self, registration: Registration, configurations: Mapping[str, JsonObject], bundle: bytes
    ) -> dict[str, WriteTarget]:
        if not registration.apply:
            return {kind: BundleOnly(b"" if registration.inject_ca_from else bundle) for kind in configurations}
        if self._owner is not None:
            configurations = {
                kind: {**made, "metadata": {**made["metadata"], "ownerReferences": [self._owner]}}
                for kind, made in configurations.items()
            }
        return {
            **{kind: Managed(configurations.get(kind), registration.kept) for kind in KINDS.values()},
            **{kind: Managed(configurations.get(kind)) for kind in POLICY_KINDS if self._webhooks.state.synced},
        }

    def _pending(self, targets: Mapping[str, WriteTarget]) -> dict[str, WriteTarget]:
        """The targets of configurations that need a write, or may need one."""
        watch = self._webhooks.state
        return {
            kind: target
            for kind, target in targets.items()
            if not watch.synced
            or self._written.get(kind) != target
            or target.correction(watch.current.get(kind)).differences
        }

    def _withhold(self, reasons: Iterable[str]) -> None:
        reason = "; ".join(reasons)
        self._note(_WITHHELD, reason)
        self._metrics.entries_withheld.set(bool(reason))

    def _bundle(self, registration: Registration, own: bytes | None) -> bytes | None:
        """The CAs for the caBundle as PEM; empty for the system's roots or cert-manager's, None if not known yet.

        own: the service's CAs. registration.caFile is read at each turn, because others renew it.
        """
        if not registration.ca_file:
            self._clear(_UNREADABLE)
            return b"" if registration.inject_ca_from else own
        try:
            content = Path(registration.ca_file).read_bytes()
            Bundle.from_pem(content)
        except (OSError, PemError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            still = "" if self._ca_file is None else "; what was in it before stays in force"
            self._note(_UNREADABLE, f"registration.caFile: {registration.ca_file}: {problem}{still}")
            # An issuer that does not publish its CA writes no such file, and cert-manager may inject a CA.
            return b"" if self._ca_file is None and registration.inject_ca_from else self._ca_file
        self._clear(_UNREADABLE)
        self._ca_file = content
        return content

    async def _inputs_with_rules(self) -> RegistrarInputs:
        """The current inputs, with the rules made from them in `_ruleset`.

        Making the rules of a thousand policies takes tenths of a second, so it runs in a thread and reviews do not
        wait. The inputs are read again afterwards, because leadership and CA must be from the same moment: a new leader
        knows the current CA.
        """
        while (inputs := self._inputs()).policies is not None:
            source = inputs.settings, inputs.namespaces, inputs.policies, inputs.catalog
            if self._source == source:
                break
            self._ruleset, self._source = await asyncio.to_thread(rules.build, *source), source
        return inputs

    def _look_at_readiness(self, *, ready: bool) -> None:
        """Note whether calls reach a replica: once one has been ready for a while, and then for good."""
        now = self._clock.monotonic()
        self._ready_since = (self._ready_since if self._ready_since is not None else now) if ready else None
        self._calls_arrive |= self._ready_since is not None and now - self._ready_since >= REACHED_SECONDS

    def _note(self, problem: Problem, reason: str, **details: Any) -> None:
        """Remember a problem, and log it when it is new; without a reason it is over."""
        if not reason:
            self._clear(problem)
        elif self._problems.get(problem) != reason:
            getattr(self._log, problem.level)(problem.event, reason=reason, **details)
            self._problems[problem] = reason

    def _clear(self, *problems: Problem) -> None:
        for problem in problems:
            self._problems.pop(problem, None)
