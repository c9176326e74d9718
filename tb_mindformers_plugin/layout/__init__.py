"""Layouts for TensorBoard's Custom Scalars tab, made of what the runs of a logdir hold."""

from tb_mindformers_plugin.layout.charts import Category, Chart, LayoutError, Margin, layout_of
from tb_mindformers_plugin.layout.comparison import comparison_categories, comparison_layout

__all__ = ["Category", "Chart", "LayoutError", "Margin", "comparison_categories", "comparison_layout", "layout_of"]
