"""Keeps the cluster's webhook configurations as the settings want them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from policies.ruleset import RuleSet
from policies.topology.catalog import Catalog
from webhook import rules
from webhook.certificates import Certificates
from webhook.registration import KINDS, Client, configurations
from webhook.rules import PolicyRules
from webhook.settings import Settings

if TYPE_CHECKING:
    from webhook.cluster.facts import ClusterFacts


class Registrar:
    """Writes the webhook configurations, and again when the CA bundle, the policies or the Namespaces change."""

    def __init__(
        self,
        settings: Settings,
        certificates: Certificates,
        facts: ClusterFacts | None,
        policies: Callable[[], PolicyRules | None],
        catalog: Catalog,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._policies = policies
        self._writing = asyncio.Lock()
        self._certificates = certificates
        self._facts = facts
        self._written: list[dict[str, object]] | None = None
        self._log = structlog.get_logger()

    async def write(self) -> bool:
        """Write what differs from what was written last, and say whether the API server knows it all now.

        A failure is logged, and tried again at the next call. Nothing is written while it is not known which policies
        there are: other replicas may know, and their entries must not go.
        """
        if self._facts is None or not self._settings.registration.apply:
            return True
        async with self._writing:
            return await self._write(self._facts)

    async def _write(self, facts: ClusterFacts) -> bool:
        from webhook.cluster.errors import ClusterError  # noqa: PLC0415 - the client costs 16 MB, for clusters only
        from webhook.cluster.registration import apply, remove  # noqa: PLC0415 - as above

        policies = self._policies()
        if policies is None:
            return False
        ruleset = rules.build(self._settings, facts.control_plane_namespaces(), policies, self._catalog)
        wanted = registered(self._settings, self._certificates.ca_bundle, ruleset)
        if wanted == self._written:
            return True
        self._written = None  # what fails may have been written all the same
        try:
            await apply(facts.api, wanted)
            # Where every rule of a phase is off, an old configuration would go on asking for nothing.
            missing = set(KINDS.values()) - {str(configuration["kind"]) for configuration in wanted}
            await remove(facts.api, dict.fromkeys(missing, self._settings.registration.name))
        except ClusterError as error:
            self._log.error("not registered", reason=str(error))
            return False
        self._written = wanted
        self._log.info("registered", configurations=[f"{c['kind']}/{self._settings.registration.name}" for c in wanted])
        return True


def registered(settings: Settings, ca_bundle: bytes, ruleset: RuleSet) -> list[dict[str, object]]:
    """The webhook configurations for the settings. ca_bundle: PEM of the service's own CA, empty where it has none."""
    chosen = settings.registration
    if chosen.ca_file:
        ca_bundle = Path(chosen.ca_file).read_bytes()
    client = Client(ca_bundle, chosen.url, settings.cluster.namespace, chosen.service, chosen.service_port)
    return configurations(
        ruleset,
        client,
        name=chosen.name,
        own_namespace=settings.cluster.namespace,
        timeout_seconds=chosen.timeout_seconds,
    )
