"""A report as one HTML file that asks for nothing else: no server, no network, no font."""

from __future__ import annotations

import datetime
import json
import math
from html import escape
from typing import Any, Iterable, Iterator, Optional, Sequence

from tb_mindformers_plugin import __version__
from tb_mindformers_plugin.compare import Comparison, wording
from tb_mindformers_plugin.health.finding import VERDICT_NAMES, Finding, few_of_each
from tb_mindformers_plugin.language import Text, number, share
from tb_mindformers_plugin.report.charts import Chart
from tb_mindformers_plugin.report.collect import Report, ReportedRun
from tb_mindformers_plugin.report.style import SCRIPT, STYLE
from tb_mindformers_plugin.report.svg import chart_svg, chart_values, json_in_html, legend
from tb_mindformers_plugin.roles import ROLES

_ICONS = {"critical": "✕", "warning": "!", "info": "i", "ok": "✓"}
_STATUS = {
    "running": Text("running", "运行中"),
    "ended": Text("ended", "已结束"),
    "stopped": Text("stopped", "已停止"),
    "failed": Text("failed", "失败"),
    "stalled": Text("stalled", "已停滞"),
    "unknown": Text("unknown", "未知"),
}
_VERDICTS = {"same": "ok", "ratio": "warning", "offset": "warning", "differs": "critical"}


def html_page(report: Report, language: str = "en") -> str:
    """Returns the report as HTML (UTF-8), in one of `LANGUAGES`."""
    title = _t(language, "Training Health report", "训练健康报告")
    values = {f"c{i}": chart_values(chart) for i, chart in enumerate(report.charts)}
    parts = [
        f'<!doctype html><html lang="{"zh-CN" if language == "zh" else "en"}"><head><meta charset="utf-8">',
        # Even if a name held markup, nothing could be loaded or sent.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}: {escape(report.logdir)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{title}</h1>",
        f'<p class="meta">{escape(report.logdir)} · {_date(report.made)} · tb-mindformers-plugin {__version__}</p>',
        *_overview(report, language),
        *_findings(report, language),
        *_comparison(report, language),
        *_charts(report, language),
        *_manifests(report, language),
        '</main><div id="tip" hidden></div>',
        f'<script type="application/json" id="values">{json_in_html(values)}</script>',
        f"<script>{SCRIPT}</script></body></html>\n",
    ]
    # A file name may hold bytes that are no UTF-8.
    return "".join(parts).encode("utf-8", "backslashreplace").decode("utf-8")


def _t(language: str, en: str, zh: str) -> str:
    return Text(en, zh).in_language(language)


def _date(seconds: float) -> str:
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M UTC")


def _pill(severity: str, text: str) -> str:
    return f'<span class="pill {severity}">{_ICONS[severity]} {escape(text)}</span>'


def _swatch(run: ReportedRun) -> str:
    return f'<i style="--c:var(--run{run.slot})"></i>{escape(run.name)}'


def _how_it_stands(run: ReportedRun) -> str:
    """Returns the run's status, and of one that ended early how."""
    end = run.summary.ended
    how = str(end.fields.get("status")) if run.status == "ended" and end is not None else ""
    return how if how in ("stopped", "failed") else run.status


def _overview(report: Report, language: str) -> Iterator[str]:
    heads = [
        _t(language, "Run", "训练"),
        _t(language, "Verdict", "结论"),
        _t(language, "Status", "状态"),
        _t(language, "Steps", "步数"),
        _t(language, "Last loss", "最后损失"),
        _t(language, "Last eval loss", "最后评估损失"),
        _t(language, "Findings", "诊断"),
    ]
    rows = []
    for run in report.runs:
        cells = [
            _swatch(run)
            + (f" <small>{_t(language, 'baseline', '基线')}</small>" if run.name == report.baseline else ""),
            _pill(run.verdict, VERDICT_NAMES[run.verdict].in_language(language)),
            _STATUS[_how_it_stands(run)].in_language(language),
            _steps(run),
            _last(run, "loss"),
            _last(run, "eval_loss"),
            str(len(run.findings)),
        ]
        rows.append(cells)
    yield _table("overview", heads, rows)
    if report.left_out:
        said = _t(
            language,
            f"{report.left_out:,} more runs are not in this report: name the runs that are to be.",
            f"另有 {report.left_out:,} 次训练未列入：请指明要列入的训练。",
        )
        yield f'<p class="note">{said}</p>'
    for run in report.runs:
        for note in run.summary.notes:
            yield f'<p class="note">{escape(run.name)}: {escape(note.in_language(language))}</p>'


def _steps(run: ReportedRun) -> str:
    last = max((series.last_step for series in run.summary.roles.values()), default=None)
    total = run.summary.manifest.total_steps
    return "–" if last is None else f"{last:,}" + (f" / {total:,}" if total else "")


def _last(run: ReportedRun, role: str) -> str:
    series = run.summary.roles.get(role)
    if series is None:
        return "–"
    return number(series.last_value) if math.isfinite(series.last_value) else "NaN / ∞"


def _findings(report: Report, language: str) -> Iterator[str]:
    yield f"<h2>{_t(language, 'Findings', '诊断')}</h2>"
    if not any(run.findings for run in report.runs):
        yield f"<p>{_t(language, 'The rules found nothing.', '规则未发现问题。')}</p>"
    for run in report.runs:
        if run.findings:
            yield f'<h3>{_swatch(run)}</h3><ul class="findings">'
            told, left = few_of_each(run.findings, lambda finding: (finding.severity, finding.rule))
            for finding in told:
                yield _finding(run, finding, language)
            for (severity, rule), count in left.items():
                yield _more(severity, rule, count, language)
            yield "</ul>"


