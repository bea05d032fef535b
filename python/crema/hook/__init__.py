"""What runs beside the analysis: in workers, in the scheduler and in ``process()``; protobuf is all it needs of its own."""
