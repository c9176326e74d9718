"""How often the health rules find what is wrong, and how often they cry wolf, beside six public rules.

python benchmarks/rules.py                            # a quick try, under two minutes
python benchmarks/rules.py --runs 600                 # all of it: 600 healthy runs, 40 of each fault
python benchmarks/rules.py --show loss_spike:17       # one run: what was done to it, what was found
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import logging
import math
import multiprocessing
import os
import statistics
import sys
import time
from typing import Any, Iterable, Iterator, Optional, Sequence

import numpy as np
import numpy.typing as npt
from curves import FAMILIES, FAULTS, Fault, Run, run
from measure import Table, at_least, at_most
from public_rules import PUBLIC_RULES

from tb_mindformers_plugin.health.diagnose import findings as findings_of
from tb_mindformers_plugin.health.finding import Finding
from tb_mindformers_plugin.health.series import Series, of_arrays
from tb_mindformers_plugin.metadata import RunManifest

# Where recall is judged: shorter or noisier runs are drawn and reported, but not held to the goal.
_LONG_ENOUGH = 1000
_QUIET_ENOUGH = 0.12
# How far from the onset a finding may begin: points, or a share of the run.
_NEAR_POINTS = 200
_NEAR_SHARE = 0.15
_NEAR_SHARES = {"loss_plateau": 0.30}
# Flags of a public rule that are no further apart are one alarm.
_ONE_ALARM = 16
_BAD = ("warning", "critical")
# Rules of the loss that public ones are compared with, and the faults that it is done on.
_OF_THE_LOSS = ("loss_spike", "loss_divergence")
_COMPARED = ("loss_spike", "loss_divergence", "grad_explosion_and_loss")
_RECALL, _FALSE_WARNINGS = 0.95, 0.02
# Those that arrays cannot show: several files, another run.
_NOT_HERE = ("two_writers", "baseline_divergence")


@dataclasses.dataclass(frozen=True)
class Alarm:
    """Something said about a run.

    Attributes:
      rule: who says it.
      critical: whether it is critical; otherwise a warning.
      delay: points from the onset to where it begins; from the first point in a healthy run.
      verdict: "hit", "excused" (a consequence of the fault) or "false".
    """

    rule: str
    critical: bool
    delay: float
    verdict: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was said about one run.

    Attributes:
      name, number: which run.
      about: the run and its fault, in words.
      fault: kind and the rule that it is counted for; None in a healthy run.
      judged: whether it is long and quiet enough to count for recall.
      alarms: of our rules, warning or worse.
      infos: rules that gave an info.
      public: public rule -> its alarms; absent where it does not apply.
      seconds: of our rules.
      points: of the loss.
      error: what was raised instead.
    """

    name: str
    number: int
    about: str
    fault: Optional[tuple[str, str]]
    judged: bool
    alarms: tuple[Alarm, ...]
    infos: tuple[str, ...]
    public: dict[str, tuple[Alarm, ...]]
    seconds: float
    points: int
    error: str = ""

    @property
    def hit(self) -> bool:
        """Whether our rules name the fault, in time."""
        return any(alarm.verdict == "hit" for alarm in self.alarms)


def evaluate(name: str, number: int, seed: int) -> Outcome:
    """Draws a run and asks every rule."""
    drawn = run(name, number, seed)
    fault = drawn.fault
    began = time.perf_counter()
    errors = _Errors()
    logger = logging.getLogger("tb_mindformers_plugin")
    logger.addHandler(errors)
    logger.propagate = False
    findings = _findings(drawn)
    logger.removeHandler(errors)
    seconds = time.perf_counter() - began
    alarms = [
        _judged(drawn, finding.rule, finding.severity == "critical", finding.first_step)
        for finding in findings
        if finding.severity in _BAD
    ]
    about = drawn.about + (f"; {fault.kind} at {_onset_step(drawn, fault)}: {fault.strength}" if fault else "")
    return Outcome(
        name,
        number,
        about,
        (fault.kind, fault.rules[0]) if fault else None,
        drawn.points >= _LONG_ENOUGH and (drawn.noise is None or drawn.noise < _QUIET_ENOUGH),
        tuple(alarms),
        tuple(sorted({finding.rule for finding in findings if finding.severity not in _BAD})),
        _public(drawn) if fault is None or fault.kind in _COMPARED else {},
        seconds,
        drawn.points,
        "; ".join(dict.fromkeys(errors.said)),
    )


