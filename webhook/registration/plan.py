"""Plans what to do about the webhook configurations. Pure: observations in, steps out.

A turn begins with what the watches show. `plan` returns the next steps. Their results are added to the observation, and
`plan` is called again, until there are no more steps. Then its conclusion is final.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import JsonObject
from webhook.configuration.settings import Registration
from webhook.registration import conclusion
from webhook.registration.announcement import announced
from webhook.registration.conclusion import Conclusion
from webhook.registration.configurations import KINDS, owned
from webhook.registration.drift import BundleOnly, Managed, WriteTarget, is_unregistered
from webhook.registration.state import CaFile, Observation


class FindOwner(Struct, frozen=True):
    """Look up the ClusterRole that should own the configurations."""

    name: str
    reasons: Sequence[str] = ("it is made anew with each release",)


class ReadConfiguration(Struct, frozen=True):
    """Read a configuration."""

    kind: str
    reasons: Sequence[str] = ("it may differ, and what is followed lags behind",)


class Apply(Struct, frozen=True):
    """Create or apply a configuration. otherwise: its replacement if the API server refuses that as invalid."""

    kind: str
    configuration: JsonObject
    reasons: Sequence[str]
    otherwise: JsonObject | None = None


class Replace(Struct, frozen=True):
    """Replace a configuration in the version that was read."""

    kind: str
    configuration: JsonObject
    reasons: Sequence[str]


class Remove(Struct, frozen=True):
    """Delete a configuration."""

    kind: str
    reasons: Sequence[str]


Write = Apply | Replace | Remove
Step = FindOwner | ReadConfiguration | Write


class RegistrationPlan(Struct, frozen=True):
    """The next steps, and the conclusion, which is final if there are no steps."""

    steps: Sequence[Step]
    conclusion: Conclusion


def ca_bundle(registration: Registration, own: bytes | None, file: CaFile | None, last: bytes | None) -> bytes | None:
    """The CAs for the caBundle as PEM; None while they are not known.

    own: the service's CAs; empty for those that every system trusts. file: registration.caFile; None if it is not set.
    last: the last usable content of that file.
    """
    if file is None:
        return b"" if registration.inject_ca_from else own
    if not file.problem:
        return file.content
    # An issuer that does not publish its CA writes no such file, and cert-manager may inject a CA.
    return b"" if last is None and registration.inject_ca_from else last


def plan(observation: Observation) -> RegistrationPlan:
    """The next steps, or the final conclusion."""
    if _is_unregistered(observation):
        return RegistrationPlan((), conclusion.suspended(observation))
    observation = _announced(observation)
    if observation.configurations is None:
        return RegistrationPlan((), conclusion.early(observation, done=False))
    targets = _targets(observation, observation.configurations)
    if observation.leading:
        return _leading(observation, targets)
    current = observation.watch.current
    done = not any(target.correction(current.get(kind)).differences for kind, target in targets.items())
    return RegistrationPlan((), conclusion.follower(observation, done=done))


def _announced(observation: Observation) -> Observation:
    """The observation without those entries that fail closed and that some replica does not know yet."""
    if observation.replicas is None or observation.configurations is None or not observation.registration.apply:
        return observation
    if not observation.watch.synced:  # what is registered already must not be taken for new
        return replace(observation, configurations=None)
    remaining, withheld = announced(observation.configurations, observation.watch.current, observation.replicas)
    return replace(observation, configurations=remaining, withheld=tuple(withheld))


def _leading(observation: Observation, targets: Mapping[str, WriteTarget]) -> RegistrationPlan:
    """The plan of the leader, which writes."""
    pending = {kind: target for kind, target in targets.items() if _is_pending(observation, kind, target)}
    name = observation.registration.owner if observation.registration.apply else ""
    if name and observation.owner is None and (pending or observation.known_owner is None):
        return _first(observation, [FindOwner(name)])
    if observation.owner_is_gone:
        return RegistrationPlan((), conclusion.early(observation, done=True))
    if unread := [ReadConfiguration(kind) for kind in pending if kind not in observation.progress]:
        return _first(observation, unread)
    return _reconciliation(observation, pending)


def _first(observation: Observation, steps: Sequence[Step]) -> RegistrationPlan:
    """A plan with preparatory steps. If one of them failed, the turn ends."""
    return RegistrationPlan(() if observation.failure else steps, conclusion.early(observation, done=False))


def _reconciliation(observation: Observation, targets: Mapping[str, WriteTarget]) -> RegistrationPlan:
    """The plan to write what differs from the targets."""
    current, progress = observation.watch.current, observation.progress
    if any(progress[kind].read is None and kind in current for kind in targets):
        # It was just deleted. The watch will show whether that is permanent.
        return RegistrationPlan((), conclusion.early(observation, done=False))
    waiting = [kind for kind, target in targets.items() if _waits(observation, kind, target)]
    writes = {
        kind: write
        for kind, target in targets.items()
        if kind not in waiting and (write := _write(observation, kind, target)) is not None
    }
    settled = [kind for kind in targets if kind not in waiting and kind not in writes]
    reconciled = conclusion.reconciled(observation, targets, settled, waiting)
    return RegistrationPlan(() if observation.failure else list(writes.values()), reconciled)


def _write(observation: Observation, kind: str, target: WriteTarget) -> Write | None:
    """The next write of a configuration; None if there is none."""
    progress = observation.progress[kind]
    if progress.writes == 0:
        correction = target.correction(progress.read)
        is_due = observation.is_new(kind, target) and correction.configuration is not None
        if not (correction.differences or is_due):
            return None
        reasons = correction.differences or ["something else was written before, or it is not known what"]
        if correction.configuration is None:
            # If every rule of a phase is off, an old configuration would cause useless calls.
            return Remove(kind, reasons)
        # Fields that others own can make it invalid, as a url beside the service.
        otherwise = None if progress.read is None else target.replacement(progress.read)
        return Apply(kind, correction.configuration, reasons, otherwise)
    if progress.writes > 1 or progress.stored is None:
        return None
    # Applying does not remove what others added to lists and maps, such as a condition that is never true.
    differences = target.correction(progress.stored).differences
    replacement = target.replacement(progress.stored) if differences else None
    return None if replacement is None else Replace(kind, replacement, differences)


def _is_unregistered(observation: Observation) -> bool:
    read = (progress.read for progress in observation.progress.values())
    return observation.watch.unregistered or any(
        configuration is not None and is_unregistered(configuration) for configuration in read
    )


def _targets(observation: Observation, configurations: Mapping[str, JsonObject]) -> dict[str, WriteTarget]:
    """The target of each configuration, by kind."""
    registration, owner = observation.registration, observation.known_owner
    if not registration.apply:
        return {kind: BundleOnly(b"" if registration.inject_ca_from else observation.bundle) for kind in configurations}
    if owner is not None:
        configurations = {kind: owned(configuration, owner) for kind, configuration in configurations.items()}
    return {kind: Managed(configurations.get(kind), registration.kept) for kind in KINDS.values()}


def _is_pending(observation: Observation, kind: str, target: WriteTarget) -> bool:
    """Whether a configuration needs a write, or may need one."""
    watch = observation.watch
    is_known = watch.synced and not observation.is_new(kind, target)
    return not is_known or bool(target.correction(watch.current.get(kind)).differences)


def _waits(observation: Observation, kind: str, target: WriteTarget) -> bool:
    """Whether to delay the creation of a configuration until calls reach this process: entries may fail closed."""
    is_absent = observation.progress[kind].read is None and kind not in observation.watch.ever
    return is_absent and target.correction(None).configuration is not None and not observation.calls_arrive
