"""What becomes of an object: the rules change it, then judge the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from policies.engine import engine, patch
from policies.engine.engine import Answer
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, JsonObject
from policies.engine.ruleset import RuleSet
from policies.topology.nodes.requests import allocatable
from webhook.cli import options
from webhook.cli.exits import InputError, reading
from webhook.cli.findings.finding import Finding
from webhook.cli.output import headline
from webhook.files import manifest
from webhook.files.manifest import Manifest, ManifestError
from webhook.files.yamlfile import FileError


class ObjectOutcome(NamedTuple):
    """What would happen to an object: the changes of the rules, and their verdict on the result.

    flaws: what is wrong with the object itself, whatever the rules say.
    """

    manifest: Manifest
    request: AdmissionRequest
    changed: JsonObject
    mutation: Answer
    validation: Answer
    flaws: tuple[Finding, ...] = ()

    def with_flaws(self, flaws: tuple[Finding, ...], ruleset: RuleSet) -> ObjectOutcome:
        """The same with flaws. Rules that could not judge a broken object, and let it pass, say nothing then."""
        outcome = self._replace(flaws=flaws)
        if not outcome.is_broken:
            return outcome
        return outcome._replace(
            mutation=engine.without_skips(self.mutation, ruleset),
            validation=engine.without_skips(self.validation, ruleset),
        )

    @property
    def is_broken(self) -> bool:
        """Whether the API server would refuse the object, whatever the rules say."""
        return any(flaw.level == "error" for flaw in self.flaws)

    @property
    def allowed(self) -> bool:
        """Whether the object would be admitted."""
        return self.mutation.allowed and self.validation.allowed and not self.is_broken

    @property
    def message(self) -> str:
        """The refusal; empty where there is none."""
        flaws = [f"{flaw.file}:{flaw.line}:{flaw.column}: {flaw.text}" for flaw in self.flaws]
        return "\n".join([*flaws, *(answer.message for answer in (self.mutation, self.validation) if answer.message)])

    @property
    def warnings(self) -> list[str]:
        """What whoever applies the object is warned of."""
        return [*self.mutation.warnings, *self.validation.warnings]

    @property
    def headline(self) -> str:
        """The line about the object."""
        return headline(self.manifest.where, self.request, allowed=self.allowed)

    @property
    def head(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "where": self.manifest.where,
            "kind": self.request.kind.kind,
            "namespace": self.request.scope_namespace,
            "name": self.request.display_name,
            "allowed": self.allowed,
        }


def decide(written: Manifest, request: AdmissionRequest, ruleset: RuleSet, facts: StaticFacts) -> ObjectOutcome:
    """What happens to an object: the rules change it, then judge the result.

    The API server asks nobody to judge what was refused already.
    """
    mutation = engine.mutate(request, ruleset, facts)
    if not mutation.allowed:
        return ObjectOutcome(written, request, written.object, mutation, engine.ADMITTED)
    changed = patch.apply(written.object, mutation.operations) if mutation.operations else written.object
    validation = engine.validate(replace(request, object=changed), ruleset, facts)
    return ObjectOutcome(written, request, changed, mutation, validation)


def read_objects(files: Sequence[str]) -> list[Manifest]:
    """The objects in files. Raises InputError, also where there are none."""
    with reading(FileError, ManifestError):
        manifests = list(manifest.read(files, options.stdin(files)))
    if not manifests:
        raise InputError(f"{', '.join(files)}: no objects found")
    return manifests


def in_namespace(facts: StaticFacts, namespace: str, labels: Mapping[str, str]) -> StaticFacts:
    """The facts for what is in a Namespace that has further labels."""
    return replace(facts, namespaces={namespace: {**facts.namespace_labels(namespace), **labels}})


def with_nodes(facts: StaticFacts, paths: Sequence[str]) -> StaticFacts:
    """The facts with the Nodes in files. Raises InputError."""
    if not paths:
        return facts
    from webhook.cli.topology import inventory  # noqa: PLC0415 - as above

    objects = inventory.read_files(paths, options.stdin(paths))
    with reading(ValueError):
        nodes = tuple(replace(one.node, allocatable=allocatable(one.status.allocatable)) for one in objects.nodes)
    return replace(facts, cluster_nodes=nodes, coming=objects.coming)
