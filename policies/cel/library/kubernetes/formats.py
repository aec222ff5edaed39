"""The checks of formats. Each function returns the problems of a text, in Kubernetes' words; none if it is valid.

Sources: k8s.io/apimachinery's pkg/api/validation/generic.go, pkg/util/validation/validation.go (characters) and
pkg/api/validate/content (bytes), k8s.io/kube-openapi's pkg/validation/strfmt. Lengths count UTF-8 bytes.
"""

from __future__ import annotations

import re
from calendar import monthrange

from policies.golang.url import UrlError, parse_request_uri

UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"

_IS_UUID = re.compile(UUID.removeprefix("(?i)"), re.IGNORECASE | re.ASCII)
_IS_TIME = re.compile(TIME)
_IS_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_IS_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?+")


def uri(text: str) -> list[str]:
    """The problems of a URL; `isURL()` accepts the same texts (url.ParseRequestURI)."""
    try:
        parse_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def uuid(text: str) -> list[str]:
    """The problems of a UUID of any version, with or without dashes."""
    return [] if len(text) <= 36 and _IS_UUID.fullmatch(text) else ["does not match the UUID format"]


def base64(text: str) -> list[str]:
    """The problems of bytes in base64 with padding. An empty text is invalid."""
    return [] if text and _IS_BASE64.fullmatch(text) else ["invalid base64"]


def date(text: str) -> list[str]:
    """The problems of a date such as 2021-01-31."""
    return [] if _is_date(text) else ["invalid date"]


def datetime(text: str) -> list[str]:
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
