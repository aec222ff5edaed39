"""The shipped packs as the settings have them: policies, bindings and parameters, made in memory.

No object of a cluster is needed for them. `export native` writes the same as objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import trusted
from policies.admissionpolicy.evaluation.compilation import Compile, CompiledPolicy
from policies.admissionpolicy.evaluation.inputs import KindScope, StaticParameters
from policies.admissionpolicy.model import Binding, ParamKind, Policy
from policies.admissionpolicy.rules import policyrule
from policies.admissionpolicy.rules.policyrule import Workloads
from policies.cel.syntax.formatting import unparse
from policies.cel.syntax.parser import parse
from policies.engine.request import JsonObject
from policies.engine.rule import HookCondition, Rule
from webhook.configuration.rulesettings import PackMode, PackSettings
from webhook.configuration.settings import Settings
from webhook.files import yamlfile, yamltext
from webhook.sources import packfiles, policyfiles

OWN_RESERVATION: Final = "allowedReservedValues"
"""The parameter with the values of reservations that people may tolerate, to which the organization's own belongs."""

_CONFIG_MAPS: Mapping[ParamKind, KindScope] = {ParamKind(api_version="v1", kind="ConfigMap"): "Namespaced"}
_ACTIONS: Mapping[PackMode, str] = {"enforce": "Deny", "warn": "Warn", "audit": "Audit"}
# What an expression may read beside the requester.
_OTHER_INPUT = re.compile(r"\b(request|object|oldObject|params|variables|namespaceObject|authorizer)\b")
_QUIETEST_FIRST = ("Audit", "Warn", "Deny")


class Packs(NamedTuple):
    """The shipped policies in force, with bindings and parameters, and the names of those that others replace."""

    policies: tuple[Policy, ...]
    bindings: tuple[Binding, ...]
    parameters: StaticParameters
    replaced: tuple[str, ...]


class _Part(NamedTuple):
    """A document of a pack. number: its place in the file. policy: None if it is a binding or a ConfigMap."""

    file: packfiles.PackFile
    number: int
    document: Document
    policy: Policy | None


def made(settings: Settings, taken: Container[str] = ()) -> Packs:
    """The packs for the settings. The policies are the same objects each time, so that none is compiled again.

    taken: the names of other policies, which take the place of these.
    """
    policies: list[Policy] = []
    replaced: list[str] = []
    bindings: list[Binding] = []
    maps: list[JsonObject] = []
    for part, value in _in_force(settings):
        if part.policy is not None and part.policy.name in taken:
            replaced.append(part.policy.name)
        elif part.policy is not None:
            policies.append(part.policy)
        elif value["kind"] == "ConfigMap":
            maps.append(value)
        else:
            binding = trusted(replace(part.document, value=value))
            bindings += [binding] if isinstance(binding, Binding) and binding.policy_name not in taken else []
    parameters = StaticParameters(tuple(maps), _CONFIG_MAPS, is_final=True)
    return Packs(tuple(policies), tuple(bindings), parameters, tuple(replaced))


def rules(packs: Packs, workloads: Workloads, compile_: Compile) -> Iterator[Rule]:
    """The rules of packs, asked about only under the match conditions on the requester that all policies have.

    Controllers of the cluster make most Pods, and no pack judges these: the API server need not call.
    """
    # The conditions that read nothing but the requester, by their trees, however they are laid out; as the first policy
    # has them those that all have.
    of_requester = [
        {
            unparse(parse(condition.expression.source, expand=False)): HookCondition(
                condition.name, condition.expression.text
            )
            for condition in policy.match_conditions
            if not _OTHER_INPUT.search(condition.expression.text.replace("request.userInfo", ""))
        }
        for policy in packs.policies
    ]
    first, *others = of_requester or [{}]
    conditions = tuple(condition for tree, condition in first.items() if all(tree in other for other in others))

    def loaded(policy: Policy) -> CompiledPolicy:
        compiled = compile_(policy)
        compiled.load()  # a review that has to do it first is too long for the process that answers, time and again
        return compiled

    for rule in policyrule.validating_rules(packs.policies, packs.bindings, packs.parameters, workloads, loaded):
        hooks = tuple(msgspec.structs.replace(hook, conditions=conditions) for hook in rule.hooks)
        yield msgspec.structs.replace(rule, hooks=hooks)


