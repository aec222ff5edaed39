"""URLs: `url('https://example.com:80/').getHost()` (k8s.io/apiserver's pkg/cel/library/urls.go and pkg/cel/url.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Implementation, Library, single
from policies.cel.types import Type
from policies.cel.values import Incomparable
from policies.golang.quote import text_of
from policies.golang.url import UrlError, WebUrl, parse_request_uri, parse_url

TYPE = types.struct("kubernetes.URL")


@dataclass(frozen=True, slots=True, eq=False)
class URL(Incomparable):
    """A URL. Two are equal if their normalized texts are."""

    cel_type: ClassVar[Type] = TYPE
    parts: WebUrl

    def cel_equal(self, other: object) -> bool:
        """Whether `==` holds. Raises CelError for a value of another type."""
        if not isinstance(other, URL):
            raise no_such_overload()
        return bytes(self.parts) == bytes(other.parts)

    def __str__(self) -> str:
        return text_of(bytes(self.parts))


def parse(text: str) -> URL:
    """The URL in a text: absolute, or a path from the root. Raises CelError with the reference's message."""
    try:
        parse_request_uri(text)
        return URL(parse_url(text))
    except UrlError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except UrlError:
        return False
    return True


def _query(url: URL) -> dict[str, list[str]]:
    return {text_of(name): list(map(text_of, values)) for name, values in url.parts.parameters().items()}


def _getter(name: str, overload: str, result: Type, call: Implementation) -> Function:
    return single(name, overload, (TYPE,), result, call, member=True, cost=1)


URLS = Library(
    name="kubernetes.urls",
    functions=(
        single("url", "string_to_url", (types.STRING,), TYPE, parse, cost=of_first),
        _getter("getScheme", "url_get_scheme", types.STRING, lambda url: text_of(url.parts.scheme)),
        _getter("getHost", "url_get_host", types.STRING, lambda url: text_of(url.parts.host)),
        _getter("getHostname", "url_get_hostname", types.STRING, lambda url: text_of(url.parts.hostname)),
        _getter("getPort", "url_get_port", types.STRING, lambda url: text_of(url.parts.port)),
        _getter("getEscapedPath", "url_get_escaped_path", types.STRING, lambda url: text_of(url.parts.escaped_path)),
        _getter("getQuery", "url_get_query", types.map_of(types.STRING, types.list_of(types.STRING)), _query),
        single("isURL", "is_url_string", (types.STRING,), types.BOOL, _is_url),
    ),
)


def escape_key(key: str) -> str:
    """A key as in a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


JSONPATCH = Library(
    name="kubernetes.jsonpatch",
    functions=(
        single(
            "jsonpatch.escapeKey",
            "string_jsonpatch_escapeKey_string",
            (types.STRING,),
            types.STRING,
            escape_key,
            cost=of_first,
        ),
    ),
)
