"""Vector search against numpy, and what FAISS lets through that must not reach an answer."""

from __future__ import annotations

import gc
import random

import faiss
import numpy as np
import pytest

from kbcore.errors import CorruptReleaseError, EmbeddingFailedError, KbError, UsageError
from kbcore.index.dense import DenseIndex, DensePart, bounded, from_index_bytes, to_index_bytes


def unit(values) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def vectors(seed: int, n: int, d: int) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal((n, d)))


def opened(values: np.ndarray, kind="flat") -> faiss.Index:
    n, d = values.shape
    return from_index_bytes(to_index_bytes(values, kind), dimension=d, count=n, file="segments/a/x.faiss", kind=kind)


def index_of(values: np.ndarray, cuts=(), live=None, kind="flat") -> DenseIndex:
    """The rows cut into parts at ``cuts``, each with its share of the live mask."""
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(values)]):
        piece = np.ascontiguousarray(values[start:end])
        mask = None if live is None else live[start:end]
        parts.append(DensePart(opened(piece, kind), mask, start, piece if kind == "fp16" else None))
    return DenseIndex(parts, dimension=values.shape[1])


def names(rows: np.ndarray) -> list[str]:
    return [f"{row:06d}" for row in rows.tolist()]


def brute(values, query, k, live=None) -> list[tuple[int, float]]:
    exact = values.astype(np.float64) @ unit64(query)
    rows = np.arange(len(values)) if live is None else np.flatnonzero(live)
    # Rounded, so that equal vectors tie here as well whatever the order BLAS adds in.
    order = sorted(rows.tolist(), key=lambda row: (-round(exact[row], 12), row))
    return [(row, min(max(exact[row], -1.0), 1.0)) for row in order[:k]]


def unit64(query) -> np.ndarray:
    query = np.asarray(query, dtype=np.float64)
    return query / np.linalg.norm(query)


@pytest.mark.parametrize("kind", ["flat", "fp16"])
@pytest.mark.parametrize("seed", range(12))
def test_hits_and_cosines_are_those_of_numpy(seed, kind):
    rng = random.Random(seed)
    n, d = rng.choice([1, 7, 300, 1500]), rng.choice([1, 3, 64, 384])
    values = vectors(seed, n, d)
    cuts = sorted(rng.randint(0, n) for _ in range(rng.randint(0, 4)))
    live = None if seed % 3 == 0 else np.random.default_rng(seed).random(n) < 0.7
    index = index_of(values, cuts, live, kind)
    for number in range(5):
        query = np.random.default_rng(seed * 100 + number).standard_normal(d).astype(np.float32) * 3
        k = rng.choice([1, 5, 40, 2 * n])
        found = index.search(query, k, names)
        expected = brute(values, query, k, live)
        assert [row for row, _ in found.hits] == [row for row, _ in expected]
        np.testing.assert_allclose([c for _, c in found.hits], [c for _, c in expected], rtol=0, atol=1e-12)
        assert found.ntotal == n
        assert len(found.hits) <= found.rescored <= found.bounded_labels <= found.raw_labels


def test_same_orthogonal_opposite_and_three_fifths():
    values = np.array([[1, 0], [0, 1], [-1, 0], [0.6, 0.8]], dtype=np.float32)
    found = dict(index_of(values).search(np.array([1, 0], dtype=np.float32), 4, names).hits)
    assert found == pytest.approx({0: 1.0, 3: 0.6, 1: 0.0, 2: -1.0}, abs=1e-7)
    assert all(-1.0 <= cosine <= 1.0 for cosine in found.values())


@pytest.mark.parametrize("kind", ["flat", "fp16"])
def test_300_equal_vectors_in_two_layouts_give_the_same_ids(kind):
    # More equal rows than are nominated first, so which of them FAISS names is chance.
    values = np.concatenate([vectors(1, 200, 32), np.repeat(vectors(2, 1, 32), 300, axis=0)])
    ids = [f"{(row * 7919) % 500:03d}" for row in range(500)]
    query = values[450]
    shuffled = np.random.default_rng(3).permutation(500)
    one = index_of(values, kind=kind).search(query, 30, lambda rows: [ids[row] for row in rows])
    two = index_of(values[shuffled], [120, 120, 350], kind=kind).search(
        query, 30, lambda rows: [ids[shuffled[row]] for row in rows]
    )
    first = [(ids[row], cosine) for row, cosine in one.hits]
    assert first == [(ids[shuffled[row]], cosine) for row, cosine in two.hits]
    assert [key for key, _ in first] == sorted(ids[200:])[:30]


