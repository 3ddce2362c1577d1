"""Inside a parser: no file but the interpreter's, nothing written, nothing run, no network."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kbcore.parsing.sandbox import version
from tests.support import ROOT

pytestmark = pytest.mark.skipif(not version(), reason="this kernel has no Landlock")

PROGRAM = """
import ctypes, json, os, socket, subprocess, sys
from kbcore.parsing.sandbox import confine
secret, folder, port = sys.argv[1:4]
given_up = confine()
def tried(act):
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"
print(json.dumps({
    "given_up": given_up,
    "secret": tried(lambda: open(secret).read()),
    "passwd": tried(lambda: open("/etc/passwd").read()),
    "list": tried(lambda: os.listdir(folder)),
    "write": tried(lambda: open(folder + "/new", "w").write("x")),
    "interpreter": tried(lambda: open(sys.prefix + "/new", "w").write("x")),
    "delete": tried(lambda: os.unlink(secret)),
    "run": tried(lambda: subprocess.run(["/bin/true"])),
    "tcp": tried(lambda: socket.create_connection(("127.0.0.1", int(port)), timeout=2)),
    "udp": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(port)))),
    "signal": tried(lambda: os.kill(os.getppid(), 0)),
    "import": tried(lambda: __import__("lxml.etree")),
    "random": tried(lambda: open("/dev/urandom", "rb").read(4)),
}))
"""


def test_a_confined_process_reaches_nothing_but_its_interpreter(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of nobody's business")
    arrived: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)

        def listen() -> None:
            while not done.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                arrived.append("connected")
                connection.close()

        done = threading.Event()
        listener = threading.Thread(target=listen)
        listener.start()
        ran = subprocess.run(
            [sys.executable, "-B", "-c", PROGRAM, str(secret), str(tmp_path), str(server.getsockname()[1])],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        done.set()
        listener.join()
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert "files" in found["given_up"]
    for act in ("secret", "passwd", "list", "write", "interpreter", "delete", "run"):
        assert found[act] == "PermissionError", act
    if "tcp" in found["given_up"] or "network" in found["given_up"]:
        assert found["tcp"] != "done"
    if "network" in found["given_up"]:
        assert found["udp"] != "done"
    if version() >= 6:
        assert found["signal"] == "PermissionError"
    assert (found["import"], found["random"]) == ("done", "done")
    assert arrived == []
    assert secret.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