def texts(settings: Settings) -> Iterator[tuple[str, str]]:
    """The files of the packs for the settings, by name and text, with what the settings change as JSON."""
    chosen: dict[packfiles.PackFile, dict[int, str | None]] = {}
    for part, value in _in_force(settings):
        changed = None if value is part.document.value else json.dumps(value)
        chosen.setdefault(part.file, {})[part.number] = changed
    for file, by_number in chosen.items():
        chunks = [chunk for _, chunk in yamltext.documents(file.text) if yamlfile.load(file.name, chunk)]
        yield file.name, "\n---\n".join(text or chunks[number] for number, text in by_number.items())


def action(chosen: PackSettings, policy: str, subject: str, shipped: Sequence[str]) -> list[str]:
    """The validationActions of a policy's binding; none if it is off.

    The mode of a pack or of a subject makes nothing louder than it ships. That of a policy by its own name does.
    """
    mode = chosen.policies.get(policy)
    if mode is not None:
        return [_ACTIONS[mode]] if mode != "off" else []
    mode = chosen.policies.get(subject, chosen.mode)
    if mode == "off":
        return []
    loudest = max(shipped, key=_QUIETEST_FIRST.index)
    limit = _ACTIONS[mode]
    return [limit] if _QUIETEST_FIRST.index(limit) < _QUIETEST_FIRST.index(loudest) else list(shipped)


def _in_force(settings: Settings) -> Iterator[tuple[_Part, JsonObject]]:
    """The documents of the policies that are not off, each with its value for the settings."""
    for pack, chosen in settings.packs.by_name.items():
        # The parameters that differ from the shipped ones.
        given = dict(chosen.parameters)
        own = settings.organization.reserved_hash
        if own and OWN_RESERVATION in packfiles.names(pack).parameters:
            allowed = given.get(OWN_RESERVATION, "")
            if own not in re.split(r"[\s,]+", allowed):
                given[OWN_RESERVATION] = f"{allowed} {own}".strip()
        for file in packfiles.files(pack):
            # A policy is off if no binding is left of it, and so is a ConfigMap that no binding names.
            bindings: dict[int, JsonObject] = {}
            for part in (part for part in _parts(file) if part.document.value["kind"].endswith("Binding")):
                spec = part.document.value["spec"]
                if actions := action(chosen, spec["policyName"], file.subject, spec["validationActions"]):
                    bindings[part.number] = _with(part.document.value, "spec", {"validationActions": actions})
            policies = {binding["spec"]["policyName"] for binding in bindings.values()}
            maps = {binding["spec"].get("paramRef", {}).get("name") for binding in bindings.values()}
            for part in _parts(file):
                value = part.document.value
                name = value["metadata"]["name"]
                if value["kind"] == "ConfigMap" and name in maps:
                    yield part, _with(value, "data", {key: text for key, text in given.items() if key in value["data"]})
                elif part.policy is not None and name in policies:
                    yield part, value
                elif part.number in bindings:
                    yield part, bindings[part.number]


def _with(value: JsonObject, field: str, changes: Mapping[str, Any]) -> JsonObject:
    """The same object if nothing changes."""
    if all(value[field].get(key) == item for key, item in changes.items()):
        return value
    return {**value, field: {**value[field], **changes}}


@cache
def _parts(file: packfiles.PackFile) -> tuple[_Part, ...]:
    """The documents of a file, without their places, which need much memory."""
    parts = []
    for number, document in enumerate(policyfiles.parse(file.text, file.name)):
        read = trusted(document) if document.value["kind"].endswith("Policy") else None
        small = replace(document.outline(()), value=document.value)
        parts.append(_Part(file, number, small, read if isinstance(read, Policy) else None))
    return tuple(parts)
