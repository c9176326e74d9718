"""What a run writes: `HealthWriter`, and the thread and the records under it."""

from __future__ import annotations

from tb_mindformers_plugin.writer.health_writer import HealthWriter

__all__ = ["HealthWriter"]
