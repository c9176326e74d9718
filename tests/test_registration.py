"""Importing the package costs nothing and breaks nothing, whatever is installed beside it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from checkout import ROOT


def run(code, *path):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[*map(str, path), str(ROOT)]!r}\n{textwrap.dedent(code)}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def mindformers(tmp_path):
    """A mindformers with nothing but its registry and an empty place of train cells, and a MindSpore that cannot be
    imported.
    """
    register, wrapper = (tmp_path / "mindformers" / name for name in ("tools/register", "wrapper"))
    for directory in (register, wrapper):
        directory.mkdir(parents=True)
    for directory in (register, register.parent, wrapper, wrapper.parent):
        (directory / "__init__.py").write_text("")
    (register / "register.py").write_text("class MindFormerRegister: pass\n")
    (wrapper / "build_wrapper.py").write_text("import mindformers.tools.register.register\n")
    (tmp_path / "mindspore.py").write_text("raise ImportError('no device')\n")
    return tmp_path


def test_the_import_pulls_in_nothing():
    run("""
        import tb_mindformers_plugin
        assert not {"mindspore", "mindformers", "numpy", "tensorboard"} & set(sys.modules)
    """)


@pytest.mark.parametrize(
    "first", ["tb_mindformers_plugin", "mindformers.tools.register.register", "mindformers.wrapper.build_wrapper"]
)
def test_mindformers_stays_importable_where_the_callback_is_not(mindformers, first):
    said = run(
        f"""
        import {first}
        import tb_mindformers_plugin, mindformers.wrapper.build_wrapper, mindformers.tools.register.register as register
        assert register.MindFormerRegister
        assert not [finder for finder in sys.meta_path if type(finder).__name__ == "_AfterImport"]
        """,
        mindformers,
    )
    for name in ("TrainingHealthCallback", "MFTrainOneStepCellWithGrads"):
        assert said.count(f"{name} cannot be registered with mindformers (") == 1
