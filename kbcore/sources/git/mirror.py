"""A copy of one ref of a repository on an https server, without a work tree."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from kbcore.config.sources import GitSection
from kbcore.errors import SourceError
from kbcore.sources.git.errors import explain, kind_of, unknown_ref
from kbcore.sources.git.program import NOWHERE, Git, GitFailed
from kbcore.sources.secrets import ENVIRONMENT, Secrets

REF = "refs/kbcore/source"
"""Where the mirror keeps what it fetched last."""

COMPLETE = "kbcore-complete"
"""A file in the mirror that says that it is whole, as far as is known."""

DEFAULT_USER = "x-access-token"
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Mirror:
    """The ref that ``section`` names, fetched anew by ``update`` into a folder below ``cache``."""

    def __init__(self, section: GitSection, cache: Path, secrets: Secrets = ENVIRONMENT) -> None:
        self._section = section
        self._secrets = secrets
        self._cache = cache
        split = urlsplit(section.url)
        self.url = urlunsplit(split._replace(netloc=split.netloc.rpartition("@")[2]))
        self._user = unquote(split.username or DEFAULT_USER)
        key = hashlib.sha256(f"{self.url}\n{section.depth}".encode()).hexdigest()[:16]
        self._folder = cache / f"mirror-{key}.git"

    def update(self) -> Git:
        """Fetch the ref; the mirror then holds it as ``REF``. A mirror that is not whole is made anew beside the old
        one, which is there until the new one is. SourceError where the server does not give the ref."""
        with self._alone():
            for other in self._cache.glob("mirror-*"):
                if other != self._folder:
                    shutil.rmtree(other, ignore_errors=True)  # of another url, or left by a run that was killed
            try:
                if not self._fetch_more():
                    self._fetch_all()
            except GitFailed as failed:
                raise self._error(failed) from None
            except OSError as error:
                raise self._unwritable(error) from error
        return Git(self._folder, self._section.timeout_seconds)

    def distrust(self) -> None:
        """Something in the mirror is not whole: the next update makes it anew."""
        (self._folder / COMPLETE).unlink(missing_ok=True)

    def look(self) -> str:
        """The commit that the server has for the ref now. A commit itself is not looked for, only the server."""
        ref = self._section.ref
        try:
            found = self._refs(ref, f"{ref}^{{}}")
            if COMMIT.fullmatch(ref):
                return ref
            for full in candidates(ref):
                if full in found:
                    return found.get(f"{full}^{{}}", found[full])
            raise unknown_ref(self._section.name, self.url, ref, self._refs())
        except GitFailed as failed:
            raise self._error(failed) from None

    def _fetch_more(self) -> bool:
        """Bring the mirror up to date; False where it is not whole."""
        if not (self._folder / COMPLETE).is_file():
            return False
        git = self._git(self._folder)
        try:
            if not (COMMIT.fullmatch(self._section.ref) and self._holds(git)):
                self._fetch(git)
        except GitFailed as failed:
            # Anything a server is known to say would be the same for a new mirror, at the cost of a whole clone.
            if kind_of(failed) == "other" or str(self._folder) in failed.said:
                return False
            raise
        return True

    def _fetch_all(self) -> None:
        new = self._folder.with_suffix(".new")
        git = self._git(new)
        try:
            # The ids of the server's repository are not known before it is asked; nearly all are of the first kind.
            for kind in ("sha1", "sha256"):
                new.mkdir(parents=True)
                git.run("init", "--quiet", "--bare", "--template=", f"--object-format={kind}")
                try:
                    self._fetch(git)
                    break
                except GitFailed as failed:
                    if kind == "sha256" or "mismatched algorithms" not in failed.said:
                        raise
                shutil.rmtree(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        (new / COMPLETE).touch()
        if self._folder.exists():
            shutil.rmtree(self._folder)
        new.rename(self._folder)

    def _fetch(self, git: Git) -> None:
        depth = [f"--depth={self._section.depth}"] if self._section.depth else []
        flags = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--force", *depth]
        git.run("fetch", *flags, "--", self.url, f"+{self._section.ref}:{REF}")
        git.run("rev-parse", "--verify", "--quiet", f"{REF}^{{commit}}")

    def _holds(self, git: Git) -> bool:
        """Whether the commit that is asked for is here already: it is never another one."""
        try:
            git.run("rev-parse", "--verify", "--quiet", f"{self._section.ref}^{{commit}}")
            git.run("update-ref", REF, self._section.ref)
        except GitFailed:
            return False
        return True

    def _error(self, failed: GitFailed) -> SourceError:
        section = self._section
        if kind_of(failed) == "ref":
            try:
                return unknown_ref(section.name, self.url, section.ref, self._refs())
            except GitFailed as other:
                failed = other
        if kind_of(failed) == "commit":
            return SourceError(
                f"source {section.name!r}: {self.url} has no commit {section.ref}, or gives none by its id",
                remedy="name a branch or tag that leads to it in [[sources]] ref",
            )
        return explain(section.name, self.url, failed, token_env=section.token_env)

    def _unwritable(self, error: OSError) -> SourceError:
        return SourceError(
            f"source {self._section.name!r}: {self._cache} cannot be written: {error.strerror}",
            remedy="make it writable for the user that refreshes; it may be deleted as a whole",
        )

    def _refs(self, *patterns: str) -> dict[str, str]:
        """Full name of each ref to the id the server has for it; a tag's commit is under its name with ``^{}``."""
        text = self._git(NOWHERE).run("ls-remote", "--quiet", "--", self.url, *patterns).decode("utf-8", "replace")
        return {name: commit for commit, _, name in (line.partition("\t") for line in text.splitlines()) if name}

    def _git(self, directory: Path) -> Git:
        variables: dict[str, str] = {}
        secrets: tuple[str, ...] = ()
        settings = {"http.followRedirects": "initial"}
        if variable := self._section.token_env:
            token = self._secrets.get(variable)
            if not token or not token.isascii() or not token.isprintable():
                wrong = f"the secret {variable} holds no token" if token else self._secrets.missing(variable)
                raise SourceError(
                    f"source {self._section.name!r}: {wrong}",
                    remedy=f"{self._secrets.remedy(variable)}, a token that may read {self.url}",
                )
            basic = base64.b64encode(f"{self._user}:{token}".encode()).decode()
            secrets = (basic, token)
            # git would take the header along to wherever a server sends it.
            settings = {"http.extraHeader": f"Authorization: Basic {basic}", "http.followRedirects": "false"}
        for number, (key, value) in enumerate(settings.items()):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        variables["GIT_CONFIG_COUNT"] = str(len(settings))
        return Git(directory, self._section.timeout_seconds, "https", variables, secrets)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One run at a time in this cache. The lock of a run that was killed is free again."""
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            lock = open(self._cache / "lock", "a+b")  # noqa: SIM115
        except OSError as error:
            raise self._unwritable(error) from error
        with lock:
            deadline = time.monotonic() + self._section.timeout_seconds
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise SourceError(
                            f"source {self._section.name!r}: another run is still fetching {self.url}",
                            remedy="wait until it has ended, then run again",
                            transient=True,
                        ) from None
                    time.sleep(0.1)
            yield


def candidates(ref: str) -> tuple[str, ...]:
    """The full names that git takes ``ref`` for, first one first."""
    return (ref, f"refs/{ref}", f"refs/tags/{ref}", f"refs/heads/{ref}", f"refs/remotes/{ref}")
