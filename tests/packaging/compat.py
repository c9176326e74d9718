"""Installs the wheel on every Python and TensorBoard that is supported, and asks the plugin for its runs.

Run by `make compat`; needs the Pythons on PATH or under pyenv. Prints one table.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from tensorboard_server import get_json, serve

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# (Python, TensorBoard, what else it needs). TensorBoard below 2.18 starts only with numpy 1, which has no
# wheel for Python 3.13, and 2.20 is the last for Python 3.9 (pip chooses it).
PAIRS = [
    ("3.9", "tensorboard==2.12.*", ["numpy<2"]),
    ("3.9", "tensorboard", []),
    ("3.10", "tensorboard==2.15.*", ["numpy<2"]),
    ("3.11", "tensorboard==2.18.*", []),
    ("3.12", "tensorboard==2.21.*", []),
    ("3.13", "tensorboard==2.21.*", []),
]


def find_python(version: str) -> str | None:
    pyenv = sorted((pathlib.Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in [shutil.which(f"python{version}"), *map(str, reversed(pyenv))]:
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def check(python: str, wheel: pathlib.Path, requirements: list[str], directory: pathlib.Path) -> str:
    """Installs and serves; returns the versions, or raises."""
    environment = directory / "env"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    inner = str(environment / "bin" / "python")
    subprocess.run(
        [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel), *requirements], check=True
    )
    subprocess.run(
        [str(environment / "bin" / "tb-health"), "doctor", str(ROOT / "demo_logs")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with serve("--logdir", str(ROOT / "demo_logs"), python=inner) as base:
        assert get_json(f"{base}/data/plugins_listing")["training_health"]["enabled"], "the plugin is not active"
        runs = get_json(f"{base}/data/plugin/training_health/runs")["runs"]
        assert runs, "no runs"
    code = (
        "import sys, numpy, tensorboard, google.protobuf as p; print('Python', sys.version.split()[0], "
        "' TensorBoard', tensorboard.__version__, ' numpy', numpy.__version__, ' protobuf', p.__version__)"
    )
    versions = subprocess.run([inner, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    return f"{versions}  {len(runs)} runs"


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        top = pathlib.Path(scratch)
        subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--outdir", str(top / "dist"), str(ROOT)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        wheel = next((top / "dist").glob("*.whl"))
        tried = 0
        for index, (version, tensorboard, extra) in enumerate(PAIRS):
            python = find_python(version)
            if python is None:
                print(f"not here  Python {version}", flush=True)
                continue
            tried += 1
            try:
                print("ok       ", check(python, wheel, [tensorboard, *extra], top / str(index)), flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED    Python {version} {tensorboard}: {error}", flush=True)
    if tried < 2:
        print(f"only {tried} of {len(PAIRS)} pairs could be tried: install more Pythons")
    return 1 if failed or tried < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
