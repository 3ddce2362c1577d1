"""One question with everything that decides how it is answered, checked before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbcore.errors import UsageError
from kbcore.filters import Filter, read_filter
from kbcore.retrieval.settings import RetrievalSettings
from kbcore.types import Fusion, Mode

Where = Filter | Mapping[str, Any] | str | Sequence[str] | None
MODES: tuple[Mode, ...] = ("vector", "keyword", "hybrid")
MAX_QUERY_CHARACTERS = 10_000
MAX_NEIGHBOURS = 20
MIN_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Request:
    """See ``Retriever.search`` for what each part does; ``depth`` is None where the default for ``k`` is meant;
    ``rerank`` is how many chunks of the fused order a reranker orders anew, 0 for none."""

    query: str
    k: int
    mode: Mode
    fusion: Fusion
    alpha: float
    depth: int | None = None
    where: Filter | None = None
    keys: bool = False
    merge: bool = False
    neighbours: int = 0
    fold: bool = False
    rerank: int = 0

    @classmethod
    def of(
        cls,
        settings: RetrievalSettings,
        query: str,
        k: int | None = None,
        *,
        mode: Mode | None = None,
        fusion: Fusion | None = None,
        alpha: float | None = None,
        depth: int | None = None,
        where: Where = None,
        keys: bool = False,
        merge: bool = False,
        neighbours: int = 0,
        fold: bool = False,
        rerank: int | None = None,
    ) -> Request:
        """What is not given comes from ``settings``. UsageError says which part is impossible."""
        most = settings.k if k is None else k
        request = cls(
            query=query,
            k=most,
            mode=mode or settings.mode,
            fusion=fusion or settings.fusion,
            alpha=settings.alpha if alpha is None else alpha,
            depth=depth,
            where=read_filter(where),
            keys=keys,
            merge=merge,
            neighbours=neighbours,
            fold=fold,
            rerank=0 if rerank is None else rerank,
        )
        request._check()
        if rerank is None:
            request = replace(request, rerank=settings.window(most))
        elif rerank and settings.reranker is None:
            raise UsageError("no reranker is configured", remedy="name one in [retrieval] reranker or reranker_path")
        return request

    @property
    def lists(self) -> int:
        """How many chunks each matcher names."""
        if self.depth is not None:
            return self.depth
        # Joining chunks takes places away: then a search by one matcher looks further too.
        plain = default_depth(self.k, self.fusion) if self.mode == "hybrid" or self.joins else self.k
        return max(plain, self.rerank)

    @property
    def reach(self) -> int:
        """How many chunks of the fused order are looked at for the hits."""
        return max(self.k, self.rerank, self.lists if self.joins else 0)

    @property
    def joins(self) -> bool:
        """Whether several chunks may make one hit."""
        return self.merge or self.fold

    def _check(self) -> None:
        if not isinstance(self.query, str):
            raise UsageError(f"a query is a text, not {type(self.query).__name__}")
        if len(self.query) > MAX_QUERY_CHARACTERS:
            raise UsageError(
                f"the query has {len(self.query):,} characters; at most {MAX_QUERY_CHARACTERS:,} are searched",
                remedy="ask a shorter question",
            )
        if not self.query.isascii() and any("\ud800" <= letter <= "\udfff" for letter in self.query):
            raise UsageError("the query is not valid Unicode: it holds half of a surrogate pair")
        if not _whole(self.k, 1):
            raise UsageError(f"k is a number of hits from 1 on, not {self.k!r}")
        if self.depth is not None and not _whole(self.depth, 1):
            raise UsageError(f"depth is a number of chunks from 1 on, not {self.depth!r}")
        if not _whole(self.neighbours, 0) or self.neighbours > MAX_NEIGHBOURS:
            raise UsageError(f"neighbours are a number of chunks from 0 to {MAX_NEIGHBOURS}, not {self.neighbours!r}")
        if not _whole(self.rerank, 0):
            raise UsageError(f"rerank is a number of chunks from 0 on, not {self.rerank!r}")
        if self.mode not in MODES:
            raise UsageError(f"there is no mode {self.mode!r}", remedy="modes are vector, keyword and hybrid")
        if self.fusion not in ("minmax", "rrf"):
            raise UsageError(f"there is no fusion {self.fusion!r}", remedy="it is minmax or rrf")
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float) or not 0.0 <= self.alpha <= 1.0:
            raise UsageError(f"alpha is a share between 0 and 1, not {self.alpha!r}")


def default_depth(k: int, fusion: Fusion) -> int:
    """How many chunks each matcher names where a hybrid search is asked for ``k``."""
    return 3 * k if fusion == "minmax" else max(3 * k, MIN_DEPTH)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
