"""Where work that can be spread is done: processes of this machine, or a Dask cluster.

Both are a ``concurrent.futures.Executor``. Tasks are plain functions over plain values, they write nothing, and what
they give does not depend on where or in which order they ran.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from kbcore.errors import ConfigError, WorkerLostError

CONNECT_SECONDS = 20
RETRIES = 3
T = TypeVar("T")


@contextmanager
def worker_pool(jobs: int = 0) -> Iterator[Executor | None]:
    """Spawned worker processes, one per core unless ``jobs`` says otherwise; None where that is one.

    Spawned, never forked: a child forked after FAISS or onnxruntime has run may hang.
    """
    count = jobs or cores()
    if count < 2:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
    # A worker leaves an interrupt to the process that started it, which says so once and ends its workers: they are
    # started with the signal blocked, since one that is still importing would answer it with a traceback.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for _ in range(count):
            pool.submit(os.getpid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield pool
    except KeyboardInterrupt:
        # What a worker has in hand may take seconds, and nobody waits for it any more.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def dask_cluster(address: str) -> Iterator[Executor]:
    """The workers of the Dask scheduler at ``address``. A task whose worker was lost is run again by another one.

    The workers need kbcore of this version and the embedder's files. ConfigError where the scheduler is not reached.
    """
    try:
        import distributed
    except ImportError:
        raise ConfigError(
            '[build] executor = "dask" needs the package distributed', remedy="pip install 'kbcore[dask]'"
        ) from None
    connect: Any = distributed.Client  # without annotations of its own
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(
            f"[build] address: there is no Dask scheduler at {address}: {error}",
            remedy="start one with: dask scheduler, and workers with: dask worker ADDRESS",
        ) from None
    try:
        yield client.get_executor(pure=False, retries=RETRIES)
    finally:
        client.close()


def outcome(future: Future[T]) -> T:
    """What a task gave. WorkerLostError where its worker ended before it did; an error of the task is raised as it is."""
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise WorkerLostError(
            "a worker process ended before its work was done",
            remedy="a script that calls refresh needs: if __name__ == '__main__'; else look for too little memory, "
            "or set [build] jobs = 1",
        ) from error
    except Exception as error:
        # Dask's own name for it; the package is not imported where it is not used.
        if type(error).__name__ != "KilledWorker":
            raise
        raise WorkerLostError(
            f"the workers of the cluster ended again and again with a task in hand: {error}",
            remedy="look at the logs of the workers: memory, and the versions of kbcore",
        ) from error


def cores() -> int:
    """Cores this process may use; macOS does not say which, only how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def submit(executor: Executor, task: Any, *arguments: Any) -> Future[Any]:
    """Hand a task over. WorkerLostError where the pool has lost its workers already."""
    try:
        return executor.submit(task, *arguments)
    except BrokenProcessPool as error:
        raise WorkerLostError("the worker processes have ended", remedy="set [build] jobs = 1") from error
