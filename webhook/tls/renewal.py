"""What has to be looked after while the service runs: the certificate that it shows, and that its CA is made known."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import structlog

from webhook.metrics import Metrics
from webhook.tls.certificates import Certificates, Trusted, by_all

if TYPE_CHECKING:
    from webhook.cluster.replicas.replica import Replica
    from webhook.registration.registrar import Registrar

# How long a start waits for the CA that another replica may be making just now.
FIRST_CERTIFICATE = 10.0


class Upkeep:
    """Renews the certificate, has its CA registered, and shows it once its CA is trusted.

    registrar: None where nothing is registered. replica: None for a process that shares nothing with others. seconds:
    between looks while nothing happens; each goes by the wall clock, so that a machine that slept is late by no more
    than one.
    """

    def __init__(
        self,
        certificates: Certificates,
        registrar: Registrar | None,
        metrics: Metrics,
        seconds: float,
        replica: Replica | None = None,
        trusted: Trusted = by_all,
    ) -> None:
        self._certificates = certificates
        self._registrar = registrar
        self._metrics = metrics
        self._seconds = seconds
        self._replica = replica
        self._trusted = trusted
        self._woken = asyncio.Event() if replica is None else replica.changed
        self._told: tuple[bytes | None, bool] = (None, False)
        self._looked = False

    @property
    def writing(self) -> bool:
        """Whether this process is the one to write webhook configurations, and has looked at the CA since it is."""
        return self._looked and self._replica is not None and self._replica.writing

    async def start(self) -> None:
        """Serve the pair that there is, or is soon. Raises CertificateError."""
        if self._replica is None or self._replica.authority is None:
            self._certificates.start()
            return
        # The CA may be known by now, and one that the API server has not been told of.
        self._certificates.start(self._trusted)
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_CERTIFICATE):
                while self._certificates.unready():
                    self._woken.clear()
                    await self.look()
                    if self._certificates.unready():
                        await self._woken.wait()

    async def run(self) -> NoReturn:
        """Look after it until cancelled."""
        while True:
            self._woken.clear()
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, it must not end this, or a certificate would expire unseen
                structlog.get_logger().exception("upkeep failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._woken.wait()

    async def look(self) -> None:
        """Do once what is due."""
        writing = self._replica is not None and self._replica.writing
        self._certificates.look()
        self._looked = writing
        try:
            await self._certificates.save()
        finally:  # a leaf that was renewed is shown, whatever went wrong with the CA
            self._tell()
            self._certificates.install(self._trusted)

    def _tell(self) -> None:
        """Tell the registrar of another CA or leader."""
        self._metrics.leader.set(self._replica is not None and self._replica.leadership.leading)
        now = self._certificates.ca_bundle, self.writing
        if self._registrar is not None and now != self._told:
            self._told = now
            self._registrar.look()
