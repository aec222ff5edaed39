"""What the API server would refuse of an exported policy, or could not evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import read
from policies.admissionpolicy.evaluation.compilation import compile_policy
from policies.admissionpolicy.evaluation.inputs import Json
from policies.admissionpolicy.templates import budget
from policies.cel.dialect import Dialect
from policies.kubernetes.release import NEWEST, Release
from policies.objects.workload import Workload


def problems(
    document: Mapping[str, Any], row: Workload, params: Json | None, release: Release = NEWEST
) -> Iterator[str]:
    """What is wrong with an exported policy that is for a kind, among others, to an API server of a release."""
    size = len(msgspec.json.encode(document))
    if size > budget.OBJECT_SIZE:
        yield f"the policy has {size:,} bytes; an object may have {budget.OBJECT_SIZE:,}"
        return
    written = Document(value=document, name=document["metadata"]["name"], places=lambda _: (1, 1))
    loaded = read([written], dialect=Dialect(release))
    if loaded.errors:
        yield from (f"{problem.path}: {problem.message}" for problem in loaded.errors)
        return
    for policy in loaded.policies:
        yield from budget.exceeded(compile_policy(policy, release), row, params)
