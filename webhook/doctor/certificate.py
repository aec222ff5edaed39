"""Checks whether the API server trusts the served certificates, and for how long."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography.x509 import AuthorityKeyIdentifier, Certificate, ExtensionNotFound
from msgspec import Struct

from certs.display import moment, span, titled
from certs.errors import ForeignFileError, PemError
from certs.renewal import authority_renewal_due, leaf_renewal_due
from certs.storage.content import find_authority, find_leaf
from certs.x509.bundle import Bundle
from certs.x509.certificate import issued_by
from certs.x509.verify import verify
from policies.engine.request import JsonObject, mapping
from webhook.configuration.settings import Settings
from webhook.doctor.address import dialled_by
from webhook.doctor.diagnosis import Diagnosis, Read, Unread, count, listed, unseen
from webhook.doctor.observation import ShownChain

CHECK: Final = "certificate"
# A leaf of the service's own lives for a week and is renewed with half of that left; a CA for a year.
LEAF_LEFT: Final = timedelta(days=3)
AUTHORITY_LEFT: Final = timedelta(days=30)


class TrustedBundle(Struct, frozen=True):
    """The CAs that the API server trusts for a name. entries: the webhook entries with this caBundle."""

    name: str
    bundle: Bundle
    entries: tuple[str, ...]

    @property
    def source(self) -> str:
        """The caBundle, for people."""
        return f"the caBundle of {listed(self.entries)}"


def trusts(
    configurations: Mapping[str, Sequence[JsonObject]], settings: Settings
) -> tuple[list[TrustedBundle], list[Diagnosis]]:
    """The trusted bundles, one for entries with the same caBundle, and diagnoses of invalid caBundles.

    configurations: their entries by place. If somebody else makes the certificates and there is no caBundle, the API
    server's own roots count. They are unknown, so the bundle is empty.
    """
    entries_by_trust: dict[tuple[str, str], list[str]] = {}
    for where, entries in configurations.items():
        for entry in entries:
            client = mapping(entry, "clientConfig")
            key = dialled_by(client), str(client.get("caBundle") or "")
            entries_by_trust.setdefault(key, []).append(f"{where} {entry.get('name')}")
    made, wrong = [], []
    for (name, encoded), names in entries_by_trust.items():
        try:
            made.append(TrustedBundle(name, _bundle(encoded), tuple(names)))
        except PemError as error:
            wrong.append(_unusable(names, f"the caBundle cannot be read: {error}", settings))
        if not encoded and not _uses_system_roots(settings):
            wrong.append(
                _unusable(names, "it has no caBundle, so the API server trusts only its own root CAs", settings)
            )
    return made, wrong


def check(
    served: Sequence[ShownChain], trusted: Sequence[TrustedBundle], settings: Settings, now: datetime, *, proven: bool
) -> Iterator[Diagnosis]:
    """Diagnoses of the certificates at each address, compared with what the API server trusts.

    proven: whether the API server is known to reach the service; then an address is only unreachable from here.
    """
    for shown in served:
        where = shown.target.where
        if isinstance(shown.chain, Unread):
            yield _unreached(where, shown.chain, settings, proven=proven)
        else:
            yield from _shown(where, shown.target.name, shown.chain, trusted, settings, now)
    yield from _mixed(served)
    yield from _authorities(served, trusted, settings, now)


def check_secret(
    secret: Read[Mapping[str, bytes] | None], trusted: Sequence[TrustedBundle], settings: Settings, now: datetime
) -> Iterator[Diagnosis]:
    """Diagnoses of the Secret with the shared CA, if the settings name one."""
    if not settings.tls.secret:
        return
    where = f"Secret {settings.cluster.namespace}/{settings.tls.secret}"
    if isinstance(secret, Unread):
        yield unseen(CHECK, where, secret)
        return
    if secret is None:
        remedy = f'{_holder(settings)} creates it; if it does not, look for "certificate not renewed" in its log'
        yield Diagnosis(CHECK, "problem", where, "it does not exist, so no replica has a certificate", remedy)
        return
    try:
        stored = find_authority(secret)
    except ForeignFileError as error:
        remedy = (
            f"{_holder(settings)} creates a CA in its place; if something else uses this Secret, choose another name "
            "for tls.secret"
        )
        yield Diagnosis(CHECK, "problem", where, str(error), remedy)
        return
    if stored.pair is None:
        remedy = f'{_holder(settings)} creates a new CA; if it does not, look for "certificate not renewed" in its log'
        yield Diagnosis(CHECK, "problem", where, stored.problem, remedy)
        return
    yield from _stored(where, stored.pair.certificate, trusted, settings, now)


def check_leaf(secret: Read[Mapping[str, bytes] | None], settings: Settings, now: datetime) -> Iterator[Diagnosis]:
    """Diagnoses of the Secret with the certificate that replicas mount, if manage makes it."""
    if not (settings.manage.apart and settings.manage.secret):
        return
    where = f"Secret {settings.cluster.namespace}/{settings.manage.secret}"
    remedy = 'manage writes it; if it does not, look for "certificate not renewed" in its log'
    if isinstance(secret, Unread):
        yield unseen(CHECK, where, secret)
        return
    if not secret:
        text = "it is empty" if secret is not None else "it does not exist"
        yield Diagnosis(CHECK, "problem", where, f"{text}, so no replica has a certificate and none is ready", remedy)
        return
    try:
        stored = find_leaf(secret)
    except ForeignFileError as error:
        yield Diagnosis(CHECK, "problem", where, str(error), remedy)
        return
    if stored.pair is None:
        yield Diagnosis(CHECK, "problem", where, stored.problem, remedy)
        return
    leaf = stored.pair.certificate
    end = f"{moment(leaf.not_valid_after_utc)} ({span(leaf.not_valid_after_utc - now)} left)"
    if now > leaf_renewal_due(leaf):
        yield Diagnosis(CHECK, "warning", where, f"its certificate is overdue for renewal; it ends on {end}", remedy)
    else:
        yield Diagnosis(CHECK, "ok", where, f"its certificate is valid until {end}")


def _holder(settings: Settings) -> str:
    return "manage" if settings.manage.apart else "the replica that holds the Lease"


def _stored(
    where: str, authority: Certificate, trusted: Sequence[TrustedBundle], settings: Settings, now: datetime
) -> Iterator[Diagnosis]:
    unknown = [trust for trust in trusted if authority not in trust.bundle]
    for trust in unknown:
        remedy = f'{_holder(settings)} adds it; if it does not, look for "not registered" in its log'
        yield Diagnosis(CHECK, "problem", where, f"its CA is not in {trust.source}", remedy)
    if not unknown:
        end = f"until {moment(authority.not_valid_after_utc)}"
        if now > authority_renewal_due(authority):
            remedy = f"{_holder(settings)} renews it at two thirds of its lifetime; see its log"
            yield Diagnosis(CHECK, "warning", where, f"its CA is overdue for renewal; it is valid {end}", remedy)
        else:
            yield Diagnosis(CHECK, "ok", where, f"its CA is in every caBundle and is valid {end}")


def _unusable(names: Sequence[str], text: str, settings: Settings) -> Diagnosis:
    where, more = names[0], f" (and {count(len(names) - 1, 'more entry', 'more entries')})" if len(names) > 1 else ""
    return Diagnosis(CHECK, "problem", where, f"{text}{more}", _bundle_remedy(settings))


def _bundle_remedy(settings: Settings) -> str:
    chosen = settings.registration
    if chosen.inject_ca_from:
        return f"cert-manager's cainjector writes it: see its log, and the Certificate {chosen.inject_ca_from}"
    if chosen.apply or chosen.ca_only:
        return 'the running service writes it; if it does not, look for "not registered" in its log'
    return "write it: cks-admission export webhook-configuration --ca-file ..."


def _uses_system_roots(settings: Settings) -> bool:
    registration = settings.registration
    return _is_others(settings) and not (registration.ca_file or registration.inject_ca_from)


def _is_others(settings: Settings) -> bool:
    """Whether somebody else makes the certificate."""
    return bool(settings.tls.cert_file) and not (settings.manage.apart and settings.manage.secret)


def _bundle(encoded: str) -> Bundle:
    """The CAs of a caBundle. Raises PemError."""
    if not encoded:
        return Bundle()
    try:
        return Bundle.from_pem(base64.b64decode(encoded, validate=True))
    except binascii.Error as error:
        raise PemError(f"it is not base64: {error}") from None


def _unreached(where: str, unread: Unread, settings: Settings, *, proven: bool) -> Diagnosis:
    if proven:
        text = f"it cannot be reached from here: {unread.reason}; the API server can reach it"
        return Diagnosis(CHECK, "unknown", where, text, _inside(settings))
    if settings.registration.url or settings.cluster.in_cluster:
        remedy = "check that the service runs, listens on this address and accepts connections"
        return Diagnosis(CHECK, "problem", where, f"it cannot be reached: {unread.reason}", remedy)
    return Diagnosis(CHECK, "unknown", where, f"it cannot be reached from here: {unread.reason}", _inside(settings))


def _inside(settings: Settings) -> str:
    if settings.registration.url:
        return "run doctor where the API server runs"
    where = f"kubectl exec -n {settings.cluster.namespace} deploy/cks-admission"
    return f"run doctor inside the cluster: {where} -- cks-admission doctor --config config/cks.yaml"


def _shown(
    where: str,
    name: str,
    chain: tuple[Certificate, ...],
    trusted: Sequence[TrustedBundle],
    settings: Settings,
    now: datetime,
) -> Iterator[Diagnosis]:
    leaf = chain[0]
    chosen = [trust for trust in trusted if trust.name == name]
    wrong = dict.fromkeys(
        f"{finding.text}; checked against {trust.source}" if trust.bundle else finding.text
        for trust in chosen or [TrustedBundle(name, Bundle(), ())]
        # Without a caBundle the API server's roots decide, and only names and dates can be judged.
        for finding in verify(chain, trust.bundle or Bundle((leaf,)), [name], now)
        if not finding.ok
    )
    for text in wrong:
        yield Diagnosis(CHECK, "problem", where, text, _leaf_remedy(settings))
    if wrong:
        return
    left, end = leaf.not_valid_after_utc - now, moment(leaf.not_valid_after_utc)
    if left < min(LEAF_LEFT, _life(leaf) / 3):
        summary = f"its certificate expires in {span(left)}, at {end}"
        yield Diagnosis(CHECK, "warning", where, summary, _leaf_remedy(settings))
        return
    summary = f"its certificate is for {name}, {_vouched(chosen)}, and valid until {end} ({span(left)} left)"
    yield Diagnosis(CHECK, "ok", where, summary)


def _vouched(chosen: Sequence[TrustedBundle]) -> str:
    """A description of who trusts a valid certificate."""
    if not chosen:
        return "checked against no caBundle, since none is known"
    if any(trust.bundle for trust in chosen):
        return "trusted by every caBundle"
    return "trusted if the API server's own root CAs trust it"


def _leaf_remedy(settings: Settings) -> str:
    if _is_others(settings):
        return f'renew {settings.tls.cert_file}; if the service cannot use it, its log says "certificate refused"'
    return 'the service renews it; if it does not, look for "certificate not renewed" or "not registered" in its log'


def _mixed(served: Iterable[ShownChain]) -> Iterator[Diagnosis]:
    """A diagnosis if different CAs signed the replicas' certificates."""
    by_issuer: dict[str, list[str]] = {}
    name = ""
    for shown in served:
        if not isinstance(shown.chain, Unread):
            name = shown.target.name
            by_issuer.setdefault(_issuer(shown.chain[0]), []).append(shown.target.where)
    if len(by_issuer) > 1:
        text = "; ".join(f"{issuer} for {listed(places)}" for issuer, places in by_issuer.items())
        remedy = (
            "this is normal for a moment while a CA is replaced; if it lasts, each replica has a CA of its own: "
            "set tls.secret to let them share one"
        )
        yield Diagnosis(CHECK, "warning", name, f"its certificates are signed by different CAs: {text}", remedy)


