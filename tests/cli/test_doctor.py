from __future__ import annotations

import event_bytes
from click.testing import CliRunner

from tb_mindformers_plugin import __version__
from tb_mindformers_plugin.cli.main import main


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_version():
    assert run("--version").output.strip() == f"tb-health, version {__version__}"


def test_what_was_read_and_what_is_missing(tmp_path):
    event_bytes.write(tmp_path / "a [b]", event_bytes.scalars(1, loss=1.0), event_bytes.scalars(2, loss=float("nan")))
    event_bytes.write(tmp_path / "hp", event_bytes.scalars(1, hp_metric=-1))
    done = run("doctor", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "2 event files" in done.output
    assert "a [b]" in done.output
    assert "no learning rate" in done.output
    assert "Loss was NaN" in done.output
    assert "no known metric; scalar tags: hp_metric" in done.output


def test_nothing_to_show(tmp_path):
    done = run("doctor", str(tmp_path))
    assert done.exit_code == 1
    assert "There is no event file" in done.output


def test_no_such_directory(tmp_path):
    done = run("doctor", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "nowhere is not a directory" in done.output


def test_demo_without_logs(tmp_path):
    done = run("demo", "--logdir", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "nowhere" in done.output
