"""Text as the bytes that Go's functions work on, and quoted as in Go's messages (strconv.Quote)."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space in Go (unicode.IsSpace)."""
ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, as when Go decodes JSON."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def trimmed(text: str) -> str:
    """The text without the white space around it (strings.TrimSpace)."""
    return text.strip(SPACE)


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of a text, with lone surrogates replaced."""
    return clean(text).encode()


def text_of(raw: bytes) -> str:
    """The text that bytes encode, with U+FFFD for each byte that is not valid UTF-8."""
    return clean(raw.decode(errors="surrogateescape"))


def quote(text: str | bytes) -> str:
    """A text in double quotes with Go's escapes. Surrogateescape characters count as bytes that are not valid UTF-8."""
    if isinstance(text, bytes):
        text = text.decode(errors="surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    escaped = ESCAPES.get(character)
    if escaped is not None:
        return escaped
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
