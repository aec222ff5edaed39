"""Checks whether the API server reaches the service: its address, its certificates, and a write that is refused."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from cryptography.x509 import AuthorityKeyIdentifier, Certificate, ExtensionNotFound
from msgspec import Struct

from certs.errors import ForeignFileError, PemError
from certs.material import Bundle, issued_by, moment, span, titled
from certs.plan import authority_renewal_due, find_authority, find_leaf, leaf_renewal_due
from certs.verify import verify
from policies.engine import engine
from policies.engine.facts import NAME_LABEL, StaticFacts
from policies.engine.request import JsonObject, UserInfo, mapping
from policies.engine.rule import RuleSet
from policies.engine.safety import service_account
from policies.engine.violation import listed
from policies.labelpolicy import PROBE, REFUSAL
from policies.labels import SUMMARY
from webhook.configuration.settings import Settings
from webhook.doctor.observation import Check, Diagnosis, Endpoint, Probe, Read, ShownChain, Unread, count
from webhook.files import manifest
from webhook.registration.configurations import DOMAIN, STATIC, static_policies

_ADDRESS: Final = Check("address")
_CERTIFICATE: Final = Check("certificate")
_PROBE: Final = Check("probe")

_HTTPS: Final = 443
_MOST: Final = 16  # replicas to connect to
# A leaf of the service's own lives for a week and is renewed with half of that left; a CA for a year.
_LEAF_LEFT: Final = timedelta(days=3)
_AUTHORITY_LEFT: Final = timedelta(days=30)


def dialled(settings: Settings) -> Endpoint:
    """The address that the API server calls according to the settings."""
    chosen = settings.registration
    if chosen.url:
        return _of_url(chosen.url)
    name = f"{chosen.service}.{settings.cluster.namespace}.svc"
    return Endpoint(name, name, chosen.service_port)


def dialled_by(client: JsonObject) -> str:
    """The name that the API server calls for an entry's clientConfig; empty if it has neither URL nor Service."""
    if service := mapping(client, "service"):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    return _of_url(str(client.get("url", ""))).name


def targets(settings: Settings, service: Read[JsonObject | None], slices: Read[Sequence[JsonObject]]) -> list[Endpoint]:
    """Addresses to check: the one that is called, and each known replica behind a Service."""
    first = dialled(settings)
    if settings.registration.url or isinstance(service, Unread) or service is None or isinstance(slices, Unread):
        return [first]
    port = _port(service, first.port)
    endpoints = [] if port is None else _endpoints(slices, port)
    return [first, *(Endpoint(first.name, host, number) for host, number in endpoints[:_MOST])]


def check_address(
    settings: Settings, service: Read[JsonObject | None], slices: Read[Sequence[JsonObject]]
) -> Iterator[Diagnosis]:
    """Whether the Service exists, has the right port, and has ready replicas."""
    if settings.registration.url:
        return
    number, namespace = settings.registration.service_port, settings.cluster.namespace
    where = f"Service {namespace}/{settings.registration.service}"
    if isinstance(service, Unread):
        yield _ADDRESS.unread(where, service)
    elif service is None:
        text = "it does not exist, so the API server cannot reach the service"
        yield _ADDRESS.problem(where, text, "create it, or correct registration.service and cluster.namespace")
    elif (port := _port(service, number)) is None:
        ports = ", ".join(str(entry.get("port")) for entry in mapping(service, "spec").get("ports") or ())
        remedy = "set registration.servicePort to a port of the Service, or add this port to the Service"
        text = f"it has no port {number}, " + (f"only {ports}" if ports else "nor any other")
        yield _ADDRESS.problem(where, text, remedy)
    elif isinstance(slices, Unread):
        yield _ADDRESS.unread(where, slices)
    elif ready := _endpoints(slices, port):
        yield _ADDRESS.ok(where, f"port {number} leads to {count(len(ready), 'ready replica')}")
    else:
        text = "it has no ready endpoints, so the API server cannot reach the service"
        remedy = f"see kubectl get pods -n {namespace}; /readyz of each Pod says why it is not ready"
        yield _ADDRESS.problem(where, text, remedy)


def _of_url(url: str) -> Endpoint:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return Endpoint(host, host, parts.port or _HTTPS)


def _port(service: JsonObject, number: int) -> JsonObject | None:
    ports = mapping(service, "spec").get("ports") or ()
    return next((port for port in ports if port.get("port") == number), None)


