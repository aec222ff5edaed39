"""Policies that are not in force as written in their source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.configuration.settings import Settings
from webhook.doctor.desired import Desired
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, unseen
from webhook.doctor.observation import PolicySource

CHECK: Final = "policies"


def check(desired: Desired, maps: Read[Mapping[str, PolicySource]], settings: Settings) -> Iterator[Diagnosis]:
    """Diagnoses of files and ConfigMaps that are refused now, or according to the service's annotation."""
    namespace = settings.cluster.namespace
    known: Mapping[str, PolicySource] = {}
    if isinstance(maps, Unread):
        yield unseen(CHECK, f"ConfigMaps with policies in {namespace}", maps)
    else:
        known = {f"ConfigMap {namespace}/{name}": policy_source for name, policy_source in maps.items()}
    if isinstance(desired.ruleset, Unread):
        remedy = "correct the configuration, or run doctor where its files are"
        yield Diagnosis(CHECK, "problem", "the configuration", desired.ruleset.reason, remedy)
    for where, reason in desired.refused.items():
        told = known[where].refused if where in known else ""
        yield Diagnosis(CHECK, "problem", where, f"refused: {told or reason}", _remedy(where in known, bool(told)))
    for where, policy_source in known.items():
        if policy_source.refused and where not in desired.refused:
            text = f"the service refuses it, but it loads without errors here: {policy_source.refused}"
            remedy = 'the service may be another version, or have other sources; look for "policies refused" in its log'
            yield Diagnosis(CHECK, "problem", where, text, remedy)
    for doubt in desired.doubts:
        yield Diagnosis(CHECK, "warning", "policies", doubt, "correct it, or delete it")
    for policy in desired.unasked:
        text = f"it is not asked about {policy.about}: {policy.reason}"
        yield Diagnosis(CHECK, "warning", f"policy {policy.policy} in the shadow", text, policy.remedy)
    if (
        not desired.refused
        and not isinstance(desired.ruleset, Unread)
        and not any(policy_source.refused for policy_source in known.values())
    ):
        text = count(len(desired.policies), "policy", "policies")
        yield Diagnosis(CHECK, "ok", "policies", f"{text} in addition to the built-in rules, none refused")
    yield from _packs(desired, settings)


def _packs(desired: Desired, settings: Settings) -> Iterator[Diagnosis]:
    """The modes of the packs, and whose place others take."""
    for name, pack in settings.packs.by_name.items():
        modes = (pack.mode, *(f"{policy} {mode}" for policy, mode in pack.policies.items()))
        yield Diagnosis(CHECK, "ok", f"pack {name}", ", ".join(modes))
    for name in desired.replaced:
        yield Diagnosis(CHECK, "ok", f"shipped policy {name}", "not used: another policy has this name")


def _remedy(in_cluster: bool, told: bool) -> str:  # noqa: FBT001 - two answers about one source
    if not in_cluster:
        return "correct it; cks-admission lint shows more. Until it restarts, the service keeps the previous policies"
    if not told:
        return "correct it. The service has not annotated the ConfigMap: check that it runs and may patch ConfigMaps"
    return "correct it; until then the previous policies stay in force"
