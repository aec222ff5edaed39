"""Watching two files: by content, half swaps kept out, the same trouble told the same way."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from certs.authority import Authority, Leaf
from certs.serving import Changed, Failed, FilePair, Unchanged


@pytest.fixture
def pair(tmp_path: Path) -> FilePair:
    """Two paths with no files yet."""
    return FilePair(tmp_path / "tls.crt", tmp_path / "tls.key")


def _write(pair: FilePair, leaf: Leaf) -> None:
    pair.cert_path.write_bytes(leaf.cert_pem)
    pair.key_path.write_bytes(leaf.key_pem)


def test_a_pair_is_a_change_once(pair: FilePair, leaf: Leaf) -> None:
    """The first look finds the pair, the next one nothing new."""
    _write(pair, leaf)

    assert [pair.poll(), pair.poll()] == [Changed(leaf, leaf.cert_pem, leaf.key_pem), Unchanged()]


def test_content_counts_and_nothing_else(pair: FilePair, leaf: Leaf) -> None:
    """Files written again with the same content, at another time, are no change."""
    _write(pair, leaf)
    pair.poll()
    _write(pair, leaf)
    os.utime(pair.cert_path, (0, 0))

    assert pair.poll() == Unchanged()


def test_new_content_with_old_times_is_a_change(
    pair: FilePair, leaf: Leaf, authority: Authority, now: datetime
) -> None:
    """New content is found even where size and time tell nothing."""
    newer = authority.issue(leaf.names, now)
    _write(pair, leaf)
    os.utime(pair.cert_path, (0, 0))
    pair.poll()
    _write(pair, newer)
    os.utime(pair.cert_path, (0, 0))

    assert pair.poll() == Changed(newer, newer.cert_pem, newer.key_pem)


def test_half_a_swap_is_kept_out_and_tried_again(
    pair: FilePair, leaf: Leaf, authority: Authority, now: datetime
) -> None:
    """A new certificate with the old key fails, with the same reason as long as it lasts, and then the new key does."""
    newer = authority.issue(leaf.names, now)
    _write(pair, leaf)
    pair.poll()
    pair.cert_path.write_bytes(newer.cert_pem)

    first, second = pair.poll(), pair.poll()
    pair.key_path.write_bytes(newer.key_pem)

    assert isinstance(first, Failed)
    assert first.reason.startswith(
        f"{pair.cert_path} and {pair.key_path}: the key does not match the certificate CN=a.example.com: SHA-256 of"
    )
    assert second == first
    assert pair.poll() == Changed(newer, newer.cert_pem, newer.key_pem)


def test_a_half_swap_that_is_taken_back_is_no_change(
    pair: FilePair, leaf: Leaf, authority: Authority, now: datetime
) -> None:
    """A failed look forgets nothing: when the old pair is whole again, there is nothing new."""
    _write(pair, leaf)
    pair.poll()
    pair.cert_path.write_bytes(authority.issue(leaf.names, now).cert_pem)
    pair.poll()
    _write(pair, leaf)

    assert pair.poll() == Unchanged()


def test_missing_files_are_told(pair: FilePair, leaf: Leaf) -> None:
    """Each file that is not there is named; once both are, the pair is found."""
    assert pair.poll() == Failed(f"{pair.cert_path} does not exist")
    pair.cert_path.write_bytes(leaf.cert_pem)
    assert pair.poll() == Failed(f"{pair.key_path} does not exist")
    pair.key_path.write_bytes(leaf.key_pem)
    assert isinstance(pair.poll(), Changed)


def test_a_mounted_secret_is_followed(tmp_path: Path, leaf: Leaf, authority: Authority, now: datetime) -> None:
    """The way in which kubelet replaces files, a symbolic link turned to another directory, is a change."""
    newer = authority.issue(leaf.names, now)
    for name, version in (("..1", leaf), ("..2", newer)):
        (tmp_path / name).mkdir()
        _write(FilePair(tmp_path / name / "tls.crt", tmp_path / name / "tls.key"), version)
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    pair = FilePair(tmp_path / "tls.crt", tmp_path / "tls.key")
    first = pair.poll()
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")

    assert [first, pair.poll()] == [
        Changed(leaf, leaf.cert_pem, leaf.key_pem),
        Changed(newer, newer.cert_pem, newer.key_pem),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"hello", "it has no PEM block (no line like -----BEGIN CERTIFICATE-----)", id="text"),
    ],
)
def test_unusable_content_is_told(content: bytes, reason: str, pair: FilePair, leaf: Leaf) -> None:
    """Whatever is in the files, a look never raises."""
    _write(pair, leaf)
    pair.cert_path.write_bytes(content)

    assert pair.poll() == Failed(f"{pair.cert_path} and {pair.key_path}: certificate: {reason}")


def test_an_unreadable_file_is_told(pair: FilePair, leaf: Leaf) -> None:
    """A directory in the place of a file is a failure with the remedy, not an exception."""
    _write(pair, leaf)
    pair.key_path.unlink()
    pair.key_path.mkdir()

    outcome = pair.poll()

    assert isinstance(outcome, Failed)
    assert outcome.reason.endswith("Is a directory; a directory stands where a file belongs: move it away")


def test_a_forgotten_pair_is_new_again(pair: FilePair, leaf: Leaf) -> None:
    """What could not be put to use is found again at the next look."""
    _write(pair, leaf)
    pair.poll()
    pair.forget()

    assert isinstance(pair.poll(), Changed)


def test_keys_are_not_in_representations(pair: FilePair, leaf: Leaf) -> None:
    """A change can be logged whole without its key."""
    _write(pair, leaf)

    assert "PRIVATE KEY" not in repr(pair.poll())
