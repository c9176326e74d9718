"""Runs MindSpore's tests on every pair of MindSpore and MindSpore Transformers that is supported.

python tests/mindspore/compat.py [--only 2.10.0] [--keep DIRECTORY] [pytest arguments]

Run by `make compat-mindspore`, with a Python that all of them have wheels for (3.10, 3.11). Each pair gets an
environment of its own (about 3.4 GB) in a temporary directory, removed before the next, or with `--keep` in one where
it is found again. Prints one line a pair.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# (MindSpore, MindSpore Transformers). The last has no partner that can be installed.
PAIRS = [("2.7.2", "1.8.0"), ("2.9.0", "1.9.0"), ("2.10.0", None)]


def pinned(*names: str) -> list[str]:
    """The pins of requirements-test.txt for `names`."""
    lines = (ROOT / "requirements-test.txt").read_text().splitlines()
    return [line for line in lines if line.partition("==")[0] in names]


def test_files(mindformers: str | None) -> list[str]:
    """The files whose tests this pair can run."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        needs = any(f"{word} mindformers" in path.read_text() for word in ("import", "from"))
        if mindformers is not None or not (needs or "llama" in path.read_text().lower()):
            found.append(str(path))
    return found


def installed(mindspore: str, mindformers: str | None, environment: pathlib.Path) -> str:
    """Installs the pair, unless that was done before, and returns the Python of its environment."""
    python, done = str(environment / "bin" / "python"), environment / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        wanted = [f"mindspore=={mindspore}", "numpy<2", *pinned("pytest", "hypothesis", "tensorboard")]
        if mindformers is not None:
            wanted.append(f"mindformers=={mindformers}")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        # What the package itself asks for is in this list: its tab need not be built here.
        subprocess.run([*install, *wanted, "six", "werkzeug", "click", "rich"], check=True)
        done.touch()
    return python


def check(mindspore: str, mindformers: str | None, arguments: list[str], directory: pathlib.Path) -> str:
    """Installs the pair, runs the tests and returns pytest's last line; raises where they fail."""
    python = installed(mindspore, mindformers, directory / "env")
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *test_files(mindformers), *arguments]
    done = subprocess.run(
        tests,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LOG_MF_PATH": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-6000:])
    return done.stdout.strip().splitlines()[-1].strip("= ")


@contextlib.contextmanager
def place(keep: pathlib.Path | None, mindspore: str) -> Iterator[pathlib.Path]:
    """A directory for the environment of a pair: one in `keep`, or one that is removed afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="compat-mindspore-") as scratch:
            yield pathlib.Path(scratch)
    else:
        directory = keep.resolve() / mindspore
        directory.mkdir(parents=True, exist_ok=True)
        yield directory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one version of MindSpore")
    parser.add_argument("--keep", type=pathlib.Path, help="where the environments stay for the next time")
    chosen, arguments = parser.parse_known_args()
    failed = 0
    for mindspore, mindformers in PAIRS:
        if chosen.only not in (None, mindspore):
            continue
        pair = f"mindspore {mindspore}, " + (f"mindformers {mindformers}" if mindformers else "no mindformers")
        began = time.monotonic()
        with place(chosen.keep, mindspore) as directory:
            try:
                said = check(mindspore, mindformers, arguments, directory)
                print(f"ok      {pair}: {said} ({time.monotonic() - began:.0f} s in all)", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED  {pair}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