@pytest.mark.parametrize(("kind", "apart"), [("flat", 1e-7), ("fp16", 1e-4)])
def test_rows_closer_than_the_nominating_scores_can_tell_are_in_their_exact_order(kind, apart):
    noise = np.random.default_rng(4).standard_normal((600, 64))
    values = unit(vectors(4, 1, 64) + apart * noise)
    for number in range(20):
        query = unit(values[0] + 0.5 * vectors(50 + number, 1, 64)[0])
        exact = index_of(values).cosines(query, np.arange(600))
        expected = sorted(range(600), key=lambda row: (-exact[row], row))[:10]
        assert [row for row, _ in index_of(values, [250], kind=kind).search(query, 10, names).hits] == expected


def test_a_cosine_has_the_same_bits_alone_and_in_a_batch():
    for d in (1, 7, 8, 129, 384, 1024):
        values, query = vectors(d, 5000, d), vectors(d + 1, 1, d)[0]
        index = index_of(values)
        together = index.cosines(query, np.arange(5000))
        assert [index.cosines(query, [row])[0] for row in range(0, 5000, 97)] == together[::97].tolist()
        assert index.cosines(query, np.arange(4999, -1, -1)).tolist() == together[::-1].tolist()
        for row, cosine in index.search(query, 20, names).hits:
            assert cosine == together[row]


def test_a_dead_or_not_allowed_row_never_comes_back_and_hides_no_other():
    values = vectors(5, 2000, 16)
    query = values[0]
    nearest = [row for row, _ in brute(values, query, 600)]
    live = np.ones(2000, dtype=bool)
    live[nearest[:500]] = False  # far more dead rows in front than are nominated
    found = index_of(values, [900], live).search(query, 10, names)
    assert [row for row, _ in found.hits] == nearest[500:510]
    allowed = np.zeros(2000, dtype=bool)
    allowed[nearest[505:508]] = True
    found = index_of(values, [900], live).search(query, 10, names, allowed)
    assert [row for row, _ in found.hits] == nearest[505:508]


def label_makers():
    values = vectors(6, 1000, 16)
    flat, hnsw = faiss.IndexFlatIP(16), faiss.IndexHNSWFlat(16, 16, faiss.METRIC_INNER_PRODUCT)
    ivf = faiss.IndexIVFFlat(faiss.IndexFlatIP(16), 16, 20, faiss.METRIC_INNER_PRODUCT)
    ivf.train(values)
    for index in (flat, hnsw, ivf):
        index.add(values)
    return {"flat": flat, "hnsw": hnsw, "ivf": ivf}


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
def test_padding_of_every_kind_of_index_is_dropped_by_the_bounded_look_up(kind):
    index = label_makers()[kind]
    _, labels = index.search(vectors(6, 1, 16), 1500)  # k > ntotal
    kept = labels[0][bounded(labels[0], 1000)]
    assert (labels[0] == -1).sum() >= 500
    assert 0 < len(kept) <= 1000
    assert len(set(kept.tolist())) == len(kept)
    assert kept.min() >= 0
    assert kept.max() < 1000


@pytest.mark.parametrize("label", [1000, 2**40, -2])
def test_a_label_that_is_no_row_is_damage(label):
    with pytest.raises(CorruptReleaseError, match=r"a\.faiss"):
        bounded(np.array([3, label, -1]), 1000, "a.faiss")


def test_more_rows_asked_for_than_there_are_is_normal_and_an_empty_index_finds_nothing():
    values = vectors(7, 5, 8)
    assert len(index_of(values).search(values[0], 10**9, names).hits) == 5
    assert index_of(values[:0]).search(values[0], 3, names).hits == ()
    assert index_of(values, live=np.zeros(5, dtype=bool)).search(values[0], 3, names).hits == ()
    assert DenseIndex([], dimension=8).search(values[0], 3, names).hits == ()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ([1.0, 2.0, 3.0], "length 3, the index 8"),
        ([[1.0] * 8], "the index 8"),
        ([float("nan")] + [1.0] * 7, "not finite"),
        ([float("inf")] + [1.0] * 7, "not finite"),
        ([0.0] * 8, "zero"),
    ],
)
def test_a_query_that_points_nowhere_is_an_error_not_an_empty_answer(query, reason):
    index = index_of(vectors(8, 5, 8))
    with pytest.raises(EmbeddingFailedError, match=reason):
        index.search(np.array(query, dtype=np.float32), 3, names)
    with pytest.raises(EmbeddingFailedError, match=reason):
        index.cosines(np.array(query, dtype=np.float32), [0])


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_only_the_direction_of_a_query_matters(scale):
    values = vectors(9, 50, 8)
    index = index_of(values)
    expected = index.search(values[3], 5, names).hits
    found = index.search(values[3] * np.float32(scale), 5, names).hits
    assert [row for row, _ in found] == [row for row, _ in expected]
    assert [c for _, c in found] == pytest.approx([c for _, c in expected], abs=1e-6)


