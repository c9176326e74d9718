"""Makes docs/rules.md from the rules' docstrings.

python -m tb_mindformers_plugin.health.document > docs/rules.md
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, Mapping, Type

from tb_mindformers_plugin.health.limits import limits_of
from tb_mindformers_plugin.health.registry import Rule, registry

_HEAD = """\
# Rules

What `tb-health check`, the tab and `diagnose` look for. Each rule reads the full-resolution series of one run and
returns findings: the rule, a severity (`critical`: the run is lost or wrong, act now; `warning`: look soon; `info`:
worth knowing), the steps, the numbers, one sentence and advice, in English and in Simplified Chinese.

Rules work on the finite points of the current curve. *Sigma* is the interquartile range / 1.349 (sigma_iqr) unless
said otherwise. The *ratio gate* admits a loss whose ratios mean something: the median of its first 64, 128 and 256
values is positive and larger than 1.05 times the median change between points, and no more than 0.1 % of the values so
far are negative; a GRPO loss, noise around 0, fails it. A loss is looked at up to where it fails, and not at all where
the KL to a reference policy is logged. The *warm-up* ends where the learning rate first stops rising: at least 64
points, at most 256; 64 points without a learning rate.

One fault is one finding: an oscillation hides the spikes in it, a divergence the slow rise, a spike takes up the
explosion of the grad norm that led to it (`health/subsumption.py`).

## Changing a rule

Each rule below lists its parameters. They are changed for one check by `--set RULE.PARAMETER=VALUE`, as often as
needed, and `RULE=off` switches a rule off:

```
tb-health check logs --set loss_spike.z=8 --set loss_plateau=off
```

or in a TOML file, a table a rule, for `tb-health check logs --rules rules.toml` and for the tab,
`tensorboard --logdir logs --training_health_rules rules.toml`:

```toml
loss_plateau = false  # off; such lines stand above the first table

[loss_spike]
z = 8
```

`--set` wins over the file. A rule or a parameter that does not exist and a value that is not allowed are errors that
say what is; TensorBoard does not start with such a file, and reads it when it starts. What a rule that is off would
have hidden (the spikes of an oscillation) is told.

## All rules

This page is made from the rules' docstrings by `python -m tb_mindformers_plugin.health.document > docs/rules.md`.

| rule | says | 中文 | severities | reads |
|---|---|---|---|---|
"""


def document(rules: Mapping[str, Rule]) -> str:
    """Returns the page."""
    lines = [_HEAD.rstrip("\n")]
    for rule in rules.values():
        reads = ", ".join(f"`{role}`" for role in rule.reads) or "the whole run"
        severities = ", ".join(rule.severities)
        lines.append(f"| [`{rule.id}`](#{rule.id}) | {rule.title.en} | {rule.title.zh} | {severities} | {reads} |")
    for rule in rules.values():
        lines += ["", f"## `{rule.id}`", "", _body(rule), ""]
        fields = dataclasses.fields(rule.parameters)
        if fields:
            meanings = parameter_meanings(rule.parameters)
            allowed = limits_of(rule.parameters)
            lines += ["| parameter | default | allowed | meaning |", "|---|---|---|---|"]
            lines += [
                f"| `{f.name}` | {f.default:g} | {allowed[f.name]} | {meanings[f.name].rstrip('.')} |" for f in fields
            ]
            lines.append("")
        for advice in rule.advice.values():
            lines += [f"- {advice.en}<br>{advice.zh}"]
    return "\n".join(lines) + "\n"


def parameter_meanings(parameters: Type[Any]) -> dict[str, str]:
    """Returns parameter -> what it means, as its dataclass's docstring has it.

    >>> from tb_mindformers_plugin.health.rules import non_finite
    >>> parameter_meanings(non_finite.Parameters)
    {'stretch': 'so many in a row are no longer one unlucky batch.'}
    """
    text = (inspect.getdoc(parameters) or "").partition("Attributes:")[2]
    return {
        name: " ".join(said.split()) for name, said in re.findall(r"^  (\w+): (.*(?:\n    .*)*)", text, re.MULTILINE)
    }


def _body(rule: Rule) -> str:
    """The docstring's definition, source and quiet clause, as paragraphs."""
    _, _, text = rule.docstring.partition("\n\n")
    return re.sub(r"^(Definition|Source|Quiet when):", r"**\1:**", text, flags=re.MULTILINE)


if __name__ == "__main__":
    print(document(registry()), end="")
