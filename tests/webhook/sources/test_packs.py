"""The shipped packs as the settings have them: modes, parameters, and whose place others take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from support.packmodes import OFF
from support.policies.policydocuments import policy

from policies.admissionpolicy.evaluation.compilation import Compiler
from policies.admissionpolicy.evaluation.inputs import ReviewParameters
from policies.admissionpolicy.model import ParamKind
from policies.engine.facts import StaticFacts
from policies.engine.interruption import Key
from policies.kubernetes.release import NEWEST
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.registration.configurations import registered
from webhook.sources import packfiles, packs, policyfiles, policyset
from webhook.sources.policyset import EMPTY

_CONFIG_MAP = ParamKind(api_version="v1", kind="ConfigMap")
_TODAY = datetime.now(UTC).date()


def _settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def _actions(**chosen: Any) -> dict[str, list[str]]:
    """The validationActions of each policy in force."""
    made = packs.made(_settings(packs=chosen))
    return {binding.policy_name: sorted(binding.validation_actions) for binding in made.bindings}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("enforce", {"Deny": ["Deny"], "Warn": ["Warn"], "Audit": ["Audit"]}),
        ("warn", {"Deny": ["Warn"], "Warn": ["Warn"], "Audit": ["Audit"]}),
        ("audit", {"Deny": ["Audit"], "Warn": ["Audit"], "Audit": ["Audit"]}),
    ],
)
def test_a_mode_makes_nothing_louder_than_it_ships(mode: Any, expected: dict[str, list[str]]) -> None:
    """To enforce leaves the actions as they ship; warn and audit take away what is louder."""
    chosen = Settings.model_validate({"packs": {"sunk": mode}}).packs.sunk

    assert {loud: packs.action(chosen, "p", "s", [loud]) for loud in expected} == expected
    assert packs.action(chosen, "p", "s", ["Deny", "Audit"]) == (
        ["Deny", "Audit"] if mode == "enforce" else expected["Deny"]
    )


def test_modes_of_single_policies() -> None:
    """A subject's mode is one for all policies about it; a policy's own is taken at its word, louder or not."""
    everything = _actions(**dict.fromkeys(OFF, "enforce"))
    policies = {"reserved-toleration": "off", "reserved-toleration-unset": "enforce", "node-selector": "enforce"}

    found = _actions(**{"scheduling-safety": {"mode": "audit", "policies": policies}, "interruptable-qos": "off"})
    assert found == {
        **{name: ["Audit"] for name in everything if name.startswith(("gpu-names", "keyless-toleration"))},
        "node-selector": ["Deny"],
        "reserved-toleration-unset": ["Deny"],
        **{name: ["Warn"] for name in packfiles.names("sunk").policies},
    }


def test_nothing_is_left_of_packs_that_are_off() -> None:
    """Neither policies nor bindings nor parameters are made."""
    made = packs.made(_settings(packs=OFF))

    assert (made.policies, made.bindings, made.parameters.objects) == ((), (), ())


def _data(name: str, **sections: Any) -> dict[str, str]:
    """The data of a ConfigMap with parameters."""
    found = packs.made(_settings(**sections)).parameters.named(_CONFIG_MAP, "kube-system", name)
    assert found is not None
    data: dict[str, str] = found["data"]
    return data


def test_parameters_replace_what_ships() -> None:
    """A value that is given replaces the shipped one, and the other keys stay."""
    changed = {"maxTerminationGracePeriodSeconds": "60"}
    given = {"interruptable-qos": {"parameters": {"maxTerminationGracePeriodSeconds": 60}}}

    assert _data("interruptable-drain", packs=given) == _data("interruptable-drain") | changed


@pytest.mark.parametrize(("given", "expected"), [(None, "abc"), ("x y", "x y abc"), ("x,abc", "x,abc"), ("", "abc")])
def test_the_organizations_own_reservation_is_added(given: str | None, expected: str) -> None:
    """The reserved hash is always allowed, among the values that are given."""
    parameters = {} if given is None else {packs.OWN_RESERVATION: given}
    chosen = {"scheduling-safety": {"parameters": parameters}}
    found = _data("reserved-toleration", packs=chosen, organization={"reservedHash": "abc"})

    assert found == {packs.OWN_RESERVATION: expected}


def test_no_cluster_is_asked_for_parameters() -> None:
    """The parameters of packs are those of the settings, whatever ConfigMaps a cluster has."""

    class _Never(StaticFacts, frozen=True):
        def known(self, key: Key[Any]) -> Any:
            raise AssertionError(key)

    parameters = ReviewParameters(_Never(_TODAY), packs.made(Settings()).parameters)

    assert parameters.scope(_CONFIG_MAP) == "Namespaced"
    assert parameters.named(_CONFIG_MAP, "kube-system", "interruptable-drain") is not None


def test_a_policy_of_the_same_name_takes_the_place_of_a_shipped_one() -> None:
    """Files and the cluster's own policies win, also those of the cluster that ask for nothing here."""
    files = policyfiles.read([("own.yaml", policy("lock-toleration", "true", "No."))])
    native = policyset.native({"interruptable-drain": [], "something-else": []}, {})

    made = rules.of_policies(Settings(), files, native=native)
    assert made.replaced == ("interruptable-drain", "lock-toleration")
    assert [rule.name for rule in made.rules].count("lock-toleration") == 1
    assert "interruptable-drain" not in [rule.name for rule in made.rules]


