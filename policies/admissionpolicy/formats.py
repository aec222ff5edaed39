"""The formats of names, labels and the like, each with what the API server says of a text that has another.

Sources: k8s.io/apimachinery's pkg/api/validate/content (dns.go, kube.go, path.go), pkg/util/validation/validation.go;
CEL's identifiers: kubernetes' pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from policies.cel.syntax.parser import RESERVED
from policies.golang.quote import SPACE

Format = Callable[[str], list[str]]
"""What is wrong with a text; nothing where it has the format."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE = f"({_KEY})?"
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = RESERVED | {"true", "false", "null", "in"}
_SUBDOMAIN_LENGTH = 253
_LABEL_LENGTH = 63


def subdomain(text: str, unit: str = "characters") -> list[str]:
    """A name of most objects: a DNS subdomain of RFC 1123. `unit`: what its length is said to be counted in."""
    return _checked(text, _SUBDOMAIN, _SUBDOMAIN_LENGTH, _described(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"), unit)


def dns1035_label(text: str) -> list[str]:
    """A version of an API, or a kind in small letters: a DNS label of RFC 1035."""
    return _checked(
        text, _DNS1035, _LABEL_LENGTH, _described(_DNS1035_WORDS, _DNS1035, "my-name", "abc-123"), "characters"
    )


def label_value(text: str) -> list[str]:
    """The value of a label."""
    words = _described(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345")
    return _checked(text, _VALUE, _LABEL_LENGTH, words)


def qualified_name(text: str) -> list[str]:
    """The key of a label: a name, perhaps behind a DNS subdomain and a slash."""
    words = _described(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")
    *prefix, name = text.split("/")
    if len(prefix) > 1:
        return [f"a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    found = []
    if prefix:
        found = [
            f"prefix part {words}" for words in (subdomain(prefix[0], "bytes") if prefix[0] else ["must be non-empty"])
        ]
    if not name:
        found.append("name part must be non-empty")
    return [*found, *(f"name part {message}" for message in _checked(name, _KEY, _LABEL_LENGTH, words))]


def path_segment(text: str) -> list[str]:
    """A name that can stand in a URL."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in text]


def is_identifier(text: str) -> bool:
    """Whether a text is a name that CEL can use."""
    return bool(_IDENTIFIER.fullmatch(text)) and text not in _RESERVED


def trimmed(text: str) -> str:
    """A text without blanks around it, as Go's strings.TrimSpace."""
    return text.strip(SPACE)


def _checked(text: str, pattern: str, longest: int, words: str, unit: str = "bytes") -> list[str]:
    found = []
    if len(text.encode(errors="surrogatepass")) > longest:
        found.append(f"must be no more than {longest} {unit}")
    if not re.fullmatch(pattern, text):
        found.append(words)
    return found


def _described(words: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {shown}regex used for validation is '{pattern}')"
