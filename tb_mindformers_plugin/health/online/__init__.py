"""The cheap rules while a training runs: a watch on every point says when a rule has something to look at."""

from tb_mindformers_plugin.health.online.monitor import Alert, HealthMonitor

__all__ = ["Alert", "HealthMonitor"]