def _endpoints(slices: Sequence[JsonObject], port: JsonObject) -> list[tuple[str, int]]:
    """Address and port of each replica that is ready. A port of a slice has the name of the Service's."""
    endpoints: dict[tuple[str, int], None] = {}
    name = port.get("name") or ""
    for part in slices:
        numbers = [p["port"] for p in part.get("ports") or () if (p.get("name") or "") == name]
        for endpoint in part.get("endpoints") or ():
            # An absent value means ready: discovery.k8s.io/v1 EndpointConditions.
            if mapping(endpoint, "conditions").get("ready") is not False:
                endpoints |= {(address, number): None for address in endpoint["addresses"][:1] for number in numbers}
    return list(endpoints)


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
    chosen, made, wrong = settings.registration, [], []
    uses_system_roots = _is_others(settings) and not (chosen.ca_file or chosen.inject_ca_from)
    remedy = "write it: cks-admission export webhook-configuration --ca-file ..."
    if chosen.inject_ca_from:
        remedy = f"cert-manager's cainjector writes it: see its log, and the Certificate {chosen.inject_ca_from}"
    elif chosen.writes:
        remedy = 'the running service writes it; if it does not, look for "not registered" in its log'
    for (name, encoded), names in entries_by_trust.items():
        text = ""
        try:
            bundle = Bundle.from_pem(base64.b64decode(encoded, validate=True)) if encoded else Bundle()
            made.append(TrustedBundle(name, bundle, tuple(names)))
        except PemError as error:
            text = f"the caBundle cannot be read: {error}"
        except binascii.Error as error:
            text = f"the caBundle cannot be read: it is not base64: {error}"
        if not encoded and not uses_system_roots:
            text = "it has no caBundle, so the API server trusts only its own root CAs"
        if text:
            more = f" (and {count(len(names) - 1, 'more entry', 'more entries')})" if len(names) > 1 else ""
            wrong.append(_CERTIFICATE.problem(names[0], f"{text}{more}", remedy))
    return made, wrong


def check_certificates(
    served: Sequence[ShownChain], trusted: Sequence[TrustedBundle], settings: Settings, now: datetime, *, proven: bool
) -> Iterator[Diagnosis]:
    """Diagnoses of the certificates at each address, compared with what the API server trusts.

    proven: whether the API server is known to reach the service; then an address is only unreachable from here.
    """
    chains = [(shown.target, shown.chain) for shown in served if not isinstance(shown.chain, Unread)]
    for shown in served:
        if isinstance(shown.chain, Unread):
            yield _unreached(shown.target.where, shown.chain, settings, proven=proven)
        else:
            yield from _shown(shown.target, shown.chain, trusted, settings, now)

    # Different CAs may have signed the replicas' certificates.
    by_issuer: dict[str, list[str]] = {}
    for target, chain in chains:
        leaf, key = chain[0], b""
        with suppress(ExtensionNotFound):  # the identifier distinguishes CAs with the same name
            key = leaf.extensions.get_extension_for_class(AuthorityKeyIdentifier).value.key_identifier or b""
        issuer = f"{titled(leaf.issuer)}{f' ({key.hex()[:12]})' if key else ''}"
        by_issuer.setdefault(issuer, []).append(target.where)
    if len(by_issuer) > 1:
        text = "; ".join(f"{issuer} for {listed(places)}" for issuer, places in by_issuer.items())
        remedy = (
            "this is normal for a moment while a CA is replaced; if it lasts, each replica has a CA of its own: "
            "let manage make one for all (manage.apart)"
        )
        yield _CERTIFICATE.warn(chains[-1][0].name, f"its certificates are signed by different CAs: {text}", remedy)

    # CAs of a caBundle that are in use may expire soon; expired ones are reported for each address.
    remedy = "the service renews it at two thirds of its lifetime; see its log"
    for trust in trusted:
        signing = [ca for ca in trust.bundle if any(issued_by(shown, ca) for _, chain in chains for shown in chain)]
        # A CA that was renewed with its old key is in the bundle twice: the later one counts.
        last = max(signing, key=lambda ca: ca.not_valid_after_utc, default=None)
        left = timedelta() if last is None else last.not_valid_after_utc - now
        if last is not None and timedelta() < left < min(_AUTHORITY_LEFT, _life(last) / 3):
            text = f"{titled(last.subject)} in {trust.source} expires in {span(left)}"
            yield _CERTIFICATE.warn(trust.name, text, "replace the CA" if _is_others(settings) else remedy)


_LOG: Final = 'if it does not, look for "{}" in its log'
_WRITES: Final = f"manage writes it; {_LOG.format('certificate not renewed')}"


