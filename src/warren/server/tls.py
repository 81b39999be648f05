"""TLS of the listeners: 1.2 or later, and the name in a client's certificate for EXTERNAL."""

from __future__ import annotations

import ssl

from warren.config import Config
from warren.errors import WarrenError

_VERIFY_MODES = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def context_of(config: Config) -> ssl.SSLContext:
    """Of AMQP: clients may have to show a certificate of their own."""
    context = _server_context(config)
    context.verify_mode = _VERIFY_MODES[config.tls_verify]
    if config.tls_ca:
        try:
            context.load_verify_locations(config.tls_ca)
        except (OSError, ssl.SSLError) as error:
            raise WarrenError(f"cannot load tls_ca {config.tls_ca}: {error}") from error
    return context


def http_context_of(config: Config) -> ssl.SSLContext:
    """Of the management port: browsers log in with a password."""
    return _server_context(config)


def _server_context(config: Config) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key or None)
    except (OSError, ssl.SSLError) as error:
        raise WarrenError(f"cannot load tls_cert {config.tls_cert} and its key: {error}") from error
    return context


def reload(context: ssl.SSLContext, config: Config) -> None:
    """For those who connect from now on. Authorities that are trusted stay trusted: OpenSSL cannot take one back."""
    context.load_cert_chain(config.tls_cert, config.tls_key or None)
    if config.tls_ca and context.verify_mode != ssl.CERT_NONE:
        context.load_verify_locations(config.tls_ca)


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
