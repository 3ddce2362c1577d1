"""Parquet from bytes: what is asked for, in order, and no thread that outlives the call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbcore.store.parquet import read_parquet
from tests.support import ROOT, knowledge_base, refreshed

TABLE = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0.5, None]})
THREADS = """
import os, sys
import pyarrow, pyarrow.parquet
from kbcore.knowledge_base import open_repository
before = len(os.listdir("/proc/self/task"))
open_repository(sys.argv[1]).retriever(mode="keyword").search("gateway")
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.fixture
def data() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, write_page_checksum=True)
    return bytes(sink.getvalue())


def test_columns_come_in_the_order_they_are_asked_for(data: bytes) -> None:
    assert read_parquet(data).equals(TABLE)
    assert read_parquet(data, ["c", "a"]).equals(TABLE.select(["c", "a"]))


def test_a_column_that_is_not_there_and_bytes_that_do_not_read_are_errors(data: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid, match="no column d"):
        read_parquet(data, ["a", "d"])
    with pytest.raises((OSError, pa.ArrowInvalid)):
        read_parquet(data[:-20])


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted as Linux shows them")
def test_a_search_leaves_no_thread_of_arrows_behind_that_could_abort_the_end_of_the_process(tmp_path: Path) -> None:
    base = knowledge_base(tmp_path)
    refreshed(base)
    config = tmp_path / "kb.toml"
    config.write_text(
        f'[kb]\nname = "test"\nrepository = "{base.folder.parent}"\n[[sources]]\nname = "docs"\npath = "{tmp_path}/docs"\n'
        '[embedder]\nprovider = "hashing"\n'
    )
    counted = subprocess.run(
        [sys.executable, "-c", THREADS, str(config)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert counted.stdout.strip() == "0"
