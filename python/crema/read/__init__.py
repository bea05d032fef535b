"""Reads run files: tables, figures, reports, series of runs and the ``crema`` command. It works without a cluster."""
