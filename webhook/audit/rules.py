"""The rules of an audit: those of the settings, of policies in files, and of the cluster's own policies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace as changed
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from policies import guard
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy
from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS, ParametersKey, parameter_keys
from policies.admissionpolicy.model import DERIVE, Policy
from policies.admissionpolicy.rules import mutatingrule, validatingrule
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from policies.topology.catalog import Catalog
from webhook.audit.auditable import NotAuditable, reason
from webhook.configuration import rules
from webhook.configuration.rules import workload_table
from webhook.configuration.settings import Settings
from webhook.sources.natives import Native
from webhook.sources.policyfiles import PolicyFiles

NOTHING: Final = Loaded()
_MUTATING: Final = "MutatingAdmissionPolicy"
_GUARD: Final = NotAuditable(guard.RULE, "it judges UPDATE and DELETE, which is nothing that an object shows")


class Rules(NamedTuple):
    """What an audit asks.

    ruleset: all rules. mutations: a set for each mutating rule and policy, in their order, which tells what it changes.
    silent: what is not asked, and why. parameters: the keys of parameters that policies read. doubts: what is wrong
    with policies or exceptions, a line each.
    """

    ruleset: RuleSet
    mutations: tuple[RuleSet, ...] = ()
    silent: tuple[NotAuditable, ...] = ()
    parameters: frozenset[ParametersKey] = frozenset()
    doubts: tuple[str, ...] = ()


def made(settings: Settings, files: PolicyFiles, native: Loaded = NOTHING, catalog: Catalog | None = None) -> Rules:
    """The rules for the settings, policies from files and ConfigMaps, and the cluster's own policies.

    native: all of these, also those that do not ask for rules for pod templates. Of policies with one name that of the
    files counts, then that of the cluster, then that of a pack. Raises SettingsError.
    """
    loaded = files.loaded
    taken = {*rules.reserved(), *(policy.name for policy in loaded.policies)}
    own, hidden = _usable(native, taken)
    known = *loaded.policies, *own.policies
    bindings = *loaded.bindings, *own.bindings
    reasons = {policy.name: why for policy in known if (why := reason(policy))}
    mutating = tuple(p for p in known if p.kind == _MUTATING and p.name not in reasons)
    direct = tuple(policy for policy in loaded.policies if policy.kind != _MUTATING)
    merged = files._replace(loaded=changed(loaded, policies=(*direct, *mutating), bindings=bindings))
    compile_ = partial(compile_policy, release=files.release)
    names = tuple(policy.name for policy in own.policies)
    of_files = rules.of_policies(settings, merged, compile_, Native(names=names))
    reasons |= {policy.name: why for policy in of_files.shipped if (why := reason(policy))}
    every = (*of_files.rules, *_native(settings, own, compile_))
    chosen = of_files._replace(
        rules=tuple(rule for rule in every if rule.name not in reasons),
        names=tuple(dict.fromkeys((*of_files.names, *names, *(policy.name for policy in known)))),
    )
    built = rules.build(settings, (), chosen, catalog)
    single = list(_single(merged, built, mutating, compile_))
    bound = {binding.policy_name for binding in bindings} | {policy.name for policy in of_files.shipped}
    silent = tuple(NotAuditable(name, why) for name, why in reasons.items() if name in bound)
    is_guarded = any(rule.name == guard.RULE for rule in built.rules)
    return Rules(
        RuleSet((rule for rule in built.rules if rule.name != guard.RULE), built.exceptions, built.safety),
        tuple(RuleSet((rule,), built.exceptions, built.safety) for rule in single),
        (*((_GUARD,) if is_guarded else ()), *silent),
        parameter_keys(known, bindings),
        (*hidden, *rules.unknown_names(settings, chosen)),
    )


def _usable(native: Loaded, taken: Collection[str]) -> tuple[Loaded, list[str]]:
    """The cluster's own policies without those whose names others have, and a line for each of these."""
    own = tuple(policy for policy in native.policies if policy.name not in taken)
    named = {(f"{policy.kind}Binding", policy.name) for policy in own}
    bindings = tuple(binding for binding in native.bindings if (binding.kind, binding.policy_name) in named)
    hidden = [
        f"the cluster's {policy.name} is not judged: another rule or policy has this name"
        for policy in native.policies
        if policy.name in taken
    ]
    return changed(native, policies=own, bindings=bindings), hidden


def _native(settings: Settings, own: Loaded, compile_: Compile) -> Iterator[Rule]:
    """The rules of the cluster's own validating policies. They judge pod templates only where that is asked for."""
    asking = [policy for policy in own.policies if _asks(policy)]
    others = [policy for policy in own.policies if not _asks(policy)]
    yield from validatingrule.rules(asking, own.bindings, NO_PARAMETERS, workload_table(settings), compile_)
    yield from validatingrule.rules(others, own.bindings, NO_PARAMETERS, {}, compile_)


def _asks(policy: Policy) -> bool:
    return "true" in (policy.annotations.get(DERIVE), policy.labels.get(DERIVE))


def _single(files: PolicyFiles, built: RuleSet, mutating: Iterable[Policy], compile_: Compile) -> Iterator[Rule]:
    """The mutating rules in their order, with one for each mutating policy."""
    for rule in built.rules:
        if rule.name != mutatingrule.NAME:
            yield from (rule,) if rule.mutate is not None else ()
            continue
        for policy in mutating:
            alone = mutatingrule.rules(
                (policy,), files.loaded.bindings, files.parameters, files.schema, built.exceptions, compile_
            )
            yield from (replace(one, name=policy.name) for one in alone)
