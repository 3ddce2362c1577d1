"""Every error kbcore raises on purpose.

    KbError
    ├── ConfigError                 a setting is missing, unknown or impossible
    ├── UsageError                  a call that cannot be answered as it was asked
    ├── RepositoryNotFoundError     there is no repository (or no such release) where one was named
    │   └── ReleaseNotFoundError
    ├── ReleaseExpiredError         the release carries an expiry mark
    ├── CorruptReleaseError         a published file is missing or is not the file its digest names
    ├── ReleaseConflictError        another run published or promoted first
    ├── LockedError                 another run holds the writer's lease
    ├── StorageFullError            no space, quota or descriptors were left
    ├── StorageUnsupportedError     the storage cannot keep the promises a release rests on
    ├── EmbedderError
    │   ├── EmbedderUnavailableError    the embedder a release names is not on this machine
    │   ├── RerankerUnavailableError    the reranker that is configured is not on this machine
    │   ├── EmbedderMismatchError       another embedder than the one the release was built with
    │   └── EmbeddingFailedError        vectors that are missing, of another length, zero or not finite
    ├── WorkerLostError             a worker of the build ended before its work was done
    ├── SourceError                 a source could not be listed
    ├── DocumentError               one document could not be fetched or parsed
    │   ├── SkippedDocumentError        there is nothing to index in it: blank, or of a kind no parser reads
    │   └── HttpError                   a request over the web that came to no usable answer
    ├── EvaluationError             an evaluation could not be carried out: invalid, which is neither zero nor a pass
    │   └── EvaluationSetError          an evaluation set does not read, or has a line that is wrong
    ├── RefusedError                policy refused what was asked (a hold, a blocked release, a guard)
    └── KbUnavailableError          search could not run at all; never the same as finding nothing

Each carries ``message`` (what was wrong and where), ``remedy`` (what to do, often a command),
``exit_code`` (what the command line ends with) and ``transient`` (trying again may help: a time-out, a server that is
busy).
"""

from __future__ import annotations


class KbError(Exception):
    """Base of all errors raised by kbcore."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "", transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.transient = transient

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message


class ConfigError(KbError):
    exit_code = 2


class UsageError(KbError):
    exit_code = 2


class RepositoryNotFoundError(KbError):
    exit_code = 10


class ReleaseNotFoundError(RepositoryNotFoundError):
    exit_code = 2


class ReleaseExpiredError(KbError):
    pass


class CorruptReleaseError(KbError):
    """``file`` is the name inside the repository, ``release`` the one that was being opened, if any."""

    def __init__(self, message: str, *, file: str, release: str | None = None, remedy: str = "") -> None:
        where = f"{release}: {file}" if release else file
        super().__init__(f"{where}: {message}", remedy=remedy)
        self.reason = message
        self.file = file
        self.release = release

    def in_release(self, release: str) -> CorruptReleaseError:
        """The same finding, said of a release."""
        return CorruptReleaseError(self.reason, file=self.file, release=release, remedy=self.remedy)

    def with_remedy(self, remedy: str) -> CorruptReleaseError:
        """The same finding, with another way out."""
        return CorruptReleaseError(self.reason, file=self.file, release=self.release, remedy=remedy)


class ReleaseConflictError(KbError):
    pass


class LockedError(KbError):
    exit_code = 11


class StorageFullError(KbError):
    pass


class StorageUnsupportedError(KbError):
    pass


class EmbedderError(KbError):
    exit_code = 12


class EmbedderUnavailableError(EmbedderError):
    pass


class RerankerUnavailableError(EmbedderError):
    pass


class EmbedderMismatchError(EmbedderError):
    pass


class EmbeddingFailedError(EmbedderError):
    exit_code = 1


class WorkerLostError(KbError):
    pass


class SourceError(KbError):
    pass


class DocumentError(KbError):
    pass


class SkippedDocumentError(DocumentError):
    pass


class HttpError(DocumentError):
    """``kind``: refused, timeout, connection, tls, protocol, status, too_large, redirect, login, or budget (no time
    was left to ask)."""

    def __init__(self, kind: str, message: str, *, remedy: str = "", transient: bool = False) -> None:
        super().__init__(message, remedy=remedy, transient=transient)
        self.kind = kind


class EvaluationError(KbError):
    exit_code = 6


class EvaluationSetError(EvaluationError):
    exit_code = 2


class RefusedError(KbError):
    exit_code = 3


class KbUnavailableError(KbError):
    pass
