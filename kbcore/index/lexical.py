"""BM25 over stored postings: rank-bm25's arithmetic without its corpus in memory.

rank-bm25 keeps one dictionary per document and walks all of them for every query term. Here a segment stores its
postings (which term occurs in which chunk, how often); opening a release joins the segments' postings, drops dead
rows, and makes the weight of every posting once. A query then adds up a few arrays.

Row numbers are global: the rows of the first part come first, then those of the second, and so on; a dead row keeps its
number and never scores.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from kbcore.arrays import Mask
from kbcore.errors import UsageError

Idf = Literal["lucene", "okapi"]
Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

_BLOCK = 1 << 16  # postings weighed at a time: the arrays in between stay in the cache, five times as fast


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The postings of one segment, term by term.

    ``terms``: pyarrow string array, sorted by code point (= by UTF-8 bytes), each once. ``counts``: int32 [terms], how
    many chunks hold the term. ``rows``: int32 [sum of counts], chunk rows, ascending within a term. ``frequencies``:
    int32 or uint16, aligned with ``rows``, how often the term occurs in that chunk (>= 1). ``lengths``: int32 [chunks],
    tokens of each chunk, 0 included.
    Raises ValueError when the arrays do not fit each other: the reader of a segment knows which file to blame.
    """

    terms: pa.StringArray
    counts: NDArray[np.integer[Any]]
    rows: NDArray[np.integer[Any]]
    frequencies: NDArray[np.integer[Any]]
    lengths: NDArray[np.integer[Any]]

    def __post_init__(self) -> None:
        sorted_once = pc.all(pc.less(self.terms[:-1], self.terms[1:]), skip_nulls=False, min_count=0).as_py()
        if len(self.terms) != len(self.counts) or not sorted_once:
            raise ValueError("postings: terms are not sorted, not unique, or not one per count")
        if len(self.counts) and self.counts.min() < 1:
            raise ValueError("postings: a term without a posting")
        total = int(self.counts.sum(dtype=np.int64))
        if not total == len(self.rows) == len(self.frequencies):
            raise ValueError(f"postings: {total} counted, {len(self.rows)} rows, {len(self.frequencies)} frequencies")
        if total == 0:
            return
        if self.rows.min() < 0 or self.rows.max() >= len(self.lengths) or self.frequencies.min() < 1:
            raise ValueError("postings: a row outside the segment, or a frequency below 1")
        ascending = self.rows[1:] > self.rows[:-1]
        ascending[np.cumsum(self.counts[:-1], dtype=np.int64) - 1] = True  # a new term may begin at any row
        if not ascending.all():
            raise ValueError("postings: the rows of a term do not ascend")


