"""A report of runs to hand on: one HTML file that needs nothing else, and plots as PNG."""

from tb_mindformers_plugin.report.collect import Report, collect
from tb_mindformers_plugin.report.page import html_page

__all__ = ["Report", "collect", "html_page"]
