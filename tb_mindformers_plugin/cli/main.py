"""``tb-health``: the entry point that gathers the commands."""

from __future__ import annotations

import io
import sys

import click

from tb_mindformers_plugin import __version__
from tb_mindformers_plugin.cli.check.command import check
from tb_mindformers_plugin.cli.compare import compare_command
from tb_mindformers_plugin.cli.demo import demo
from tb_mindformers_plugin.cli.doctor import doctor
from tb_mindformers_plugin.cli.export import export_command
from tb_mindformers_plugin.cli.layout import layout_command
from tb_mindformers_plugin.cli.report import report_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tb-health")
def main() -> None:
    """Training Health for TensorBoard, on the command line."""
    # A sparkline or a name that the terminal's encoding lacks is no reason to end.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


main.add_command(check)
main.add_command(compare_command)
main.add_command(demo)
main.add_command(doctor)
main.add_command(export_command)
main.add_command(layout_command)
main.add_command(report_command)
