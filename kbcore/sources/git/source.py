"""Files of one commit of a git repository as a source of documents.

What is committed counts, never a work tree. A local repository is read in place, one on an https server by a mirror.
Nothing is checked out: no filter, hook, submodule or large file (LFS) comes into play, and the bytes of a document are
exactly those of its blob, whose id is the validator.
"""

from __future__ import annotations

import subprocess
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kbcore.config.sources import GitSection
from kbcore.errors import DocumentError, SourceError
from kbcore.globs import glob_pattern
from kbcore.sources.git.blobs import Blobs, DamagedBlobError
from kbcore.sources.git.errors import explain, unknown_ref
from kbcore.sources.git.history import last_changed
from kbcore.sources.git.mirror import REF, Mirror
from kbcore.sources.git.program import Git, GitFailed, Stream, end
from kbcore.sources.secrets import ENVIRONMENT, Secrets
from kbcore.types import Fetched, Listed, Listing

LINK = "120000"
SUBMODULE = "160000"
LFS = b"version https://git-lfs.github.com/spec/v1\n"
LFS_MOST = 1024
MOST_ENTRIES = 1_000_000
# A pointer without extensions has 126 to 140 bytes: only blobs of about that size are looked into by a listing.
LFS_SIZES = range(120, 201)
LFS_REASON = "is a pointer to a large file (Git LFS), which is not fetched"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a commit: ``path`` as git has it, relative to the source's folder, ``size`` in bytes, None
    for what is no blob or not there."""

    path: bytes
    mode: str
    blob: str
    size: int | None


class GitSource:
    """Files below ``folder`` of the commit that ``ref`` names, by ``include`` and ``exclude`` like a folder's.

    An item's URI is its path below the folder in Unicode NFC, its validator the id of its blob.
    """

    type = "git"
    parallel = 1

    def __init__(self, section: GitSection, *, cache: Path, secrets: Secrets = ENVIRONMENT) -> None:
        self.name = section.name
        self._section = section
        self._cache = cache
        self._include = [glob_pattern(pattern) for pattern in section.include]
        self._exclude = [glob_pattern(pattern) for pattern in section.exclude]
        self._mirror = Mirror(section, cache, secrets) if section.is_remote else None
        self._blobs: Blobs | None = None

    def list(self, listed_at: str) -> Listing:
        """All files of the commit, sorted by URI; its id is the listing's version. SourceError where the repository,
        the ref or the folder is not there, or a server does not give it."""
        self.close()
        git, commit, entries = self._read()
        self._blobs = Blobs(git)
        found: dict[str, Entry] = {}
        problems: list[tuple[str, str]] = []
        for entry in entries:
            uri = unicodedata.normalize("NFC", entry.path.decode("utf-8", "surrogateescape"))
            if not self._wanted(uri, entry):
                continue
            if reason := self._reason(uri, entry, found):
                problems.append((uri.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), reason))
            else:
                found[uri] = entry
        times = self._times(git, commit, found)
        items = [Listed(uri, found[uri].blob, times.get(uri), found[uri].size) for uri in sorted(found)]
        return Listing(self.name, listed_at, items, True, tuple(problems), commit)

    def fetch(self, item: Listed, fetched_at: str) -> Fetched:
        """The bytes of one item of the last listing. DocumentError where they are more than ``max_bytes``, only a
        pointer to a large file, or not whole in the repository."""
        if self._blobs is None or item.etag is None:
            raise DocumentError("is not of this source's last listing")
        if item.size is not None and item.size > self._section.max_bytes:
            raise DocumentError(f"has {item.size} bytes, more than max_bytes ({self._section.max_bytes})")
        try:
            data = self._blobs.read(item.etag, self._section.max_bytes)
        except DamagedBlobError:
            if self._mirror:
                self._mirror.distrust()
            raise
        if len(data) < LFS_MOST and data.startswith(LFS):
            raise DocumentError(LFS_REASON)
        return Fetched(data, item.etag, item.modified_at, fetched_at)

    def probe(self) -> str:
        section = self._section
        if self._mirror:
            return f"{self._mirror.url} at {section.ref}: {self._mirror.look()[:12]}"
        return f"{section.url} at {section.ref}: {self._commit(self._local())[:12]}"

    def close(self) -> None:
        """End the git process that reads blobs. Listing starts anew."""
        if self._blobs is not None:
            self._blobs.close()
            self._blobs = None

    def _read(self) -> tuple[Git, str, Sequence[Entry]]:
        """The repository, the commit and its files. A mirror that turns out not to be whole is made anew, once."""
        for last in (False, True):
            git = self._mirror.update() if self._mirror else self._local()
            commit = self._commit(git)
            try:
                return git, commit, _entries(git, self._tree(git, commit))
            except GitFailed as failed:
                if last or self._mirror is None:
                    raise explain(self.name, self._url, failed) from None
                self._mirror.distrust()
        raise AssertionError("unreachable")

    @property
    def _url(self) -> str:
        return self._mirror.url if self._mirror else self._section.url

    def _local(self) -> Git:
        url = self._section.url
        path = Path(unquote(urlsplit(url).path) if url.startswith("file://") else url).absolute()
        if not path.is_dir():
            raise SourceError(
                f"source {self.name!r}: there is no repository {path}",
                remedy="mount it or mend [[sources]] url; nothing is taken for removed meanwhile",
            )
        # Named outright: git would otherwise look for a repository in the folders above, too.
        return Git(path / ".git" if (path / ".git").exists() else path, self._section.timeout_seconds)

    def _commit(self, git: Git) -> str:
        ref = REF if self._mirror else self._section.ref
        try:
            return git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
        except GitFailed as failed:
            if failed.timed_out or "repository" in failed.said:
                raise explain(self.name, self._url, failed) from None
        try:
            refs = git.run("for-each-ref", "--format=%(refname)").decode("utf-8", "replace").split()
        except GitFailed as failed:
            raise explain(self.name, self._url, failed) from None
        raise unknown_ref(self.name, self._url, self._section.ref, refs)

    def _tree(self, git: Git, commit: str) -> str:
        folder = self._section.folder
        if not folder:
            return commit
        kind, _, tree = (
            git.run("ls-tree", "-z", "--full-tree", commit, "--", folder).partition(b"\t")[0].rpartition(b" ")
        )
        if not kind.startswith(b"040000 "):
            raise SourceError(
                f"source {self.name!r}: there is no folder {folder!r} in {self._url} at {self._section.ref}",
                remedy="mend [[sources]] folder; nothing is taken for removed meanwhile",
            )
        return tree.decode()

    def _wanted(self, uri: str, entry: Entry) -> bool:
        if any(pattern.fullmatch(uri) for pattern in self._exclude):
            return False
        # What lies in a submodule is not known, so it is said of each one that is not excluded.
        return entry.mode == SUBMODULE or any(pattern.fullmatch(uri) for pattern in self._include)

    def _reason(self, uri: str, entry: Entry, found: Mapping[str, Entry]) -> str | None:
        """Why an entry is no item of the listing; None where it is one."""
        if entry.mode == SUBMODULE:
            return "is a submodule; submodules are not fetched, each may be a source of its own"
        if entry.mode == LINK:
            return "is a symbolic link, not a regular file"
        if not _is_utf8(entry.path):
            return "its name is not valid UTF-8"
        if uri in found:
            return "has the same name as another file in Unicode NFC"
        if entry.size in LFS_SIZES and self._blobs is not None:
            try:
                if self._blobs.read(entry.blob, LFS_MOST).startswith(LFS):
                    return LFS_REASON
            except DocumentError:
                return None  # said when it is fetched
        return None

    def _times(self, git: Git, commit: str, found: Mapping[str, Entry]) -> dict[str, str]:
        """URI to the time of the last commit that touched it."""
        folder = self._section.folder
        paths = {f"{folder}/{e.path.decode()}" if folder else e.path.decode(): uri for uri, e in found.items()}
        times = last_changed(git, commit, paths, folder=folder, memory=self._cache / "history.json")
        return {paths[path]: time for path, time in times.items()}


def _entries(git: Git, tree: str) -> list[Entry]:
    """The files of a tree and of all below it, in git's order. SourceError beyond a million: trees that share subtrees
    may list without end."""
    entries: list[Entry] = []
    running = git.start("ls-tree", "-r", "-z", "--long", "--full-tree", tree, errors=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    stream = Stream(running.stdout, git.seconds)
    try:
        while (line := stream.until(b"\0")) is not None:
            head, tab, path = line.partition(b"\t")
            if tab:
                mode, _, blob, size = head.split()
                entries.append(Entry(path, mode.decode(), blob.decode(), int(size) if size.isdigit() else None))
            if len(entries) > MOST_ENTRIES:
                raise SourceError(
                    f"the commit has more than {MOST_ENTRIES:,} files",
                    remedy="name a folder of it in [[sources]] folder",
                )
        if running.wait(git.seconds):
            raise GitFailed("ls-tree", git.cleaned(running.stderr.read()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise GitFailed("ls-tree", f"gave no answer in {git.seconds:g} s", timed_out=True) from None
    finally:
        stream.close()
        end(running)
    return entries


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
