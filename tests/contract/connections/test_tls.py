"""TLS with certificates on both sides, which are checked; and the errors if they do not match."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from presence_core import AsyncPresence, InvalidArgument, Presence, Settings, Unavailable
from tests.conftest import Bed, one_mode
from tests.contract.connections.test_shared_connection import kick_among_validations
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import PASSWORD
from tests.support.servers import Cluster, SentinelProcess, Server, free_port, missing, redis_binary

pytestmark = pytest.mark.xdist_group("tls")


@dataclass(frozen=True)
class Papers:
    """A CA, a server certificate and a client certificate, and another CA that signed nothing."""

    home: Path

    def __getattr__(self, name: str) -> str:
        return str(self.home / name.replace("_", "."))

    @property
    def server(self) -> list[str]:
        """The options with which a server shows its certificate and requires one."""
        return [
            "--tls-cert-file",
            self.server_crt,
            "--tls-key-file",
            self.server_key,
            "--tls-ca-cert-file",
            self.ca_crt,
        ]

    @property
    def client(self) -> str:
        """The query of a URL in which all values are correct."""
        return f"ssl_ca_certs={self.ca_crt}&ssl_certfile={self.client_crt}&ssl_keyfile={self.client_key}"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    openssl = shutil.which("openssl") or missing("the openssl command")
    home = tmp_path_factory.mktemp("papers")
    fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def run(*words: str) -> None:
        subprocess.run([openssl, *words], cwd=home, check=True, capture_output=True)

    for name in ("ca", "other"):
        run(
            "req",
            "-x509",
            *fresh,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.crt",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",  # Python 3.13 refuses a CA without it
        )
    for name, names in (("server", "DNS:localhost"), ("node", "IP:127.0.0.1"), ("client", "DNS:client")):
        (home / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        run("req", *fresh, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", f"{name}.ext", "-out", f"{name}.crt")  # fmt: skip
    return Papers(home)


@dataclass(frozen=True)
class Secured:
    plain: int
    tls: int


@pytest.fixture(scope="module")
def ports(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server whose certificate names localhost but not 127.0.0.1; it also listens without TLS on another port."""
    binary, port = redis_binary() or missing("redis-server on PATH"), free_port()
    directory = tmp_path_factory.mktemp("server")
    arguments = ["--tls-port", str(port), *papers.server, "--requirepass", PASSWORD]
    with Server.start(binary, directory, *arguments, port=True) as server:
        assert server.port is not None
        yield Secured(server.port, port)


def test_with_ca_and_client_certificate_everything_works(anywhere: Bed, papers: Papers, ports: Secured) -> None:
    p = anywhere.connect_to(f"rediss://:{PASSWORD}@localhost:{ports.tls}?{papers.client}")
    token = p.login("ada").token
    assert p.validate(token)
    assert p.kick("ada", by="staff", reason="test")
    assert not p.validate(token)


def test_by_tls_a_kick_among_hundreds_of_validations_counts(papers: Papers, ports: Secured) -> None:
    url = f"rediss://:{PASSWORD}@localhost:{ports.tls}?{papers.client}"
    settings = Settings(namespace="crowd", timeout=PATIENT)

    async def main() -> None:
        async with AsyncPresence.from_url(url, settings) as presence, AsyncPresence.from_url(url, settings) as other:
            await kick_among_validations(presence, other, 3)

    asyncio.run(main())


def test_the_environment_can_also_name_the_files(papers: Papers, ports: Secured) -> None:
    files = {
        "PRESENCE_REDIS_SSL_CA_CERTS": papers.ca_crt,
        "PRESENCE_REDIS_SSL_CERTFILE": papers.client_crt,
        "PRESENCE_REDIS_SSL_KEYFILE": papers.client_key,
    }
    url = f"rediss://:{PASSWORD}@localhost:{ports.tls}/0"
    with Presence.from_env(files | {"PRESENCE_REDIS_URL": url}) as p:
        assert p.counts().sessions >= 0
    wrong_in_url = f"{url}?ssl_ca_certs={papers.other_crt}"  # values in the URL take precedence
    with (
        Presence.from_env(files | {"PRESENCE_REDIS_URL": wrong_in_url}) as p,
        pytest.raises(Unavailable, match="is not trusted"),
    ):
        p.counts()
    with pytest.raises(InvalidArgument, match=r"^PRESENCE_REDIS_SSL_CA_CERTS must come with .* begins with rediss\.$"):
        Presence.from_env(files | {"PRESENCE_REDIS_URL": "redis://localhost"})


