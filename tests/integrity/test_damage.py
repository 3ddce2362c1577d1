"""A flipped bit, a cut, an added byte, a swapped or missing file: opening finds it where it is used, verify everywhere."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbcore.errors import CorruptReleaseError, KbError
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.evaluation.runner import card_of
from kbcore.evaluation.scorecard import Scorecard
from kbcore.knowledge_base import KnowledgeBase
from kbcore.store import envelope, evals, layout
from kbcore.verification import verify_repository
from tests.support import DOCUMENTS, configure, knowledge_base, refreshed, write

# Files that a search on the current release reads; vectors.parquet stands behind the FAISS part and is read by verify.
USED_BY_OPEN = (
    "repository.json", "manifests/r000002.json", "promotions/000002.json", "segment.json", layout.DOCUMENTS_FILE,
    layout.CHUNKS_FILE, layout.DENSE_FILE, layout.TERMS_FILE, layout.POSTINGS_FILE, "embedders/", "deletes/",
)  # fmt: skip
QUESTIONS = QuestionSet(
    "desk.jsonl",
    (
        *(Question(id=f"y{n}", question=f"text {n}", expected=(Expected(doc_id="docs:vpn.md"),)) for n in range(5)),
        *(Question(id=f"n{n}", question=f"volcano {n}", no_answer=True) for n in range(5)),
    ),
)
Damage = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases: the second has a segment of its own, a deletes file, the first one's segment, and an evaluation."""
    path = tmp_path_factory.mktemp("damage")
    base = knowledge_base(path)
    refreshed(base)
    write(path / "docs", {"vpn.md": "# VPN\n\nAnother text.\n", "new.md": "# New\n\nA new page.\n"})
    refreshed(base)
    run = base.repository.begin()
    base.repository.erase([{"doc_id": "docs:never.md", "content_sha256": None}], reason="test", run=run)
    evaluate(base)
    return path


def evaluate(base: KnowledgeBase) -> Scorecard:
    """The scorecard that is kept of the second release; made and kept where none is that reads."""
    settings = base.settings(base.repository.manifest("r000002"), "keyword")
    return card_of(base.repository, "r000002", QUESTIONS, base.catalog, settings, names=("nDCG@10",))


def files(root: Path) -> list[str]:
    folder = KnowledgeBase(configure(root)).folder
    names = [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file()]
    return [n for n in names if n.split("/")[0] not in ("staging", "cache", "lease")]


def used_by_open(name: str) -> bool:
    return any(part in name for part in USED_BY_OPEN)


def search(base: KnowledgeBase) -> None:
    base.retriever().search("gateway")


