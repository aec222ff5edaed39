"""PEM blocks: split exactly, and every fault is placed."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import Authority, Leaf
from certs.errors import PemError
from certs.material import PemBlock, blocks, load_certificates

_BLOCK = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_blocks_are_numbered_and_placed() -> None:
    """Comments, indentation and Windows line ends are passed over; each block knows its number and line."""
    text = b"# ours\r\n  -----BEGIN CERTIFICATE-----\r\n  AAAA\r\n  -----END CERTIFICATE-----\r\n\r\nnext:\r\n" + _BLOCK

    assert blocks(text) == (PemBlock("CERTIFICATE", _BLOCK, 1, 2), PemBlock("CERTIFICATE", _BLOCK, 2, 7))


@pytest.mark.parametrize(
    ("text", "message", "damaged"),
    [
        pytest.param(b"", "it is empty", True, id="empty"),
        pytest.param(b"\0\0\0\0", "it is empty", True, id="zeros"),
        pytest.param(b"-----BEG", "it is cut off within its first line", True, id="first-line"),
        pytest.param(
            _BLOCK[:-10], "block 1 (line 1) begins a CERTIFICATE and has no END line: it was cut off", True, id="end"
        ),
        pytest.param(
            _BLOCK + b"# x\n" + _BLOCK[:30] + b"\n" + _BLOCK,
            "block 2 (line 5) begins a CERTIFICATE and has no END line: it was cut off",
            True,
            id="second-block",
        ),
        pytest.param(
            _BLOCK[28:],
            "line 2 ends a CERTIFICATE that never began: the text was cut off at its start",
            True,
            id="start",
        ),
        pytest.param(
            _BLOCK.replace(b"END CERTIFICATE", b"END PRIVATE KEY"),
            "block 1 (line 1) begins a CERTIFICATE but ends a PRIVATE KEY on line 3",
            True,
            id="labels",
        ),
        pytest.param(
            b"hello", "it has no PEM block (no line like -----BEGIN CERTIFICATE-----)", False, id="something-else"
        ),
        pytest.param(
            b"\x30\x82\x01",
            "it is binary (DER?), not PEM; convert it: openssl x509 -inform der, or openssl pkey -inform der",
            False,
            id="der",
        ),
    ],
)
def test_text_that_is_not_pem_is_refused(text: bytes, message: str, *, damaged: bool) -> None:
    """The message says what was found and where, and whether it was PEM once."""
    with pytest.raises(PemError) as raised:
        blocks(text)

    assert (str(raised.value), raised.value.damaged) == (message, damaged)


def test_a_key_among_certificates_is_refused(leaf: Leaf) -> None:
    """A key where certificates belong is an error that names the block and guesses the cause: it would be published."""
    with pytest.raises(PemError) as raised:
        load_certificates(leaf.cert_pem + leaf.key_pem)

    line = len(leaf.cert_pem.splitlines()) + 1
    assert str(raised.value) == (
        f"block 2 (line {line}) is a PRIVATE KEY where only CERTIFICATE blocks belong; are certificate and key swapped?"
    )


def test_another_kind_of_block_is_refused(authority: Authority) -> None:
    """A signing request among certificates is told as what it is."""
    request = _BLOCK.replace(b"CERTIFICATE", b"CERTIFICATE REQUEST")

    with pytest.raises(
        PemError, match=r"^block 2 \(line \d+\) is a CERTIFICATE REQUEST where only CERTIFICATE blocks belong$"
    ):
        load_certificates(authority.cert_pem + request)


def test_a_block_that_does_not_decode_is_named(authority: Authority) -> None:
    """One bad certificate among good ones is told by its number and line."""
    with pytest.raises(PemError, match=r"^block 2 \(line \d+\) does not decode as a certificate: ") as raised:
        load_certificates(authority.cert_pem + _BLOCK)

    assert raised.value.damaged


def test_every_cut_of_a_file_is_damage(authority: Authority) -> None:
    """Wherever our own file is cut, it is told as damaged and never as somebody else's."""
    whole = authority.cert_pem.rstrip()
    verdicts = set()
    for length in range(len(whole)):
        with pytest.raises(PemError) as raised:
            load_certificates(whole[:length])
        verdicts.add(raised.value.damaged)

    assert verdicts == {True}


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_pem_or_an_error(before: bytes, after: bytes) -> None:
    """No input makes anything but a PemError."""
    for text in (before, before + _BLOCK + after, _BLOCK[:40] + before + _BLOCK[40:]):
        try:
            load_certificates(text)
        except PemError:
            continue


def test_written_and_read_again(authority: Authority, leaf: Leaf, pem: Callable[..., bytes]) -> None:
    """Certificates come back as they were, in their order."""
    both = (leaf.certificate, authority.certificate)

    assert load_certificates(pem(*both)) == both
