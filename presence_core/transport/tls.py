"""TLS: what a URL says of it, checked before anything is sent; and what its failures mean, in one sentence each."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from presence_core.errors import InvalidArgument

FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""What names a file of ours. In the environment these are PRESENCE_REDIS_SSL_CA_CERTS and so on."""

_OTHERS: Final = ("ssl_ca_path", "ssl_password", "ssl_check_hostname", "ssl_cert_reqs", "ssl_ciphers")
_NO: Final = ("0", "f", "false", "n", "no")
_YES: Final = ("1", "t", "true", "y", "yes")

_SAYS: Final = (
    (("mismatch, certificate is not valid", "Hostname mismatch"),
     "has a certificate for another name: give the host as the certificate has it ({said})"),
    (("CERTIFICATE_VERIFY_FAILED",), "has a certificate that we do not trust: is ssl_ca_certs its CA? ({said})"),
    (("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"),
     "asks for a client certificate (ssl_certfile and ssl_keyfile name it)"),
    (("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_UNKNOWN"),
     "does not trust our client certificate ({said})"),
    (("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"),
     "does not speak TLS here: use redis://, or the port where it does"),
)  # fmt: skip
_SILENT: Final = ("timeout", "timed out", "timeouterror")
_SHUT: Final = ("reset by peer", "closed by server", "server closed", "broken pipe", 'got "\\x15"')


def in_url(url: str) -> dict[str, Any]:
    """The ssl_… options of a URL, for redis-py. Raises InvalidArgument: a slip of the pen must not become no check at
    all, or an error at the first call."""
    given = {
        name: value
        for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True)
        if name.startswith("ssl") and name != "ssl"
    }
    for name in given:
        if name not in FILES + _OTHERS:
            raise InvalidArgument("url", f"must name only options that there are: {', '.join(FILES + _OTHERS)}")
    if not speaks_tls(url):
        for name in given:
            raise InvalidArgument("url", f"must begin with rediss, where it has {name}")
        return {}
    options: dict[str, Any] = dict(given)
    if "ssl_check_hostname" in given:
        said = given["ssl_check_hostname"].lower()
        if said not in _YES + _NO:
            raise InvalidArgument("ssl_check_hostname", "must be true or false")
        options["ssl_check_hostname"] = said in _YES
    if given.get("ssl_cert_reqs", "required") not in ("required", "none"):
        raise InvalidArgument("ssl_cert_reqs", 'must be "required" or "none"')
    _try_files(given)
    return options


def speaks_tls(url: str) -> bool:
    """Whether the URL asks for TLS."""
    return url.partition("://")[0].startswith("rediss")


def _try_files(given: Mapping[str, str]) -> None:
    """Read what is named, as each connection will."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        raise InvalidArgument("ssl_certfile", "must be given with ssl_keyfile")
    for name in FILES:
        if name in given:
            try:
                with Path(given[name]).open("rb"):
                    pass
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "no path"
                raise InvalidArgument(name, f"must be a file that can be read ({why})") from None
    try:
        if "ssl_ca_certs" in given:
            context.load_verify_locations(given["ssl_ca_certs"])
    except OSError:  # an SSLError is one
        raise InvalidArgument("ssl_ca_certs", "must be a file of CA certificates, in PEM") from None
    if "ssl_certfile" in given:
        password = given.get("ssl_password", "")  # never None: OpenSSL would ask for it on the terminal
        try:
            context.load_cert_chain(given["ssl_certfile"], given.get("ssl_keyfile"), password)
        except OSError as error:
            if "MISMATCH" in str(error):
                raise InvalidArgument("ssl_keyfile", "must be the key of ssl_certfile") from None
            raise InvalidArgument("ssl_certfile", "and ssl_keyfile must be a certificate and its key, in PEM") from None


def with_files(url: str, environ: Mapping[str, str]) -> str:
    """The URL with the files that PRESENCE_REDIS_SSL_… name; what the URL says itself stands."""
    said = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    for name in FILES:
        variable = f"PRESENCE_REDIS_{name.upper()}"
        value = environ.get(variable, "").strip()
        if not value:
            continue
        if not speaks_tls(url):
            raise InvalidArgument(variable, "must come with a PRESENCE_REDIS_URL that begins with rediss")
        if name not in said:
            url += f"{'&' if '?' in url else '?'}{name}={quote(value)}"
    return url


def is_refusal(error: BaseException) -> bool:
    """Whether certificates do not fit: to try again would only take time."""
    said = str(error)
    return any(word in said for words, _ in _SAYS for word in words)


def told(said: str, *, asked: bool) -> str | None:
    """What a connection that could not be made says of TLS, as the end of a sentence; None: nothing. ``asked``: we
    spoke TLS."""
    lower = said.lower()
    if asked:
        for words, sentence in _SAYS:
            if any(word in said for word in words):
                return sentence.format(said=_reason(said))
        if any(word in lower for word in _SILENT):
            return "did not answer our TLS handshake in time: it is away, or does not speak TLS on this port"
        if "EOF occurred" in said or any(word in lower for word in _SHUT):
            return "closed the connection in our TLS handshake: does it ask for a client certificate (ssl_certfile)?"
    elif any(word in lower for word in _SHUT):
        return f"closed the connection at once ({said}): if it speaks TLS on this port, use rediss://"
    return None


def _reason(said: str) -> str:
    """OpenSSL's own words, without where in its source they stand."""
    reason = said.rpartition("certificate verify failed: ")[2].partition("] ")
    return (reason[2] or reason[0]).partition(" (_ssl.c")[0].rstrip(".")