REFUSED = {
    "wrong CA": (
        "rediss://:{password}@localhost:{tls}?ssl_ca_certs={other}&ssl_certfile={cert}&ssl_keyfile={key}",
        r"has a certificate that is not trusted: is ssl_ca_certs its CA\? \(self-signed certificate",
    ),
    "no CA": ("rediss://:{password}@localhost:{tls}", "has a certificate that is not trusted: is ssl_ca_certs its CA"),
    "wrong host": (
        "rediss://:{password}@127.0.0.1:{tls}?{client}",
        r"has a certificate for another name: use the host name in the certificate \(IP address mismatch",
    ),
    "no client certificate": (
        "rediss://:{password}@localhost:{tls}?ssl_ca_certs={ca}",
        r"(requires a client certificate: set ssl_certfile|require a client certificate \(ssl_certfile)",
    ),
    "TLS to a plain port": ("rediss://:{password}@localhost:{plain}?{client}", "does not speak TLS"),
    "plain to a TLS port": ("redis://:{password}@localhost:{tls}", r"if this port expects TLS, use rediss://"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_that_does_not_match_is_refused_with_a_reason(
    anywhere: Bed, papers: Papers, ports: Secured, case: str
) -> None:
    url, sentence = REFUSED[case]
    words = {"password": PASSWORD, "other": papers.other_crt, "cert": papers.client_crt, "key": papers.client_key}
    words |= {"ca": papers.ca_crt, "client": papers.client, "tls": str(ports.tls), "plain": str(ports.plain)}
    hangs = case == "TLS to a plain port"
    p = anywhere.connect_to(url.format(**words), timeout=0.5 if hangs else PATIENT)
    for call in (p.counts, lambda: p.login("ada")):
        with pytest.raises(Unavailable, match=sentence) as caught:
            call()
        assert "Redis at " in str(caught.value)
        assert str(caught.value).endswith(".")
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_the_host_name_check_can_be_turned_off_only_explicitly(anywhere: Bed, papers: Papers, ports: Secured) -> None:
    url = f"rediss://:{PASSWORD}@127.0.0.1:{ports.tls}?{papers.client}&ssl_check_hostname="
    assert anywhere.connect_to(url + "false").counts().sessions >= 0
    with pytest.raises(InvalidArgument, match=r"^ssl_check_hostname must be true or false\.$"):
        anywhere.connect_to(url + "fasle")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("rediss://h?ssl_ca_certs=/nowhere/ca.crt", r"ssl_ca_certs must be a file that can be read \(No such file"),
        ("rediss://h?ssl_ca_certs={readme}", "ssl_ca_certs must be a file of CA certificates, in PEM"),
        ("rediss://h?ssl_keyfile={key}", "ssl_certfile must be given with ssl_keyfile"),
        ("rediss://h?ssl_certfile={cert}&ssl_keyfile={other}", "ssl_keyfile must be the key of ssl_certfile"),
        (
            "rediss://h?ssl_certfile={readme}&ssl_keyfile={key}",
            "ssl_certfile and ssl_keyfile must be a certificate and",
        ),
        ("rediss://h?ssl_ca_cert={ca}", "url must have only known ssl options: ssl_ca_certs, "),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs must be "),
        ("redis://h?ssl_ca_certs={ca}", "url must begin with rediss to have ssl_ca_certs"),
        ("redis+cluster://h?ssl_ca_certs={ca}", "url must begin with rediss to have ssl_ca_certs"),
        ("rediss+sentinel://h/name?ssl_ca_certs=/nowhere/ca.crt", "ssl_ca_certs must be a file that can be read"),
        ("redis://h?no_such_option=1", "url cannot be read: check host, port and options"),
    ],
)
def test_an_invalid_tls_option_is_reported_at_once(anywhere: Bed, papers: Papers, url: str, sentence: str) -> None:
    words = {"readme": __file__, "key": papers.client_key, "cert": papers.client_crt, "other": papers.server_key}
    with pytest.raises(InvalidArgument, match=f"^{sentence}.*\\.$"):
        anywhere.connect_to(url.format(ca=papers.ca_crt, **words))


@one_mode("sync")
def test_a_cluster_and_a_master_behind_sentinel_are_reached_by_tls(
    anywhere: Bed, papers: Papers, tmp_path: Path
) -> None:
    binary, port, watch = redis_binary() or missing("redis-server on PATH"), free_port(), free_port()
    node = ["--tls-cert-file", papers.node_crt, "--tls-key-file", papers.node_key, "--tls-ca-cert-file", papers.ca_crt]
    all_tls = [*node, "--tls-replication", "yes", "--tls-cluster", "yes", "--tls-port"]
    with Cluster.start(binary, tmp_path / "c", masters=1, replicas=0, extra_args=[*all_tls, str(port)]):
        p = anywhere.connect_to(f"rediss+cluster://127.0.0.1:{port}?{papers.client}", timeout=PATIENT)
        assert p.validate(p.login("ada").token)
        with pytest.raises(Unavailable, match="is not trusted"):
            anywhere.connect_to(
                f"rediss+cluster://127.0.0.1:{port}?ssl_ca_certs={papers.other_crt}", timeout=0.5
            ).counts()
    port = free_port()
    file = tmp_path / "sentinel.conf"
    lines = [" ".join(node[place : place + 2]).removeprefix("--") for place in (0, 2, 4)]
    lines += [f"tls-port {watch}", "tls-replication yes", f"sentinel monitor main 127.0.0.1 {port} 1"]
    file.write_text("\n".join(lines) + "\n")
    with (
        Server.start(binary, tmp_path / "s", *node, "--tls-port", str(port), port=True),
        SentinelProcess(binary, tmp_path, [str(file)], free_port()) as sentinel,
    ):
        sentinel._launch()
        p = anywhere.connect_to(f"rediss+sentinel://127.0.0.1:{watch}/main?{papers.client}", timeout=PATIENT)
        assert p.validate(p.login("ada").token)
        with pytest.raises(Unavailable, match=r"names a master; .* TLS certificates do not match\."):
            anywhere.connect_to(
                f"rediss+sentinel://127.0.0.1:{watch}/main?ssl_ca_certs={papers.other_crt}", timeout=0.5
            ).counts()