class _Errors(logging.Handler):
    """Keeps what is logged: a rule that fails costs no other its findings, but is a result too."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record and the error with it."""
        raised = record.exc_info[1] if record.exc_info else None
        self.said.append(record.getMessage() + (f": {raised!r}" if raised else ""))


def _findings(drawn: Run) -> list[Finding]:
    series = of_arrays(drawn.series, RunManifest(**drawn.manifest), drawn.joins, drawn.now)
    superseded = {role: tuple(Series(role, role, *one) for one in some) for role, some in drawn.superseded.items()}
    return findings_of(dataclasses.replace(series, superseded=superseded))


def _onset_step(drawn: Run, fault: Fault) -> int:
    return int(drawn.series["loss"][0][fault.onset])


def _judged(drawn: Run, rule: str, critical: bool, step: int) -> Alarm:
    fault, first = drawn.fault, int(drawn.series["loss"][0][0])
    if fault is None:
        return Alarm(rule, critical, (step - first) / drawn.every, "false")
    delay = (step - _onset_step(drawn, fault)) / drawn.every
    near = max(_NEAR_POINTS, _NEAR_SHARES.get(rule, _NEAR_SHARE) * drawn.points)
    if rule in fault.rules and (fault.anywhere or abs(delay) <= near):
        return Alarm(rule, critical, delay, "hit")
    # Late is a miss, and the same word again within the fault no false alarm: so with public rules too.
    within = -near <= delay <= fault.end - fault.onset + near
    follows = rule in fault.excused and (delay >= -near or fault.anywhere)
    return Alarm(rule, critical, delay, "excused" if follows or (rule in fault.rules and within) else "false")


def _public(drawn: Run) -> dict[str, tuple[Alarm, ...]]:
    series = {role: drawn.series[role][2] for role in ("loss", "grad_norm") if role in drawn.series}
    found = {}
    with np.errstate(all="ignore"):
        for name, rule in PUBLIC_RULES.items():
            flags = rule(series)
            if flags is not None:
                found[name] = tuple(_public_alarm(drawn, name, index) for index in _starts(flags))
    return found


def _starts(flags: npt.NDArray[np.bool_]) -> Iterator[int]:
    """Where the alarms begin that flagged points amount to."""
    at = np.flatnonzero(flags)
    yield from at[np.diff(at, prepend=-2 * _ONE_ALARM) > _ONE_ALARM].tolist()


def _public_alarm(drawn: Run, rule: str, index: int) -> Alarm:
    fault = drawn.fault
    if fault is None:
        return Alarm(rule, False, index, "false")
    delay = index - fault.onset
    near = max(_NEAR_POINTS, _NEAR_SHARE * drawn.points)
    verdict = "hit" if abs(delay) <= near else "excused" if delay > 0 and index <= fault.end + near else "false"
    return Alarm(rule, False, delay, verdict)


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def fault_table(outcomes: Sequence[Outcome]) -> Table:
    """A row a kind of fault."""
    table = Table(
        "1",
        "each kind of fault",
        ("fault", "counted for", "recall", "goal", "median delay", "all lengths and noises", "unexpected rules"),
        (
            f"Recall is over runs of at least {_LONG_ENOUGH:,} points and noise below {_QUIET_ENOUGH:.0%}; it needs a"
            f" warning or worse that begins within {_NEAR_POINTS} points or {_NEAR_SHARE:.0%} of the run of the onset"
            f" ({_NEAR_SHARES['loss_plateau']:.0%} for the plateau; anywhere for what holds throughout).",
            "Delay is in points.",
            "Unexpected is what neither names the fault nor follows from it: rule x number of runs.",
        ),
    )
    for kind in FAULTS:
        some = [outcome for outcome in outcomes if outcome.fault and outcome.fault[0] == kind]
        if not some:
            continue
        judged = [outcome for outcome in some if outcome.judged]
        delays = [_first_hit(outcome) for outcome in some if outcome.hit]
        goal = at_least(_share(judged), _RECALL, "") if judged else None
        table.add(
            kind,
            some[0].fault[1] if some[0].fault else None,
            _of(judged),
            goal,
            f"{statistics.median(delays):.0f}" if delays else "",
            _of(some),
            _unexpected(some),
        )
    return table


