"""Checks whether the service's account has the rights that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from webhook.doctor.diagnosis import Diagnosis, Level, Read, Unread, count, unseen
from webhook.registration.rights import Right

CHECK: Final = "rights"


def asked(needed: Sequence[Right], groups: Read[Collection[str]]) -> Sequence[Right]:
    """The rights to check, without those in groups that the API server does not serve."""
    if isinstance(groups, Unread):
        return needed
    return [right for right in needed if not right.group or right.group in groups]


def check(answers: Mapping[Right, Read[bool]], user: str, *, own: bool) -> Iterator[Diagnosis]:
    """A diagnosis for each resource with missing rights. user: whose rights. own: whether that is the service."""
    unread = next((answer for answer in answers.values() if isinstance(answer, Unread)), None)
    if unread is not None:
        yield unseen(CHECK, user, unread)
    missing = [right for right, answer in answers.items() if answer is False]
    for _, rights in groupby(missing, attrgetter("group", "resource", "name", "namespace", "reason")):
        same_object = list(rights)
        level: Level = "problem" if own and any(right.vital for right in same_object) else "warning"
        text = f"it may not {_what(same_object)}: {same_object[0].reason}"
        yield Diagnosis(CHECK, level, user, text, _remedy(same_object, own=own))
    if unread is None and not missing:
        hint = "" if own else "; to check the service's own account, use --as-service-account NAMESPACE/NAME"
        yield Diagnosis(CHECK, "ok", user, f"it has the {count(len(answers), 'right')} that the service needs{hint}")


def _what(rights: list[Right]) -> str:
    """Verbs and resource: `list, watch nodes`, `get secrets ca in namespace cloud`."""
    right = rights[0]
    resource = f"{right.resource}.{right.group}" if right.group else right.resource
    where = f" in namespace {right.namespace}" if right.namespace else ""
    verbs = ", ".join(same.verb for same in rights)
    return f"{verbs} {resource}{f' {right.name}' if right.name else ''}{where}"


def _remedy(rights: list[Right], *, own: bool) -> str:
    right = rights[0]
    quoted = right.group or '""'
    rule = f"apiGroups: [{quoted}], resources: [{right.resource}], verbs: [{', '.join(same.verb for same in rights)}]"
    names = f", resourceNames: [{right.name}]" if right.name else ""
    role = f"a Role in namespace {right.namespace}" if right.namespace else "a ClusterRole"
    grant = f"grant it with {role}: {{{rule}{names}}}"
    return grant if own else f"{grant}; or check the service's own account with --as-service-account NAMESPACE/NAME"