def _more(severity: str, rule: str, count: int, language: str) -> str:
    said = _t(
        language,
        f"{count:,} more, which tb-health check --json lists",
        f"另有 {count:,} 条，见 tb-health check --json",
    )
    return (
        f"<li>{_pill(severity, VERDICT_NAMES[severity].in_language(language))}<div><p>{said}</p></div>"
        f'<span class="steps"><code>{escape(rule)}</code></span></li>'
    )


def _finding(run: ReportedRun, finding: Finding, language: str) -> str:
    said = finding.to_dict(run.name, language)
    first, last = f"{finding.first_step:,}", f"{finding.last_step:,}"
    span = first if first == last else _t(language, f"{first} to {last}", f"{first} 至 {last}")
    advice = _t(language, "Try:", "建议：")
    return (
        f"<li>{_pill(finding.severity, VERDICT_NAMES[finding.severity].in_language(language))}<div>"
        f'<p>{escape(said["message"])}</p><p class="advice">{advice} {escape(said["advice"])}</p></div>'
        f'<span class="steps">{_t(language, "steps", "步")} {span}<br><code>{escape(finding.rule)}</code></span></li>'
    )


def _comparison(report: Report, language: str) -> Iterator[str]:
    if report.baseline is None:
        return
    heading = _t(language, "Compared with", "对比基线")
    yield f"<h2>{heading} {escape(report.baseline)}</h2>"
    heads = [
        _t(language, "Run", "训练"),
        _t(language, "Verdict", "结论"),
        _t(language, "Mean error", "平均误差"),
        _t(language, "RMS", "均方根"),
        _t(language, "Largest", "最大"),
        _t(language, "First beyond", "首次超出"),
        _t(language, "Learning rate", "学习率"),
    ]
    rows = []
    for run in report.runs:
        if run.comparison is not None:
            found, errors = run.comparison, run.comparison.errors
            first = found.first_step_beyond
            cells = [
                _swatch(run),
                _pill(_VERDICTS[found.verdict], wording.title(found).in_language(language)),
                share(errors.mean_relative),
                share(errors.rms_relative),
                share(errors.max_relative),
                "–" if first is None else f"{first:,}",
                _lr(run, language),
            ]
            rows.append(cells)
    yield _table("errors", heads, rows)
    for run in report.runs:
        if run.problem is not None:
            yield f'<p class="note">{escape(run.name)}: {escape(run.problem)}</p>'
        if run.comparison is not None:
            found = run.comparison
            said = " ".join(text.in_language(language) for text in (wording.message(found), *wording.notes(found)))
            yield f"<h3>{_swatch(run)}</h3><p>{escape(said)}</p>"
            if found.settings:
                yield _settings(run, found, report.baseline, language)


def _settings(run: ReportedRun, found: Comparison, baseline: str, language: str) -> str:
    rows = [(escape(setting.name), _value(setting.value), _value(setting.baseline)) for setting in found.settings]
    heads = [_t(language, "Setting", "设置"), escape(run.name), escape(baseline)]
    count = _t(language, f"{len(rows)} settings differ", f"{len(rows)} 项设置不同")
    return f'<details class="inline"><summary>{count}</summary>{_table("plain", heads, rows)}</details>'


def _lr(run: ReportedRun, language: str) -> str:
    comparison = run.comparison
    if comparison is None or comparison.lr is None or comparison.lr_pairs is None:
        return "–"
    first = comparison.lr.first_beyond
    if first is None:
        return _t(language, "same", "相同")
    step = int(comparison.lr_pairs.step[first])
    return _t(language, f"differs from step {step:,}", f"自第 {step:,} 步起不同")


def _charts(report: Report, language: str) -> Iterator[str]:
    yield f'<h2>{_t(language, "Curves", "曲线")}</h2><div class="charts">'
    for i, chart in enumerate(report.charts):
        yield _figure(chart, f"c{i}", language)
    yield "</div>"


def _figure(chart: Chart, key: str, language: str) -> str:
    notes = " ".join(note.in_language(language) for note in chart.notes)
    scale = "" if chart.scale.kind == "linear" else f" {_t(language, '(log)', '（对数）')}"
    unit = f" <small>{escape(chart.unit)}</small>" if chart.unit else ""
    return (
        f"<figure><figcaption>{escape(chart.title.in_language(language))}{scale}{unit}</figcaption>"
        f"{chart_svg(chart, key, language)}{legend(chart.lines)}"
        + (f'<p class="chartnote">{escape(notes)}</p>' if notes else "")
        + "</figure>"
    )


def _manifests(report: Report, language: str) -> Iterator[str]:
    yield f"<h2>{_t(language, 'Manifests', '训练清单')}</h2>"
    for run in report.runs:
        manifest = run.summary.manifest
        rows = [(escape(name), _value(value)) for name, value in run.settings.items()]
        if manifest.started_at:
            rows.insert(0, ("started_at", _value(manifest.started_at)))
        rows += [(f"roles.{role}", _value(series.tag)) for role, series in run.summary.roles.items() if role in ROLES]
        yield f"<details><summary>{_swatch(run)}</summary>"
        if not run.summary.has_manifest:
            said = _t(language, "It has no manifest; roles by the names of its tags.", "没有清单；按标签名识别指标。")
            yield f"<p>{said}</p>"
        yield _table("plain", [], rows) + "</details>"


def _table(kind: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML."""
    head = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in heads)}</tr></thead>" if heads else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}">{head}<tbody>{body}</tbody></table></div>'


def _value(value: Optional[Any]) -> str:
    if value is None:
        return "–"
    return escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