def rule_table(outcomes: Sequence[Outcome]) -> Table:
    """A row a rule."""
    table = Table(
        "2",
        "each rule",
        ("rule", "recall", "goal", "precision", "by run", "median delay", "false on healthy runs", "of it critical"),
        (
            "Precision is over all findings of the rule, warning or worse, in healthy and faulty runs; what follows"
            " from a fault, or says it late, counts neither way. By run, a run counts once for right words and once for"
            " wrong ones: a long run has many chances for either.",
            f"Not here, as one run's arrays cannot show them: {', '.join(_NOT_HERE)}.",
        ),
    )
    healthy = [outcome for outcome in outcomes if outcome.fault is None]
    counted = {outcome.fault[1] for outcome in outcomes if outcome.fault}
    for rule in sorted(counted | {alarm.rule for outcome in outcomes for alarm in outcome.alarms}):
        judged = [outcome for outcome in outcomes if outcome.judged and outcome.fault and outcome.fault[1] == rule]
        alarms = [alarm for outcome in outcomes for alarm in outcome.alarms if alarm.rule == rule]
        hits = [alarm for alarm in alarms if alarm.verdict == "hit"]
        wrong = sum(alarm.verdict == "false" for alarm in alarms)
        on_healthy = [[alarm for alarm in outcome.alarms if alarm.rule == rule] for outcome in healthy]
        table.add(
            rule,
            _of(judged) if judged else None,
            at_least(_share(judged), _RECALL, "") if judged else None,
            _precision(len(hits), wrong),
            _precision(*(_runs_with(outcomes, rule, verdict) for verdict in ("hit", "false"))),
            f"{statistics.median(alarm.delay for alarm in hits):.0f}" if hits else None,
            sum(bool(some) for some in on_healthy),
            sum(any(alarm.critical for alarm in some) for some in on_healthy),
        )
    return table


def healthy_table(outcomes: Sequence[Outcome]) -> Table:
    """A row a family of healthy runs."""
    table = Table(
        "3",
        "healthy runs",
        ("family", "runs", "with a false warning", "goal", "with a false critical", "goal", "with an info", "rules"),
    )
    healthy = [outcome for outcome in outcomes if outcome.fault is None]
    for family in (*FAMILIES, "all"):
        some = [outcome for outcome in healthy if family in ("all", outcome.name)]
        if not some:
            continue
        warned = [outcome for outcome in some if outcome.alarms]
        critical = [outcome for outcome in warned if any(alarm.critical for alarm in outcome.alarms)]
        table.add(
            family,
            len(some),
            f"{len(warned)} = {len(warned) / len(some):.1%}",
            at_most(len(warned) / len(some), _FALSE_WARNINGS, "") if family == "all" else None,
            len(critical),
            at_most(len(critical), 0, "") if family == "all" else None,
            sum(bool(outcome.infos) for outcome in some),
            _counted(rule for outcome in warned for rule in {alarm.rule for alarm in outcome.alarms}),
        )
    return table


