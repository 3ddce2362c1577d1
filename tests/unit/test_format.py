"""The specification in releases/README.md and the code agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kbcore.store import envelope, layout
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
