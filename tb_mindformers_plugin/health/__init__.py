"""Rules over full-resolution series, and what they find."""

from tb_mindformers_plugin.health.diagnose import diagnose, diagnose_arrays, verdict
from tb_mindformers_plugin.health.finding import Finding

__all__ = ["Finding", "diagnose", "diagnose_arrays", "verdict"]