def public_table(outcomes: Sequence[Outcome]) -> Table:
    """Ours beside the public rules, on spikes and divergence."""
    table = Table(
        "4",
        "spikes and divergence, beside public rules",
        ("rule", *(f"recall, {kind}" for kind in _COMPARED), "precision", "healthy runs with a false alarm", "delay"),
        (
            f"Flags of a public rule at most {_ONE_ALARM} points apart are one alarm. Near the onset means the same for"
            " all; so wide a window favours rules that flag often.",
            "A rule that reads the gradient norm is asked only where it is logged.",
        ),
    )
    healthy = [outcome for outcome in outcomes if outcome.fault is None]
    faulty = [outcome for outcome in outcomes if outcome.fault and outcome.fault[0] in _COMPARED]

    def row(title: str, alarms_of: Any) -> None:
        recalls = []
        for kind in _COMPARED:
            judged = [o for o in faulty if o.judged and o.fault and o.fault[0] == kind and alarms_of(o) is not None]
            found = sum(any(alarm.verdict == "hit" for alarm in alarms_of(outcome)) for outcome in judged)
            recalls.append(f"{found}/{len(judged)}" + (f" = {found / len(judged):.2f}" if judged else ""))
        asked = [alarms_of(outcome) for outcome in (*healthy, *faulty) if alarms_of(outcome) is not None]
        alarms = [alarm for some in asked for alarm in some]
        hits = [alarm for alarm in alarms if alarm.verdict == "hit"]
        wrong = sum(alarm.verdict == "false" for alarm in alarms)
        quiet = [alarms_of(outcome) for outcome in healthy if alarms_of(outcome) is not None]
        false = sum(bool(some) for some in quiet)
        precision = f"{len(hits) / (len(hits) + wrong):.3f}" if hits or wrong else None
        delay = f"{statistics.median(alarm.delay for alarm in hits):.0f}" if hits else None
        share = f"{false}/{len(quiet)} = {false / len(quiet):.1%}" if quiet else None
        table.add(title, *recalls, precision, share, delay)

    row("**ours**", lambda o: [a for a in o.alarms if a.verdict == "hit" or a.rule in _OF_THE_LOSS])
    row("**ours, every rule**", lambda outcome: outcome.alarms)
    for name in PUBLIC_RULES:
        row(name, lambda outcome, name=name: outcome.public.get(name))
    return table