def _authorities(
    served: Sequence[ShownChain], trusted: Sequence[TrustedBundle], settings: Settings, now: datetime
) -> Iterator[Diagnosis]:
    """CAs of a caBundle that are in use and expire soon; expired ones are reported for each address."""
    certificates = [
        certificate for shown in served if not isinstance(shown.chain, Unread) for certificate in shown.chain
    ]
    for trust in trusted:
        signing = [ca for ca in trust.bundle if any(issued_by(certificate, ca) for certificate in certificates)]
        # A CA that was renewed with its old key is in the bundle twice: the later one counts.
        last = max(signing, key=lambda ca: ca.not_valid_after_utc, default=None)
        if last is None or not timedelta() < (left := last.not_valid_after_utc - now) < min(
            AUTHORITY_LEFT, _life(last) / 3
        ):
            continue
        text = f"{titled(last.subject)} in {trust.source} expires in {span(left)}"
        remedy = (
            "replace the CA"
            if _is_others(settings)
            else "the service renews it at two thirds of its lifetime; see its log"
        )
        yield Diagnosis(CHECK, "warning", trust.name, text, remedy)


def _life(certificate: Certificate) -> timedelta:
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc


def _issuer(leaf: Certificate) -> str:
    """The issuer of a leaf, including its key identifier, which distinguishes CAs with the same name."""
    try:
        key = leaf.extensions.get_extension_for_class(AuthorityKeyIdentifier).value.key_identifier or b""
    except ExtensionNotFound:
        key = b""
    return f"{titled(leaf.issuer)}{f' ({key.hex()[:12]})' if key else ''}"
