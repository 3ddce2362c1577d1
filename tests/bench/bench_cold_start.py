"""Where the time of one `kb search` goes, from the start of the process to its end, on a large release.

    python -m tests.bench.bench_cold_start --chunks 100000 [--root FOLDER] [--rounds 7]

The knowledge base is that of bench_serving.py. Each round is a process of its own; before every other one the kernel is
asked to forget the files of the repository (they are read from the disk then, not those of Python). Medians, in
milliseconds; the parts are timed inside a process that does what the command does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.bench_serving import configured, two_releases

QUESTION = "w12 w345 w678"
PARTS = """
import json, sys, time
start = time.perf_counter()
from kbcore.knowledge_base import open_repository
imported = time.perf_counter()
retriever = open_repository(sys.argv[1]).retriever(mode=sys.argv[2])
opened = time.perf_counter()
retriever.search(sys.argv[3], 5)
print(json.dumps([imported - start, opened - imported, time.perf_counter() - opened]))
"""


def forget(folder: Path) -> None:
    """Ask the kernel to drop what it holds of these files."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def milliseconds(values: list[float]) -> str:
    return f"{1000 * statistics.median(values):6.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--root", type=Path, help="Keep the knowledge base here, and use it again.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.root or Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        base = two_releases(root, given.chunks)
        config = configured(root)
        print(f"{base.repository.manifest('r000002').totals['chunks']} chunks; load average {os.getloadavg()[0]:.1f}")
        print("files          mode      whole command   interpreter   imports    open   search")
        for cold in (False, True):
            for mode in ("keyword", "vector", "hybrid"):
                whole, bare, parts = [], [], list[list[float]]()
                for _ in range(given.rounds):
                    if cold:
                        forget(base.folder)
                    started = time.perf_counter()
                    subprocess.run(
                        [sys.executable, "-m", "kbcore.cli", "search", QUESTION, "-c", str(config), "--mode", mode, "--json"],
                        check=True, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                    whole.append(time.perf_counter() - started)
                    started = time.perf_counter()
                    subprocess.run([sys.executable, "-c", ""], check=True)
                    bare.append(time.perf_counter() - started)
                    if cold:
                        forget(base.folder)
                    said = subprocess.run(
                        [sys.executable, "-c", PARTS, str(config), mode, QUESTION],
                        check=True, stdout=subprocess.PIPE, text=True,
                    )  # fmt: skip
                    parts.append(json.loads(said.stdout))
                imports, opening, search = (milliseconds([part[at] for part in parts]) for at in range(3))
                print(f"{'from the disk' if cold else 'in memory':14} {mode:8} {milliseconds(whole):>14} "
                      f"{milliseconds(bare):>13} {imports:>9} {opening:>7} {search:>8}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
