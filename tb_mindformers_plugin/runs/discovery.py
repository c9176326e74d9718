"""Finds the runs of a logdir and names them as TensorBoard does."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import re
from typing import Iterator, Optional

from tb_mindformers_plugin.eventfile import storage

# As TensorBoard tells a URL in a logdir_spec from a named path.
_URL = re.compile(r"[a-zA-Z][0-9a-zA-Z.]*://")

#: How the names of event files end that are made from runs, for TensorBoard's own tabs: they are no runs.
GENERATED = ".training_health_layout"


@dataclasses.dataclass(frozen=True)
class Root:
    """A directory that is searched for runs.

    Attributes:
      path: absolute path, or a URL.
      name: what its runs' names begin with, or None.
    """

    path: str
    name: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """The event files of one run.

    Attributes:
      directories: directories that hold them (two entries of a logdir_spec may share a name).
      files: paths, in TensorBoard's reading order.
    """

    directories: tuple[str, ...]
    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Discovery:
    """What a search found.

    Attributes:
      runs: run name -> event files.
      directories: how many directories were looked into.
      problems: directories that could not be read, each a sentence.
    """

    runs: dict[str, RunFiles]
    directories: int
    problems: tuple[str, ...]


def roots(logdir: str = "", logdir_spec: str = "") -> tuple[Root, ...]:
    """Returns the roots that TensorBoard's flags of the same names mean.

    `logdir` is one directory. `logdir_spec` is a comma-separated list of `path` or `name:path`.
    """
    if logdir:
        return (Root(_absolute(logdir)),)
    found = []
    for entry in filter(None, (part.strip() for part in logdir_spec.split(","))):
        name, colon, path = entry.partition(":")
        if colon and not entry.startswith("/") and not _URL.match(entry):
            found.append(Root(_absolute(path), name or None))
        else:
            found.append(Root(_absolute(entry)))
    return tuple(found)


def discover(searched: tuple[Root, ...]) -> Discovery:
    """Searches `searched` for event files. Never raises for what it cannot read: it says so."""
    problems: list[str] = []
    directories = 0
    found: dict[str, tuple[list[str], list[str]]] = {}
    for root in searched:
        paths = posixpath if storage.is_remote(root.path) else os.path
        for directory, files in _walk(root.path, problems):
            directories += 1
            if not files:
                continue
            # What a walk yields begins with where it began: no need to take a thousand paths apart.
            inside = directory.startswith(root.path + "/")
            relative = directory[len(root.path) + 1 :] if inside else paths.relpath(directory, root.path)
            # TensorBoard calls a named root that is itself a run "name/."; so is it called here.
            name = paths.join(root.name, relative) if root.name else relative
            run_directories, run_files = found.setdefault(name, ([], []))
            run_directories.append(directory)
            run_files.extend(files)
    runs = {name: RunFiles(tuple(found[name][0]), tuple(found[name][1])) for name in sorted(found)}
    return Discovery(runs, directories, tuple(problems))


def is_event_file(name: str) -> bool:
    """Whether TensorBoard would read a file of this name."""
    return "tfevents" in name and not name.endswith(".profile-empty")


def is_of_a_run(name: str) -> bool:
    """Whether a file of this name is an event file that a training wrote."""
    return is_event_file(name) and not name.endswith(GENERATED)


def _absolute(path: str) -> str:
    if storage.is_remote(path):
        return path
    return os.path.realpath(os.path.expanduser(storage.locate(path)[1]))


def _walk(top: str, problems: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields each directory with the sorted paths of its event files, following links but no loops."""
    # A loop is a directory that is its own ancestor; the same directory by two ways is two runs,
    # as it is to TensorBoard.
    place, top = storage.locate(top)
    listing = place.listing(top, is_of_a_run)
    pending: list[tuple[str, frozenset[tuple[int, ...]]]] = [(top, frozenset())]
    while pending:
        directory, ancestors = pending.pop()
        try:
            found = listing(directory)
        except FileNotFoundError:
            if directory == top:
                problems.append(f"{directory} does not exist")
            continue
        except OSError as error:
            problems.append(f"{directory} cannot be read: {error.strerror or error}")
            continue
        if found.identity and found.identity in ancestors:
            problems.append(f"{directory} is a link to a directory above it; not followed")
            continue
        if found.problem:
            problems.append(f"{directory} {found.problem}")
        ancestors |= {found.identity}
        pending.extend((below, ancestors) for below in reversed(found.directories))
        yield directory, found.files
