"""Rules changed, orders and errors of ``tb-health check``."""

from __future__ import annotations

import json
import os
import re
import shutil

import command
import pytest
from click.testing import CliRunner

from tb_mindformers_plugin.cli.main import main
from tb_mindformers_plugin.eventfile import EventFile
from tb_mindformers_plugin.runs import run as run_module


def check(*arguments):
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return command.many_runs(tmp_path_factory.mktemp("logs"))


def test_worst_run_first_on_a_terminal_and_names_in_json(logs):
    done = check(logs)
    runs = re.findall(r"^(\S.*?)  (critical|warning|info|ok)\b", done.output, re.MULTILINE)
    assert runs == [
        ("z lost", "critical"),
        ("m spiked [1]", "warning"),
        *((f"a good {i}", "ok") for i in range(3)),
    ]
    assert done.output.endswith("5 runs: 1 critical, 1 warning, 3 ok\n")
    answer = json.loads(check(logs, "--json").stdout)
    assert list(answer) == ["runs"]
    assert [run["run"] for run in answer["runs"]] == [*(f"a good {i}" for i in range(3)), "m spiked [1]", "z lost"]
    assert check(logs, "--lang", "zh").output.endswith("共 5 个运行：1 严重，1 警告，3 正常\n")


def test_rules_can_be_changed(logs, tmp_path):
    run = logs / "m spiked [1]"
    assert check(run).exit_code == 1
    assert check(run, "--set", "loss_spike=off").exit_code == 0
    assert check(run, "--set", "loss_spike.rise=3", "--set", "loss_plateau=off").exit_code == 0
    rules = tmp_path / "rules.toml"
    rules.write_text("[loss_spike]\nrise = 3\n")
    assert check(run, "--rules", rules).exit_code == 0
    assert check(run, "--rules", rules, "--set", "loss_spike.rise=0.5").exit_code == 1


def test_against_a_baseline(logs):
    answer = json.loads(check(logs, "--baseline", "a good 0", "--json", "--jobs", "1").stdout)
    parted = {
        run["run"]: [f["first_step"] for f in run["findings"] if f["rule"] == "baseline_divergence"]
        for run in answer["runs"]
    }
    assert parted["a good 0"] == []  # itself
    assert parted["a good 1"]  # another seed
    assert not any(
        f["rule"] == "baseline_divergence"
        for run in json.loads(check(logs, "--json").stdout)["runs"]
        for f in run["findings"]
    )
    # Other processes say the same.
    assert json.loads(check(logs, "--baseline", "a good 0", "--json", "--jobs", "2").stdout) == answer


def test_names_are_shown_and_not_obeyed(tmp_path):
    names = ["red \x1b[31m", "two\nlines", "[bold]<b>", "turned \u202e", "🚀 损失", os.fsdecode(b"bytes \xff")]
    for name in names:
        command.write(tmp_path / name, [2.0] * 5 + [float("nan")] * 5)
    for options in ((), ("--jobs", "2")):
        status, said, complained = command.run(tmp_path, *options)
        assert (status, complained) == (1, "")
        for shown in (r"red \x1b[31m", r"two\nlines", "[bold]<b>", r"turned \u202e", "🚀 损失", r"bytes \udcff"):
            assert f"\n{shown}  critical" in "\n" + said
        assert not set("\x1b\u202e") & set(said)
    for lang in ("en", "zh"):
        _, said, _ = command.run(tmp_path, "--json", "--lang", lang)
        assert {run["run"] for run in json.loads(said)["runs"]} == set(names)


def test_a_terminal_that_cannot_show_it(logs):
    environment = command.environment(PYTHONIOENCODING="ascii")
    status, said, complained = command.run(logs / "z lost", "--lang", "zh", env=environment)
    assert (status, complained) == (1, "")
    assert r"\u2581" in said  # its sparkline


def test_what_cannot_be_read_is_said(tmp_path, monkeypatch):
    command.many_runs(tmp_path)
    shutil.copytree(tmp_path / "a good 0", tmp_path / "b")
    (part,) = (tmp_path / "a good 1").iterdir()
    shutil.copy(part, part.with_name("events.out.tfevents.9999999999.more"))
    bad = [*map(str, (tmp_path / "b").iterdir()), str(part.with_name("events.out.tfevents.9999999999.more"))]
    real = EventFile.read

    def read(self, *arguments):
        if self.path in bad:
            raise PermissionError(13, "Permission denied", self.path)
        return real(self, *arguments)

    monkeypatch.setattr(EventFile, "read", read)
    monkeypatch.setattr(
        run_module, "peek", lambda path: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    done = check(tmp_path)
    assert done.exit_code == 2
    assert "a good 0  ok" in done.output
    assert re.search(r"b was not checked: events\S+ cannot be read: Permission denied", done.stderr)
    assert re.search(r"a good 1 was checked in part only: events\S+more cannot be read: Permission denied", done.stderr)
    answer = json.loads(check(tmp_path, "--json").stdout)
    assert {one["run"] for one in answer["errors"]} == {"b", "a good 1"}
    assert "b" not in {one["run"] for one in answer["runs"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "loss_spike.zz=1"], "loss_spike has no parameter 'zz'; known: rise, z, "),
        (["--set", "loss_spikes.z=1"], "no rule 'loss_spikes'; known: baseline_divergence, "),
        (["--set", "loss_spike.z=many"], "loss_spike.z is 'many': allowed is a number from 0 (default 6)"),
        (["--rules", "nowhere.toml"], "nowhere.toml cannot be read: No such file or directory"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--watch", "--jobs", "2"], "leave out --jobs and --scheduler"),
        (["--watch", "--scheduler", "tcp://127.0.0.1:1"], "leave out --jobs and --scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1", "--jobs", "2"], "give --jobs or --scheduler, not both"),
        (["--baseline", "a good 9"], "there is no run 'a good 9'"),
        (["--interval", "0"], "0.0 is not in the range"),
        (["--interval", "nan"], "nan is no number of seconds"),
        (["--interval", "1e9"], "is not in the range"),
    ],
)
def test_wrong_usage_is_said(logs, options, words):
    done = check(logs, *options)
    assert done.exit_code == 2
    assert words in done.output