def damages(data: bytes, rng: random.Random, bits: int) -> Iterator[tuple[str, bytes]]:
    for cut in sorted({0, 1, len(data) // 2, len(data) - 1}):
        yield f"cut to {cut} bytes", data[:cut]
    yield "one byte added", data + b"\0"
    yield "one line feed added", data + b"\n"
    places = [*range(min(len(data) * 8, bits)), *(rng.randrange(len(data) * 8) for _ in range(bits))]
    for bit in places:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        yield f"bit {bit} flipped", bytes(changed)


def findings(base: KnowledgeBase) -> list[str]:
    """What verify says, as file names."""
    try:
        repository = base.repository
        return [f.file for f in verify_repository(repository, repository.releases())]
    except CorruptReleaseError as error:
        return [error.file]


def check(root: Path, bits: int) -> int:
    rng = random.Random(4012)
    folder = KnowledgeBase(configure(root)).folder
    tried = 0
    for name in files(root):
        path = folder / name
        data = path.read_bytes()
        try:
            for what, changed in damages(data, rng, bits):
                path.write_bytes(changed)
                tried += 1
                assert any(name in found for found in findings(KnowledgeBase(configure(root)))), (
                    f"verify is broken: {name}, {what}"
                )
                if used_by_open(name):
                    with pytest.raises(CorruptReleaseError) as error:
                        search(KnowledgeBase(configure(root)))
                    assert error.value.file == name, what
        finally:
            path.write_bytes(data)
    assert findings(KnowledgeBase(configure(root))) == []
    return tried


def test_every_damaged_file_is_found_by_open_and_by_verify(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    assert check(copy, bits=6) > 200


@pytest.mark.long
def test_every_damaged_bit_is_found_in_every_file_type(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    assert check(copy, bits=256) > 5000


def test_every_kind_of_file_is_tried(root: Path) -> None:
    names = files(root)
    for part in ("repository.json", "manifests/", "promotions/", "checks/", "erased/", "embedders/", "deletes/",
                 "evals/r000001/gate-", "evals/r000002/gate-", "evals/r000002/scorecard-", "evals/r000002/answers-",
                 "segment.json", *(f for f in (layout.DOCUMENTS_FILE, layout.CHUNKS_FILE, layout.VECTORS_FILE,
                                               layout.DENSE_FILE, layout.TERMS_FILE, layout.POSTINGS_FILE))):  # fmt: skip
        assert any(part in name for name in names), part


def test_a_missing_or_swapped_file_is_found(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    folder = KnowledgeBase(configure(copy)).folder
    for name in files(copy):
        path = folder / name
        data = path.read_bytes()
        others = [
            p
            for p in sorted(path.parent.parent.rglob(path.name) if "segments" in name else path.parent.iterdir())
            if p != path and p.is_file()
        ]
        for replacement in [None, *(p.read_bytes() for p in others[:2])]:
            is_last = path == max(path.parent.iterdir())
            if replacement is None:
                path.unlink()
            else:
                path.write_bytes(replacement)
            # The last entry of a log that is gone cannot be missed by what is left of it.
            last = replacement is None and name.split("/")[0] in ("promotions", "checks", "erased") and is_last
            # Nothing names a scorecard: it may be dropped.
            last = last or (replacement is None and "/scorecard-" in name)
            if not last and name != "repository.json":
                assert findings(KnowledgeBase(configure(copy))), (
                    f"verify is broken: {name} {'missing' if replacement is None else 'swapped'}"
                )
            if used_by_open(name) and not last:
                with pytest.raises(KbError):
                    search(KnowledgeBase(configure(copy)))
            path.write_bytes(data)


def test_the_message_names_file_and_release_and_other_releases_still_open(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    newest = base.repository.manifest("r000002").segments[-1].name
    path = base.folder / layout.segment_file(newest, layout.CHUNKS_FILE)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptReleaseError, match=r"r000002: segments/.*/chunks\.parquet") as error:
        base.retriever("r000002")
    assert error.value.release == "r000002"
    assert base.retriever("r000001").search("gateway").hits


def test_damage_refuses_a_promotion_and_a_rollback(tmp_path: Path) -> None:
    from kbcore.promotion import promote, rollback

    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {name: f"{text}\n\nMore.\n" for name, text in DOCUMENTS.items()})
    refreshed(base)
    old = base.repository.manifest("r000001").segments[0].name
    path = base.folder / layout.segment_file(old, layout.VECTORS_FILE)
    path.write_bytes(path.read_bytes() + b"x")
    for move in (
        lambda: rollback(
            base.repository, base.catalog, reason="worse", run=base.repository.begin(), check_embedder=False
        ),
        lambda: promote(base.repository, "r000001", base.catalog, reason="worse", run=base.repository.begin()),
    ):
        with pytest.raises(CorruptReleaseError):
            move()
    assert base.repository.state().release == "r000002"


def record(base: KnowledgeBase, kind: str, release: str = "r000002") -> Path:
    (entry,) = evals.listed(base.repository, release, kind)
    return base.folder / entry.file


@pytest.mark.parametrize("kind", ["scorecard", "answers", "gate"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-5], lambda data: data.replace(b"r000002", b"r000003"), lambda _: b""]
)
def test_a_damaged_evaluation_stops_neither_search_nor_eval_nor_refresh(
    root: Path, tmp_path: Path, kind: str, damage: Damage
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    before = evaluate(base)
    path = record(base, kind)
    path.write_bytes(damage(path.read_bytes()))
    search(base)
    after = evaluate(base)
    assert after.means == before.means
    # What reads is used as it was, what does not is made again.
    assert (after.run == before.run) == (kind == "gate")
    write(copy / "docs", {"vpn.md": "# VPN\n\nA third text.\n"})
    assert refreshed(base).promoted
    assert [finding for finding in findings(base) if "/evals/" not in f"/{finding}"] == (
        ["promotions/000002.json"] if kind == "gate" else []
    )


def test_every_flipped_byte_of_an_evaluations_records_is_found(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    rng = random.Random(4012)
    for entry in evals.listed(base.repository):
        path = base.folder / entry.file
        data = path.read_bytes()
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            with pytest.raises(CorruptReleaseError):
                evals.read(base.repository, entry)
            if at % 40 == 0:
                # No release is read: these records are those of the repository.
                found = [finding.file for finding in verify_repository(base.repository, [])]
                assert entry.file in found, f"verify is broken: {entry.file}, byte {at}"
        path.write_bytes(data)
    assert verify_repository(base.repository, []) == []


def test_a_scorecard_whose_shape_is_unknown_is_made_again(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    path = record(base, "scorecard")
    body = envelope.unseal(path.read_bytes(), file=path.name)
    path.write_bytes(envelope.seal({**body, "slices": [{"by": "planet", "value": "Mars"}]}))
    assert evaluate(base).means


def test_a_scorecard_of_other_answers_or_of_another_manifest_is_found(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    path = record(base, "scorecard")
    data = path.read_bytes()
    body = envelope.unseal(data, file=path.name)
    for key, wrong, reason in (
        ("answers", ["0" * 64], "not the answers"), ("manifest_digest", "0" * 64, "another manifest"),
    ):  # fmt: skip
        path.write_bytes(envelope.seal({**body, key: wrong}))
        (found,) = verify_repository(base.repository, base.repository.releases())
        assert reason in found.reason
    path.write_bytes(data)
    record(base, "answers").unlink()
    (found,) = verify_repository(base.repository, base.repository.releases())
    assert ("/answers-" in found.file, found.reason) == (True, "is missing")


def test_a_promotion_whose_gate_record_is_missing_or_another_ones_is_found(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    assert base.repository.promotion(2).gate is not None
    path = record(base, "gate")
    data = path.read_bytes()
    path.unlink()
    (found,) = verify_repository(base.repository, base.repository.releases())
    assert (found.release, found.file) == ("r000002", "promotions/000002.json")
    assert "names a gate record" in found.reason
    # A record that is intact in itself, of this release, and not the one that let it pass.
    body = envelope.unseal(data, file=path.name)
    path.write_bytes(envelope.seal({**body, "verdict": "fail"}))
    assert [f.file for f in verify_repository(base.repository, base.repository.releases())] == [
        "promotions/000002.json"
    ]


def test_files_that_are_not_kbcores_among_the_evaluations_are_named_and_of_no_consequence(
    root: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    base = KnowledgeBase(configure(copy))
    foreign = ["evals/notes.txt", "evals/r000002/gate-draft.json", "evals/r2/.DS_Store"]
    write(base.folder, dict.fromkeys(foreign, "{}"))
    assert sorted(findings(base)) == sorted(foreign)
    search(base)
    assert evaluate(base).means
    entry = evals.listed(base.repository, "r000002", evals.GATE)[0]
    write(base.folder, {entry.file.replace("r000002", "r000009"): (base.folder / entry.file).read_bytes()})
    assert entry.file.replace("r000002", "r000009") in findings(base)
