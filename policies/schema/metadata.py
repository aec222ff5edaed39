"""Names, labels and annotations of objects. Source: ValidateObjectMeta in k8s.io/apimachinery's pkg/api/validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.golang.quote import utf8
from policies.kubernetes.name import path_segment
from policies.schema.flaw import Flaws, Place, below
from policies.schema.formats import FORMATS, Format

_TOTAL = 256 * 1024
"""The bytes that annotations may have together (TotalAnnotationSizeLimitB)."""
_WIDEST = 4  # bytes of a character
_LABEL_KEY, _LABEL_VALUE = FORMATS["label-key"], FORMATS["label-value"]
_SUBDOMAIN, _LABEL = FORMATS["dns-subdomain"], FORMATS["dns-label"]
_RBAC = "rbac.authorization.k8s.io"
_LABELS = (("", "Namespace"), ("", "Service"), ("apps", "StatefulSet"))
_SEGMENTS = (
    *((_RBAC, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    *(("", "Event"), ("apiregistration.k8s.io", "APIService"), ("events.k8s.io", "Event")),
    *(("networking.k8s.io", "IPAddress"), ("policy", "PodDisruptionBudget")),
)
_FORMS: Mapping[tuple[str, str], Format] = {
    **dict.fromkeys(_LABELS, _LABEL),
    **dict.fromkeys(_SEGMENTS, path_segment),
}
"""The forms of names by group and kind; of all other kinds they are DNS subdomains."""
_LONGEST = {("batch", "CronJob"): (52, "must be no more than 52 characters")}
_REMEDY = "give it a name"


def judge(value: Mapping[str, Any], group: str, kind: str, flaws: Flaws) -> None:
    """Note what is wrong with an object's name, labels and annotations."""
    place: Place = (None, "metadata")
    own = mapping(value, "metadata")
    name = own.get("name") or ""
    if not name and not own.get("generateName"):
        flaws.required((place, "name"), "name or generateName is required", _REMEDY)
    for problem in _FORMS.get((group, kind), _SUBDOMAIN)(name) if name else ():
        flaws.invalid((place, "name"), name, problem)
    longest, text = _LONGEST.get((group, kind), (None, ""))
    if longest is not None and len(name) > longest:
        flaws.invalid((place, "name"), name, text)
    namespace = own.get("namespace") or ""
    for problem in _LABEL(namespace) if namespace else ():
        flaws.invalid((place, "namespace"), namespace, problem)
    of_labels(own, place, flaws)
    of_annotations(own, place, flaws)


def of_labels(metadata: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Note keys and values of labels that have another form."""
    for key, value in mapping(metadata, "labels").items():
        for problem in _LABEL_KEY(key):
            flaws.invalid(below(place, "labels", key), key, problem)
        for problem in _LABEL_VALUE(value or ""):
            flaws.invalid(below(place, "labels", key), value, problem)


def of_annotations(metadata: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Note keys of annotations that have another form, and values that are too large together."""
    whole = mapping(metadata, "annotations")
    for key in whole:
        for problem in _LABEL_KEY(key.lower()):
            flaws.invalid(below(place, "annotations", key), key, problem)
    if sum(len(key) + len(value or "") for key, value in whole.items()) <= _TOTAL // _WIDEST:
        return
    if sum(len(utf8(key)) + len(utf8(value or "")) for key, value in whole.items()) > _TOTAL:
        flaws.too_long((place, "annotations"), _TOTAL)
