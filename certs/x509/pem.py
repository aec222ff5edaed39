"""PEM blocks: text with one certificate or key between each pair of BEGIN and END lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from certs.errors import PemError

__all__ = ["PemBlock", "blocks", "load_certificates"]

_BEGIN = b"-----BEGIN "
_EDGE = re.compile(rb"-----(BEGIN|END) ([A-Z0-9 ]+)-----")


@dataclass(frozen=True, slots=True)
class PemBlock:
    """One block: its kind (`CERTIFICATE`, `EC PRIVATE KEY`, ...), its text, and where it stands (both from 1)."""

    label: str
    text: bytes
    number: int
    line: int

    @property
    def place(self) -> str:
        """Where the block is, for messages: `block 2 (line 31)`."""
        return f"block {self.number} (line {self.line})"


def blocks(text: bytes) -> tuple[PemBlock, ...]:
    """The blocks of PEM text, at least one.

    Text between the blocks is skipped, as in RFC 7468 section 2: CA bundles have comments there. Indentation is
    allowed, because PEM that was pasted into YAML often keeps it.

    Raises PemError if there is no block, or one without an end or a beginning.
    """
    pem_blocks = tuple(_scan(text))
    if not pem_blocks:
        raise _without_blocks(text)
    return pem_blocks


def load_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in PEM text, at least one, in the order of the text.

    Raises PemError as `blocks` does, and if a block is of another kind or does not decode; it names the block.
    """
    return tuple(_certificate(block) for block in blocks(text))


def _certificate(block: PemBlock) -> x509.Certificate:
    if block.label != "CERTIFICATE":
        message = f"{block.place} is a {block.label} where only CERTIFICATE blocks belong"
        if block.label.endswith("PRIVATE KEY"):
            message += "; are certificate and key swapped?"
        raise PemError(message)
    try:
        certificate = x509.load_pem_x509_certificate(block.text)
        # These are decoded lazily. A broken extension or key must be reported here, not in a later decision.
        _ = certificate.extensions
        certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PemError(f"{block.place} does not decode as a certificate: {error}", damaged=True) from error
    return certificate


def _scan(text: bytes) -> Iterator[PemBlock]:
    opened: tuple[str, int] | None = None
    body: list[bytes] = []
    number = 0
    for line_number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        edge = _EDGE.fullmatch(line)
        body.append(line)
        if edge is None:
            continue
        side, label = edge[1], edge[2].decode("ascii")
        if side == b"BEGIN":
            if opened is not None:
                raise _unfinished(number, opened)
            number += 1
            opened, body = (label, line_number), [line]
        elif opened is None:
            raise PemError(
                f"line {line_number} ends a {label} that never began: the text was cut off at its start", damaged=True
            )
        elif opened[0] != label:
            raise PemError(
                f"block {number} (line {opened[1]}) begins a {opened[0]} but ends a {label} on line {line_number}",
                damaged=True,
            )
        else:
            yield PemBlock(label, b"\n".join([*body, b""]), number, opened[1])
            opened = None
    if opened is not None:
        raise _unfinished(number, opened)


def _unfinished(number: int, opened: tuple[str, int]) -> PemError:
    label, line = opened
    return PemError(f"block {number} (line {line}) begins a {label} and has no END line: it was cut off", damaged=True)


def _without_blocks(text: bytes) -> PemError:
    start = text.strip(b"\0 \t\r\n")  # After a power failure a file may contain zeros instead of its text.
    if not start:
        return PemError("it is empty", damaged=True)
    if _BEGIN.startswith(start[: len(_BEGIN)]):
        return PemError("it is cut off within its first line", damaged=True)
    if start.startswith(b"\x30"):  # An ASN.1 SEQUENCE, with which every DER certificate and key begins.
        return PemError(
            "it is binary (DER?), not PEM; convert it: openssl x509 -inform der, or openssl pkey -inform der"
        )
    return PemError("it has no PEM block (no line like -----BEGIN CERTIFICATE-----)")
