"""TLS of the listeners, between nodes and to etcd: 1.2 or later. The name in a client's certificate is for EXTERNAL."""

from __future__ import annotations

import ssl

from warren.config import Config
from warren.errors import WarrenError

_VERIFY_MODES = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def context_of(config: Config) -> ssl.SSLContext:
    """Of AMQP: clients may have to show a certificate of their own."""
    context = http_context_of(config)
    context.verify_mode = _VERIFY_MODES[config.tls_verify]
    if config.tls_ca:
        _trust(context, config, "tls")
    return context


def http_context_of(config: Config) -> ssl.SSLContext:
    """Of the management port: browsers log in with a password."""
    context = _bare(ssl.PROTOCOL_TLS_SERVER)
    _show(context, config, "tls")
    return context


class NodeTls:
    """Between nodes of a cluster: both show a certificate of the cluster's authority, and who calls looks whether it is
    for the host that was called."""

    def __init__(self, config: Config) -> None:
        self.answering = _bare(ssl.PROTOCOL_TLS_SERVER)
        self.answering.verify_mode = ssl.CERT_REQUIRED
        self.calling = _bare(ssl.PROTOCOL_TLS_CLIENT)
        self.reload(config)

    def reload(self, config: Config) -> None:
        for context in (self.answering, self.calling):
            _trust(context, config, "cluster")
            _show(context, config, "cluster")


def etcd_context_of(config: Config) -> ssl.SSLContext | None:
    """None where no address of it is https."""
    if not config.has_etcd_tls:
        return None
    context = _bare(ssl.PROTOCOL_TLS_CLIENT)
    reload_etcd(context, config)
    if not config.etcd_ca:
        context.load_default_certs()
    return context


def reload_etcd(context: ssl.SSLContext, config: Config) -> None:
    if config.etcd_ca:
        _trust(context, config, "etcd")
    if config.etcd_cert:
        _show(context, config, "etcd")


def _bare(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def _show(context: ssl.SSLContext, config: Config, kind: str) -> None:
    """The certificate and the key that the options of this kind name."""
    certificate = getattr(config, f"{kind}_cert")
    try:
        context.load_cert_chain(certificate, getattr(config, f"{kind}_key") or None)
    except (OSError, ssl.SSLError) as error:
        raise WarrenError(f"cannot load {kind}_cert {certificate} and its key: {error}") from error


def _trust(context: ssl.SSLContext, config: Config, kind: str) -> None:
    authorities = getattr(config, f"{kind}_ca")
    try:
        context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        raise WarrenError(f"cannot load {kind}_ca {authorities}: {error}") from error


def reload(context: ssl.SSLContext, config: Config) -> None:
    """For those who connect from now on. Authorities that are trusted stay trusted: OpenSSL cannot take one back."""
    _show(context, config, "tls")
    if config.tls_ca and context.verify_mode != ssl.CERT_NONE:
        _trust(context, config, "tls")


def certificate_end(config: Config) -> float | None:
    """When the server's certificate ends, in seconds of the epoch; None without one."""
    if not config.has_tls:
        return None
    # The only way to read a certificate that the standard library has: as an authority that one might trust.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(config.tls_cert)
    ends = [ssl.cert_time_to_seconds(str(each["notAfter"])) for each in context.get_ca_certs()]
    return min(ends, default=None)


def subject_of(encrypted: ssl.SSLObject | None) -> str | None:
    """The common name of the certificate that the client showed and an authority vouched for."""
    if encrypted is None:
        return None
    # Empty for a certificate that was not verified, so an unproven name never gets further.
    certificate = encrypted.getpeercert()
    if not certificate:
        return None
    for relative_name in certificate.get("subject", ()):
        for attribute in relative_name:
            if attribute[0] == "commonName":
                return str(attribute[1])
    return None
