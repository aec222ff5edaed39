"""The tag in a container image's name, as the kubelet and the API server parse it.

Sources: k8s.io/kubernetes' pkg/util/parsers/parsers.go; github.com/distribution/reference v0.6.0, normalize.go and
regexp.go; github.com/opencontainers/go-digest v1.0.0.
"""

from __future__ import annotations

import re

_HUB, _OLD_HUB, _OFFICIAL = "docker.io", "index.docker.io", "library/"
_PATH_LENGTH = 255
_LABEL = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}))?"
    r"(?:@(?P<algorithm>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*):(?P<digest>[0-9A-Fa-f]{32,}))?"
)
_IDENTIFIER = re.compile("[a-f0-9]{64}")
_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LONGEST = 4096  # far longer than any valid name; limits the time for a hostile string


def tag_of(image: str) -> str:
    """The tag; `latest` if the name has neither tag nor digest; empty for only a digest and for an invalid name."""
    if len(image) > _LONGEST or _IDENTIFIER.fullmatch(image):
        return ""
    domain, name = _split(image)
    remote = name.partition(":")[0]
    parts = _NAME.fullmatch(f"{domain}/{name}")
    if remote.lower() != remote or parts is None or len(parts["path"]) > _PATH_LENGTH:
        return ""
    digest = parts["digest"]
    if digest is None:
        return parts["tag"] or "latest"
    is_digest = len(digest) == _DIGITS.get(parts["algorithm"]) and digest == digest.lower()
    return (parts["tag"] or "") if is_digest else ""


def _split(image: str) -> tuple[str, str]:
    """The registry, by default Docker Hub, and the rest of the name."""
    first, slash, rest = image.partition("/")
    if not slash:
        return _HUB, _OFFICIAL + image
    domain, name = _HUB, image
    if first == _OLD_HUB:
        name = rest
    elif first == "localhost" or "." in first or ":" in first or first.lower() != first:
        domain, name = first, rest
    return domain, name if domain != _HUB or "/" in name else _OFFICIAL + name
