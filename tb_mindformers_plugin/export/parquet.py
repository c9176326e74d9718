"""Tables as Parquet, through pyarrow."""

from __future__ import annotations

from typing import IO, Any, Iterable

import numpy as np

from tb_mindformers_plugin.export.table import COLUMNS, ExportError, SeriesPoints, as_utf8

# Rows of a row group, about: what readers skip or take at a time.
_GROUP_ROWS = 1_000_000


def write_parquet(file: IO[bytes], series: Iterable[SeriesPoints]) -> None:
    """Writes a table with the columns of `tb_mindformers_plugin.export.COLUMNS`.

    The names are dictionaries, segment is int32, current boolean, step int64, wall_time float64 seconds since the Unix
    epoch, value float64.

    Raises:
      ExportError: pyarrow is not installed.
      OSError: the file cannot be written.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ExportError(
            "Parquet needs pyarrow, which is not installed: pip install 'tb-mindformers-plugin[parquet]'"
        ) from error
    name = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    numbers = (pyarrow.int64(), pyarrow.float64(), pyarrow.float64())
    kinds = (name, name, name, name, pyarrow.int32(), pyarrow.bool_(), *numbers)
    schema = pyarrow.schema(list(zip(COLUMNS, kinds)))

    def batch(points: SeriesPoints) -> Any:
        names = [
            pyarrow.DictionaryArray.from_arrays(np.zeros(len(points), np.int32), pyarrow.array([as_utf8(text)]))
            for text in (points.run, points.role, points.tag, points.unit)
        ]
        count = len(points)
        same = [np.full(count, points.segment, np.int32), np.full(count, points.current)]
        columns = [*same, points.step, points.wall_time, points.value.astype(np.float64)]
        return pyarrow.record_batch([*names, *map(pyarrow.array, columns)], schema=schema)

    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        waiting: list[Any] = []
        for points in series:
            waiting.append(batch(points))
            if sum(part.num_rows for part in waiting) >= _GROUP_ROWS:
                writer.write_table(pyarrow.Table.from_batches(waiting).unify_dictionaries())
                waiting = []
        if waiting:
            writer.write_table(pyarrow.Table.from_batches(waiting).unify_dictionaries())
