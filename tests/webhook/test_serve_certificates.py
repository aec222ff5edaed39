"""Certificates that change on disk while the real process serves."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.builders import pod
from support.service.processes import Service, replace
from support.service.reviews import body
from support.service.wire import connected

from certs.authority import Authority, Leaf, new_authority

_NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Somebody's CA."""
    return new_authority(_NOW)


class _Files:
    """A pair of files, and the bundle to trust them by."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.cert, self.key = directory / "served.crt", directory / "served.key"
        self._authority = authority
        self.bundle = directory / "certs" / "ca-bundle.crt"
        self.bundle.parent.mkdir()
        self.bundle.write_bytes(authority.cert_pem)

    def issue(self) -> Leaf:
        """A new pair, not written yet."""
        return self._authority.issue(["localhost", "127.0.0.1"], _NOW)

    def write(self, cert: Leaf, key: Leaf) -> None:
        """Put the halves of two pairs there."""
        replace(self.key, key.key_pem)
        replace(self.cert, cert.cert_pem)


async def _shown(service: Service) -> str:
    """What a new connection is shown; a review on it is answered."""
    async with connected(await service.port(), service.context()) as wire:
        assert (await wire.call(body(pod()))).status == 200
        return wire.shown()


async def test_new_connections_see_the_new_pair_and_open_ones_go_on(tmp_path: Path, authority: Authority) -> None:
    """A pair that is swapped on disk is shown to whoever connects next; a connection that is open serves as before."""
    files = _Files(tmp_path, authority)
    old, new = files.issue(), files.issue()
    files.write(old, old)
    async with Service(tmp_path, "--tls-cert", str(files.cert), "--tls-key", str(files.key)) as service:
        async with connected(await service.port(), service.context()) as wire:
            assert (await wire.call(body(pod()))).status == 200
            first = await _shown(service)
            files.write(new, new)
            await service.event("certificate served", 2)
            second = await _shown(service)
            after = await wire.call(body(pod(), uid="after"))
            kept = wire.shown()
        expiry = f"cks_admission_certificate_expiry_timestamp_seconds {new.not_after.timestamp()!r}"
        metrics = await service.ask("/metrics")

    assert (first, second, kept) == (old.fingerprint, new.fingerprint, old.fingerprint)
    assert (after.status, after.closes) == (200, False)
    assert expiry.split(maxsplit=1)[0] in metrics.text


async def test_its_own_pair_is_made_again_while_it_serves(tmp_path: Path) -> None:
    """A pair of the service's own that is lost is replaced, and shown by a CA that clients trust."""
    async with Service(tmp_path) as service:
        await service.event("serving")
        first = await _shown(service)
        for name in ("tls.crt", "tls.key"):
            (service.certs / name).unlink()
        await service.event("certificate served", 2)
        second = await _shown(service)

    assert first != second
