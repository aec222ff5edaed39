"""What Kubernetes finds wrong with a text, by format, in its words.

Sources: k8s.io/apimachinery's pkg/api/validation/generic.go, pkg/util/validation/validation.go (characters) and
pkg/api/validate/content (bytes), k8s.io/kube-openapi's pkg/validation/strfmt. Lengths are of UTF-8 bytes.
"""

from __future__ import annotations

import re
from calendar import monthrange

from policies.golang.quote import utf8
from policies.golang.url import UrlError, parse_request_uri

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"

_IS_LABEL = re.compile(_LABEL.encode())
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN.encode())
_IS_LABEL_1035 = re.compile(_LABEL_1035.encode())
_IS_NAME = re.compile(_NAME.encode())
_IS_VALUE = re.compile(_VALUE.encode())
_IS_UUID = re.compile(UUID.removeprefix("(?i)"), re.IGNORECASE | re.ASCII)
_IS_TIME = re.compile(TIME)
_IS_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_IS_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?+")

_CHARACTERS = "must consist of"
_ALPHANUMERIC = "and must start and end with an alphanumeric character"
_LABEL_MESSAGE = f"a lowercase RFC 1123 label {_CHARACTERS} lower case alphanumeric characters or '-', {_ALPHANUMERIC}"
_SUBDOMAIN_MESSAGE = (
    f"a lowercase RFC 1123 subdomain {_CHARACTERS} lower case alphanumeric characters, '-' or '.', {_ALPHANUMERIC}"
)
_LABEL_1035_MESSAGE = (
    f"a DNS-1035 label {_CHARACTERS} lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_NAME_MESSAGE = f"{_CHARACTERS} alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC}"
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " + _ALPHANUMERIC
)


def _must_match(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _masked(name: bytes) -> bytes:
    """A prefix of a name as a name: a dash at its end gives way, and takes the byte before it along."""
    return name[:-2] + b"a" if len(name) > 1 and name.endswith(b"-") else name


def _too_long(text: bytes, limit: int, unit: str) -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(text) > limit else []


def _label(text: bytes) -> list[str]:
    wrong = _too_long(text, 63, "characters")
    if _IS_LABEL.fullmatch(text):
        return wrong
    if _IS_SUBDOMAIN.fullmatch(text):
        return [*wrong, "must not contain dots"]
    return [*wrong, _must_match(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc")]


def _subdomain(text: bytes, unit: str = "characters") -> list[str]:
    wrong = _too_long(text, 253, unit)
    if not _IS_SUBDOMAIN.fullmatch(text):
        wrong.append(_must_match(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return wrong


def _label_1035(text: bytes) -> list[str]:
    wrong = _too_long(text, 63, "characters")
    if not _IS_LABEL_1035.fullmatch(text):
        wrong.append(_must_match(_LABEL_1035_MESSAGE, _LABEL_1035, "my-name", "abc-123"))
    return wrong


def dns_label(text: str) -> list[str]:
    """The name of a namespace and the like (NameIsDNSLabel)."""
    return _label(utf8(text))


def dns_label_prefix(text: str) -> list[str]:
    """What a name that is a DNS label may start with."""
    return _label(_masked(utf8(text)))


def dns_subdomain(text: str) -> list[str]:
    """The name of most objects (NameIsDNSSubdomain)."""
    return _subdomain(utf8(text))


def dns_subdomain_prefix(text: str) -> list[str]:
    """What a name that is a DNS subdomain may start with."""
    return _subdomain(_masked(utf8(text)))


def dns1035_label(text: str) -> list[str]:
    """The name of a service (NameIsDNS1035Label)."""
    return _label_1035(utf8(text))


def dns1035_label_prefix(text: str) -> list[str]:
    """What a name that is a DNS-1035 label may start with."""
    return _label_1035(_masked(utf8(text)))


def qualified_name(text: str) -> list[str]:
    """The key of a label: a name, with or without a DNS subdomain before it (IsLabelKey)."""
    prefix, *rest = utf8(text).split(b"/")
    must_match = _must_match(_NAME_MESSAGE, _NAME, "MyName", "my.name", "123-abc")
    if len(rest) > 1:
        optional = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {must_match}{optional}"]
    wrong = []
    if rest:
        wrong = [f"prefix part {each}" for each in (_subdomain(prefix, "bytes") if prefix else ["must be non-empty"])]
    name = rest[0] if rest else prefix
    wrong += [f"name part {each}" for each in (_too_long(name, 63, "bytes") if name else ["must be non-empty"])]
    if not _IS_NAME.fullmatch(name):
        wrong.append(f"name part {must_match}")
    return wrong


def label_value(text: str) -> list[str]:
    """The value of a label (IsLabelValue)."""
    raw = utf8(text)
    wrong = _too_long(raw, 63, "bytes")
    if not _IS_VALUE.fullmatch(raw):
        wrong.append(_must_match(_VALUE_MESSAGE, _VALUE, "MyValue", "my_value", "12345"))
    return wrong


def uri(text: str) -> list[str]:
    """What isURL() accepts (url.ParseRequestURI)."""
    try:
        parse_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def uuid(text: str) -> list[str]:
    """A UUID of any version, with or without dashes."""
    return [] if len(text) <= 36 and _IS_UUID.fullmatch(text) else ["does not match the UUID format"]


def base64(text: str) -> list[str]:
    """Bytes in base64 with padding; none at all is refused."""
    return [] if text and _IS_BASE64.fullmatch(text) else ["invalid base64"]


def date(text: str) -> list[str]:
    """A day: 2021-01-31."""
    return [] if _is_date(text) else ["invalid date"]


def datetime(text: str) -> list[str]:
    """A moment in RFC 3339. What follows a second T is not looked at."""
    day, *rest = text.lower().split("t", 2)
    found = _IS_TIME.fullmatch(rest[0]) if rest and _is_date(day) else None
    valid = found and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"
    return [] if valid else ["invalid datetime"]


def _is_date(text: str) -> bool:
    found = _IS_DATE.fullmatch(text)
    if not found:
        return False
    year, month, day = map(int, found.groups())
    # The calendar repeats every 400 years; the library's has no year 0.
    return 1 <= month <= 12 and 1 <= day <= monthrange(year % 400 + 400, month)[1]
