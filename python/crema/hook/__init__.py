"""The part that runs beside the analysis: in workers, in the scheduler and in ``process()``. Its only dependency is protobuf."""
