"""What is submitted to Dask in a block is marked with its run, and nothing else of Dask's is different for that."""

from __future__ import annotations

import contextlib
import warnings

import dask
import pytest
from distributed import Client

import missing
from crema.collect import _marking
from crema.hook._records import MARK_RUN


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        yield client


def marks(client, futures) -> list[str | None]:
    tasks = client.cluster.scheduler.tasks
    return [(tasks[future.key].annotations or {}).get(MARK_RUN) for future in futures]


def test_tasks_submitted_inside_have_the_mark_of_the_innermost_block(client):
    before = Client.__dict__["_graph_to_futures"]
    with _marking.marked("outer"):
        futures = [client.submit(abs, -1)]
        with _marking.marked("inner"):
            futures.append(client.submit(abs, -2))
            futures += client.map(abs, [-3])
            with dask.annotate(mine=1):
                lazy = dask.delayed(abs)(-4)
            futures.append(client.compute(lazy))
        futures.append(client.submit(abs, -5))
        early = dask.delayed(abs)(-6)
    futures += [client.submit(abs, -7), client.compute(early)]
    client.gather(futures)
    assert marks(client, futures) == ["outer", "inner", "inner", "inner", "outer", None, None]
    assert client.cluster.scheduler.tasks[futures[3].key].annotations["mine"] == 1
    assert Client.__dict__["_graph_to_futures"] is before


def test_blocks_that_overlap_end_in_any_order(client):
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(_marking.marked("first"))
        second.enter_context(_marking.marked("second"))
        first.close()
        futures = [client.submit(abs, -11)]
        second.close()
        futures.append(client.submit(abs, -12))
        client.gather(futures)
    assert marks(client, futures) == ["second", None]


def test_a_graph_that_was_begun_before_the_block_stays_as_small_as_without_it():
    import dask.array as da

    def n_tasks(block) -> int:
        a = da.ones((40, 40), chunks=(10, 10)) + 1
        with block:
            b = (a + 2) * (a - 3)
            return len(dict(dask.optimize(b)[0].__dask_graph__()))

    assert n_tasks(_marking.marked("run")) == n_tasks(contextlib.nullcontext())


def test_dataframes_in_the_block_warn_of_nothing(client):
    dd, pd = (
        pytest.importorskip("dask.dataframe", reason=missing.DASK_DATAFRAME),
        pytest.importorskip("pandas"),
    )
    with warnings.catch_warnings(), _marking.marked("run"):
        warnings.simplefilter("error")
        frame = dd.from_pandas(pd.DataFrame({"a": range(10)}), npartitions=2)
        assert frame.a.sum().compute() == 45


def test_a_dask_without_that_function_works_unmarked(client, monkeypatch):
    monkeypatch.setattr(_marking, "_SUBMIT", "_of_another_version")
    with _marking.marked("run"):
        future = client.submit(abs, -21)
        assert future.result() == 21
    assert marks(client, [future]) == [None]
