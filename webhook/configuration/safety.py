"""What an outage must not stop, from the settings."""

from __future__ import annotations

from collections.abc import Iterable

from policies.engine.safety import SYSTEM_NAMESPACES, Safety
from webhook.configuration.settings import Settings


def safety(settings: Settings, control_plane_namespaces: Iterable[str] = ()) -> Safety:
    """The essential writes.

    control_plane_namespaces: those with the label of the control plane. It is reserved, so no tenant can set it.
    """
    chosen, own = settings.safety, settings.cluster.namespace
    names = dict.fromkeys((*SYSTEM_NAMESPACES, *chosen.namespaces, *sorted(control_plane_namespaces)))
    resources = ((group, name) for name, _, group in (resource.partition(".") for resource in chosen.resources))
    return Safety(own, tuple(name for name in names if name != own), tuple(resources), chosen.users)