def check_secrets(
    authority: Read[Mapping[str, bytes] | None],
    leaf: Read[Mapping[str, bytes] | None],
    trusted: Sequence[TrustedBundle],
    settings: Settings,
    now: datetime,
) -> Iterator[Diagnosis]:
    """Diagnoses of the Secrets with the shared CA and with the certificate that manage makes, if the settings do so."""
    secrets = [("tls.secret", settings.tls.secret, authority, find_authority)]
    if settings.manage.apart:
        secrets.append(("manage.secret", settings.manage.secret, leaf, find_leaf))
    for key, name, secret, find in secrets:
        where = f"Secret {settings.cluster.namespace}/{name}"
        if not name:
            continue
        if isinstance(secret, Unread):
            yield _CERTIFICATE.unread(where, secret)
            continue
        if not secret:
            text = "it does not exist" if secret is None else "it is empty"
            yield _CERTIFICATE.problem(where, f"{text}, so no replica has a certificate", _WRITES)
            continue
        try:
            stored = find(secret)
        except ForeignFileError as error:
            remedy = f"{_WRITES}. If something else uses this Secret, choose another name for {key}"
            yield _CERTIFICATE.problem(where, str(error), remedy)
            continue
        if stored.pair is None:
            yield _CERTIFICATE.problem(where, stored.problem, _WRITES)
        elif find is find_leaf:
            left = f"{moment(stored.pair.not_after)} ({span(stored.pair.not_after - now)} left)"
            if now > leaf_renewal_due(stored.pair.certificate):
                yield _CERTIFICATE.warn(where, f"its certificate is overdue for renewal; it ends on {left}", _WRITES)
            else:
                yield _CERTIFICATE.ok(where, f"its certificate is valid until {left}")
        else:
            yield from _check_authority(where, stored.pair.certificate, trusted, now)


def _check_authority(
    where: str, authority: Certificate, trusted: Sequence[TrustedBundle], now: datetime
) -> Iterator[Diagnosis]:
    unknown = [trust for trust in trusted if authority not in trust.bundle]
    for trust in unknown:
        remedy = f"manage adds it; {_LOG.format('not registered')}"
        yield _CERTIFICATE.problem(where, f"its CA is not in {trust.source}", remedy)
    end = moment(authority.not_valid_after_utc)
    if not unknown and now > authority_renewal_due(authority):
        remedy = "manage renews it at two thirds of its lifetime; see its log"
        yield _CERTIFICATE.warn(where, f"its CA is overdue for renewal; it is valid until {end}", remedy)
    elif not unknown:
        yield _CERTIFICATE.ok(where, f"its CA is in every caBundle and is valid until {end}")


def _is_others(settings: Settings) -> bool:
    return bool(settings.tls.cert_file) and not (settings.manage.apart and settings.manage.secret)


def _unreached(where: str, unread: Unread, settings: Settings, *, proven: bool) -> Diagnosis:
    pod = f"kubectl exec -n {settings.cluster.namespace} deploy/cks-admission"
    inside = f"run doctor inside the cluster: {pod} -- cks-admission doctor --config config/cks.yaml"
    if settings.registration.url:
        inside = "run doctor where the API server runs"
    if proven:
        text = f"it cannot be reached from here: {unread.reason}; the API server can reach it"
        return _CERTIFICATE.unknown(where, text, inside)
    if settings.registration.url or settings.cluster.in_cluster:
        remedy = "check that the service runs, listens on this address and accepts connections"
        return _CERTIFICATE.problem(where, f"it cannot be reached: {unread.reason}", remedy)
    return _CERTIFICATE.unknown(where, f"it cannot be reached from here: {unread.reason}", inside)


def _shown(
    target: Endpoint,
    chain: tuple[Certificate, ...],
    trusted: Sequence[TrustedBundle],
    settings: Settings,
    now: datetime,
) -> Iterator[Diagnosis]:
    leaf, name = chain[0], target.name
    remedy = 'the service renews it; if it does not, look for "certificate not renewed" or "not registered" in its log'
    if _is_others(settings):
        remedy = f'renew {settings.tls.cert_file}; if the service cannot use it, its log says "certificate refused"'
    chosen = [trust for trust in trusted if trust.name == name]
    wrong = dict.fromkeys(
        f"{finding.text}; checked against {trust.source}" if trust.bundle else finding.text
        for trust in chosen or [TrustedBundle(name, Bundle(), ())]
        # Without a caBundle the API server's roots decide, and only names and dates can be judged.
        for finding in verify(chain, trust.bundle or Bundle((leaf,)), [name], now)
        if not finding.ok
    )
    left, end = leaf.not_valid_after_utc - now, moment(leaf.not_valid_after_utc)
    if wrong:
        yield from (_CERTIFICATE.problem(target.where, text, remedy) for text in wrong)
        return
    if left < min(_LEAF_LEFT, _life(leaf) / 3):
        yield _CERTIFICATE.warn(target.where, f"its certificate expires in {span(left)}, at {end}", remedy)
        return
    vouched = "trusted if the API server's own root CAs trust it"
    if not chosen:
        vouched = "checked against no caBundle, since none is known"
    elif any(trust.bundle for trust in chosen):
        vouched = "trusted by every caBundle"
    text = f"its certificate is for {name}, {vouched}, and valid until {end} ({span(left)} left)"
    yield _CERTIFICATE.ok(target.where, text)