def build_postings(token_lists: Iterable[Sequence[str]]) -> Postings:
    """The postings of the chunks whose tokens are given, one list per chunk, in row order. Lists may be empty."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # an unseen term gets the next number
    lengths: list[int] = []
    stream = array("q")
    for tokens in token_lists:
        lengths.append(len(tokens))
        stream.extend(map(numbers.__getitem__, tokens))
    terms = sorted(numbers)
    place = np.empty(len(terms), dtype=np.int64)  # number of first appearance -> place among the sorted terms
    place[np.fromiter(map(numbers.__getitem__, terms), np.int64)] = np.arange(len(terms))
    sizes = np.array(lengths, dtype=np.int32)
    rows = np.repeat(np.arange(len(lengths)), sizes)
    chunks = max(len(lengths), 1)
    pairs, frequencies = np.unique(place[np.frombuffer(stream, dtype=np.int64)] * chunks + rows, return_counts=True)
    return Postings(
        terms=pa.array(terms, pa.string()),
        counts=np.bincount(pairs // chunks, minlength=len(terms)).astype(np.int32),
        rows=(pairs % chunks).astype(np.int32),
        frequencies=frequencies.astype(np.int32),
        lengths=sizes,
    )


class StoredBM25(BM25Okapi):  # type: ignore[misc]  # rank-bm25 has no types
    """BM25 over the live rows of a release.

    ``parts`` are (postings, live mask) of the segments, None for "all rows live". Corpus size, average length and
    document frequencies count live rows of all parts. The weight of a term in a chunk is rank-bm25's (ATIRE):
    ``idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average length))``. ``idf`` is

    - ``"lucene"``: ``ln(1 + (N - df + 0.5) / (df + 0.5))``, always positive, so a match always scores;
    - ``"okapi"``: ``ln((N - df + 0.5) / (df + 0.5))``, negative values replaced by ``epsilon`` times the average idf,
      as rank-bm25 does; the average by math.fsum, so that it does not depend on the order of the terms.

    The score of a row is a float64 that is the same to the last bit however the chunks are spread over parts and
    whether dead rows are masked or gone: query terms count once and are added in sorted order.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Postings, Mask | None]],
        *,
        k1: float = 1.5,
        b: float = 0.75,
        idf: Idf = "lucene",
        epsilon: float = 0.25,
    ) -> None:
        # The base constructor counts a corpus in memory; every attribute it would leave behind is set here instead.
        if idf not in ("lucene", "okapi"):
            raise UsageError(f"idf is lucene or okapi, not {idf}")
        self.k1, self.b, self.epsilon, self.tokenizer = k1, b, epsilon, None
        live = [_checked(mask, len(postings.lengths)) for postings, mask in parts]
        self.doc_len = _joined([postings.lengths for postings, _ in parts], np.int32)
        self.live: Mask = _joined(live, np.bool_)
        self.row_count = len(self.doc_len)
        self.corpus_size = int(self.live.sum())
        total = int(self.doc_len.sum(where=self.live, dtype=np.int64))
        self.avgdl = total / self.corpus_size if self.corpus_size else 0.0
        self._join(parts, live)
        self._idf = self._idf_values(idf)
        self._weigh()

    # ---- opening

    def _join(self, parts: Sequence[tuple[Postings, Mask | None]], live: Sequence[Mask]) -> None:
        """Brings the live postings of all parts together, term by term, rows ascending: query time then does not
        depend on the number of parts."""
        encoded = pa.concat_arrays([pa.array([], pa.string()), *(p.terms for p, _ in parts)]).dictionary_encode()
        self._numbers: dict[str, int] = {term: at for at, term in enumerate(encoded.dictionary.to_pylist())}
        numbers = encoded.indices.to_numpy().astype(np.int64)  # of all parts, one after the other
        pieces = []
        offset = first_term = 0
        for (postings, _), mask in zip(parts, live):
            ids = numbers[first_term : first_term + len(postings.terms)]
            rows, frequencies, counts = postings.rows, postings.frequencies, postings.counts.astype(np.int64)
            if not mask.all():
                keep = mask[rows]
                kept = np.concatenate(([0], np.cumsum(keep)))
                ends = np.cumsum(counts)
                counts = kept[ends] - kept[ends - counts]
                rows, frequencies = rows[keep], frequencies[keep]
            pieces.append((ids, counts, rows + np.int32(offset), frequencies))
            offset += len(postings.lengths)
            first_term += len(postings.terms)

        self._df = np.zeros(len(self._numbers), dtype=np.int64)
        for ids, counts, _, _ in pieces:
            self._df[ids] += counts  # a term stands once in a part
        self._starts = np.concatenate(([0], np.cumsum(self._df)))
        if len(pieces) == 1:
            _, _, self._rows, self._tf = pieces[0]
            return
        self._rows = np.empty(self._starts[-1], dtype=np.int32)
        self._tf = np.empty(self._starts[-1], dtype=np.int32)
        free = self._starts[:-1].copy()  # per term, where its next part's postings go
        for ids, counts, rows, frequencies in pieces:
            first = np.cumsum(counts) - counts
            target = np.repeat(free[ids] - first, counts) + np.arange(len(rows))
            self._rows[target] = rows
            self._tf[target] = frequencies
            free[ids] += counts

    def _idf_values(self, kind: Idf) -> Scores:
        # By the distinct document frequencies and math.log: few calls, and the bits do not depend on a vector unit.
        distinct, inverse = np.unique(self._df, return_inverse=True)
        n = self.corpus_size
        if kind == "lucene":
            return np.array([math.log(1.0 + (n - df + 0.5) / (df + 0.5)) for df in distinct.tolist()])[inverse]
        values = np.array([math.log(n - df + 0.5) - math.log(df + 0.5) for df in distinct.tolist()])[inverse]
        present = values[self._df > 0]
        self.average_idf = math.fsum(present) / len(present) if len(present) else 0.0
        values[values < 0] = self.epsilon * self.average_idf
        return values

    def _weigh(self) -> None:
        average = self.avgdl or 1.0  # without a token there is no posting to weigh
        length_part = self.k1 * (1.0 - self.b + self.b * self.doc_len / average)
        weights: Scores = np.repeat(self._idf, self._df)
        for at in range(0, len(weights), _BLOCK):
            block = slice(at, at + _BLOCK)
            tf = self._tf[block].astype(np.float64)
            weights[block] *= tf * (self.k1 + 1.0) / (tf + length_part[self._rows[block]])
        self._weights = weights
        del self._tf  # not needed again: 20 MB at five million postings

    # ---- asking

    def scores(self, terms: Iterable[str]) -> Scores:
        """float64 [all rows]: the score of every row, 0.0 where no term of the query occurs. Repeats count once."""
        return self._added(self._postings_of(terms))

    def matched(self, terms: Iterable[str]) -> Mask:
        """bool [all rows]: whether a live row holds at least one of the terms. Not the same as a score above 0, which
        Okapi's idf can miss."""
        return self._holding(self._postings_of(terms))

    def top(self, terms: Iterable[str], n: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """The ``n`` best matched rows and **every further row whose score equals the n-th**, so that the caller can
        break ties by id: (rows int64, scores float64), scores falling, equal scores by row.

        ``allowed`` (bool [all rows]) restricts the rows, not the statistics. Raises UsageError if ``n`` < 1.
        """
        if n < 1:
            raise UsageError(f"at least one row must be asked for, not {n}")
        postings = self._postings_of(terms)
        scores = self._added(postings)
        if allowed is None:
            rows = self._promising(postings, scores, n)
        else:
            rows = np.flatnonzero(self._holding(postings) & _checked(allowed, self.row_count))
        found = scores[rows]
        if len(rows) > n:
            keep = found >= np.partition(found, len(rows) - n)[len(rows) - n]
            rows, found = rows[keep], found[keep]
        order = np.argsort(-found, kind="stable")
        return rows[order], found[order]

    def score_rows(self, terms: Iterable[str], rows: Sequence[int] | Rows) -> Scores:
        """float64 [rows]: the scores of these rows alone, the same bits as in ``scores``. Raises UsageError for a row
        that does not exist."""
        wanted = np.asarray(rows, dtype=np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.row_count:
            raise UsageError(f"rows go from 0 to {self.row_count - 1}")
        result = np.zeros(len(wanted))
        for having, weights in self._postings_of(terms):
            at = np.minimum(np.searchsorted(having, wanted), len(having) - 1)
            result += np.where(having[at] == wanted, weights[at], 0.0)
        return result

    def document_frequency(self, term: str) -> int:
        """How many live rows hold the term."""
        number = self._numbers.get(term)
        return 0 if number is None else int(self._df[number])

    def rows_of(self, term: str) -> Rows:
        """int64: the live rows that hold the term, ascending."""
        postings = self._postings_of([term])
        return postings[0][0].astype(np.int64) if postings else np.empty(0, np.int64)

    def terms_with(self, prefix: str) -> Iterator[str]:
        """Terms of live rows that begin with ``prefix``."""
        return (term for term, number in self._numbers.items() if term.startswith(prefix) and self._df[number])

    def terms_in(self, terms: Iterable[str], row: int) -> list[str]:
        """Those of ``terms`` that a live row holds, each once, sorted. UsageError for a row that does not exist."""
        if not 0 <= row < self.row_count:
            raise UsageError(f"rows go from 0 to {self.row_count - 1}")
        return [term for term in sorted(set(terms)) if self._holds(term, row)]

    def _holds(self, term: str, row: int) -> bool:
        for having, _ in self._postings_of([term]):
            at = int(np.searchsorted(having, row))
            return at < len(having) and int(having[at]) == row
        return False

    def rarity(self, term: str) -> float:
        """How much a term tells: ``ln(1 + (N - df + 0.5) / (df + 0.5))``, greatest for one that no live row holds."""
        df = self.document_frequency(term)
        return math.log(1.0 + (self.corpus_size - df + 0.5) / (df + 0.5))

    @property
    def idf(self) -> dict[str, float]:
        """term -> idf of the terms of live rows, made anew at each call."""
        return {term: float(self._idf[number]) for term, number in self._numbers.items() if self._df[number]}

    def _postings_of(self, terms: Iterable[str]) -> list[tuple[NDArray[np.int32], Scores]]:
        """(rows, weights) of each known term, terms once and in sorted order: a row's sum is then always added in
        the same order, which is what keeps its bits the same in every layout."""
        found = []
        for term in sorted(set(terms)):
            number = self._numbers.get(term)
            if number is not None and self._df[number]:
                piece = slice(self._starts[number], self._starts[number + 1])
                found.append((self._rows[piece], self._weights[piece]))
        return found

    def _added(self, postings: Sequence[tuple[NDArray[np.int32], Scores]]) -> Scores:
        scores = np.zeros(self.row_count)
        for rows, weights in postings:
            np.add.at(scores, rows, weights)  # faster here than scores[rows] += weights, which gathers first
        return scores

    def _holding(self, postings: Sequence[tuple[NDArray[np.int32], Scores]]) -> Mask:
        holding = np.zeros(self.row_count, dtype=np.bool_)
        for rows, _ in postings:
            holding[rows] = True
        return holding

    def _promising(self, postings: Sequence[tuple[NDArray[np.int32], Scores]], scores: Scores, n: int) -> Rows:
        """A superset of the best ``n`` matched rows and their ties, as small as one look at one term makes it.

        The n-th best among the rows of one term is a lower bound of the n-th best of all; the shortest list that has n
        rows belongs to the rarest such term, whose rows score high. A bound above 0 also keeps out unmatched rows.
        """
        long_enough = [rows for rows, _ in postings if len(rows) >= n]
        if long_enough:
            some = scores[min(long_enough, key=len)]
            bound = np.partition(some, len(some) - n)[len(some) - n]
            if bound > 0.0:
                return np.flatnonzero(scores >= bound)
        return np.flatnonzero(self._holding(postings))

    # ---- rank-bm25's own names

    def get_scores(self, query: Iterable[str]) -> Scores:
        """rank-bm25's name for ``scores``; a repeated term counts once here, twice there."""
        return self.scores(query)

    def get_batch_scores(self, query: Iterable[str], doc_ids: Sequence[int]) -> list[float]:
        """rank-bm25's name for ``score_rows``."""
        result: list[float] = self.score_rows(query, doc_ids).tolist()
        return result

    def get_top_n(self, query: Iterable[str], documents: Sequence[Any], n: int = 5) -> list[Any]:
        """The best ``n`` documents **that match**, ties by row; rank-bm25's own fills up with documents that do not.
        Raises UsageError if there is not one document per row."""
        if len(documents) != self.row_count:
            raise UsageError(f"{len(documents)} documents were given for {self.row_count} rows")
        return [documents[row] for row in self.top(query, n)[0][:n]]


def _checked(mask: Mask | None, rows: int) -> Mask:
    if mask is None:
        return np.ones(rows, dtype=np.bool_)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        raise UsageError(f"a mask of {rows} booleans is needed, not {mask.dtype} {mask.shape}")
    return mask


def _joined(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype)
