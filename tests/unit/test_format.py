"""The specification in releases/README.md and the code agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.evaluation.runner import evaluate, keep
from kbcore.store import envelope, evals, layout
from kbcore.store.manifest import Manifest
from kbcore.store.rows import CHUNKS, DOCUMENTS
from tests.support import ROOT, knowledge_base, refreshed, write

SPECIFICATION = (ROOT / "releases" / "README.md").read_text(encoding="utf-8")


def example() -> dict[str, object]:
    block = SPECIFICATION.split("<!-- manifest -->")[1]
    body: dict[str, object] = json.loads(block.split("```json")[1].split("```")[0])
    return body


def test_the_manifest_example_reads_as_a_manifest() -> None:
    body = example()
    file = layout.manifest_file(str(body["release"]))
    manifest = Manifest.from_body(envelope.unseal(envelope.seal(body), file=file), file=file)
    assert manifest.to_body() == body
    assert manifest.release == "r000002"
    assert manifest.segments[0].deleted == 1


def test_every_column_is_specified() -> None:
    for name in [*DOCUMENTS.names, *CHUNKS.names]:
        assert re.search(rf"\b{name}\b", SPECIFICATION), name


def test_every_folder_is_specified() -> None:
    for folder in (*layout.FOLDERS, layout.LEASE):
        assert f"{folder}/" in SPECIFICATION, folder


def test_the_manifest_example_has_the_keys_of_one_that_was_published(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": "# VPN\n\nAnother text.\n"})
    refreshed(base)
    written = base.repository.manifest("r000002").to_body()
    shown = example()
    assert set(shown) == set(written)
    for key in ("chunking", "embedder", "totals", "changes", "work", "versions"):
        assert set(shown[key]) == set(written[key]), key  # type: ignore[call-overload]
    for key in ("segments", "sources"):
        assert set(shown[key][0]) == set(written[key][0]), key  # type: ignore[index]


def keys_of(value: object) -> set[str]:
    """All keys of a body, but for those that are names of something: measures, documents, packages."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    named = {"means", "measures", "documents", "versions", "bounds"}
    return set(value) | set().union(*(keys_of(inner) for key, inner in value.items() if key not in named))


def test_every_key_of_an_evaluations_records_is_specified_and_its_names_are_as_written(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path, gate={"documents": 0, "removed_percent": 0})
    refreshed(base)
    write(tmp_path / "docs", {"vpn.md": None})
    refreshed(base)
    expected = (Expected(doc_id="docs:phones.html", quote="lost phone"), Expected(doc_id="docs:none.md"))
    asked = [Question(id=f"q{n}", question=f"lost phone {n}", expected=expected, tags=("canary",)) for n in range(5)]
    nothing = [Question(id=f"n{n}", question=f"volcano {n}", no_answer=True) for n in range(5)]
    run = base.repository.begin()
    settings = base.settings(base.repository.manifest("r000002"))
    questions = QuestionSet("set.jsonl", (*asked, *nothing))
    keep(base.repository, evaluate(base.repository, "r000002", questions, base.catalog, settings, run=run), run)
    section = SPECIFICATION.split("## Evaluations")[1].split("\n## ")[0]
    for kind in (evals.SCORECARD, evals.ANSWERS, evals.GATE):
        (entry,) = evals.listed(base.repository, "r000002", kind)
        assert f"{kind}-<key>-<run>.json" in SPECIFICATION
        assert entry.file == f"evals/r000002/{kind}-{entry.key}-{entry.run}.json"
        body = evals.read(base.repository, entry)
        paragraph = section.split(f"**{kind}**")[1].split("\n\n**")[0]
        for key in keys_of(body):
            assert re.search(rf"\b{key}\b", paragraph if key in body and key not in COMMON else section), (kind, key)


COMMON = ("format", "release", "kind", "key", "run")


def test_a_promotion_names_the_gate_record_by_its_digest_and_it_was_there_first(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    order: list[str] = []
    put = base.store.put_new
    base.store.put_new = lambda files: (order.extend(files), put(files))[1]  # type: ignore[method-assign]
    refreshed(base)
    kinds = [
        name.split("/")[0] for name in order if name.split("/")[0] in ("manifests", "checks", "evals", "promotions")
    ]
    assert kinds == ["manifests", "checks", "evals", "promotions"]
    (entry,) = evals.listed(base.repository, "r000001", evals.GATE)
    assert base.repository.promotion(1).gate == envelope.digest(evals.read(base.repository, entry))
