"""Files that are there as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import IO, Iterator, Union


@contextlib.contextmanager
def whole_file(path: Union[str, os.PathLike[str]]) -> Iterator[IO[bytes]]:
    """Opens a file to be written, which takes the place of `path` when the block ends well.

    Until then it lies beside it under another name; where the block raises, it goes, and `path` is as it was.

    Raises:
      OSError: it cannot be written.
    """
    target = os.path.abspath(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".unfinished", dir=os.path.dirname(target))
    except OSError as error:
        error.filename = target  # not the name that nobody asked for
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; this one is as any other.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        try:
            os.replace(temporary, target)
        except OSError as error:
            error.filename, error.filename2 = target, None
            raise
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
