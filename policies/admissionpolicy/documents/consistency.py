"""Problems between documents: duplicate names, and policies and bindings that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from policies.admissionpolicy.documents.document import Path
from policies.admissionpolicy.documents.exception import WrittenException
from policies.admissionpolicy.documents.problem import Report, Spot, duplicate, not_found
from policies.admissionpolicy.model import Binding, Policy
from policies.kubernetes.spelling import did_you_mean

PLACES: tuple[Path, ...] = (("metadata", "name"), ("spec", "policyName"), ("spec", "paramRef"))
"""The fields at which these problems are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A policy, binding or exception that was read: its kind and name, its report, and its value.

    value: None if it has errors. policy_name: for bindings.
    """

    kind: str
    name: str
    policy_name: str = ""
    report: Report
    value: Policy | Binding | WrittenException | None = None

    @property
    def place(self) -> str:
        """File and line of its name."""
        document = self.report.document
        return f"{document.name}:{document.place(('metadata', 'name'))[0]}"


def fit(entries: Iterable[Entry], *, complete: bool = False) -> list[Entry]:
    """The entries, with each problem noted at the document that has to change.

    complete: whether there are no other entries, so that a policy without a binding is an error; else there is a
    warning. The arguments are not changed and can be used again in another set.
    """
    fitted = [replace(entry, report=entry.report.continued()) for entry in entries]
    fitted = list(_first_of_each_name(fitted))
    policies = {(entry.kind, entry.name): entry for entry in fitted if entry.kind.endswith("Policy")}
    bindings = [entry for entry in fitted if entry.kind.endswith("Binding")]
    for entry in bindings:
        if entry.policy_name:
            _binding(entry, policies)
    bound = {(_policy_kind(entry), entry.policy_name) for entry in bindings}
    for key, entry in policies.items():
        if entry.name and key not in bound:
            message = f"no {entry.kind}Binding names this policy, and without one it does nothing"
            hint = "add a binding with this name as its policyName"
            spot = Spot(entry.report, ("metadata", "name"))
            if complete:
                spot.fault(message, hint)
            else:
                spot.warn(message, f"{hint}; until then it is judged here as if one denied")
    return fitted


def _policy_kind(binding: Entry) -> str:
    return binding.kind.removesuffix("Binding")


def _first_of_each_name(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries, without the values of duplicates, which would replace the first of their name in a cluster."""
    first: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        known = first.setdefault((entry.kind, entry.name), entry)
        if known is entry or not entry.name:
            yield entry
            continue
        hint = f"the first {entry.kind} of this name is at {known.place}: rename one"
        Spot(entry.report, ("metadata", "name")).fault(duplicate(entry.name), hint)
        yield replace(entry, value=None)


def _binding(entry: Entry, policies: Mapping[tuple[str, str], Entry]) -> None:
    """Note that the policy of a binding is missing, or that only one of the two has parameters."""
    kind, name = _policy_kind(entry), entry.policy_name
    known = policies.get((kind, name))
    if known is None:
        _missing(entry, kind, policies)
        return
    policy, binding = known.value, entry.value
    if not isinstance(policy, Policy) or not isinstance(binding, Binding):
        return
    spot = Spot(entry.report, ("spec", "paramRef"))
    if binding.param_ref is not None and policy.param_kind is None:
        hint = f"leave it out, or give the policy at {known.place} a paramKind"
        spot.warn("the policy has no paramKind: the parameters are ignored", hint, key=True)
    if binding.param_ref is None and policy.param_kind is not None:
        hint = f"name a {policy.param_kind.kind}, or let the policy check `params == null`"
        spot.warn("the policy has a paramKind: without a paramRef, params is null", hint)


def _missing(entry: Entry, kind: str, policies: Mapping[tuple[str, str], Entry]) -> None:
    name = entry.policy_name
    other = next((known for known in policies.values() if known.name == name), None)
    if other is not None:
        hint = f"there is a {other.kind} of this name: write {other.kind}Binding"
    else:
        same_kind = [known for known_kind, known in policies if known_kind == kind]
        hint = did_you_mean(name, same_kind, f"a {kind} of this name must be among the documents")
    Spot(entry.report, ("spec", "policyName")).fault(not_found(name), hint)
