"""The settings of the kinds of processes: replicas answer reviews, manage writes what they share, place places gangs.

All read one configuration. What does not run apart, a replica does itself. Pure.
"""

from __future__ import annotations

from webhook.configuration.rulesettings import Selector
from webhook.configuration.settings import Settings, SettingsError


def of_replica(settings: Settings) -> Settings:
    """The settings of a replica: if manage runs apart, without a CA and without a registration of its own.

    Raises SettingsError if it would have no certificate.
    """
    if not settings.manage.apart:
        if settings.tls.secret:
            raise SettingsError(
                "tls.secret is where manage keeps the CA: set manage.apart to true, or leave it empty and give "
                "tls.directory, or tls.certFile and tls.keyFile"
            )
        return settings
    if settings.tls.secret and not settings.tls.cert_file:
        raise SettingsError(
            "manage.apart: replicas read no Secret; mount the Secret that manage.secret names, and give its files as "
            "tls.certFile and tls.keyFile"
        )
    registration = settings.registration.model_copy(update={"apply": False, "ca_only": False, "owner": ""})
    tls = settings.tls.model_copy(update={"secret": ""})
    return settings.model_copy(update={"registration": registration, "tls": tls})


def of_manager(settings: Settings) -> Settings:
    """The settings of manage: without the replicas' files. Raises SettingsError if it has nothing to work with."""
    _check("manage", settings, apart=settings.manage.apart)
    if bool(settings.tls.secret) != bool(settings.manage.secret):
        raise SettingsError(
            "tls.secret and manage.secret belong together: the one is for the CA, the other one for the certificate "
            "that it signs; give both or neither"
        )
    tls = settings.tls.model_copy(update={"cert_file": "", "key_file": "", "client_ca_file": ""})
    return settings.model_copy(update={"tls": tls})


def of_placer(settings: Settings) -> Settings:
    """The settings of the placer: without the replicas' files. Raises SettingsError if it has nothing to work with."""
    _check("place", settings, apart=settings.place.apart)
    tls = settings.tls.model_copy(update={"cert_file": "", "key_file": "", "client_ca_file": "", "secret": ""})
    return settings.model_copy(update={"tls": tls})


def _check(verb: str, settings: Settings, *, apart: bool) -> None:
    if not apart:
        raise SettingsError(f"{verb}.apart is false, so that serve does this work itself; set it to true for both")
    if not settings.cluster.is_given:
        raise SettingsError(f"{verb} needs a cluster: set cluster.kubeconfig or cluster.inCluster")


def places(settings: Settings) -> bool:
    """Whether a replica places gangs itself: there is a cluster, no placer of its own, and Pods may get gates."""
    return settings.cluster.is_given and gates(settings) and not settings.place.apart


def gates(settings: Settings) -> bool:
    """Whether Pods may get gates, which somebody has to open."""
    if settings.topology.action == "off":
        return False
    entries = settings.topology.placement
    is_complete = any("*" in entry.topologies and entry.namespace_selector == Selector() for entry in entries)
    return not is_complete or any("gate" in entry.ways for entry in entries)
