"""Judges the objects in parts of files, one after the other, and keeps none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from policies.admissionpolicy import schema
from policies.admissionpolicy.builtin.defaults import kind_of, received
from policies.admissionpolicy.rules.coverage import Coverage
from policies.admissionpolicy.schema import Schema
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest, GroupVersionKind, JsonObject, UserInfo, mapping
from policies.engine.rule import Rule
from policies.engine.ruleset import RuleSet
from policies.kubernetes.release import Release
from webhook.cli.findings.finding import Finding, Result, unreadable
from webhook.cli.objects import said
from webhook.cli.objects.outcome import decide, in_namespace
from webhook.configuration.rules import BUILT_IN_RULES
from webhook.files import manifest, yamlfile
from webhook.files.manifest import Manifest, ManifestError
from webhook.files.yamlfile import FileError, Part
from webhook.sources.policyfiles import PolicyFiles, custom

Identity = tuple[str, str, str, str]
Flaws = Callable[[Manifest], Iterable[Finding]]
"""Finds what is wrong with an object as it is written, before any rule sees it."""


class Circumstances(NamedTuple):
    """What the fate of an object depends on, besides the object. before: the objects as they are now.

    labels: of the objects' Namespaces. flaws: see `Flaws`.
    """

    ruleset: RuleSet
    facts: StaticFacts
    schema: Callable[[GroupVersionKind], Schema]
    user: UserInfo
    namespace: str
    labels: Mapping[str, str]
    before: Mapping[Identity, JsonObject] = {}
    flaws: tuple[Flaws, ...] = ()


class Judge:
    """Judges objects. coverage: of policies, if anybody asks which of them match nothing."""

    def __init__(self, circumstances: Circumstances, form: str, *, diff: bool, coverage: Coverage | None) -> None:
        self._about = circumstances
        self._form = form
        self._diff = diff
        self.coverage = coverage

    def results(self, part: Part) -> Iterator[Result]:
        """What is said of each object in a part of a file, and of what is none."""
        try:
            documents = yamlfile.load_part(part)
        except FileError as error:
            yield unreadable(str(error))
            return
        for document in documents:
            for path, value in document.parts():
                try:
                    yield self._result(manifest.of_value(document, path, value))
                except ManifestError as error:
                    yield unreadable(str(error))

    def _result(self, written: Manifest) -> Result:
        about = self._about
        flaws = tuple(flaw for find in about.flaws for flaw in find(written))
        given = as_received(written, about.schema)
        earlier = about.before.get(identity(given.object, about.namespace))
        request = manifest.request(given.object, earlier, user=about.user, namespace=about.namespace)
        facts = in_namespace(about.facts, request.namespace, about.labels)
        outcome = decide(given, request, about.ruleset, facts)
        outcome = outcome.with_flaws(tuple(flaw._replace(object=said.name(outcome)) for flaw in flaws), about.ruleset)
        if self.coverage is not None:
            self.coverage.add(request)
        return said.result(outcome, self._form, diff=self._diff, covered=self._covered(request))

    def _covered(self, request: AdmissionRequest) -> bool:
        """Whether a policy is about the kind of a request, if there are policies at all."""
        ruleset = self._about.ruleset
        rules = (*ruleset.select("mutate", request).rules, *ruleset.select("validate", request).rules)
        return not _has_policy(ruleset.rules) or _has_policy(rules)


def _has_policy(rules: Iterable[Rule]) -> bool:
    return any(rule.name not in BUILT_IN_RULES for rule in rules)


def schemas(
    own: Iterable[JsonObject], written: PolicyFiles | None, release: Release
) -> Callable[[GroupVersionKind], Schema]:
    """The schemas of a release, of CustomResourceDefinitions, and of those in policy files."""
    more = {**(written.custom if written else {}), **custom(mapping(value, "spec") for value in own)}
    return lambda kind: more.get(kind) or schema.known(kind, release)


def as_received(written: Manifest, schema: Callable[[GroupVersionKind], Schema]) -> Manifest:
    """The object as the API server reads it."""
    return written._replace(object=received(written.object, schema(kind_of(written.object))))


def identity(obj: JsonObject, namespace: str) -> Identity:
    """What makes an object the same one as another: group, kind, Namespace and name."""
    metadata = obj.get("metadata") or {}
    group = obj["apiVersion"].rpartition("/")[0]
    return group, obj["kind"], str(metadata.get("namespace") or namespace), str(metadata.get("name") or "")
