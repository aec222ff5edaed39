"""Policies that are not in force as they stand in their source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.configuration.settings import Settings
from webhook.doctor.finding import Diagnosis, Read, Unread, count, unseen
from webhook.doctor.seen import PolicySource
from webhook.doctor.wanted import Desired

CHECK: Final = "policies"


def check(wanted: Desired, maps: Read[Mapping[str, PolicySource]], settings: Settings) -> Iterator[Diagnosis]:
    """What is refused of files and ConfigMaps: as they read now, and as the service says in its annotation."""
    namespace = settings.cluster.namespace
    known: Mapping[str, PolicySource] = {}
    if isinstance(maps, Unread):
        yield unseen(CHECK, f"ConfigMaps with policies in {namespace}", maps)
    else:
        known = {f"ConfigMap {namespace}/{name}": each for name, each in maps.items()}
    if isinstance(wanted.ruleset, Unread):
        remedy = "put the configuration right, or run this where its files are"
        yield Diagnosis(CHECK, "problem", "the configuration", wanted.ruleset.reason, remedy)
    for where, reason in wanted.refused.items():
        told = known[where].refused if where in known else ""
        yield Diagnosis(CHECK, "problem", where, f"refused: {told or reason}", _remedy(where in known, bool(told)))
    for where, each in known.items():
        if each.refused and where not in wanted.refused:
            found = f"the service refuses it, and nothing is wrong with it here: {each.refused}"
            remedy = (
                "another version of the service or other sources beside it may be why; see its log: policies refused"
            )
            yield Diagnosis(CHECK, "problem", where, found, remedy)
    for doubt in wanted.doubts:
        yield Diagnosis(CHECK, "warning", "policies", doubt, "put it right, or delete it")
    if (
        not wanted.refused
        and not isinstance(wanted.ruleset, Unread)
        and not any(each.refused for each in known.values())
    ):
        found = count(len(wanted.policies), "policy", "policies")
        yield Diagnosis(CHECK, "ok", "policies", f"{found} besides the built-in rules, and nothing is refused")


def _remedy(in_cluster: bool, told: bool) -> str:  # noqa: FBT001 - two answers about one source
    if not in_cluster:
        return (
            "put it right; cks-admission lint shows more. What the service had before stays in force until it restarts"
        )
    if not told:
        return "put it right. The service has not said so in its annotation: see whether it runs, and may patch it"
    return "put it right: what was in force before stays so until then"
