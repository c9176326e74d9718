from __future__ import annotations

import builtins
import subprocess
import sys
import time

import event_bytes
import pytest

from tb_mindformers_plugin.eventfile import EventFile, storage
from tb_mindformers_plugin.eventfile import reader as reader_module
from tb_mindformers_plugin.eventfile.peek import peek
from tb_mindformers_plugin.runs.discovery import discover, roots


@pytest.fixture
def memory(monkeypatch):
    """An empty file system in memory, behind memory:// URLs."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install -e '.[dev]'")
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    monkeypatch.setattr(storage, "_LISTING_SECONDS", 0.0)
    storage._remote.cache_clear()
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


URL = "memory://logs/events.out.tfevents.1"
RECORDS = [event_bytes.scalars(step, loss=step) for step in range(20)]
WHOLE = event_bytes.version() + b"".join(RECORDS)


def steps(chunk):
    return chunk.columns["loss"].step.tolist() if chunk.columns else []


class Asked:
    """Counts what a file system is asked."""

    def __init__(self, monkeypatch, files):
        self.ranges = []
        self.calls = {"find": 0, "info": 0}
        cat = type(files).cat_file

        def cat_file(files, path, start=None, end=None, **options):
            self.ranges.append((start, end))
            return cat(files, path, start, end, **options)

        monkeypatch.setattr(type(files), "cat_file", cat_file)
        for name in self.calls:
            monkeypatch.setattr(type(files), name, self._counted(name, getattr(type(files), name)))

    def _counted(self, name, method):
        def counted(*arguments, **options):
            self.calls[name] += 1
            return method(*arguments, **options)

        return counted


def test_a_growing_object_is_read_from_where_reading_stopped(memory):
    reader = EventFile(URL)
    read = []
    for end in (*range(1, len(WHOLE), 23), len(WHOLE)):
        memory.pipe_file("/logs/events.out.tfevents.1", WHOLE[:end])
        chunk = reader.read()
        assert chunk.damage == ()
        assert chunk.anew == (end == 1)
        read += steps(chunk)
    assert read == list(range(20))
    assert reader.read().empty


def test_a_refresh_costs_the_new_bytes(memory, monkeypatch):
    end = len(WHOLE) - len(RECORDS[-1])
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE[:end])
    reader = EventFile(URL)
    reader.read()
    asked = Asked(monkeypatch, memory)
    reader.read()
    assert asked.ranges == []
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    assert steps(reader.read()) == [19]
    assert asked.ranges == [(end - reader_module._TAIL, len(WHOLE))]


def test_what_a_listing_said_is_not_asked_again(memory, monkeypatch):
    monkeypatch.setattr(storage, "_LISTING_SECONDS", 60.0)
    for run in range(5):
        memory.pipe_file(f"/logs/{run}/events.out.tfevents.1", WHOLE)
    asked = Asked(monkeypatch, memory)
    found = discover(roots(logdir="memory://logs"))
    read = [steps(EventFile(path).read()) for run in found.runs.values() for path in run.files]
    assert read == [list(range(20))] * 5
    assert asked.calls["find"] == 1
    assert asked.calls["info"] == 0
    memory.pipe_file("/logs/3/events.out.tfevents.1", WHOLE + event_bytes.scalars(20, loss=1.0))
    path = found.runs["3"].files[0]
    assert storage.stat(path).size == len(WHOLE)
    discover(roots(logdir="memory://logs"))
    assert storage.stat(path).size > len(WHOLE)


def test_an_object_that_shrank_is_read_anew(memory):
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    reader = EventFile(URL)
    reader.read()
    memory.pipe_file("/logs/events.out.tfevents.1", event_bytes.version() + RECORDS[3])
    chunk = reader.read()
    assert chunk.anew
    assert steps(chunk) == [3]


def test_another_object_that_is_longer_is_read_anew(memory):
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    reader = EventFile(URL)
    reader.read()
    other = event_bytes.version() + b"".join(event_bytes.scalars(step, 5.0, loss=1.0) for step in range(30))
    memory.pipe_file("/logs/events.out.tfevents.1", other)
    chunk = reader.read()
    assert chunk.anew
    assert steps(chunk) == list(range(30))
    assert chunk.damage == ()


def test_blocks_of_an_object(memory, monkeypatch):
    monkeypatch.setattr(reader_module, "_BLOCK", 128)
    reader = EventFile(URL)
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE[:300])
    read = steps(reader.read())
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    assert read + steps(reader.read()) == list(range(20))


def test_no_point_is_lost_or_doubled_where_a_read_fails(memory, monkeypatch):
    monkeypatch.setattr(reader_module, "_BLOCK", 128)
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    working = type(memory).cat_file
    calls = []

    def cat_file(*arguments, **options):
        calls.append(arguments)
        if len(calls) in (1, 4, 5):
            raise RuntimeError("the client gave up")
        return working(*arguments, **options)

    monkeypatch.setattr(type(memory), "cat_file", cat_file)
    reader = EventFile(URL)
    with pytest.raises(OSError, match="the client gave up"):
        reader.read()
    first = reader.read()
    assert first.anew
    assert 0 < len(steps(first)) < 20
    with pytest.raises(OSError, match="the client gave up"):
        reader.read()
    rest = reader.read()
    assert not rest.anew
    assert steps(first) + steps(rest) == list(range(20))


def test_a_peek_at_an_object(memory):
    many = event_bytes.version() + b"".join(event_bytes.scalars(step, loss=step) for step in range(2000))
    memory.pipe_file("/logs/events.out.tfevents.1", many)
    chunk, told = peek(URL)
    assert told
    assert len(steps(chunk)) < 2000  # the ends of it
    assert steps(chunk)[0] == 0
    assert steps(chunk)[-1] == 1999
    assert chunk.damage == ()
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    chunk, told = peek(URL)
    assert told
    assert steps(chunk) == list(range(20))


def test_a_missing_object(memory):
    with pytest.raises(FileNotFoundError):
        EventFile("memory://logs/events.out.tfevents.none").read()


def test_a_server_that_is_away_for_a_moment_keeps_its_runs(memory, monkeypatch):
    monkeypatch.setattr(storage, "_LISTING_SECONDS", 60.0)
    memory.pipe_file("/logs/a/events.out.tfevents.1", WHOLE)
    searched = roots(logdir="memory://logs")
    before = discover(searched)
    reader = EventFile(before.runs["a"].files[0])
    reader.read()

    def find(*_, **__):
        raise ConnectionError("the network is unreachable")

    with monkeypatch.context() as patched:
        patched.setattr(type(memory), "find", find)
        now = discover(searched)
        assert now.runs == before.runs
        assert "memory://logs cannot be listed now (the network is unreachable)" in now.problems[0]
        assert reader.read().empty
    assert discover(searched) == before


def test_a_server_that_does_not_answer_is_not_waited_for(memory, monkeypatch):
    monkeypatch.setattr(storage, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(storage, "_MOST_CALLS", 2)
    monkeypatch.setattr(type(memory), "find", lambda *_, **__: time.sleep(2.0))
    began = time.monotonic()
    for _ in range(4):
        found = discover(roots(logdir="memory://logs"))
        assert found.runs == {}
        assert "no answer within 0.1 seconds" in found.problems[0]
    assert time.monotonic() - began < 1.5


def test_an_overdue_answer_makes_the_next_wait_short_until_it_comes(memory, monkeypatch):
    monkeypatch.setattr(storage, "_PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(storage, "_SHORT_PATIENCE_SECONDS", 0.05)
    memory.pipe_file("/logs/events.out.tfevents.1", WHOLE)
    with monkeypatch.context() as patched:
        patched.setattr(type(memory), "find", lambda *_, **__: time.sleep(1.0))
        discover(roots(logdir="memory://logs"))
        began = time.monotonic()
        discover(roots(logdir="memory://logs"))
        assert time.monotonic() - began < 0.25
    time.sleep(1.2)
    assert not storage._remote("memory://logs")._overdue
    assert len(discover(roots(logdir="memory://logs")).runs) == 1


def test_the_note_says_what_to_install(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    for package in ("s3fs", "gcsfs"):
        monkeypatch.setitem(sys.modules, package, None)
    # fsspec keeps the classes that an earlier test had it import.
    for protocol in ("s3", "gs"):
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, protocol, raising=False)
    storage._remote.cache_clear()

    assert f"pip install s3fs=={fsspec.__version__}" in discover(roots(logdir="s3://b/logs")).problems[0]
    assert "pip install gcsfs==" in discover(roots(logdir="gs://b/logs")).problems[0]
    assert "Protocol not known" in discover(roots(logdir="nonsense://b/logs")).problems[0]


def test_without_fsspec_a_url_is_a_note(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert discover(roots(logdir="s3://b/logs")).problems == (
        "s3://b/logs cannot be read: s3:// needs fsspec and s3fs: pip install fsspec s3fs",
    )
    with pytest.raises(OSError, match="pip install fsspec"):
        EventFile("s3://b/logs/events.out.tfevents.1").read()


def test_a_local_logdir_imports_no_fsspec(tmp_path):
    event_bytes.write(tmp_path / "a", event_bytes.scalars(1, loss=1.0))
    code = (
        "import sys\n"
        "from tb_mindformers_plugin.eventfile import EventFile\n"
        "from tb_mindformers_plugin.runs.discovery import discover, roots\n"
        f"for logdir in ({str(tmp_path)!r}, 'file://' + {str(tmp_path)!r}):\n"
        "    path = discover(roots(logdir=logdir)).runs['a'].files[0]\n"
        "    assert len(EventFile(path).read().columns['loss']) == 1\n"
        "assert 'fsspec' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_url_is_a_path(tmp_path):
    path = event_bytes.write(tmp_path / "a", event_bytes.scalars(1, loss=1.0))
    assert roots(logdir=f"file://{tmp_path}") == roots(logdir=str(tmp_path))
    assert len(EventFile(f"file://{path}").read().columns["loss"]) == 1
    assert not storage.is_remote(f"file://{path}")
    assert storage.is_remote("simplecache::s3://b/logs")


def test_a_local_file_is_opened_once_for_each_look_that_finds_something(tmp_path, monkeypatch):
    path = event_bytes.write(tmp_path, event_bytes.scalars(1, loss=1.0))
    opened = []
    real = builtins.open
    monkeypatch.setattr(builtins, "open", lambda *a, **k: opened.append(a) or real(*a, **k))
    reader = EventFile(str(path))
    reader.read()
    assert reader.read().empty
    assert len(opened) == 1
    with path.open("ab") as file:
        file.write(event_bytes.scalars(2, loss=1.0))
    opened.clear()
    assert not reader.read().empty
    assert len(opened) == 1