@pytest.mark.parametrize("k", [0, -1])
def test_no_rows_asked_for_is_refused(k):
    with pytest.raises(UsageError):
        index_of(vectors(8, 5, 8)).search(vectors(8, 1, 8)[0], k, names)


def test_rows_that_do_not_exist_have_no_cosine():
    index = index_of(vectors(8, 5, 8))
    for row in (-1, 5):
        with pytest.raises(UsageError, match=f"row {row} "):
            index.cosines(vectors(8, 1, 8)[0], [0, row])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, 2.0])
def test_vectors_that_are_not_of_length_one_are_not_indexed(bad):
    values = vectors(8, 5, 8)
    values[2] = bad
    with pytest.raises(EmbeddingFailedError, match="vector 2"):
        to_index_bytes(values)
    with pytest.raises(UsageError):
        to_index_bytes(values.astype(np.float64))


def test_parts_that_do_not_fit_are_refused():
    values = vectors(8, 5, 8)
    index, half = opened(values), opened(values, "fp16")
    for parts in (
        [DensePart(index), DensePart(index, offset=4)],
        [DensePart(index, np.ones(4, dtype=bool))],
        [DensePart(index, np.ones(5, dtype=np.int8))],
        [DensePart(half)],
        [DensePart(half, vectors=values[:4])],
        [DensePart(opened(vectors(8, 5, 9)))],
    ):
        with pytest.raises(UsageError):
            DenseIndex(parts, dimension=8)


def test_a_file_that_is_not_what_the_manifest_says_is_damage():
    values = vectors(10, 40, 8)
    good = to_index_bytes(values)
    other = faiss.IndexFlatL2(8)
    other.add(values)
    hnsw = faiss.IndexHNSWFlat(8, 8, faiss.METRIC_INNER_PRODUCT)
    hnsw.add(values)
    wrong = [good[:cut] for cut in (0, 3, 20, 44, 46, len(good) - 1)]
    wrong += [good + b"\0", good + bytes(4096), to_index_bytes(values[:39]), to_index_bytes(vectors(1, 40, 9))]
    wrong += [faiss.serialize_index(index).tobytes() for index in (other, hnsw)]
    wrong += [to_index_bytes(values, "fp16")]
    for data in wrong:
        with pytest.raises(CorruptReleaseError, match=r"segments/a/x\.faiss"):
            from_index_bytes(data, dimension=8, count=40, file="segments/a/x.faiss")


def test_no_flipped_bit_of_the_head_ends_in_another_metric_size_or_a_crash():
    values = vectors(10, 40, 8)
    good = to_index_bytes(values)
    query, expected = values[0], index_of(values).search(values[0], 5, names).hits
    for bit in range(8 * (len(good) - values.nbytes)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        try:
            index = from_index_bytes(bytes(data), dimension=8, count=40, file="x")
        except KbError as error:
            assert isinstance(error, CorruptReleaseError)  # noqa: PT017
        else:
            assert DenseIndex([DensePart(index)], dimension=8).search(query, 5, names).hits == expected


def test_an_index_keeps_its_bytes_alive_and_its_vectors_begin_on_a_cache_line():
    values = vectors(11, 3000, 64)
    data = to_index_bytes(values)
    index = from_index_bytes(memoryview(data), dimension=64, count=3000, file="x")
    assert int(index.get_xb()) % 64 == 0
    search = DenseIndex([DensePart(index)], dimension=64)
    del data, index
    gc.collect()
    filler = [bytes(800_000) for _ in range(20)]  # would be written over freed memory
    assert [row for row, _ in search.search(values[5], 10, names).hits] == [r for r, _ in brute(values, values[5], 10)]
    del filler


def test_reading_and_asking_leave_the_settings_of_faiss_as_they_were():
    before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    threads = faiss.omp_get_max_threads()
    values = vectors(12, 20, 8)
    index_of(values).search(values[0], 3, names)
    assert (faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()) == before
    assert faiss.omp_get_max_threads() == threads
