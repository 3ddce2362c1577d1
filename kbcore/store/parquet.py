"""Parquet from bytes, read in the calling thread alone."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file, with ``columns`` in this order (default: all), page checksums compared.

    OSError or pa.ArrowInvalid where it does not read, or lacks a column.

    Not by ``pq.read_table``: threads of its scanner hold the bytes for a moment longer and need Python to let them go. Where
    the process ends just then, it ends with SIGABRT (apache/arrow#34314).
    """
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
    if columns is None:
        return file.read(use_threads=False)
    if missing := [name for name in columns if name not in file.schema_arrow.names]:
        raise pa.ArrowInvalid(f"no column {', '.join(missing)}")
    return file.read(list(columns), use_threads=False).select(list(columns))
