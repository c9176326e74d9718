"""A layout in its place: replaced, never half there, and no file of anybody else touched."""

from __future__ import annotations

import errno
import hashlib
import os
import pathlib

import pytest

from tb_mindformers_plugin.eventfile.records import framed
from tb_mindformers_plugin.layout import LayoutError, place
from tb_mindformers_plugin.runs.discovery import Root, discover, roots
from tb_mindformers_plugin.writer import HealthWriter


@pytest.fixture
def logdir(tmp_path):
    with HealthWriter(tmp_path / "run") as writer:
        writer.log(1, loss=1.0)
    return tmp_path


def digests(top):
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in pathlib.Path(top).rglob("*")
        if path.is_file()
    }


def test_replacing_and_removing(logdir):
    before = digests(logdir)
    top = str(logdir)
    first = place.replace(top, {"": b"1", "aggregate/g": b"2", "group/a/b": b"3"})
    assert [pathlib.Path(path).read_bytes() for path in first] == [b"1", b"2", b"3"]
    assert all("tfevents" in path for path in first)
    second = place.replace(top, {"": b"4"})
    # The old layout is empty, for a reader that is still at it; the other runs are gone with their directories.
    assert {path: os.path.getsize(path) for path in place.generated_files(top)} == {first[0]: 0, second[0]: 1}
    assert sorted(os.listdir(top)) == sorted(["run", os.path.basename(first[0]), os.path.basename(second[0])])
    assert first[0] < second[0]
    third = place.replace(top, {"": b"5"})
    assert place.generated_files(top) == [*second, *third]
    place.remove(top)
    assert digests(logdir) == before
    assert os.listdir(top) == ["run"]
    assert place.remove(top) == []


def test_its_files_are_no_runs(logdir):
    place.replace(str(logdir), {"": b"1", "aggregate/g": b"2"})
    assert list(discover(roots(str(logdir))).runs) == ["run"]


def test_others_files_in_our_directories_stay(logdir):
    place.replace(str(logdir), {"aggregate/g": b"2"})
    (logdir / "aggregate" / "g" / "note.txt").write_text("mine")
    place.remove(str(logdir))
    assert os.listdir(logdir / "aggregate" / "g") == ["note.txt"]


def test_a_clock_that_went_back(logdir, monkeypatch):
    (first,) = place.replace(str(logdir), {"": b"1"})
    monkeypatch.setattr(place.time, "time_ns", lambda: 5)
    (second,) = place.replace(str(logdir), {"": b"2"})
    assert os.path.basename(second) > os.path.basename(first)


def test_beside_a_run_that_is_its_own_logdir(logdir):
    assert place.layout_directory(str(logdir)) == ""
    assert place.layout_directory(str(logdir / "run")) == "layout"
    place.replace(str(logdir), {"": b"1"})
    assert place.layout_directory(str(logdir)) == ""


@pytest.mark.parametrize("call", ["open", "replace", "fsync"])
def test_a_disk_that_fails_leaves_everything_as_it_was(logdir, monkeypatch, call):
    place.replace(str(logdir), {"": b"1", "aggregate/g": b"2"})
    before = digests(logdir)
    module = __builtins__ if call == "open" else os
    real = module[call] if call == "open" else getattr(os, call)
    calls = []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.EROFS, "Read-only file system", "the file")
        return real(*arguments, **options)

    if call == "open":
        monkeypatch.setitem(module, "open", failing)
    else:
        monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="Read-only"):
        place.replace(str(logdir), {"": b"3", "group/new/run": b"4", "aggregate/g": b"5"})
    monkeypatch.undo()
    assert digests(logdir) == before
    assert not (logdir / "group").exists()


def test_a_name_that_is_too_long_leaves_no_directory(logdir):
    with pytest.raises(OSError, match="too long"):
        place.replace(str(logdir), {"": b"1", "group/new/" + "x" * 300: b"2"})
    assert sorted(os.listdir(logdir)) == ["run"]


def test_which_directory():
    assert place.directory_for((Root("/logs"),)) == "/logs"
    with pytest.raises(LayoutError, match="there are 2 log directories: say with --out"):
        place.directory_for((Root("/a"), Root("/b")))
    with pytest.raises(LayoutError, match="s3://bucket/logs is remote"):
        place.directory_for((Root("s3://bucket/logs"),))


def test_framed_is_what_tensorboards_own_reader_reads(tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    payloads = [b"x" * n for n in (0, 1, 7, 127, 128, 129, 5000)]
    path = tmp_path / "file"
    path.write_bytes(framed(payloads))
    assert list(RawEventFileLoader(str(path)).Load()) == payloads
