"""Running coffea in tests."""

from __future__ import annotations


def run_coffea(mc, executor, fileset, instance, chunksize=500):
    from coffea import processor
    from coffea.nanoevents import NanoAODSchema

    NanoAODSchema.warn_missing_crossrefs = False
    run = processor.Runner(
        executor=executor,
        schema=NanoAODSchema,
        savemetrics=True,
        chunksize=chunksize,
        checkpointer=mc.checkpointer,
    )
    return run(fileset, processor_instance=instance, treename="Events")