def mistakes(outcomes: Sequence[Outcome], seed: int, most: int) -> Iterator[str]:
    """Misses on runs that count, false alarms and errors: at most so many of a kind, each with how to see it again."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for outcome in outcomes:
        line = f"`--show {outcome.name}:{outcome.number} --seed {seed}` {outcome.about}"
        if outcome.error:
            groups["error"].append(f"{line} — {outcome.error}")
        elif outcome.fault and outcome.judged and not outcome.hit:
            said = ", ".join(f"{alarm.rule} at {alarm.delay:+.0f}" for alarm in outcome.alarms) or "nothing"
            infos = f"; info: {', '.join(outcome.infos)}" if outcome.infos else ""
            groups[f"missed: {outcome.fault[0]}"].append(f"{line} — said {said}{infos}")
        for rule in dict.fromkeys(alarm.rule for alarm in outcome.alarms if alarm.verdict == "false"):
            where = next(alarm for alarm in outcome.alarms if alarm.rule == rule and alarm.verdict == "false")
            what = f"{'critical' if where.critical else 'warning'} at {where.delay:+.0f} points"
            groups[f"false: {rule} on a {'faulty' if outcome.fault else 'healthy'} run"].append(f"{line} — {what}")
    for title, lines in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{title}: {len(lines)}"
        yield from (f"  - {line}" for line in lines[:most])


def _first_hit(outcome: Outcome) -> float:
    return min((alarm.delay for alarm in outcome.alarms if alarm.verdict == "hit"), key=abs)


def _runs_with(outcomes: Sequence[Outcome], rule: str, verdict: str) -> int:
    return sum(any(a.rule == rule and a.verdict == verdict for a in outcome.alarms) for outcome in outcomes)


def _precision(right: int, wrong: int) -> Optional[str]:
    return f"{right}/{right + wrong} = {right / (right + wrong):.2f}" if right or wrong else None


def _share(some: Sequence[Outcome]) -> float:
    return sum(outcome.hit for outcome in some) / len(some)


def _of(some: Sequence[Outcome]) -> str:
    found = sum(outcome.hit for outcome in some)
    return f"{found}/{len(some)}" + (f" = {found / len(some):.2f}" if some else "")


def _unexpected(some: Sequence[Outcome]) -> str:
    return _counted(
        rule for outcome in some for rule in {alarm.rule for alarm in outcome.alarms if alarm.verdict == "false"}
    )


def _counted(rules: Iterable[str]) -> str:
    return ", ".join(f"{rule} x {count}" for rule, count in collections.Counter(rules).most_common())


# ---------------------------------------------------------------------------------------------------------------------


def _evaluated(job: tuple[str, int], seed: int) -> Outcome:
    return evaluate(*job, seed=seed)


def outcomes_of(jobs: Sequence[tuple[str, int]], seed: int, processes: int) -> list[Outcome]:
    """Evaluates runs in turn or side by side; the result does not depend on which."""
    found = []
    with multiprocessing.Pool(processes) as pool:
        for outcome in pool.imap(functools.partial(_evaluated, seed=seed), jobs, chunksize=4):
            found.append(outcome)
            if sys.stderr.isatty():
                print(f"\r  {len(found)}/{len(jobs)}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(f"\r{'':20}\r", end="", file=sys.stderr, flush=True)
    return found


def show(name: str, number: int, seed: int) -> None:
    """Prints one run and what is found in it."""
    drawn = run(name, number, seed)
    outcome = evaluate(name, number, seed)
    print(f"{outcome.about}\nroles: {', '.join(sorted(drawn.series))}\nmanifest: {dict(drawn.manifest)}")
    if outcome.error:
        print(f"raised {outcome.error}")
    for finding in _findings(drawn):
        where = f"{finding.first_step} to {finding.last_step}, peak {finding.peak_step}"
        print(f"- {finding.severity} {finding.rule} ({finding.role}) {where}: {finding.message}")
    for rule, alarms in outcome.public.items():
        print(f"- {rule}: {len(alarms)} alarms")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of all runs (default: 0)")
    parser.add_argument("--runs", type=int, default=300, help="healthy runs; 600 is all of it (default: %(default)s)")
    parser.add_argument("--per-fault", type=int, help="runs of each kind of fault (default: a fifteenth of --runs)")
    parser.add_argument("--only", help="kinds of faults and families, separated by commas (default: all)")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), choices=(1, 2))
    parser.add_argument("--mistakes", type=int, default=0, metavar="N", help="list up to N mistakes of each kind")
    parser.add_argument("--show", metavar="KIND:NUMBER", help="one run instead")
    arguments = parser.parse_args()
    known = (*FAMILIES, *FAULTS)
    asked = arguments.only.split(",") if arguments.only else known
    if arguments.show:
        asked = [arguments.show.rpartition(":")[0]]
    for name in asked:
        if name not in known:
            parser.error(f"{name!r} is unknown; known: {', '.join(known)}")
    if arguments.show:
        show(asked[0], int(arguments.show.rpartition(":")[2]), arguments.seed)
        return
    per_fault = arguments.per_fault or math.ceil(arguments.runs / 15)
    per_family = math.ceil(arguments.runs / len(FAMILIES))
    jobs = [(name, i) for name in asked for i in range(per_family if name in FAMILIES else per_fault)]
    began = time.perf_counter()
    outcomes = outcomes_of(jobs, arguments.seed, arguments.processes)
    print(f"$ python benchmarks/rules.py {' '.join(sys.argv[1:])}\n")
    healthy = sum(outcome.fault is None for outcome in outcomes)
    points = sum(outcome.points for outcome in outcomes)
    spent = sum(outcome.seconds for outcome in outcomes)
    print(f"- {healthy} healthy runs, {len(outcomes) - healthy} faulty ones, {points:,} points; seed {arguments.seed}")
    print(f"- {time.perf_counter() - began:.0f} s, of it rules {spent / points * 1e6:.1f} s a million points\n")
    for table in (fault_table(outcomes), rule_table(outcomes), healthy_table(outcomes), public_table(outcomes)):
        if table.rows:
            print(f"{table}\n")
    errors = sum(bool(outcome.error) for outcome in outcomes)
    if errors:
        print(f"{errors} runs raised an error.\n")
    if arguments.mistakes:
        print("\n".join(mistakes(outcomes, arguments.seed, arguments.mistakes)))


if __name__ == "__main__":
    main()
