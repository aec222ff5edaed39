"""The rules of an audit: those of the settings, of policies in files, and of the cluster's own policies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace as changed
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from policies import guard
from policies.admissionpolicy.documents.reader import Loaded
from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy
from policies.admissionpolicy.evaluation.parameters import NO_PARAMETERS, ParametersKey, parameter_keys
from policies.admissionpolicy.model import DERIVE, Binding, Policy
from policies.admissionpolicy.rules import mutatingrule, validatingrule
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from policies.topology.topology import Catalog
from webhook.audit.auditable import NotAuditable, reason
from webhook.configuration import rules
from webhook.configuration.rules import PolicyRules, workload_table
from webhook.configuration.settings import Settings
from webhook.sources.policyfiles import PolicyFiles
from webhook.sources.policyset import Native

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
    own, hidden = _usable(native, {*rules.reserved(), *(policy.name for policy in files.loaded.policies)})
    merged = _merged(files, own)
    compile_ = partial(compile_policy, release=files.release)
    names = tuple(dict.fromkeys(policy.name for policy in own.policies))
    policies = rules.of_policies(settings, merged, compile_, Native(names=names))
    known = (*files.loaded.policies, *own.policies, *policies.shipped)
    silent = _silent(known, merged.loaded.bindings, policies)
    left_out = {entry.policy for entry in silent if entry.kind != _MUTATING}
    asked = policies._replace(
        rules=tuple(r for r in (*policies.rules, *_native(settings, own, compile_)) if r.name not in left_out),
        names=tuple(dict.fromkeys((*policies.names, *(policy.name for policy in known)))),
    )
    built = rules.build(settings, (), asked, catalog)
    guarded = (_GUARD,) if any(rule.name == guard.RULE for rule in built.rules) else ()
    return Rules(
        _with_rules(built, [rule for rule in built.rules if rule.name != guard.RULE]),
        tuple(_with_rules(built, (rule,)) for rule in _mutations(merged, built, compile_)),
        (*guarded, *silent),
        parameter_keys(known, merged.loaded.bindings),
        (*hidden, *rules.unknown_names(settings, asked)),
    )


def _with_rules(built: RuleSet, chosen: Sequence[Rule]) -> RuleSet:
    """Other rules with the same exceptions, and the same that is spared."""
    return RuleSet(chosen, built.exceptions, built.safety)


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


def _merged(files: PolicyFiles, own: Loaded) -> PolicyFiles:
    """The files with the cluster's mutating policies, for all of these are one rule, but those that cannot be asked."""
    loaded = files.loaded
    policies = (*loaded.policies, *(policy for policy in own.policies if policy.kind == _MUTATING))
    kept = tuple(policy for policy in policies if policy.kind != _MUTATING or not reason(policy))
    return files._replace(loaded=changed(loaded, policies=kept, bindings=(*loaded.bindings, *own.bindings)))


def _silent(known: Sequence[Policy], bindings: Sequence[Binding], policies: PolicyRules) -> tuple[NotAuditable, ...]:
    """The policies in force that cannot be asked."""
    bound: set[tuple[str, str]] = {(binding.kind, binding.policy_name) for binding in bindings}
    bound |= {(f"{policy.kind}Binding", policy.name) for policy in policies.shipped}
    return tuple(
        NotAuditable(policy.name, why, policy.kind)
        for policy in known
        if (f"{policy.kind}Binding", policy.name) in bound and (why := reason(policy))
    )


def _native(settings: Settings, own: Loaded, compile_: Compile) -> Iterator[Rule]:
    """The rules of the cluster's own validating policies. They judge pod templates only where that is asked for."""
    asking = [policy for policy in own.policies if _asks(policy)]
    others = [policy for policy in own.policies if not _asks(policy)]
    yield from validatingrule.rules(asking, own.bindings, NO_PARAMETERS, workload_table(settings), compile_)
    yield from validatingrule.rules(others, own.bindings, NO_PARAMETERS, {}, compile_)


def _asks(policy: Policy) -> bool:
    return "true" in (policy.annotations.get(DERIVE), policy.labels.get(DERIVE))


def _mutations(files: PolicyFiles, built: RuleSet, compile_: Compile) -> Iterator[Rule]:
    """The mutating rules in their order, with one for each mutating policy."""
    loaded = files.loaded
    for rule in built.rules:
        if rule.name != mutatingrule.NAME:
            yield from (rule,) if rule.mutate is not None else ()
            continue
        for policy in loaded.policies:
            alone = mutatingrule.rules(
                (policy,), loaded.bindings, files.parameters, files.schema, built.exceptions, compile_
            )
            yield from (replace(one, name=policy.name) for one in alone)
