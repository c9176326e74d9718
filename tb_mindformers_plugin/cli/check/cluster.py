"""Checks runs over a Dask cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import logging
import time
from typing import Any, Dict, Iterator, Sequence

from tb_mindformers_plugin.cli.check.examine import RunReport, failed
from tb_mindformers_plugin.cli.check.processes import Work

_CONNECT_SECONDS = 5
_WORKERS_SECONDS = 10
# Every so often it is looked whether there is still somebody at work. A nanny needs some seconds for a new worker
# in the place of one that died.
_LOOK_SECONDS = 5
_DESERTED_SECONDS = 30
# They print tracebacks of what is told as an error.
_TALKATIVE = ("distributed.client", "distributed.utils")
_TIMEOUTS = (TimeoutError, asyncio.TimeoutError)  # one and the same from Python 3.11 on


class ClusterError(Exception):
    """There is no cluster to work with; says what to do."""


def over_cluster(work: Work, runs: Sequence[str], address: str) -> Iterator[RunReport]:
    """Yields the report of each run, in the order in which they are done.

    Args:
      work: can be pickled; the workers have this package, and see the logs by the same path.
      runs: their names.
      address: of the scheduler, such as ``tcp://10.0.0.1:8786``.

    Raises:
      ClusterError: the extra is not installed, or there is no scheduler or no worker.
    """
    try:
        distributed: Any = importlib.import_module("distributed")  # its types come and go with its versions
    except ImportError as error:
        raise ClusterError(
            "--scheduler needs the extra [cluster]: pip install tb-mindformers-plugin[cluster]"
        ) from error
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address}: {error}. Give the address that `dask scheduler` prints"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
        except _TIMEOUTS as error:
            raise ClusterError(
                f"the Dask scheduler at {address} has no worker: start some with `dask worker {address}`"
            ) from error
        yield from _gathered(distributed, client, work, runs)


def _gathered(distributed: Any, client: Any, work: Work, runs: Sequence[str]) -> Iterator[RunReport]:
    flying: Dict[Any, str] = {client.submit(work, run, pure=False): run for run in runs}
    manned = time.monotonic()
    while flying:
        try:
            done = distributed.wait(list(flying), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED").done
        except _TIMEOUTS:
            done = ()
        except concurrent.futures.CancelledError:
            yield from _lost(flying, "the connection to the cluster's scheduler was lost")
            return
        if done or (client.status == "running" and client.scheduler_info()["workers"]):
            manned = time.monotonic()
        elif time.monotonic() - manned > _DESERTED_SECONDS:
            yield from _lost(flying, "no worker of the cluster is left")
            return
        for future in done:
            yield _result(future, flying.pop(future))


def _lost(flying: Dict[Any, str], why: str) -> Iterator[RunReport]:
    return (failed(run, why) for run in flying.values())


def _result(future: Any, run: str) -> RunReport:
    try:
        report: RunReport = future.result()
    except ModuleNotFoundError as error:
        return failed(run, f"{error} on a worker: install tb-mindformers-plugin there as well")
    except Exception as error:  # what a cluster can say is its own; the other runs are still reported
        return failed(run, f"the cluster did not check it: {type(error).__name__}: {error}")
    return report
