"""Event files: bytes to columns.

`reader.EventFile` is the seam: it hands out what a file gained since the last look as a `Chunk` of
columns, and knows nothing of runs or roles.
"""

from tb_mindformers_plugin.eventfile.columns import Chunk, Column, HealthRecord
from tb_mindformers_plugin.eventfile.framing import Damage
from tb_mindformers_plugin.eventfile.reader import EventFile, read_together

__all__ = ["Chunk", "Column", "Damage", "EventFile", "HealthRecord", "read_together"]
