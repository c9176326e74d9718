from __future__ import annotations

import os
from types import SimpleNamespace

import event_bytes
import pytest
from tensorboard.backend.event_processing import data_ingester, plugin_event_multiplexer

from tb_mindformers_plugin.runs.discovery import Root, discover, is_event_file, roots


@pytest.fixture
def tree(tmp_path):
    for run in ("a", "a/b", "c/train", "c/validation"):
        event_bytes.write(tmp_path / "logs" / run, event_bytes.scalars(1, loss=1.0))
    (tmp_path / "logs" / "empty").mkdir()
    (tmp_path / "logs" / "a" / "notes.txt").write_text("")
    (tmp_path / "logs" / "a" / "events.out.tfevents.1.profile-empty").write_text("")
    return tmp_path / "logs"


def tensorboards_names(logdir="", logdir_spec=""):
    """Run names as TensorBoard's own Python loader gives them."""
    flags = SimpleNamespace(
        logdir=logdir,
        logdir_spec=logdir_spec,
        samples_per_plugin={},
        max_reload_threads=1,
        generic_data="auto",
        event_file="",
        reload_interval=0,
        detect_file_replacement=None,
        purge_orphaned_data=True,
        reload_multifile=False,
        reload_multifile_inactive_secs=0,
        window_title="",
        path_prefix="",
        reload_task="auto",
    )
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    paths = {logdir: None} if logdir else data_ingester._parse_event_files_spec(flags.logdir_spec)
    for path, name in paths.items():
        multiplexer.AddRunsFromDirectory(os.path.expanduser(path), name)
    return set(multiplexer.Runs())


@pytest.mark.parametrize("suffix", ["", "/", "/a/..", "/a", "/c"])
def test_names_of_a_logdir_are_tensorboards(tree, suffix):
    logdir = f"{tree}{suffix}"
    found = discover(roots(logdir=logdir)).runs
    assert set(found) == tensorboards_names(logdir=logdir)
    assert found


def test_names_of_a_spec_are_tensorboards(tree):
    spec = f"x:{tree}/a,y:{tree}/c,{tree}/c/train"
    found = discover(roots(logdir_spec=spec)).runs
    assert set(found) == tensorboards_names(logdir_spec=spec)
    assert {"x/.", "x/b", "y/train", "y/validation"} <= set(found)


def test_relative_logdir_and_home(tree, monkeypatch):
    monkeypatch.chdir(tree.parent)
    monkeypatch.setenv("HOME", str(tree.parent))
    assert set(discover(roots(logdir="logs")).runs) == set(discover(roots(logdir="~/logs")).runs) != set()


def test_a_path_with_a_colon_is_no_name():
    assert roots(logdir_spec="/a:b/c") == (Root(os.path.realpath("/a:b/c")),)


def test_loops_are_not_followed_and_links_are(tree):
    (tree / "a" / "loop").symlink_to(tree)
    (tree / "linked").symlink_to(tree / "c")
    found = discover(roots(logdir=str(tree)))
    assert {"linked/train", "linked/validation"} <= set(found.runs)
    assert len(found.runs) == 6
    assert any("loop" in problem for problem in found.problems)


def test_unreadable_directory_is_said_and_others_live_on(tree, monkeypatch):
    real = os.scandir

    def scandir(path):
        if str(path).endswith("/c"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = discover(roots(logdir=str(tree)))
    assert set(found.runs) == {"a", "a/b"}
    assert any("c cannot be read: Permission denied" in problem for problem in found.problems)


def test_missing_logdir_is_said(tmp_path):
    found = discover(roots(logdir=str(tmp_path / "nowhere")))
    assert found.runs == {}
    assert "nowhere does not exist" in found.problems[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("events.out.tfevents.123.host", True),
        ("x.tfevents", True),
        ("events.profile-empty", False),
        ("events.out.tfevents.1.profile-empty", False),
        ("events.txt", False),
    ],
)
def test_event_file_names(name, expected):
    assert is_event_file(name) is expected
