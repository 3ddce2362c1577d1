"""A model of what a local file system may hold after the power went, fed from the operations that really ran.

The weakest rules of the common file systems: fsync of a file makes its content durable, not its name; a name made or
taken away in a folder is durable only after fsync of the folder; before that, any subset of the pending names may
have reached the disk, and content that was not synced may be there whole, empty or torn.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kbcore.store.objects import FileSystem

Operation = tuple[str, ...]


class Recording(FileSystem):
    """Does every operation and writes down what it did; contents are kept by the identity of the file."""

    def __init__(self) -> None:
        self.trace: list[Operation] = []
        self.contents: dict[str, bytes] = {}

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        self.contents[path] = bytes(data)
        self.trace.append(("write", path))

    def fsync(self, path: str) -> None:
        super().fsync(path)
        self.trace.append(("fsync", path))

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self.trace.append(("link", source, target))

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.trace.append(("rename", source, target))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.trace.append(("unlink", path))

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        self.trace.append(("mkdir", path))

    def mark(self, name: str) -> None:
        """The caller was told that something is done."""
        self.trace.append(("told", name))


@dataclass
class Disk:
    """``names``: durable path to file; ``pending``: (folder, path, file or None) since the folder's last fsync."""

    names: dict[str, str] = field(default_factory=dict)
    pending: list[tuple[str, str, str | None]] = field(default_factory=list)
    synced: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)


def states(
    trace: list[Operation], contents: dict[str, bytes], start: dict[str, bytes], *, skip: int | None = None
) -> Iterator[tuple[int, list[str], dict[str, bytes]]]:
    """Every (operation, what was told by then, files on disk) that a power cut may leave; ``skip`` leaves one fsync out.

    States that differ in drafts only count once.
    """
    disk = Disk(names={path: path for path in start}, synced=set(start))
    data = {**contents, **start}
    seen: set[tuple[tuple[str, ...], frozenset[tuple[str, int]]]] = set()
    alias: dict[str, str] = {}
    for number, operation in enumerate(trace):
        kind, *paths = operation
        if kind == "write":
            alias[paths[0]] = paths[0]
            disk.pending.append((os.path.dirname(paths[0]), paths[0], paths[0]))
        elif kind == "fsync" and number != skip:
            if paths[0] in alias:
                disk.synced.add(alias[paths[0]])
            else:
                for folder, path, file in disk.pending:
                    if folder == paths[0]:
                        _apply(disk.names, path, file)
                disk.pending = [entry for entry in disk.pending if entry[0] != paths[0]]
        elif kind in ("link", "rename"):
            alias[paths[1]] = alias[paths[0]]
            disk.pending.append((os.path.dirname(paths[1]), paths[1], alias[paths[1]]))
            if kind == "rename":
                disk.pending.append((os.path.dirname(paths[0]), paths[0], None))
        elif kind == "unlink":
            disk.pending.append((os.path.dirname(paths[0]), paths[0], None))
        elif kind == "mkdir":
            disk.pending.append((os.path.dirname(paths[0]), paths[0], paths[0] + "/"))
        elif kind == "told":
            disk.told.append(paths[0])
        for files in _outcomes(disk, data):
            key = (tuple(disk.told), frozenset((name, hash(content)) for name, content in files.items()))
            if key not in seen:
                seen.add(key)
                yield number, list(disk.told), files


def _apply(names: dict[str, str], path: str, file: str | None) -> None:
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


def _outcomes(disk: Disk, data: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
    # Drafts are referenced by nothing: whether their names survive changes no reader's view.
    pending = [entry for entry in disk.pending if "/draft-" not in entry[1]]
    for kept in itertools.product((True, False), repeat=len(pending)):
        names = {path: file for path, file in disk.names.items() if "/draft-" not in path}
        for (_, path, file), keep in zip(pending, kept, strict=True):
            if keep:
                _apply(names, path, file)
        folders = {path for path, file in names.items() if file.endswith("/")}
        made = {path for operation in disk.pending for path in [operation[1]] if (operation[2] or "").endswith("/")}
        lost = made - folders
        files = {
            path: file
            for path, file in names.items()
            if not file.endswith("/") and not any(path.startswith(folder + "/") for folder in lost)
        }
        loose = sorted({file for file in files.values() if file not in disk.synced})
        for fates in itertools.product((1.0, 0.5, 0.0), repeat=len(loose)):
            fate = dict(zip(loose, fates, strict=True))
            yield {path: data[file][: int(len(data[file]) * fate.get(file, 1.0))] for path, file in files.items()}


class FrozenStore:
    """The files of one state as a store that can be read."""

    def __init__(self, root: Path, files: dict[str, bytes]) -> None:
        self.files = {os.path.relpath(path, root): data for path, data in files.items()}

    def get(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(prefix + "/"))

    def local_path(self, name: str) -> None:
        return None
