"""Forms of names, by the names that fieldrules-*.json has for them: each returns the problems of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from policies.golang.quote import utf8
from policies.kubernetes.label import label_key, label_value
from policies.kubernetes.name import dns1035_label, dns_label, dns_subdomain, must_match, too_long

Format = Callable[[str], list[str]]
_CACHED = 8_192
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_IS_CONFIG_KEY = re.compile(_CONFIG_KEY.encode()).fullmatch
_CONFIG_KEY_RULE: Final = must_match(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip
_KEY_LENGTH, _PORT_LENGTH = 253, 15
_IS_PORT = re.compile("[-a-z0-9]+").fullmatch


def config_key(text: str) -> list[str]:
    """The problems of a key of a ConfigMap or a Secret (IsConfigMapKey)."""
    raw = utf8(text)
    problems = too_long(raw, _KEY_LENGTH, "characters")
    if not _IS_CONFIG_KEY(raw):
        problems.append(_CONFIG_KEY_RULE)
    if text in (".", "..") or text.startswith(".."):
        problems.append(f"must not be '{text}'" if text in (".", "..") else "must not start with '..'")
    return problems


def port_name(text: str) -> list[str]:
    """The problems of the name of a port (IsValidPortName)."""
    problems = too_long(utf8(text), _PORT_LENGTH, "characters")
    if not _IS_PORT(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter (a-z)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def absolute_path(text: str) -> list[str]:
    """The problem of a path that does not begin at the root."""
    return [] if text.startswith("/") else ["must be an absolute path"]


def _cached(form: Format) -> Format:
    """The same for texts that come again and again."""
    return lru_cache(_CACHED)(form)


FORMATS: Mapping[str, Format] = {
    "absolute-path": absolute_path,
    "config-key": _cached(config_key),
    "dns-1035-label": _cached(dns1035_label),
    "dns-label": _cached(dns_label),
    "dns-subdomain": _cached(dns_subdomain),
    "label-key": _cached(label_key),
    "label-value": _cached(label_value),
    "port-name": _cached(port_name),
}
