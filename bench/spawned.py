"""A Dask scheduler with workers in processes of their own, as a driver on another machine would see them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection


@contextmanager
def spawned_scheduler(threads: int) -> Iterator[str]:
    """The address of a scheduler whose one worker process runs ``threads`` evaluations at a time."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, threads))
    process.start()
    try:
        yield str(ours.recv())
    finally:
        ours.send("stop")
        process.join()


def _serve(connection: Connection, threads: int) -> None:
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0}),
        LocalCluster(n_workers=1, threads_per_worker=threads, dashboard_address="127.0.0.1:0") as cluster,
    ):
        connection.send(cluster.scheduler_address)
        connection.recv()
