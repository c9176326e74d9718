"""``tb-health check``: what is wrong with each run, where, and what to try."""
