"""The match condition that tells the writes which a cluster needs to come up from all others.

It reads only `request`, and names only writes that the entry's rules match, because the API server evaluates it for
each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from policies.conditions.celtext import every, globs, let, some, text, texts
from policies.engine.match import ResourceRule
from policies.engine.requester import NODE_GROUP, NODE_PREFIX
from policies.engine.rule import HookCondition
from policies.engine.safety import CONTROL_PLANE_USERS, SYSTEM_ACCOUNTS, SYSTEM_PREFIX, EssentialWrite, Writers

USERNAME, GROUPS = "request.userInfo.username", "request.userInfo.groups"
_SUBRESOURCE = "request.?subResource.orValue('')"
_RESOURCE = "request.resource.group + '/' + request.resource.resource"


def is_essential(writes: Iterable[EssentialWrite], users: Iterable[str]) -> HookCondition:
    """True for the writes. users: globs of users with the rights of the control plane."""
    return HookCondition("essential", _essential(writes, users))


def is_not_essential(writes: Iterable[EssentialWrite], users: Iterable[str]) -> HookCondition:
    """False for the writes."""
    return HookCondition("not-essential", f"!{_essential(writes, users)}")


def _essential(writes: Iterable[EssentialWrite], users: Iterable[str]) -> str:
    rules: dict[Writers, list[ResourceRule]] = {}
    for write in writes:
        rules.setdefault(write.writers, []).append(write.rule)
    clauses = [
        every([*_writers(writers, tuple(users)), some(_resources(listed), " ||\n  ")])
        for writers, listed in rules.items()
    ]
    return let("resource", _RESOURCE, let("subresource", _SUBRESOURCE, some(clauses, " ||\n")))


def _writers(writers: Writers, users: tuple[str, ...]) -> list[str]:
    """The clause about the requester; none if it may be anybody."""
    added = [f"{USERNAME}.matches({globs(users)})"] if users else []
    if writers == "anybody":
        return []
    if writers == "system":
        return [some([f"{USERNAME}.startsWith({text(SYSTEM_PREFIX)})", *added])]
    kubelet = (
        f"{USERNAME}.startsWith({text(NODE_PREFIX)}) && {text(NODE_GROUP)} in request.userInfo.?groups.orValue([])"
    )
    accounts = f"{USERNAME}.startsWith({text(SYSTEM_ACCOUNTS)})"
    return [some([accounts, f"{USERNAME} in {texts(CONTROL_PLANE_USERS)}", kubelet, *added], " ||\n  ")]


def _resources(rules: Iterable[ResourceRule]) -> list[str]:
    """Clauses about what is written: whole resources, single subresources, and what only some operations write."""
    clauses, whole, single = [], [], []
    for rule in rules:
        names = [(group, *pattern.partition("/")[::2]) for group in rule.groups for pattern in rule.resources]
        if rule.groups == ("*",):
            clauses += [f"subresource == {text(sub)}" for _, _, sub in names]
        elif "*" in rule.operations:
            whole += [f"{group}/{name}" for group, name, sub in names if sub == "*"]
            single += [f"{group}/{name}/{sub}" for group, name, sub in names if sub != "*"]
        else:
            exact = texts(f"{group}/{name}/{sub}" for group, name, sub in names)
            clauses.append(f"request.operation in {texts(rule.operations)} && resource + '/' + subresource in {exact}")
    if whole:
        clauses.append(f"resource in {texts(whole)}")
    if single:
        clauses.append(f"resource + '/' + subresource in {texts(single)}")
    return clauses
