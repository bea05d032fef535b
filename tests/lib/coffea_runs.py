"""Running coffea in tests."""

from __future__ import annotations


def run_coffea(mc, executor, fileset, instance, chunksize=500):
    from coffea import processor

    from crema._demo_processor import Schema

    run = processor.Runner(
        executor=executor,
        schema=Schema,
        savemetrics=True,
        chunksize=chunksize,
        checkpointer=mc.checkpointer,
    )
    return run(fileset, processor_instance=instance, treename="Events")
