"""Whether API servers know a CA, so that its certificates may be served."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cryptography import x509
from msgspec import Struct

from certs.errors import PemError
from certs.material import Bundle
from webhook.configuration.settings import Registration
from webhook.registration.configurations import is_own
from webhook.registration.plan import WatchState
from webhook.tls.certificates import Trusted, by_all

if TYPE_CHECKING:
    from webhook.cluster.replicas.webhooks import Webhooks

# API servers watch webhook configurations independently. Even one that is busy or briefly cut off from etcd should
# learn of a new CA within this time, before it sees a certificate of it.
SETTLED_SECONDS = 10.0


class Trust(Struct, frozen=True):
    """Since when CAs have been in the webhook configurations, by a monotonic clock. Pure.

    since: infinity for CAs that are not in them. Minus infinity for the first CA that was checked, because it has been
    there for long if it is there when the process starts. A later one may have been added a moment before this process
    noticed it, because events of different watches do not arrive in order.
    """

    since: Mapping[x509.Certificate, float] = {}
    now: float = float("-inf")

    def observed(self, authority: x509.Certificate, watch: WatchState, now: float) -> Trust:
        """The state after a check for one CA."""
        if not watch.synced:
            return Trust(self.since, now)  # it may have been there for a long time
        if is_registered(authority, watch):
            unknown = now if self.since else float("-inf")
            since = min(self.since.get(authority, unknown), now)
        else:
            since = float("inf")
        return Trust({**self.since, authority: since}, now)

    def settled(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA, as of the last check."""
        return self.now - self.since.get(authority, float("inf")) >= SETTLED_SECONDS


def is_registered(authority: x509.Certificate, watch: WatchState) -> bool:
    """Whether every entry of the service has the CA in its caBundle.

    It is true if nothing is registered, because then nobody calls.
    """
    entries = [
        entry
        for configuration in watch.current.values()
        for entry in configuration.get("webhooks") or ()
        if is_own(entry)
    ]
    bundles = {entry["clientConfig"].get("caBundle", "") for entry in entries}
    return all(authority in bundle for bundle in map(_bundle, bundles))


def trusted(registration: Registration, webhooks: Webhooks | None) -> Trusted:
    """The check whether API servers know a CA: by the webhook configurations, if the service writes its CA there."""
    writes = registration.apply or registration.ca_only
    others = registration.ca_file or registration.inject_ca_from
    return TrustWatch(webhooks) if webhooks is not None and writes and not others else by_all


class TrustWatch:
    """Checks whether API servers know a CA, by the present and past webhook configurations in the watch."""

    def __init__(self, webhooks: Webhooks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._webhooks = webhooks
        self._monotonic = monotonic
        self._trust = Trust()

    def __call__(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA."""
        self._trust = self._trust.observed(authority, self._webhooks.state, self._monotonic())
        return self._trust.settled(authority)


def _bundle(encoded: str) -> Bundle:
    """The CAs of a caBundle; none if it cannot be read, or is empty and means the system's roots."""
    try:
        return Bundle.from_pem(base64.b64decode(encoded, validate=True))
    except (PemError, binascii.Error):
        return Bundle()
