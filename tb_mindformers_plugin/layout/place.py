"""Where a layout lies, and how it is replaced while TensorBoard reads it."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Iterator, Mapping, Sequence

from tb_mindformers_plugin.eventfile import storage
from tb_mindformers_plugin.layout.charts import LayoutError
from tb_mindformers_plugin.layout.groups import AGGREGATE, GROUP
from tb_mindformers_plugin.runs.discovery import GENERATED, Root, is_of_a_run

#: Where the layout lies when the logdir is itself a run.
BESIDE_A_RUN = "layout"

_OWN_DIRECTORIES = (BESIDE_A_RUN, AGGREGATE, GROUP)


def directory_for(searched: Sequence[Root]) -> str:
    """Returns the directory into which the layout of a logdir goes: the logdir itself.

    Raises:
      LayoutError: it has several, or is remote.
    """
    if len(searched) != 1:
        raise LayoutError(
            f"there are {len(searched)} log directories: say with --out into which of them the layout is to go"
        )
    if storage.is_remote(searched[0].path):
        raise LayoutError(
            f"{searched[0].path} is remote, and layouts are written to disks only: write it with --out DIRECTORY, and "
            "copy what is in there to the logdir"
        )
    return searched[0].path


def layout_directory(top: str) -> str:
    """Returns the directory, relative to `top`, in which the layout file goes: "" unless `top` is itself a run.

    TensorBoard's Python loader reads the files of a run one after the other, and comes to the layout once it takes the
    run's own file for finished: it would never go back to what that one still gains.
    """
    try:
        names = os.listdir(top)
    except OSError:
        return ""
    is_run = any(map(is_of_a_run, names))
    return BESIDE_A_RUN if is_run else ""


def file_name(after: int = 0) -> str:
    """Returns a name for an event file that sorts behind those of before: its time, in nanoseconds.

    Args:
      after: the newest time of the names that are there.
    """
    stamp = max(time.time_ns(), after + 1)
    return f"events.out.tfevents.{stamp // 10**9:010d}.{stamp % 10**9:09d}{GENERATED}"


def generated_files(top: str) -> list[str]:
    """Returns the paths of what was written into `top` before, sorted."""
    found = [path for path in _files(top, deep=False) if path.endswith(GENERATED)]
    for name in _OWN_DIRECTORIES:
        found += [path for path in _files(os.path.join(top, name), deep=True) if path.endswith(GENERATED)]
    return sorted(found)


def replace(top: str, files: Mapping[str, bytes]) -> list[str]:
    """Writes event files into directories of `top`, and takes away what was written before.

    Every file is first written as a whole, under a name that nobody reads. Then they are renamed, then the old ones
    go, so that at each moment a reader finds the old layout, the new one, or both, of which the new one counts.

    An old file beside a new one is emptied, and removed by the next call: TensorBoard's Python loader comes from one
    file of a run to the next only while the one that it has read is there.

    Args:
      top: an existing directory, or one to be made.
      files: directory relative to `top` -> bytes of the event file.

    Returns:
      Paths of what was written.

    Raises:
      OSError: it cannot be written; then nothing has changed.
    """
    old = generated_files(top)
    name = file_name(max((_stamp(path) for path in old), default=0))
    made: list[str] = []
    waiting: list[str] = []
    renamed: list[str] = []
    try:
        for relative, content in files.items():
            directory = os.path.join(top, relative) if relative else top
            made.extend(_missing(directory))
            os.makedirs(directory, exist_ok=True)
            path = os.path.join(directory, name)
            waiting.append(_hidden(path))
            with open(waiting[-1], "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for hidden in waiting:
            renamed.append(_shown(hidden))
            os.replace(hidden, renamed[-1])
    except BaseException:
        for path in (*waiting, *renamed):
            with contextlib.suppress(OSError):
                os.unlink(path)
        for directory in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        raise
    followed = {os.path.dirname(path) for path in renamed}
    emptied = [path for path in old if os.path.dirname(path) in followed and os.path.getsize(path)]
    for path in emptied:
        os.truncate(path, 0)
    _unlink(top, [path for path in old if path not in emptied])
    return renamed


def remove(top: str) -> list[str]:
    """Removes what was written into `top`, and directories that are empty then; returns the paths.

    Raises:
      OSError: it cannot be removed.
    """
    found = generated_files(top)
    _unlink(top, found)
    return found


def _hidden(path: str) -> str:
    # "tfevents" anywhere in a name makes it an event file.
    directory, name = os.path.split(path)
    return os.path.join(directory, "." + name.replace("tfevents", "unfinished"))


def _shown(hidden: str) -> str:
    directory, name = os.path.split(hidden)
    return os.path.join(directory, name[1:].replace("unfinished", "tfevents"))


def _stamp(path: str) -> int:
    """The nanosecond of a file's name; 0 for a name that is none of ours."""
    parts = os.path.basename(path).split(".")
    seconds, nanoseconds = parts[3:5] if len(parts) > 4 else ("", "")
    return int(seconds) * 10**9 + int(nanoseconds) if (seconds + nanoseconds).isdigit() else 0


def _missing(directory: str) -> list[str]:
    """Returns a directory and what leads to it, as far as they are not there, the outermost first."""
    missing = []
    at = directory
    while at and not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    return missing[::-1]


def _unlink(top: str, paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    for directory in sorted({os.path.dirname(path) for path in paths}, key=len, reverse=True):
        # A directory that holds anything else stays, and so does the logdir.
        while directory != top and directory.startswith(top + os.sep):
            try:
                os.rmdir(directory)
            except OSError:
                break
            directory = os.path.dirname(directory)


def _files(directory: str, deep: bool) -> Iterator[str]:
    for at, below, names in os.walk(directory):
        yield from (os.path.join(at, name) for name in names)
        if not deep:
            below.clear()
