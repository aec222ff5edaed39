"""The controller that owns an object."""

from __future__ import annotations

from msgspec import Struct

from policies.engine.request import JsonObject, controller_reference
from policies.kubernetes.name import SUBDOMAIN_LENGTH


class Owner(Struct, frozen=True):
    """An object that owns another as its controller."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def group_kind(self) -> tuple[str, str]:
        """Its API group and kind."""
        return self.api_version.rpartition("/")[0], self.kind


def controller(obj: JsonObject | None) -> Owner | None:
    """The controller of an object; None if it has none, or if the reference to it is malformed or too long for one."""
    reference = controller_reference(obj) or {}
    fields = [reference.get(field) for field in ("apiVersion", "kind", "name", "uid")]
    texts = [field for field in fields if isinstance(field, str) and 0 < len(field) <= SUBDOMAIN_LENGTH]
    return Owner(*texts) if len(texts) == len(fields) else None
