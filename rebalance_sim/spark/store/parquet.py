"""Reading Parquet on the thread that asks for it.

Arrow reads columns, and makes frames of them, on threads of its own, which hold what Python gave
them (a file, a bytes object) for a moment after the answer. If Python ends in that moment, they
wait for an interpreter that is no more, and the process is aborted after all its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import pandas as pd


def table_of(file: IO[bytes], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file; of some columns, None for all. Raises OSError or ValueError if it is
    damaged."""
    names = None if columns is None else list(columns)
    return pq.ParquetFile(file).read(columns=names, use_threads=False)


def frame_of(table: pa.Table) -> pd.DataFrame:
    """The same rows as a frame of pandas."""
    return table.to_pandas(use_threads=False)
