"""TLS: the options in a URL, checked before anything is sent; and what failures mean, in one sentence each."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from presence_core.errors import InvalidArgument

FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""The options that name a file. In the environment: PRESENCE_REDIS_SSL_CA_CERTS and so on."""

_OTHERS: Final = ("ssl_ca_path", "ssl_password", "ssl_check_hostname", "ssl_cert_reqs", "ssl_ciphers")
_NO: Final = ("0", "f", "false", "n", "no")
_YES: Final = ("1", "t", "true", "y", "yes")

_REFUSALS: Final = (
    (("mismatch, certificate is not valid", "Hostname mismatch"),
     "has a certificate for another name: use the host name in the certificate ({detail})"),
    (("CERTIFICATE_VERIFY_FAILED",), "has a certificate that is not trusted: is ssl_ca_certs its CA? ({detail})"),
    (("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"),
     "requires a client certificate: set ssl_certfile and ssl_keyfile"),
    (("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_UNKNOWN"),
     "does not trust the client certificate ({detail})"),
    (("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"),
     "does not speak TLS on this port: use redis://, or its TLS port"),
)  # fmt: skip
_SILENT: Final = ("timeout", "timed out", "timeouterror")
_SHUT: Final = ("reset by peer", "closed by server", "server closed", "broken pipe", 'got "\\x15"')


def in_url(url: str) -> dict[str, Any]:
    """The ssl_… options of a URL, for redis-py. Raises InvalidArgument, so that a typing error neither turns a check
    off nor fails only at the first call."""
    given = {
        name: value
        for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True)
        if name.startswith("ssl") and name != "ssl"
    }
    for name in given:
        if name not in FILES + _OTHERS:
            raise InvalidArgument("url", f"must have only known ssl options: {', '.join(FILES + _OTHERS)}")
    if not speaks_tls(url):
        for name in given:
            raise InvalidArgument("url", f"must begin with rediss to have {name}")
        return {}
    # The default of redis-py 5 does not check the host name.
    options: dict[str, Any] = {"ssl_check_hostname": given.get("ssl_cert_reqs") != "none", **given}
    if "ssl_check_hostname" in given:
        choice = given["ssl_check_hostname"].lower()
        if choice not in _YES + _NO:
            raise InvalidArgument("ssl_check_hostname", "must be true or false")
        options["ssl_check_hostname"] = choice in _YES
    if given.get("ssl_cert_reqs", "required") not in ("required", "none"):
        raise InvalidArgument("ssl_cert_reqs", 'must be "required" or "none"')
    _try_files(given)
    return options


def speaks_tls(url: str) -> bool:
    """Whether the URL asks for TLS."""
    return url.partition("://")[0].startswith("rediss")


def _try_files(given: Mapping[str, str]) -> None:
    """Read the files that are named, as each connection will."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        raise InvalidArgument("ssl_certfile", "must be given with ssl_keyfile", "required")
    for name in FILES:
        if name in given:
            try:
                with Path(given[name]).open("rb"):
                    pass
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "no path"
                raise InvalidArgument(name, f"must be a file that can be read ({why})", "unusable_file") from None
    try:
        if "ssl_ca_certs" in given:
            context.load_verify_locations(given["ssl_ca_certs"])
    except OSError:  # an SSLError is one
        raise InvalidArgument("ssl_ca_certs", "must be a file of CA certificates, in PEM", "unusable_file") from None
    if "ssl_certfile" in given:
        password = given.get("ssl_password", "")  # never None: OpenSSL would ask for it on the terminal
        try:
            context.load_cert_chain(given["ssl_certfile"], given.get("ssl_keyfile"), password)
        except OSError as error:
            if "MISMATCH" in str(error):
                raise InvalidArgument("ssl_keyfile", "must be the key of ssl_certfile") from None
            raise InvalidArgument("ssl_certfile", "and ssl_keyfile must be a certificate and its key, in PEM") from None


def with_files(url: str, environ: Mapping[str, str]) -> str:
    """The URL with the files that PRESENCE_REDIS_SSL_… name, unless the URL names them itself."""
    in_query = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    for name in FILES:
        variable = f"PRESENCE_REDIS_{name.upper()}"
        value = environ.get(variable, "").strip()
        if not value:
            continue
        if not speaks_tls(url):
            raise InvalidArgument(variable, "must come with a PRESENCE_REDIS_URL that begins with rediss", "required")
        if name not in in_query:
            url += f"{'&' if '?' in url else '?'}{name}={quote(value)}"
    return url


def is_refusal(error: BaseException) -> bool:
    """Whether the certificates do not match: another attempt would only take time."""
    text = str(error)
    return any(word in text for words, _ in _REFUSALS for word in words)


def explain_failure(text: str, *, uses_tls: bool) -> str | None:
    """What a failure to connect says about TLS, as the end of a sentence; None if it says nothing."""
    lower = text.lower()
    was_shut = any(word in lower for word in _SHUT)
    if not uses_tls:
        if was_shut:
            return f"closed the connection at once ({text}): if this port expects TLS, use rediss://"
        return None
    for words, sentence in _REFUSALS:
        if any(word in text for word in words):
            return sentence.format(detail=_detail(text))
    if any(word in lower for word in _SILENT):
        return "did not answer the TLS handshake in time: it is unreachable, or this port does not speak TLS"
    if was_shut or "EOF occurred" in text:
        return "closed the connection during the TLS handshake: does it require a client certificate (ssl_certfile)?"
    return None


def _detail(text: str) -> str:
    """OpenSSL's own words, without the place in its source."""
    detail = text.rpartition("certificate verify failed: ")[2].partition("] ")
    return (detail[2] or detail[0]).partition(" (_ssl.c")[0].rstrip(".")
