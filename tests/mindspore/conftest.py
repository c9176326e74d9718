"""Real trainings on a CPU. Without mindspore these fail: a skipped test proves nothing."""

from __future__ import annotations

import logging
import os
import pathlib
import sys
import tempfile

import mindspore as ms
import pytest

# mindformers makes a directory for its logs when it is imported, by default in the working directory.
os.environ.setdefault("LOG_MF_PATH", tempfile.mkdtemp(prefix="mindformers-log-"))

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "demo_logs"))


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.mindspore)


@pytest.fixture(autouse=True)
def _fresh_context():
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    yield
    ms.set_context(mode=ms.GRAPH_MODE)


@pytest.fixture
def log_lines(caplog):
    """What the package logged, as a function that returns [(level, message)]."""
    caplog.set_level(logging.DEBUG, logger="tb_mindformers_plugin")
    return lambda: [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "tb_mindformers_plugin"]
