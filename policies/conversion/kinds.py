"""Kinds as other products name them, as the resources by which Kubernetes' rules match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from policies.admissionpolicy.resource import built_in
from policies.conversion.outcome import Notes
from policies.golang.quote import quote
from policies.objects.workload import plural

ANY = "*"
Rule = dict[str, Any]


class Kind(NamedTuple):
    """A kind, whose parts may be a `*`."""

    group: str
    version: str
    kind: str
    subresource: str = ""

    @property
    def condition(self) -> str:
        """The condition that a request is about it."""
        group = "" if self.group == ANY else f"request.kind.group == {quote(self.group)}"
        kind = "" if self.kind == ANY else f"request.kind.kind == {quote(self.kind)}"
        return " && ".join(part for part in (group, kind) if part) or "true"


def read(text: str) -> Kind:
    """A kind as Kyverno writes it: `Pod`, `apps/v1/Deployment`, `v1/Pod`, `batch/*/Job`, `Pod/exec`, `Pod.exec`."""
    parts = text.split("/")
    subresource = ""
    if len(parts) > 1 and parts[-1][:1].islower():
        subresource = parts.pop()
    elif "." in parts[-1]:
        parts[-1], _, subresource = parts[-1].partition(".")
    kind = parts[-1]
    match parts:
        case [_]:
            return Kind(ANY, ANY, kind, subresource)
        case [version, _] if version == ANY:
            return Kind(ANY, ANY, kind, subresource)
        case [version, _] if version.startswith("v"):
            return Kind("", version, kind, subresource)
        case [group, _]:
            return Kind(group, ANY, kind, subresource)
        case [group, version, *_]:
            return Kind(group, version, kind, subresource)
        case _:
            return Kind(ANY, ANY, kind, subresource)


def rules(kinds: Sequence[Kind], operations: Sequence[str], notes: Notes, scope: str = "") -> list[Rule]:
    """A rule for each group and version of the kinds. Unknown ones need their group, and get the usual plural."""
    by_version: dict[tuple[str, str], list[str]] = {}
    for index, kind in enumerate(kinds):
        for group, version, resource in _resources(kind, notes.at(index)):
            names = by_version.setdefault((group, version), [])
            if resource not in names:
                names.append(resource)
    made = []
    for (group, version), names in by_version.items():
        rule: Rule = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations)}
        made.append({**rule, "resources": names, **({"scope": scope} if scope else {})})
    return made


def _resources(kind: Kind, notes: Notes) -> Iterable[tuple[str, str, str]]:
    """Group, version and name of each resource of a kind."""
    if kind.kind == ANY:
        return [(kind.group, kind.version, f"*/{kind.subresource}" if kind.subresource else ANY)]
    known = [
        (one.group, one.version, one.name.partition("/")[0])
        for one in built_in()
        if one.kind.kind == kind.kind
        and "/" not in one.name
        and kind.group in (ANY, one.group)
        and kind.version in (ANY, one.version)
    ]
    if not known and kind.group == ANY:
        notes.lose(
            f"no built-in resource has the kind {kind.kind}: write it with its group and version, as g/v/{kind.kind}"
        )
        return []
    if not known:
        notes.tell(f"the resource of {kind.kind} is taken to be {plural(kind.kind)}")
        known = [(kind.group, kind.version, plural(kind.kind))]
    end = f"/{kind.subresource}" if kind.subresource else ""
    found = [(group, version if kind.version != ANY else ANY, name + end) for group, version, name in known]
    return list(dict.fromkeys(found))
