"""Certificates that change on disk while the real process serves."""

from datetime import UTC, datetime
from pathlib import Path

from support.builders import pod
from support.service.processes import Service, replace
from support.service.reviews import body

from certs.authority import new_authority


async def _shown(service: Service) -> str:
    """What a new connection is shown; a review on it is answered."""
    async with service.connection() as wire:
        assert (await wire.call(body(pod()))).status == 200
        return wire.shown()


async def test_new_connections_see_the_new_pair_and_open_ones_go_on(tmp_path: Path) -> None:
    """A pair that is swapped on disk is shown to whoever connects next; a connection that is open serves as before."""
    now = datetime.now(UTC)
    authority = new_authority(now)
    old, new = (authority.issue(["localhost", "127.0.0.1"], now) for _ in range(2))
    cert, key = tmp_path / "served.crt", tmp_path / "served.key"
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca-bundle.crt").write_bytes(authority.cert_pem)
    replace(key, old.key_pem)
    replace(cert, old.cert_pem)
    async with (
        Service(tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as service,
        service.connection() as wire,
    ):
        assert (await wire.call(body(pod()))).status == 200
        first = await _shown(service)
        replace(key, new.key_pem)
        replace(cert, new.cert_pem)
        await service.event("certificate served", 2)
        second = await _shown(service)
        after = await wire.call(body(pod(), uid="after"))
        kept = wire.shown()

    assert (first, second, kept) == (old.fingerprint, new.fingerprint, old.fingerprint)
    assert (after.status, after.closes) == (200, False)


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
