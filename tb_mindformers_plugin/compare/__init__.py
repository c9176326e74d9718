"""A run against its baseline: where they part, by how much, and whether a constant explains it."""

from tb_mindformers_plugin.compare.align import AlignmentError, Pairs, align
from tb_mindformers_plugin.compare.comparison import Comparison, compare
from tb_mindformers_plugin.compare.errors import Tolerance

__all__ = ["AlignmentError", "Comparison", "Pairs", "Tolerance", "align", "compare"]
