"""Whether API servers know a CA by now, so that a certificate of it may be shown."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cryptography import x509
from msgspec import Struct

from certs.errors import PemError
from certs.x509.bundle import Bundle
from webhook.configuration.settings import Registration
from webhook.registration.configurations import is_own
from webhook.registration.state import WatchState
from webhook.tls.certificates import Trusted, by_all

if TYPE_CHECKING:
    from webhook.cluster.watches.webhooks import Webhooks

# API servers learn of webhook configurations by watches of their own, each at its own time. One that is busy, or cut
# off from etcd for a moment, has so long to hear of a new CA before it meets it.
SETTLED_SECONDS = 10.0


class Trust(Struct, frozen=True):
    """Since when CAs have been in the webhook configurations, by a clock that never jumps. Pure.

    since: infinity for those that are not in them, minus infinity for the first one that was looked for. When the
    process starts, that has been in them for long if it is. A later one may have come a moment before this process
    heard of it: what is watched does not arrive in the order of its making.
    """

    since: Mapping[x509.Certificate, float] = {}
    now: float = float("-inf")

    def observed(self, authority: x509.Certificate, watch: WatchState, now: float) -> Trust:
        """What is known after a look for one CA."""
        if not watch.synced:
            return Trust(self.since, now)  # it may have been there for long
        if is_registered(authority, watch):
            unknown = now if self.since else float("-inf")
            since = min(self.since.get(authority, unknown), now)
        else:
            since = float("inf")
        return Trust({**self.since, authority: since}, now)

    def settled(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA, as of the last look."""
        return self.now - self.since.get(authority, float("inf")) >= SETTLED_SECONDS


def is_registered(authority: x509.Certificate, watch: WatchState) -> bool:
    """Whether the API server was told of a CA: every entry of the service has it in its caBundle.

    Where nothing is registered nobody calls, so yes.
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
    """Who says whether API servers know a CA: the webhook configurations where the service's own is written there."""
    writes = registration.apply or registration.ca_only
    others = registration.ca_file or registration.inject_ca_from
    return TrustWatch(webhooks) if webhooks is not None and writes and not others else by_all


class TrustWatch:
    """Says whether API servers know a CA, by what the watch of the webhook configurations shows and has shown."""

    def __init__(self, webhooks: Webhooks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._webhooks = webhooks
        self._monotonic = monotonic
        self._trust = Trust()

    def __call__(self, authority: x509.Certificate) -> bool:
        """Whether API servers know this CA."""
        self._trust = self._trust.observed(authority, self._webhooks.state, self._monotonic())
        return self._trust.settled(authority)


def _bundle(encoded: str) -> Bundle:
    """The CAs of a caBundle; none where it cannot be read, or is empty and stands for the system's."""
    try:
        return Bundle.from_pem(base64.b64decode(encoded, validate=True))
    except (PemError, binascii.Error):
        return Bundle()
