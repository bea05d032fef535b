"""What reads run files: tables, figures, reports, series of runs and the ``crema`` command; it works without a cluster."""
