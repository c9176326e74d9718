"""What all tests share: the option that makes a skipped test a failure, and event files by hand."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from checkout import ROOT  # the line above makes it importable

# Kinds of tests that a full run must not lack.
REQUIRED = ("mindspore", "e2e", "packaging")


def pytest_addoption(parser):
    parser.addoption(
        "--require-all",
        action="store_true",
        help="fail if a test was skipped, or if no test marked mindspore, e2e or packaging passed",
    )


def pytest_configure(config):
    config.stash[_passed] = dict.fromkeys(REQUIRED, 0)
    config.stash[_skipped] = []


_passed = pytest.StashKey[dict]()
_skipped = pytest.StashKey[list]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and not item.get_closest_marker("real_logs"):
        item.config.stash[_skipped].append(item.nodeid)
    if report.when == "call" and report.passed:
        for name in REQUIRED:
            if item.get_closest_marker(name):
                item.config.stash[_passed][name] += 1


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if not config.getoption("--require-all") or exitstatus != 0:
        return
    lacking = [name for name, count in config.stash[_passed].items() if not count]
    if lacking or config.stash[_skipped]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if not config.getoption("--require-all"):
        return
    counts = config.stash[_passed]
    terminalreporter.write_line("passed: " + ", ".join(f"{counts[name]} {name}" for name in REQUIRED))
    for name, count in counts.items():
        if not count:
            terminalreporter.write_line(f"--require-all: no test marked {name} passed", red=True)
    for test in config.stash[_skipped]:
        terminalreporter.write_line(f"--require-all: skipped: {test}", red=True)


@pytest.fixture(scope="session")
def real_logs():
    """Logs of real trainings that lie beside a checkout on some machines."""
    path = ROOT.parent / "shared" / "real_logs"
    if not path.is_dir():
        pytest.skip("the real logs are not on this machine")
    return path
