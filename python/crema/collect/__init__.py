"""The part that runs beside the client: it starts the pipeline and the hooks, ends the run and waits for its verdict."""
