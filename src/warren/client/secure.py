"""TLS of a client: who the broker must prove to be, and who we are."""

from __future__ import annotations

import socket
import ssl

from warren.client.address import BrokerAddress
from warren.errors import WarrenError


def encrypt(stream: socket.socket, target: BrokerAddress) -> ssl.SSLSocket:
    try:
        context = _context_of(target)
    except WarrenError:
        stream.close()
        raise
    try:
        return context.wrap_socket(stream, server_hostname=target.server_name or target.host)
    except OSError as error:
        stream.close()
        raise WarrenError(f"no TLS with {target.place}: {error.strerror or error}") from error


def _context_of(target: BrokerAddress) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=target.ca_file or None)
    except OSError as error:
        raise WarrenError(f"cannot load cacertfile {target.ca_file}: {error.strerror or error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not target.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if target.certificate_file:
        try:
            context.load_cert_chain(target.certificate_file, target.key_file or None)
        except OSError as error:
            raise WarrenError(
                f"cannot load certfile {target.certificate_file} and its key: {error.strerror or error}"
            ) from error
    return context
