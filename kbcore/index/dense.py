"""Exact vector search: FAISS nominates, float64 decides.

A segment's vectors are one flat FAISS index over inner products of unit vectors, so that a score is a cosine. FAISS
adds in float32 and in an order of its own, so its scores only nominate: every candidate that could be among the best is
scored again in float64, row by row, and equal cosines are ordered by id. The answer then does not depend on segment
layout, batch size or threads.

Row numbers are global: ``offset`` of the part plus FAISS label. A query runs on one thread (``omp_set_num_threads(1)``
around the call, since OpenMP keeps the number per calling thread): a second thread gains little, and several queries
at once do not compete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from kbcore.arrays import Mask, Vectors
from kbcore.errors import CorruptReleaseError, EmbeddingFailedError, UsageError

_lib: Any = faiss  # for calls: the types FAISS ships lack much of what it exports

Kind = Literal["flat", "fp16"]
Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
Tie = Callable[[Rows], Sequence[str]]

UNIT_TOLERANCE = 1e-4  # how far from 1 the length of a stored vector may be
_FIRST = 100  # rows nominated at least
_GROWTH = 4  # how many times more are nominated when that was too few: each time is a scan of the whole part
_LINE = 64  # bytes of a cache line
_BLOCK = 4096  # rows rescored at once, to bound the memory
_limits = threading.Lock()  # FAISS keeps its reading limits per process


def to_index_bytes(vectors: Vectors, kind: Kind = "flat") -> bytes:
    """The FAISS index file of one segment: float32 [n, d] unit vectors, row n becomes label n.

    ``flat`` keeps the vectors as they are; ``fp16`` keeps half floats, which nominate at half the memory and need the
    exact vectors beside them. Raises EmbeddingFailedError for vectors that are not finite or not of length 1.
    """
    if vectors.ndim != 2 or vectors.dtype != np.float32 or vectors.shape[1] == 0:
        raise UsageError(f"vectors are float32 [n, d], not {vectors.dtype} {vectors.shape}")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    wrong = np.flatnonzero(~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE))  # a NaN compares as wrong too
    if len(wrong):
        raise EmbeddingFailedError(
            f"vector {wrong[0]} has length {lengths[wrong[0]]}, not 1 ({len(wrong)} such vectors)"
        )
    index = _empty(kind, vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    data: bytes = _lib.serialize_index(index).tobytes()
    return data


def from_index_bytes(
    data: bytes | memoryview, *, dimension: int, count: int, file: str, kind: Kind = "flat"
) -> faiss.Index:
    """The index of a segment. It keeps one copy of ``data`` of its own, laid so that the vectors begin on a cache line:
    in the file they begin at byte 45, and a scan of vectors across cache lines takes half as long again.

    ``data`` must already be the bytes its digest names: FAISS itself accepts flipped bits. What the manifest says is
    held against what the file says: kind, metric, ``dimension``, ``count``, no trailing bytes. Otherwise raises
    CorruptReleaseError with ``file``.
    """
    expected = _empty(kind, dimension)
    buffer = _aligned(data, header=len(data) - count * expected.code_size)
    if not len(buffer):
        raise CorruptReleaseError("the index file is empty", file=file)
    try:
        reader = _lib.ZeroCopyIOReader(_lib.swig_ptr(buffer), len(buffer))
        with _reading_limits(len(buffer)):
            index: Any = _lib.read_index(reader)
    except (RuntimeError, MemoryError, AssertionError) as error:
        reason = str(error).strip().rsplit("Error: ", 1)[-1] or type(error).__name__
        raise CorruptReleaseError(f"FAISS cannot read the index: {reason}", file=file) from error
    index.referenced_objects = [reader, buffer]  # the list FAISS itself keeps such owners in
    found = {
        "kind": (type(index).__name__, type(expected).__name__),
        "dimension": (index.d, dimension),
        "vectors": (index.ntotal, count),
        "metric": (index.metric_type, _lib.METRIC_INNER_PRODUCT),
        "trained": (bool(index.is_trained), True),
        "bytes read": (int(reader.rp_), len(buffer)),
    }
    for what, (has, wants) in found.items():
        if has != wants:
            raise CorruptReleaseError(f"{what}: the index has {has}, the manifest says {wants}", file=file)
    stored = (index.codes.size(), index.code_size, index.sq.qtype if kind == "fp16" else None)
    if stored != (count * expected.code_size, expected.code_size, expected.sq.qtype if kind == "fp16" else None):
        raise CorruptReleaseError("the stored vectors are not as long as the index says", file=file)
    result: faiss.Index = index
    return result


def _aligned(data: bytes | memoryview, header: int) -> NDArray[np.uint8]:
    """A copy of ``data`` in which what follows ``header`` bytes begins at a multiple of 64."""
    room = np.empty(len(data) + _LINE, dtype=np.uint8)
    start = -(room.ctypes.data + header) % _LINE
    buffer = room[start : start + len(data)]
    buffer[:] = np.frombuffer(data, dtype=np.uint8)
    return buffer


def bounded(labels: NDArray[np.int64], ntotal: int, file: str = "index") -> NDArray[np.bool_]:
    """Which FAISS labels are rows: -1 is padding (fewer rows than asked for) and dropped; any other number outside
    ``[0, ntotal)`` means that index and rows do not belong together: CorruptReleaseError."""
    if len(labels) and (labels.max() >= ntotal or labels.min() < -1):
        reason = f"FAISS returned labels from {labels.min()} to {labels.max()} for {ntotal} rows"
        raise CorruptReleaseError(reason, file=file)
    return labels >= 0


@dataclass(frozen=True, slots=True, eq=False)
class DensePart:
    """One segment: its index, which rows are live (bool [n], None for all), the global row of its label 0, and the
    exact float32 vectors [n, d] (None where the index is flat and holds them itself). ``file`` names it in errors."""

    index: faiss.Index
    live: Mask | None = None
    offset: int = 0
    vectors: Vectors | None = None
    file: str = "index"


@dataclass(frozen=True, slots=True)
class Nearest:
    """``hits``: (global row, cosine), cosine falling, equal cosines by id. The rest is for the log: rows indexed
    (``ntotal``), labels FAISS returned, how many of them were rows, how many rows were scored again."""

    hits: tuple[tuple[int, float], ...]
    ntotal: int
    raw_labels: int
    bounded_labels: int
    rescored: int


class DenseIndex:
    """The live vectors of a release, all segments together. Nothing in it changes after opening."""

    def __init__(self, parts: Sequence[DensePart], *, dimension: int) -> None:
        """Raises UsageError when parts overlap, a mask or the vectors do not fit, or an index has another length."""
        self.dimension = dimension
        self._parts = sorted((_Opened(part, dimension) for part in parts), key=lambda p: (p.offset, p.ntotal))
        ends = [0, *(part.offset + part.ntotal for part in self._parts)]
        if any(part.offset < end for part, end in zip(self._parts, ends)):
            raise UsageError("two parts claim the same rows")
        self.row_count = ends[-1]
        self.ntotal = sum(part.ntotal for part in self._parts)

    def search(self, query: Vectors, k: int, tie: Tie, allowed: Mask | None = None) -> Nearest:
        """The ``k`` live rows nearest to ``query`` (float [d], of any length but 0); fewer where there are fewer.

        ``tie`` gives the ids of rows, which order equal cosines. ``allowed`` (bool [all rows]) restricts the rows.
        Raises EmbeddingFailedError for a query that is zero, not finite or of another length, UsageError for k < 1.
        """
        if k < 1:
            raise UsageError(f"at least one row must be asked for, not {k}")
        exact = self._unit(query)
        single = exact.astype(np.float32)
        selectors = [part.selector(self._checked(allowed)) for part in self._parts]
        found = [part.nominate(single, max(4 * k, _FIRST), sel) for part, sel in zip(self._parts, selectors)]
        near = np.concatenate([np.empty(0, np.float32), *(n.scores for n in found)])
        raw, kept = sum(n.raw for n in found), len(near)

        # The k-th nominee is not better than the k-th best row. A row whose float32 score is more than two margins
        # below it cannot be among the best, so the nominees of a part suffice once its worst lies below that line.
        line = -np.inf
        if len(near) > k:
            margin = max(part.margin for part in self._parts)
            line = float(np.partition(near, len(near) - k)[len(near) - k]) - 2.0 * margin
        rows = [np.empty(0, np.int64)]
        cosines = [np.empty(0, np.float64)]
        for part, sel, nominees in zip(self._parts, selectors, found):
            while not nominees.exhausted and nominees.scores[-1] >= line:
                nominees = part.nominate(single, nominees.raw * _GROWTH, sel)
                raw, kept = raw + nominees.raw, kept + len(nominees.labels)
            labels = nominees.labels[nominees.scores >= line]
            rows.append(labels + part.offset)
            cosines.append(part.cosines(exact, labels))
        all_rows, all_cosines = np.concatenate(rows), np.concatenate(cosines)
        hits = _best(all_rows, all_cosines, k, tie)
        return Nearest(hits, ntotal=self.ntotal, raw_labels=raw, bounded_labels=kept, rescored=len(all_rows))

    def cosines(self, query: Vectors, rows: Sequence[int] | Rows) -> Scores:
        """float64 [rows]: the cosines of these global rows, live or not, the same bits as ``search`` gives. Raises
        UsageError for a row that does not exist."""
        exact = self._unit(query)
        wanted = np.asarray(rows, dtype=np.int64)
        result = np.full(len(wanted), np.nan)
        for part in self._parts:
            inside = (wanted >= part.offset) & (wanted < part.offset + part.ntotal)
            if inside.any():
                result[inside] = part.cosines(exact, wanted[inside] - part.offset)
        if np.isnan(result).any():
            raise UsageError(f"row {wanted[np.isnan(result)][0]} is in none of the {len(self._parts)} parts")
        return result

    def _unit(self, query: Vectors) -> Scores:
        """The query as float64 of length 1."""
        values = np.asarray(query, dtype=np.float64)
        if values.shape != (self.dimension,):
            got = values.shape[0] if values.ndim == 1 else values.shape
            raise EmbeddingFailedError(f"the query vector has length {got}, the index {self.dimension}")
        if not np.isfinite(values).all():
            raise EmbeddingFailedError("the query vector holds values that are not finite")
        largest = float(np.abs(values).max())
        if largest == 0.0:
            raise EmbeddingFailedError("the query vector is zero: it points nowhere")
        values = values / largest  # squares of huge or tiny values would leave the range of a float
        unit: Scores = values / np.sqrt(_row_dots(values[None, :], values)[0])
        return unit

    def _checked(self, allowed: Mask | None) -> Mask | None:
        if allowed is not None and (allowed.dtype != np.bool_ or allowed.shape != (self.row_count,)):
            raise UsageError(f"a mask of {self.row_count} booleans is needed, not {allowed.dtype} {allowed.shape}")
        return allowed


@dataclass(frozen=True, slots=True)
class _Nominees:
    """What FAISS put forward: labels and float32 scores, best first; ``raw`` counts padding too; ``exhausted`` means
    that the part has no further row."""

    labels: Rows
    scores: Vectors
    raw: int
    exhausted: bool


class _Opened:
    """A part, ready to be asked."""

    def __init__(self, part: DensePart, dimension: int) -> None:
        self.index: Any = part.index
        self.offset, self.ntotal, self.file = part.offset, int(part.index.ntotal), part.file
        if part.index.d != dimension:
            raise UsageError(f"an index of vectors of length {part.index.d} among those of length {dimension}")
        if part.live is not None and (part.live.dtype != np.bool_ or part.live.shape != (self.ntotal,)):
            raise UsageError(f"a mask of {self.ntotal} booleans is needed, not {part.live.dtype} {part.live.shape}")
        self.live = None if part.live is None or part.live.all() else part.live
        half = isinstance(part.index, _lib.IndexScalarQuantizer)
        if part.vectors is not None:
            self.vectors = part.vectors
        elif isinstance(part.index, _lib.IndexFlat):
            # A view into the index, which self.index keeps alive.
            values = _lib.rev_swig_ptr(part.index.get_xb(), self.ntotal * dimension)
            self.vectors = values.reshape(self.ntotal, dimension)
        else:
            raise UsageError("an index that does not hold the exact vectors needs them beside it")
        if self.vectors.shape != (self.ntotal, dimension) or self.vectors.dtype != np.float32:
            raise UsageError(f"float32 [{self.ntotal}, {dimension}] is needed, not {self.vectors.shape}")
        # The farthest a nominating score can lie from the exact one, for unit vectors: a float32 sum of d products, in
        # any order, is within (d + 8) * 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), and
        # rounding the stored side to half floats changes a product by at most 2^-11 of it.
        self.margin = max(1e-5, (dimension + 8) * 2.0**-24) + (2.0**-11 + dimension * 2.0**-25 if half else 0.0)

    def selector(self, allowed: Mask | None) -> Any:
        """The rows FAISS may return, None for all."""
        mask = self.live
        if allowed is not None:
            here = allowed[self.offset : self.offset + self.ntotal]
            mask = here if mask is None else mask & here
        return None if mask is None else _lib.IDSelectorBitmap(np.packbits(mask, bitorder="little"))

    def nominate(self, query: Vectors, count: int, selector: Any) -> _Nominees:
        count = min(count, self.ntotal)
        if not count:
            return _Nominees(np.empty(0, np.int64), np.empty(0, np.float32), 0, True)
        params = None if selector is None else _lib.SearchParameters(sel=selector)
        with _one_thread():
            scores, labels = self.index.search(query[None, :], count, params=params)
        kept = bounded(labels[0], self.ntotal, self.file)
        return _Nominees(labels[0][kept], scores[0][kept], count, count == self.ntotal or not kept.all())

    def cosines(self, query: Scores, labels: Rows) -> Scores:
        result = np.empty(len(labels))
        for at in range(0, len(labels), _BLOCK):
            result[at : at + _BLOCK] = _row_dots(self.vectors[labels[at : at + _BLOCK]], query)
        result.clip(-1.0, 1.0, out=result)  # rounding may pass 1 by a bit
        return result


def _row_dots(vectors: NDArray[Any], query: Scores) -> Scores:
    """float64 [n]: inner products, each summed along its own contiguous row. A matrix product would be faster, but BLAS
    picks its order of summation by the shape, so the bits of a row would depend on its company."""
    products = np.ascontiguousarray(vectors, dtype=np.float64) * query
    result: Scores = np.add.reduce(products, axis=1)
    return result


def _best(rows: Rows, cosines: Scores, k: int, tie: Tie) -> tuple[tuple[int, float], ...]:
    if len(rows) > k:
        keep = cosines >= np.partition(cosines, len(rows) - k)[len(rows) - k]
        rows, cosines = rows[keep], cosines[keep]
    ids = tie(rows)
    order = sorted(range(len(rows)), key=lambda at: (-cosines[at], ids[at]))
    return tuple((int(rows[at]), float(cosines[at])) for at in order[:k])


def _empty(kind: Kind, dimension: int) -> Any:
    if kind == "flat":
        return _lib.IndexFlatIP(dimension)
    if kind == "fp16":
        return _lib.IndexScalarQuantizer(dimension, _lib.ScalarQuantizer.QT_fp16, _lib.METRIC_INNER_PRODUCT)
    raise UsageError(f"an index is flat or fp16, not {kind}")


@contextmanager
def _reading_limits(size: int) -> Iterator[None]:
    """FAISS's own caps (1 TiB, loops unlimited) are useless: nothing in a file can be larger than the file."""
    with _limits:
        before = _lib.get_deserialization_vector_byte_limit(), _lib.get_deserialization_loop_limit()
        _lib.set_deserialization_vector_byte_limit(size)
        _lib.set_deserialization_loop_limit(size)
        try:
            yield
        finally:
            _lib.set_deserialization_vector_byte_limit(before[0])
            _lib.set_deserialization_loop_limit(before[1])


@contextmanager
def _one_thread() -> Iterator[None]:
    before = _lib.omp_get_max_threads()
    _lib.omp_set_num_threads(1)
    try:
        yield
    finally:
        _lib.omp_set_num_threads(before)
