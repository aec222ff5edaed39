"""The rules for names and labels, and the API groups. Functions return the problems of a text in Kubernetes' words.

Sources: k8s.io/apimachinery's pkg/api/validate/content (dns.go, kube.go, path.go), pkg/api/validation/generic.go
(prefixes) and pkg/util/validation/validation.go. Lengths count UTF-8 bytes, whatever unit a message names.

In globs only `*` and `?` are special, so a name with brackets matches itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from policies.golang.strconv import utf8

LABEL_LENGTH, SUBDOMAIN_LENGTH = 63, 253
ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_IS_LABEL, _IS_SUBDOMAIN, _IS_LABEL_1035 = (
    re.compile(pattern.encode()).fullmatch for pattern in (_LABEL, _SUBDOMAIN, _LABEL_1035)
)

Format = Callable[[str], list[str]]
"""Returns the problems of a text; none if it has the format."""


def must_match(message: str, pattern: str, *examples: str) -> str:
    """The message for a text that does not match a pattern, with examples that do."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def too_long(text: bytes, limit: int, unit: str = "bytes") -> list[str]:
    """The message for a text with more bytes than the limit; none for a shorter text."""
    return [f"must be no more than {limit} {unit}"] if len(text) > limit else []


_LABEL_RULE = must_match(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {ALPHANUMERIC_ENDS}",
    _LABEL, "my-name", "123-abc",
)  # fmt: skip
_SUBDOMAIN_RULE = must_match(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"{ALPHANUMERIC_ENDS}",
    _SUBDOMAIN, "example.com",
)  # fmt: skip
_LABEL_1035_RULE = must_match(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035, "my-name", "abc-123",
)  # fmt: skip


def dns_label(text: str, *, is_prefix: bool = False) -> list[str]:
    """The problems of a DNS label, such as the name of a Namespace, or of the start of one (NameIsDNSLabel)."""
    raw = _raw(text, is_prefix=is_prefix)
    length = too_long(raw, LABEL_LENGTH, "characters")
    if _IS_LABEL(raw):
        return length
    return [*length, "must not contain dots" if _IS_SUBDOMAIN(raw) else _LABEL_RULE]


def dns_subdomain(text: str, unit: str = "characters", *, is_prefix: bool = False) -> list[str]:
    """The problems of a DNS subdomain, the name of most objects, or of the start of one (NameIsDNSSubdomain).

    `unit`: of the message.
    """
    raw = _raw(text, is_prefix=is_prefix)
    return too_long(raw, SUBDOMAIN_LENGTH, unit) + ([] if _IS_SUBDOMAIN(raw) else [_SUBDOMAIN_RULE])


def dns1035_label(text: str, *, is_prefix: bool = False) -> list[str]:
    """The problems of the name of a Service, an API version or a kind in lower case (NameIsDNS1035Label)."""
    raw = _raw(text, is_prefix=is_prefix)
    return too_long(raw, LABEL_LENGTH, "characters") + ([] if _IS_LABEL_1035(raw) else [_LABEL_1035_RULE])


def _raw(text: str, *, is_prefix: bool) -> bytes:
    """The bytes of a name. Of a prefix, a dash at its end and the byte before become an `a` (maskTrailingDash)."""
    raw = utf8(text)
    return raw[:-2] + b"a" if is_prefix and len(raw) > 1 and raw.endswith(b"-") else raw


def path_segment(text: str) -> list[str]:
    """The problems of a name as a segment of a URL path (IsPathSegmentName)."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in text]


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


_BOTH = frozenset(
    (
        *("", "admissionregistration.k8s.io", "apps", "autoscaling", "batch", "certificates.k8s.io"),
        *("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io"),
        *("networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io"),
        *("scheduling.k8s.io", "storage.k8s.io"),
    )
)
CLIENT_GROUPS = _BOTH | {"extensions", "internal.apiserver.k8s.io", "storagemigration.k8s.io"}
"""Groups for which client-go has types, whether an API server serves them or not."""

SERVED_VERSIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_BOTH, ("v1",)),
    **dict.fromkeys(("apiextensions.k8s.io", "apiregistration.k8s.io"), ("v1",)),
    **dict.fromkeys(("authentication.k8s.io", "authorization.k8s.io"), ("v1",)),
    "autoscaling": ("v1", "v2"),
}
"""The versions that an API server serves by default, by group."""


def glob_expression(glob: str) -> str:
    """The regular expression that matches what the glob matches, for Python's `re` and for RE2."""
    return "".join({"*": ".*", "?": "."}.get(character) or re.escape(character) for character in glob)


# No name in a cluster is as long. A longer one, which the API server has yet to refuse, would cost a glob with several
# stars a time that grows with a power of its length.
LONGEST_NAME = 1024


def matches_glob(value: str, globs: Iterable[str]) -> bool:
    """Whether one of the globs matches the whole value; False for a value that is too long for any name."""
    return len(value) <= LONGEST_NAME and any(_compiled(glob).fullmatch(value) is not None for glob in globs)


@lru_cache(maxsize=1024)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(glob_expression(glob))