def _life(certificate: Certificate) -> timedelta:
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc


def probe_object(namespace: str) -> JsonObject:
    """A ConfigMap with a label that is reserved."""
    metadata = {"name": "cks-admission-doctor", "namespace": namespace, "labels": {PROBE: "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def is_refused(
    ruleset: RuleSet, namespace: str, user: UserInfo, namespaces: Mapping[str, Mapping[str, str]], today: date
) -> bool:
    """Whether the rules would refuse the probe of a user. namespaces: labels by name."""
    request = manifest.request(probe_object(namespace), None, user=user, namespace=namespace)
    needed = (namespace, service_account(user.username)[0])
    known = {name: namespaces.get(name, {NAME_LABEL: name}) for name in needed if name}
    return not engine.validate(request, ruleset, StaticFacts(today, known)).allowed


def is_answered(probe: Read[Probe] | None) -> bool:
    """Whether the service refused the probe, so that the API server is known to reach it."""
    return isinstance(probe, Probe) and f'.{DOMAIN}" denied the request' in probe.message


def check_probe(probe: Read[Probe], settings: Settings, *, should_refuse: Read[bool]) -> Iterator[Diagnosis]:
    """The diagnosis of the answer to the probe. should_refuse: whether it should have been refused."""
    where = "ConfigMap with a reserved label, dry run"
    if isinstance(probe, Unread):
        yield _PROBE.unread(where, probe)
        return
    where = f"{where} in namespace {probe.namespace}"
    if probe.status < 400 and isinstance(should_refuse, Unread):
        text = f"it was admitted, but whether that is correct is unknown: {should_refuse.reason}"
        yield _PROBE.unknown(where, text, "see the findings about policies and rights")
    elif probe.status < 400 and should_refuse:
        remedy = "see the findings about the registration; after a change the API server needs a few seconds"
        yield _PROBE.problem(where, "it was admitted: the API server did not call the service", remedy)
    elif probe.status < 400:
        text = "it was admitted, as the settings allow for this user and Namespace, so it proves nothing"
        yield _PROBE.unknown(where, text, "use an account that is not exempt from the labels rule")
    elif is_answered(probe):
        yield _PROBE.ok(where, "the service refused it: the API server calls the service and gets its answer")
    elif SUMMARY in probe.message and (refusal := REFUSAL.search(probe.message)):
        yield _by_policy(where, refusal["policy"], refusal["binding"], settings)
    elif f'.{DOMAIN}"' in probe.message:
        text = f"the API server could not call the service: {probe.message}"
        yield _PROBE.problem(where, text, "see the findings about the address and the certificate")
    else:
        text = f"something else refused it first: {probe.message}"
        if "configmaps is forbidden" in probe.message:
            text = "the current account may not create configmaps"
        remedy = "use an account that may create configmaps there, or choose another Namespace with --probe-namespace"
        yield _PROBE.unknown(where, text, remedy)


def is_static(probe: Read[Probe] | None) -> bool:
    """Whether the probe was refused by a policy in files of the API server."""
    refusal = REFUSAL.search(probe.message) if isinstance(probe, Probe) else None
    return refusal is not None and refusal["policy"].endswith(STATIC)


def _by_policy(where: str, policy: str, binding: str, settings: Settings) -> Diagnosis:
    is_chosen, export = settings.labels.enforced_by == "static", "cks-admission export static"
    if not policy.endswith(STATIC):
        if is_chosen:
            text = "the service's policy refused it, and none in files of the API server: labels.enforcedBy is static"
            return _PROBE.warn(where, text, f"have every kube-apiserver read what {export} writes")
        return _PROBE.ok(where, "the API server refused it itself, by the policy of reserved labels")
    if binding not in {f"{one['metadata']['name']}{STATIC}" for one in static_policies(settings)}:
        text = f"the API server refused it by {policy} in its files, which are of other settings, or of another version"
        return _PROBE.warn(where, text, f"write them again: {export}")
    more = "" if is_chosen else "; with labels.enforcedBy: static, the service writes none beside it"
    return _PROBE.ok(where, f"the API server refused it itself, by the policy in its files{more}")