def test_nothing_is_compiled_again_for_other_modes() -> None:
    """The policies are the same objects whatever the settings say, so that a compiler knows them."""
    compiler = Compiler()
    first = {policy.name: compiler(policy) for policy in packs.made(Settings()).policies}
    compiler.begin(NEWEST)

    second = {p.name: compiler(p) for p in packs.made(_settings(packs={"sunk": "enforce"})).policies}
    assert all(second[name] is compiled for name, compiled in first.items())


def test_one_entry_that_fails_open() -> None:
    """All packs share the entry that fails open, with a condition for them by which no controller is asked about."""
    found = {}
    for mode in ("warn", "off"):
        settings = _settings(packs=dict.fromkeys(OFF, mode))
        ruleset = rules.build(settings, (), rules.of_policies(settings, EMPTY.files))
        webhooks = registered(settings, b"", ruleset)[1]["webhooks"]
        (entry,) = [webhook for webhook in webhooks if "policies" in webhook["name"]]
        (condition,) = entry["matchConditions"]
        found[mode] = (entry["failurePolicy"], "serviceaccount:kube-system:" in condition["expression"])

    assert found == {"warn": ("Ignore", True), "off": ("Ignore", False)}


def test_the_layout_of_one_policy_takes_no_condition_from_the_entry() -> None:
    """A condition that one policy writes on one line, and the others on two, is still one that all have."""
    made = packs.made(Settings())
    first, *others = made.policies
    conditions = tuple(
        replace(each, expression=replace(each.expression, text=" ".join(each.expression.text.split())))
        for each in first.match_conditions
    )
    flat = made._replace(policies=(replace(first, match_conditions=conditions), *others))

    names = {
        tuple(condition.name for condition in hook.conditions)
        for rule in packs.rules(flat, {}, Compiler())
        for hook in rule.hooks
    }
    assert conditions != first.match_conditions
    assert names == {("not-the-cluster-itself",)}


def test_texts_are_complete() -> None:
    """What is written as objects loads without errors, and has the modes and parameters of the settings."""
    chosen = {"sunk": "enforce", "interruptable-qos": {"parameters": {"maxTerminationGracePeriodSeconds": 60}}}
    settings = _settings(packs=chosen)
    written, made = policyfiles.read(packs.texts(settings)), packs.made(settings)

    assert {p.name for p in written.loaded.policies} == {p.name for p in made.policies}
    assert {b.name: b.validation_actions for b in written.loaded.bindings} == {
        b.name: b.validation_actions for b in made.bindings
    }
    names = [one["metadata"]["name"] for one in made.parameters.objects]
    assert [
        written.parameters.named(_CONFIG_MAP, "kube-system", name)
        == made.parameters.named(_CONFIG_MAP, "kube-system", name)
        for name in names
    ] == [True] * len(names)
