"""Named formats: `format.dns1123Label().validate(object.metadata.name)`.

Sources: k8s.io/apiserver's pkg/cel/library/format.go and pkg/cel/format.go; the checks are apimachinery's
pkg/api/validation, pkg/util/validation and pkg/api/validate/content, and kube-openapi's pkg/validation/strfmt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import REGEX_LENGTH, STRING_TRAVERSAL, size
from policies.cel.errors import no_such_overload
from policies.cel.function import Function, Library, single
from policies.cel.library.kubernetes import formats
from policies.cel.types import Type
from policies.cel.values import NONE, Incomparable, Optional, Value
from policies.kubernetes.name import (
    dns1035_label,
    dns1035_label_prefix,
    dns_label,
    dns_label_prefix,
    dns_subdomain,
    dns_subdomain_prefix,
    label_key,
    label_value,
)

TYPE = types.struct("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True, eq=False)
class Format(Incomparable):
    """A format. `check`: returns the problems of a text. `regex_size`: the pattern size that determines the cost."""

    cel_type: ClassVar[Type] = TYPE
    name: str
    check: Callable[[str], list[str]]
    regex_size: int

    def cel_equal(self, other: object) -> bool:
        """Whether `==` holds. Raises CelError for a value of another type."""
        if not isinstance(other, Format):
            raise no_such_overload()
        return self.name == other.name


FORMATS = {
    "dns1123Label": Format("DNS1123Label", dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", label_key, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", dns_label_prefix, 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", dns_subdomain_prefix, 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", dns1035_label_prefix, 30),
    "labelValue": Format("LabelValue", label_value, 40),
    "uri": Format("URI", formats.uri, 1103),
    "uuid": Format("uuid", formats.uuid, len(formats.UUID)),
    "byte": Format("byte", formats.base64, 84),
    "date": Format("date", formats.date, len(formats.TIME)),
    "datetime": Format("datetime", formats.datetime, len(formats.TIME)),
}


def _validate(format_: Format, text: str) -> Optional:
    wrong = format_.check(text)
    return Optional(wrong) if wrong else NONE


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _of_validate(arguments: Sequence[Value], _: Value) -> int:
    if not isinstance(arguments[0], Format):
        return 1
    text = ceil((1.0 + size(arguments[1])) * STRING_TRAVERSAL)
    return text * ceil(arguments[0].regex_size * REGEX_LENGTH)


def _constant(name: str, value: Format) -> Function:
    def call() -> Format:
        return value

    return single(name, name, (), TYPE, call, stepwise=True, cost=1)


LIBRARY = Library(
    name="kubernetes.format",
    functions=(
        single(
            "validate",
            "format-validate",
            (TYPE, types.STRING),
            types.optional_of(types.list_of(types.STRING)),
            _validate,
            member=True,
            cost=_of_validate,
        ),
        single("format.named", "format-named", (types.STRING,), types.optional_of(TYPE), _named, cost=1),
        *(_constant(f"format.{name}", value) for name, value in FORMATS.items()),
    ),
)
