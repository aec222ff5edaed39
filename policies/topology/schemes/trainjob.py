"""KAI's annotations on a TrainJob, which the Trainer copies to a JobSet from some places only.

Sources: pkg/apis/trainer/v1alpha1/trainjob_types.go of Kubeflow's Trainer: `annotations` and `podTemplateOverrides`
up to 2.1, `runtimePatches` after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from policies.engine.request import JsonObject
from policies.objects.fieldpath import Location, Pattern, locate, parse
from policies.topology.annotation import ANNOTATIONS, PREFERRED, REQUIRED, TOPOLOGY
from policies.topology.schemes.mention import Mention, Sort

KIND: Final = ("trainer.kubeflow.org", "TrainJob")
JOBSET: Final = "the Trainer's JobSet"
_PATCH = "spec.runtimePatches[*].trainingRuntimeSpec.template"
_JOB = f"{_PATCH}.spec.replicatedJobs[*].template"
_NOT_COPIED = (
    "has no effect: the Trainer does not copy it. Write it under "
    "spec.runtimePatches[].trainingRuntimeSpec.template.metadata.annotations, or spec.annotations before 2.2."
)
_COPIED: Final[tuple[Pattern, ...]] = tuple(
    map(
        parse,
        (
            *("spec.annotations", f"{_PATCH}.metadata.annotations", f"{_JOB}.metadata.annotations"),
            *(f"{_JOB}.spec.template.metadata.annotations", "spec.podTemplateOverrides[*].metadata.annotations"),
        ),
    )
)
"""The maps of annotations that are copied, those of the JobSet first."""
READS: Final = frozenset({"spec.annotations", "spec.podTemplateOverrides", "spec.runtimePatches"})
_SORTS: Final[tuple[tuple[str, Sort], ...]] = ((REQUIRED, "required"), (PREFERRED, "preferred"))


def mentions(obj: JsonObject | None) -> Iterator[Mention]:
    """What the annotations of a TrainJob name. The topology holds for all of them that name none."""
    for place, found in locate(obj, ("metadata", "annotations")):
        for key in ANNOTATIONS if isinstance(found, dict) else ():
            if key in found:
                yield Mention((*place, key), found[key], JOBSET, "required", "", _NOT_COPIED)
    copied = [at for pattern in _COPIED for at in locate(obj, pattern) if isinstance(at[1], dict)]
    named = next((found[TOPOLOGY] for _, found in copied if TOPOLOGY in found), None)
    for place, found in copied:
        yield from _of_map(place, found, found.get(TOPOLOGY, named))


def _of_map(place: Location, found: JsonObject, topology: Any) -> Iterator[Mention]:
    for key, sort in _SORTS:
        if key in found:
            # The runtime may name the topology.
            yield Mention((*place, key), found[key], JOBSET, sort, topology)
