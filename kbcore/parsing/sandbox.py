"""What a parser may reach: the interpreter's own files to read, and nothing else.

On Linux with Landlock (5.13 or newer) a process gives up, for good, the right to open any other file, to write, to run a
program and, from 6.7 on, to connect over TCP; a network namespace of its own, where it may make one, takes all of the
network away. Elsewhere the limits on memory, time and files still hold, and ``kb doctor`` says what is missing.
Numbers: include/uapi/linux/landlock.h and landlock(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_RIGHTS_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}  # how many kinds of access to files each version knows; later ones 16
_TCP = 3  # bind and connect
_SCOPES = 3  # abstract sockets and signals of other processes
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
           "/dev/null", "/dev/urandom", "/dev/zero")  # fmt: skip


def version() -> int:
    """The version of Landlock that the kernel has, 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG))))


def confine(readable: Iterable[str] = ()) -> list[str]:
    """Give up everything but reading the interpreter's files and ``readable``; says what was given up: ``files``,
    ``tcp``, ``network``. Call it before the first thread is started: it counts for the caller and what it starts."""
    found = version()
    given_up = []
    if sys.platform.startswith("linux") and _leave_network():
        given_up.append("network")
    if found and _restrict(found, [*_interpreter(), *_SYSTEM, *readable]):
        given_up += ["files", "tcp"] if found >= 4 else ["files"]
    return given_up


def _interpreter() -> list[str]:
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if path)]
    return list(dict.fromkeys(os.path.realpath(folder) for folder in folders))


def _leave_network() -> bool:
    libc = _libc()
    # As root at once; for others within a user namespace of their own, where the system allows that.
    return bool(libc.unshare(_NEW_NETWORK) == 0 or libc.unshare(_NEW_USER | _NEW_NETWORK) == 0)


def _restrict(found: int, readable: list[str]) -> bool:
    libc = _libc()
    files = (1 << _RIGHTS_OF_VERSION.get(found, 16)) - 1
    fields = [files, _TCP if found >= 4 else None, _SCOPES if found >= 6 else None]
    attributes = b"".join(struct.pack("=Q", field) for field in fields if field is not None)
    ruleset = libc.syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    if ruleset < 0:
        return False
    try:
        for path in readable:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                rights = _READ_FILE | _READ_FOLDER if os.path.isdir(path) else _READ_FILE
                rule = struct.pack("=Qi", rights, descriptor)
                libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint(0))
            finally:
                os.close(descriptor)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0)) == 0)
    finally:
        os.close(ruleset)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
