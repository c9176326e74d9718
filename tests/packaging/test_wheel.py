"""The built distributions, installed where nothing is prepared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest
from checkout import ROOT
from tensorboard_server import get_json, serve

pytestmark = pytest.mark.packaging


def checkout(to):
    """A copy of what git would check out (and of what is not committed yet), without anything built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if name.startswith("demo_logs/") or not (ROOT / name).is_file():
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    return to


def run(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(sdist, wheel): the wheel is built from the sdist, as an installer would."""
    source = checkout(tmp_path_factory.mktemp("checkout"))
    dist = tmp_path_factory.mktemp("dist")
    log = run(sys.executable, "-m", "build", "--outdir", dist, cwd=source)
    # Built once, for the sdist; the wheel takes it from there.
    assert log.count("frontend: npm run build") == 1
    return next(dist.glob("*.tar.gz")), next(dist.glob("*.whl"))


def test_both_hold_the_built_tab(built):
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"tb_mindformers_plugin/static/index.js", "frontend/package-lock.json", "LICENSE", "README.md"} <= names
    assert not any("node_modules" in name for name in names)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert len(archive.read("tb_mindformers_plugin/static/index.js")) > 20_000
    assert "tb_mindformers_plugin/py.typed" in names
    assert not any(name.startswith(("tests/", "frontend/", "demo_logs/")) for name in names)


def test_lock_file_has_no_download_addresses():
    assert '"resolved"' not in (ROOT / "frontend" / "package-lock.json").read_text()


def test_wheel_in_an_empty_environment_without_node(built, tmp_path):
    environment = tmp_path / "env"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    # Nothing but the environment's own programs: whatever there is of Node is hidden.
    hidden = {"PATH": str(environment / "bin"), "HOME": str(tmp_path)}
    run(python, "-m", "pip", "install", "--quiet", built[1], env={**os.environ, **hidden})
    assert shutil.which("node", path=hidden["PATH"]) is None
    assert "tb-health, version" in run(environment / "bin" / "tb-health", "--version", env=hidden)
    logdir = ROOT / "demo_logs"
    for prefix in ("", "/x"):
        with serve("--logdir", str(logdir), python=str(python), path_prefix=prefix, env=hidden) as base:
            listing = get_json(f"{base}/data/plugins_listing")["training_health"]
            assert listing["enabled"] is True
            assert listing["tab_name"] == "Training Health"
            assert get_json(f"{base}/data/plugin/training_health/runs")["runs"]


def test_a_failed_frontend_build_is_a_clear_error(tmp_path):
    source = checkout(tmp_path / "checkout")
    (source / "frontend" / "src" / "index.tsx").write_text("this is no TypeScript {")
    done = subprocess.run(
        # As pip does it: with the npm of the build requirement alone.
        [sys.executable, "setup.py", "build_py", "--build-lib", str(tmp_path / "lib")],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "The tab was not built: `npm run build" in said
    assert "index.tsx" in said  # the compiler's own words come through
