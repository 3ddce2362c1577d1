"""What went wrong with a git repository, and what to do: from what git wrote."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from kbcore.errors import SourceError
from kbcore.sources.git.program import GitFailed

# Kind of failure to what git says then, in lower case; the first kind that fits counts.
SIGNS: dict[str, tuple[str, ...]] = {
    "owner": ("dubious ownership",),
    "ref": ("couldn't find remote ref",),
    "commit": ("not our ref", "unadvertised object"),
    "partial": ("promisor",),
    "no repository": ("not a git repository", "is this a git repository"),
    "certificate": ("certificate", "cafile", "capath"),
    "authentication": (
        *("authentication failed", "could not read username", "could not read password", "terminal prompts disabled"),
        *("returned error: 401", "returned error: 403", "access denied", "permission denied"),
    ),
    "redirect": ("returned error: 30", "redirect"),
    "network": (
        *("could not resolve", "couldn't resolve", "failed to connect", "couldn't connect", "connection refused"),
        *("connection reset", "timed out", "operation too slow", "network is unreachable", "no route to host"),
        *("unexpected disconnect", "early eof", "hung up", "rpc failed", "empty reply", "non-properly terminated"),
        *("returned error: 429", "returned error: 5", "ssl_error_syscall"),
    ),
    "missing": ("not found", "returned error: 404", "returned error: 410"),
}


def kind_of(failed: GitFailed) -> str:
    """``time``, a kind of ``SIGNS``, or ``other``."""
    if failed.timed_out:
        return "time"
    said = failed.said.lower()
    return next((kind for kind, signs in SIGNS.items() if any(sign in said for sign in signs)), "other")


def explain(name: str, url: str, failed: GitFailed, *, token_env: str | None = None) -> SourceError:
    """The error of source ``name``, whose repository is shown as ``url``, for a call of git that failed."""
    where = f"source {name!r}: "
    kind = kind_of(failed)
    match kind:
        case "time":
            message = f"git {failed.command} on {url} {failed.said}"
            remedy = "raise [[sources]] timeout_seconds, or set depth = 1 to fetch no history"
        case "owner":
            message = f"git does not trust {url}, which belongs to another user"
            remedy = "run as its owner, or install git 2.38 or newer"
        case "partial":
            message = f"{url} is a partial clone, and not all of its files are in it"
            remedy = "clone it without --filter, or name the https url that it was cloned from"
        case "no repository":
            message = f"{url} is not a git repository"
            remedy = "name the folder that holds .git, a bare repository, or the https url that git clone takes"
        case "authentication" if not url.startswith("https://"):
            message = f"{url} cannot be read: {failed.said}"
            remedy = f"chmod -R u+rX {url}"
        case "certificate":
            message = f"the certificate of {url} is not trusted: {failed.said}"
            remedy = "put the file with the authority's certificate into GIT_SSL_CAINFO"
        case "authentication":
            told = f"the token in {token_env} was refused" if token_env else "no token_env is configured"
            message = f"{url} wants a user who may read it; {told}"
            remedy = (
                "name an environment variable with a valid token as [[sources]] token_env; "
                "some servers answer the same where there is no such repository"
            )
        case "redirect":
            message = f"{url} sends on to another address, where a token is not taken to"
            remedy = "put the address it sends to into [[sources]] url (often the same with .git at the end)"
        case "network":
            message = f"{url} cannot be reached: {failed.said}"
            remedy = "check the network and the server; the documents of this source stay as they are meanwhile"
        case "missing":
            message = f"there is no repository {url}"
            remedy = "mend [[sources]] url; nothing is taken for removed meanwhile"
        case _:
            message = f"git {failed.command} on {url} failed: {failed.said}"
            remedy = "look at it with: git fsck"
    return SourceError(where + message, remedy=remedy, transient=kind in ("time", "network"))


def unknown_ref(name: str, url: str, ref: str, refs: Collection[str]) -> SourceError:
    """There is no such ref; ``refs`` are the full names of those that are there."""
    if not refs:
        return SourceError(
            f"source {name!r}: {url} is an empty repository, it has no commit",
            remedy="commit and push something first; nothing is taken for removed meanwhile",
        )
    names = sorted({short(full) for full in refs})
    near = difflib.get_close_matches(short(ref), names, n=3, cutoff=0.5)
    told = f"did you mean {' or '.join(near)}?" if near else f"there are, among others: {', '.join(names[:5])}"
    return SourceError(
        f"source {name!r}: {url} has no branch, tag or commit {ref!r}; {told}", remedy="mend [[sources]] ref"
    )


def short(ref: str) -> str:
    for prefix in ("refs/heads/", "refs/tags/", "refs/remotes/"):
        ref = ref.removeprefix(prefix)
    return ref
