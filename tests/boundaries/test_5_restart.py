"""5 one process and the next: the files are the truth, nothing is embedded again, and a delete costs no embedding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.boundaries.claims import Claim
from tests.boundaries.corpus import support
from tests.support import ROOT, refreshed, tree

PROGRAM = """
import json, sys
from pathlib import Path
from kbcore.embedding.hashing import HashingEmbedder
from tests.boundaries.corpus import support
from kbcore.knowledge_base import KnowledgeBase
from tests.support import refreshed
root, act = Path(sys.argv[1]), sys.argv[2]
texts = []
plain = HashingEmbedder.embed
HashingEmbedder.embed = lambda self, asked: (texts.extend(asked), plain(self, asked))[1]
create = KnowledgeBase.create
KnowledgeBase.create = lambda self: create(self) if not self.exists() else self.repository
base = support(root, embedder={"provider": "hashing", "dimension": 64})
report = None
if act != "read":
    if act == "delete":
        (root / "docs" / "errors.md").unlink()
    report = refreshed(base)
retriever = base.retriever()
_ = retriever.embedder
opened = len(texts)
found = retriever.search("payment gateway ERR-4012", 1)
probes = len(base.repository.embedder(retriever.manifest)["probes"])
print(json.dumps({
    "embedded": report and report.texts_embedded, "release": found.release, "chunks": retriever.snapshot.rows,
    "opening": opened, "probes": probes, "searching": len(texts) - opened,
    "top": found.hits[0].uri, "score": found.hits[0].score,
}))
"""


def process(root: Path, act: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root), act], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_three_processes(tmp_path: Path, claim: Claim) -> None:
    a = process(tmp_path, "write")
    claim("process A embeds each chunk once", a["embedded"], a["embedded"] == a["chunks"])
    before = tree(tmp_path / "releases")
    b = process(tmp_path, "read")
    claim(
        "process B answers as A did", f"{b['top']} {b['score']:.3f}", (b["top"], b["score"]) == (a["top"], a["score"])
    )
    claim("opening it embeds the probe texts of its embedder alone", b["opening"], b["opening"] == b["probes"])
    claim("B's search embeds its question alone", b["searching"], b["searching"] == 1)
    claim("reading changes no file", len(before), tree(tmp_path / "releases") == before)
    deleted = process(tmp_path, "delete")
    claim("a delete embeds nothing", deleted["embedded"], deleted["embedded"] == 0)
    claim("and publishes a release without it", f"{deleted['release']}, {deleted['chunks']} chunks",
          deleted["release"] == "r000002" and deleted["chunks"] == a["chunks"] - 1)  # fmt: skip
    c = process(tmp_path, "read")
    claim("process C sees it gone", c["top"], c["top"] != "errors.md" and c["release"] == "r000002")


def test_the_release_before_still_answers(tmp_path: Path, claim: Claim) -> None:
    base = support(tmp_path, embedder={"provider": "hashing", "dimension": 64})
    refreshed(base)
    (tmp_path / "docs" / "errors.md").unlink()
    refreshed(base)
    old = base.retriever("r000001").search("payment gateway ERR-4012", 1).hits[0]
    claim("r000001 still answers with what was deleted", old.citation, old.uri == "errors.md")
