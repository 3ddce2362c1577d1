"""Git repositories with real history for tests, and a server that gives them by https."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support import write

QUIET = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
BEGIN = 1_700_000_000


class Work:
    """A repository with a work tree; its commits are an hour apart, so that their times tell them from each other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hours = 0
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, data: bytes | None = None) -> str:
        moment = f"{BEGIN + 3600 * self.hours} +0000"
        environment = {**QUIET, "GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=environment, input=data, capture_output=True, check=True, timeout=30
        )
        return done.stdout.decode().strip()

    def commit(self, documents: Mapping[str, str | bytes | None] = {}, message: str = "change") -> str:
        """Write and delete documents and commit all that is in the work tree; the id of the commit."""
        self.hours += 1
        write(self.path, documents)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def loose(self, name: str) -> Path:
        """The file in which git keeps the blob of a committed file."""
        blob = self.git("rev-parse", f"HEAD:{name}")
        return self.path / ".git" / "objects" / blob[:2] / blob[2:]

    def time(self, hours: int | None = None) -> str:
        """The time of the commit made as the ``hours``-th, of the last one by default."""
        moment = datetime.fromtimestamp(BEGIN, UTC) + timedelta(hours=self.hours if hours is None else hours)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def archive(self, commit: str, folder: Path) -> None:
        """Make ``folder`` hold exactly the files of a commit, by git archive."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
        packed = subprocess.run(
            ["git", "archive", "--format=tar", commit], cwd=self.path, env=QUIET, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)


class Server:
    """Serves the repositories below ``root`` by https on a port of its own, through git's own http-backend.

    ``token`` is wanted where it is set; ``status`` is answered instead, where it is set. ``moved`` is a path that sends on to
    another one. ``asked`` are the paths of the requests.
    """

    def __init__(self, root: Path, certificates: Path) -> None:
        self.root = root
        self.token: str | None = None
        self.status: int | None = None
        self.moved: tuple[str, str] | None = None
        self.asked: list[str] = []
        self.authority = certificates / "authority.pem"
        key = certificates / "key.pem"
        _certify(self.authority, key)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                return None

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def url(self, name: str) -> str:
        return f"https://localhost:{self.http.server_address[1]}/{name}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        self.asked.append(path)
        if self.moved and path.startswith(self.moved[0]):
            request.send_response(301)
            request.send_header("Location", request.path.replace(*self.moved, 1))
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        said = request.headers.get("Authorization", "")
        wrong = self.token and base64.b64decode(said.removeprefix("Basic ")).decode().partition(":")[2] != self.token
        if self.status or wrong:
            request.send_response(self.status or 401)
            if wrong:
                request.send_header("WWW-Authenticate", 'Basic realm="git"')
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "http-backend"],
            env={
                **QUIET,
                "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": request.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": request.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            },
            input=body,
            capture_output=True,
            timeout=30,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        request.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)


def _certify(certificate: Path, key: Path) -> None:
    """A certificate for localhost that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
