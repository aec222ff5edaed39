"""The checks of formats. Each function returns the problems of a text, in Kubernetes' words; none if it is valid.

Sources: k8s.io/apimachinery's pkg/api/validation/generic.go, pkg/util/validation/validation.go (characters) and
pkg/api/validate/content (bytes), k8s.io/kube-openapi's pkg/validation/strfmt. Lengths count UTF-8 bytes.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from operator import attrgetter
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import REGEX_LENGTH, STRING_TRAVERSAL, size
from policies.cel.environment import library
from policies.cel.types import Type
from policies.cel.values import NONE, Incomparable, Optional, Value
from policies.golang.net import UrlError, parse_request_uri
from policies.kubernetes.name import (
    dns1035_label,
    dns_label,
    dns_subdomain,
    label_key,
    label_value,
)

_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"

_IS_UUID = re.compile(_UUID.removeprefix("(?i)"), re.IGNORECASE | re.ASCII)
_IS_TIME = re.compile(_TIME)
_IS_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_IS_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?+")


def uri(text: str) -> list[str]:
    """The problems of a URL; `isURL()` accepts the same texts (url.ParseRequestURI)."""
    try:
        parse_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if len(text) <= 36 and _IS_UUID.fullmatch(text) else ["does not match the UUID format"]


def _datetime(text: str) -> list[str]:
    """The problems of a timestamp in RFC 3339. The text after a second T is ignored."""
    day, *rest = text.lower().split("t", 2)
    clock = _IS_TIME.fullmatch(rest[0]) if rest and _is_date(day) else None
    valid = clock and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"
    return [] if valid else ["invalid datetime"]


def _is_date(text: str) -> bool:
    match = _IS_DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = map(int, match.groups())
    # The calendar repeats every 400 years. Python's has no year 0.
    return 1 <= month <= 12 and 1 <= day <= monthrange(year % 400 + 400, month)[1]


TYPE = types.struct("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True, eq=False)
class Format(Incomparable):
    """A format. `check`: returns the problems of a text. `regex_size`: the pattern size that determines the cost."""

    cel_type: ClassVar[Type] = TYPE
    identity = attrgetter("name")
    name: str
    check: Callable[[str], list[str]]
    regex_size: int


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", label_key, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", partial(dns_label, is_prefix=True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", partial(dns_subdomain, is_prefix=True), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", partial(dns1035_label, is_prefix=True), 30),
    "labelValue": Format("LabelValue", label_value, 40),
    "uri": Format("URI", uri, 1103),
    "uuid": Format("uuid", _uuid, len(_UUID)),
    "byte": Format("byte", lambda text: [] if text and _IS_BASE64.fullmatch(text) else ["invalid base64"], 84),
    "date": Format("date", lambda text: [] if _is_date(text) else ["invalid date"], len(_TIME)),
    "datetime": Format("datetime", _datetime, len(_TIME)),
}


def _validate(format_: Format, text: str) -> Optional:
    wrong = format_.check(text)
    return Optional(wrong) if wrong else NONE


def _of_validate(arguments: Sequence[Value], _: Value) -> int:
    if not isinstance(arguments[0], Format):
        return 1
    text = ceil((1.0 + size(arguments[1])) * STRING_TRAVERSAL)
    return text * ceil(arguments[0].regex_size * REGEX_LENGTH)


LIBRARY = library(
    "kubernetes.format",
    ("format-validate: NamedFormat.validate(string) -> optional(list(string))", _validate, _of_validate),
    (
        "format-named: format.named(string) -> optional(NamedFormat)",
        lambda name: Optional(_FORMATS[name]) if name in _FORMATS else NONE,
    ),
    *(
        (f"format.{name}: format.{name}() -> NamedFormat", lambda value=value: value)
        for name, value in _FORMATS.items()
    ),
    named={"NamedFormat": TYPE},
    work=0.5,
)
