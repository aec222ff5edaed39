"""What controllers wrote is no finding of the rule of labels: they are exempt when they write it."""

from __future__ import annotations

from typing import Final

from policies import labels
from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, is_owned, mapping
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL, is_control_plane

_NODE: Final = ("", "Node")
_NOTHING: Final[frozenset[str]] = frozenset()
_LABELS: Final = frozenset({labels.RULE})


def spared(request: AdmissionRequest, facts: Facts) -> frozenset[str]:
    """The rules that have nothing to say about an object, whatever they find.

    That is the rule of labels for Nodes, for what a controller owns, and for Namespaces of the control plane with what
    is in them. Raises Missing and FactUnavailable.
    """
    if request.kind.group_kind == _NODE or is_owned(request.object):
        return _LABELS
    if request.kind.group_kind == labels.NAMESPACE:
        own = mapping(mapping(request.object, "metadata"), "labels")
        return _LABELS if own.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE else _NOTHING
    if request.scope_namespace and is_control_plane(request.scope_namespace, facts):
        return _LABELS
    return _NOTHING
