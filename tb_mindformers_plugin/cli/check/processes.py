"""Checks runs one by one, or in parallel processes."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Callable, Dict, Generator, Iterator, List, Sequence

from tb_mindformers_plugin.cli.check.examine import RunReport, failed

#: Checks the run of a name.
Work = Callable[[str], RunReport]

# What a run takes to check, measured: so much, and so much a byte of its files. A process takes a second
# or two to start, so it must have so much to do.
_SECONDS_A_RUN, _SECONDS_A_BYTE = 0.012, 1e-8
_SECONDS_A_PROCESS = 2.0

# Whose process it was that died is not known when several were at work: a run is only given up after so many
# deaths of processes that had no other.
_TRIES_ALONE = 2

_DIED = "the process that checked it died, twice; the system's log may say why (often: out of memory)"


def worthwhile(sizes: Sequence[int]) -> int:
    """Returns how many processes check runs of so many bytes fastest; 1: this one alone.

    >>> worthwhile([10_000] * 20)
    1
    """
    seconds = sum(_SECONDS_A_RUN + _SECONDS_A_BYTE * size for size in sizes)
    return max(min(_cores(), len(sizes), int(seconds / _SECONDS_A_PROCESS)), 1)


def in_turn(work: Work, runs: Sequence[str]) -> Iterator[RunReport]:
    """Yields the report of each run."""
    return map(work, runs)


def over_processes(work: Work, runs: Sequence[str], processes: int) -> Iterator[RunReport]:
    """Yields the report of each run, in the order in which they are done.

    A run whose process died is tried again, alone: it may have died for another one's use of memory.
    A run that it happens to twice more, alone, is an error.

    Args:
      work: can be pickled.
      runs: their names.
      processes: how many to use.
    """
    suspects = yield from _pooled(work, collections.deque(runs), processes)
    for run in suspects:
        for _ in range(_TRIES_ALONE):
            if not (yield from _pooled(work, collections.deque([run]), 1)):
                break
        else:
            yield failed(run, _DIED)


def _pooled(work: Work, left: collections.deque[str], processes: int) -> Generator[RunReport, None, List[str]]:
    """Yields reports; returns the runs in whose time a process died."""
    suspects: List[str] = []
    while left:
        # Started anew, not forked: readers have threads. And no more is handed out than is being worked on,
        # so that it is known which runs a death may be due to.
        context = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(processes, context, initializer=_begin)
        flying: Dict[concurrent.futures.Future[RunReport], str] = {}
        try:
            while left or flying:
                while left and len(flying) < processes:
                    with _uninterrupted():  # a process begins here, and inherits it
                        flying[pool.submit(work, left[0])] = left[0]
                    left.popleft()
                for future in concurrent.futures.wait(flying, return_when="FIRST_COMPLETED").done:
                    report = future.result()
                    del flying[future]
                    yield report
        except BrokenProcessPool:
            suspects.extend(flying.values())
        finally:
            pool.shutdown(cancel_futures=True)
    return suspects


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keeps Ctrl-C waiting: it would make a Python that is just starting complain of itself.

    The process that begins inherits the mask. In this one a mask is not enough: any other thread may take the signal,
    and then it is the main thread that is interrupted, whatever its mask, before it has told the new process its work.
    """
    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "pthread_sigmask") or not main:  # not on every system
        yield
        return
    came: List[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


def _begin() -> None:
    """What a process does first: see to it that it ends with the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all; one of them says so
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
