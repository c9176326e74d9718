"""Runs in the formats of other tools, at full resolution."""

from tb_mindformers_plugin.export.table import COLUMNS, ExportError, SeriesPoints, points_of
from tb_mindformers_plugin.export.text import csv_text, json_text

__all__ = ["COLUMNS", "ExportError", "SeriesPoints", "csv_text", "json_text", "points_of"]
