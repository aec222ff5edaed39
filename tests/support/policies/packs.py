"""The shipped packs and their suites, and the answer of this project's engine to a case."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from policies.admissionpolicy.derivation import derive
from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Loaded, read
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy
from policies.admissionpolicy.evaluation.inputs import Inputs, StaticParameters
from policies.admissionpolicy.evaluation.inputs import inputs_of as inputs_of_request
from policies.admissionpolicy.evaluation.validator import Finding
from policies.admissionpolicy.rules import suiterun
from policies.admissionpolicy.rules.suiterun import SuiteRun
from policies.objects.workload import BUILT_IN, table
from policies.suite import Case, Expectation, Suite
from policies.suite import read as read_suite

Json = dict[str, Any]
_WORKLOADS = table(BUILT_IN)
PACKS = Path(__file__).parents[3] / "policies" / "packs"


@dataclass(frozen=True, slots=True)
class PackPolicy:
    """One folder: the content of its policy.yaml, decoded and read, and its suite."""

    folder: Path
    documents: tuple[Json, ...]
    loaded: Loaded
    run: SuiteRun
    suite: Suite

    @property
    def name(self) -> str:
        """The pack and the policy, as in `sunk/lock-toleration`."""
        return self.folder.relative_to(PACKS).as_posix()

    @property
    def compiled(self) -> tuple[CompiledPolicy, ...]:
        """The policies with their programs."""
        return self.run.compiled

    @property
    def parameters(self) -> tuple[Json, ...]:
        """The ConfigMaps."""
        return tuple(document for document in self.documents if document["kind"] == "ConfigMap")


@cache
def shipped() -> tuple[PackPolicy, ...]:
    """All policies of all packs, by name."""
    return tuple(_read(path.parent) for path in sorted(PACKS.glob("*/*/policy.yaml")))


def cases() -> list[tuple[PackPolicy, Case]]:
    """Every case of every suite."""
    return [(policy, case) for policy in shipped() for case in policy.suite.cases]


def parameters(policy: PackPolicy, case: Case) -> list[Json]:
    """The ConfigMaps as the case needs them."""
    return [dict(each) for each in suiterun.with_data(policy.parameters, case.params)]


def judged(policy: PackPolicy, case: Case) -> Expectation:
    """The answer of a folder's policies to a case, by this project's engine."""
    return policy.run.outcome(case)


def alone(policy: PackPolicy, case: Case) -> Expectation:
    """The answer to a case by kube-apiserver alone, which judges no templates."""
    return policy.run.outcome(replace(case, derived=False))


def result(policy: PackPolicy, case: Case) -> tuple[Finding, ...]:
    """All findings of a case, including those without consequences, and those of the Pods that it would create."""
    pods = derive(suiterun.request_of(case), _WORKLOADS) if case.derived else ()
    asked = [
        replace(case, operation=request.operation, object=request.object, old_object=request.old_object)
        for pod in pods
        for request in pod.requests[:1]
    ]
    return tuple(finding for each in (case, *asked) for finding in policy.run.findings(each))


def inputs_of(case: Case) -> Inputs:
    """A case in the form that the engine takes."""
    request = suiterun.request_of(case)
    return inputs_of_request(request, suiterun.facts_of(case, request))


def _read(folder: Path) -> PackPolicy:
    documents = tuple(yaml.safe_load_all((folder / "policy.yaml").read_text(encoding="utf-8")))
    loaded = read(Document(value=each, name=str(folder), places=lambda _: (1, 1)) for each in documents)
    objects = tuple(each.value for each in loaded.context)
    return PackPolicy(
        folder=folder,
        documents=documents,
        loaded=loaded,
        run=SuiteRun(loaded, StaticParameters(objects)),
        suite=read_suite(yaml.safe_load((folder / "suite.yaml").read_text(encoding="utf-8"))),
    )
