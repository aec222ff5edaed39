"""The rules for labels. Each function returns the problems of a text, in Kubernetes' words; none if it is valid.

Source: k8s.io/apimachinery's pkg/api/validate/content/kube.go.
"""

from __future__ import annotations

import re

from policies.golang.quote import utf8
from policies.kubernetes.name import ALPHANUMERIC_ENDS, dns_subdomain, must_match, too_long

NAME_LENGTH = 63
"""The maximum length of a value, and of the part of a key behind the slash, in bytes."""

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IS_NAME = re.compile(_NAME.encode()).fullmatch
_NAME_RULE = must_match(
    f"must consist of alphanumeric characters, '-', '_' or '.', {ALPHANUMERIC_ENDS}",
    _NAME, "MyName", "my.name", "123-abc",
)  # fmt: skip
_VALUE_RULE = must_match(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"{ALPHANUMERIC_ENDS}",
    f"({_NAME})?", "MyValue", "my_value", "12345",
)  # fmt: skip


def label_key(text: str) -> list[str]:
    """The problems of a label key: a name, with an optional DNS subdomain and slash (IsLabelKey, IsQualifiedName)."""
    *prefix, name = text.split("/")
    if len(prefix) > 1:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_RULE} {optional}"]
    problems = []
    for subdomain in prefix:
        wrong = dns_subdomain(subdomain, "bytes") if subdomain else ["must be non-empty"]
        problems += [f"prefix part {problem}" for problem in wrong]
    raw = utf8(name)
    wrong = too_long(raw, NAME_LENGTH) if raw else ["must be non-empty"]
    return problems + [f"name part {problem}" for problem in (*wrong, *([] if _IS_NAME(raw) else [_NAME_RULE]))]


def label_value(text: str) -> list[str]:
    """The problems of a label value: a name, or empty (IsLabelValue)."""
    raw = utf8(text)
    return too_long(raw, NAME_LENGTH) + ([_VALUE_RULE] if raw and not _IS_NAME(raw) else [])
