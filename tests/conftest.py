"""What all tests share: the option that makes a skipped test a failure, and the real logs."""

from __future__ import annotations

import contextlib
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from checkout import ROOT  # the line above makes it importable

with contextlib.suppress(ImportError):  # not where MindSpore's tests alone run
    import hypothesis

    # How long an example takes says more of the machine than of the code.
    hypothesis.settings.register_profile(
        "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("patient")


def pytest_addoption(parser):
    parser.addoption(
        "--require",
        metavar="MARKER",
        action="append",
        default=[],
        help="fail if a test was skipped, or if no test with this marker passed; may be given more than once",
    )


def pytest_configure(config):
    config.stash[_passed] = dict.fromkeys(config.getoption("--require"), 0)
    config.stash[_skipped] = []


_passed = pytest.StashKey[dict]()
_skipped = pytest.StashKey[list]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and not item.get_closest_marker("real_logs"):
        item.config.stash[_skipped].append(item.nodeid)
    if report.when == "call" and report.passed:
        for name in item.config.stash[_passed]:
            if item.get_closest_marker(name):
                item.config.stash[_passed][name] += 1


def pytest_sessionfinish(session, exitstatus):
    passed, skipped = session.config.stash[_passed], session.config.stash[_skipped]
    if passed and exitstatus == 0 and (skipped or not all(passed.values())):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    passed = config.stash[_passed]
    if not passed:
        return
    terminalreporter.write_line("passed: " + ", ".join(f"{count} {name}" for name, count in passed.items()))
    for name, count in passed.items():
        if not count:
            terminalreporter.write_line(f"--require: no test marked {name} passed", red=True)
    for test in config.stash[_skipped]:
        terminalreporter.write_line(f"--require: skipped: {test}", red=True)


@pytest.fixture(scope="session")
def real_logs():
    """Logs of real trainings that lie beside a checkout on some machines."""
    path = ROOT.parent / "shared" / "real_logs"
    if not path.is_dir():
        pytest.skip("the real logs are not on this machine")
    return path
