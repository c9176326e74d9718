"""What a comparison says to people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, List

from tb_mindformers_plugin.compare.align import IN_WORDS
from tb_mindformers_plugin.compare.constant import Constant
from tb_mindformers_plugin.compare.errors import Tolerance
from tb_mindformers_plugin.language import Text, number, share
from tb_mindformers_plugin.roles import ROLES

if TYPE_CHECKING:
    from tb_mindformers_plugin.compare.comparison import Comparison

# Bits of a nat.
_BITS = 1 / math.log(2)


def title(comparison: Comparison) -> Text:
    """The verdict in few words."""
    found = comparison.constant
    if comparison.verdict == "same":
        limit = limits(comparison.tolerance)
        return Text(f"Same within {limit}", f"相差不超过 {limit}")
    if comparison.verdict == "ratio" and found is not None:
        return Text(f"Constant ratio {number(found.amount)}", f"恒定比例 {number(found.amount)}")
    if comparison.verdict == "offset" and found is not None:
        return Text(f"Constant offset {found.amount:+.4g}", f"恒定偏移 {found.amount:+.4g}")
    return Text(f"Differs from step {comparison.parted_step:,}", f"自第 {comparison.parted_step:,} 步起不同")


def message(comparison: Comparison) -> Text:
    """The verdict with its numbers, and what a constant is usually the sign of."""
    if comparison.verdict == "same":
        return _same(comparison)
    if comparison.verdict == "differs":
        return _differs(comparison)
    assert comparison.constant is not None
    return _explained(comparison, comparison.constant)


def notes(comparison: Comparison) -> List[Text]:
    """What else a reader must know, most important first."""
    pairs, errors, shift = comparison.pairs, comparison.errors, comparison.shift
    found = [] if comparison.axis_note is None else [comparison.axis_note]
    if shift:
        found.append(
            Text(
                f"Moved by {shift:+d} point{'s' * (abs(shift) > 1)}, the run lies on the baseline ten times better: "
                "one of the two counts its steps from 0, or logs a step late.",
                f"将该运行平移 {shift:+d} 个点后，吻合程度好十倍以上：其中之一可能从 0 开始计步，或晚记录一步。",
            )
        )
    if pairs.only_run or pairs.only_baseline:
        axis = IN_WORDS[pairs.axis]
        found.append(
            Text(
                f"Left out for want of a partner at the same {axis.en}: {pairs.only_run:,} points of the run, "
                f"{pairs.only_baseline:,} of the baseline.",
                f"因没有相同{axis.zh}的对应点而未比较：该运行 {pairs.only_run:,} 个点，"
                f"基线 {pairs.only_baseline:,} 个点。",
            )
        )
    if errors.both_not_finite:
        found.append(
            Text(
                f"At {errors.both_not_finite:,} points neither of the two is a finite number.",
                f"有 {errors.both_not_finite:,} 个点两边都不是有限数值。",
            )
        )
    return found


def limits(tolerance: Tolerance) -> str:
    """The tolerance as people write it."""
    parts = [share(tolerance.relative)] if tolerance.relative or not tolerance.absolute else []
    return " + ".join([*parts, *([number(tolerance.absolute)] if tolerance.absolute else [])])


def _same(comparison: Comparison) -> Text:
    errors, name = comparison.errors, ROLES[comparison.pairs.role].title
    inside, limit, size = errors.points - errors.beyond, limits(comparison.tolerance), _size(comparison)
    return Text(
        f"The {name} stays within {limit} of the baseline at {inside:,} of {errors.points:,} common points. {size.en}",
        f"{errors.points:,} 个共同点中有 {inside:,} 个的 {name} 与基线相差不超过 {limit}。{size.zh}",
    )


def _differs(comparison: Comparison) -> Text:
    errors, name, step = comparison.errors, ROLES[comparison.pairs.role].title, comparison.parted_step
    limit, size, beyond = limits(comparison.tolerance), _size(comparison), share(errors.beyond / errors.points)
    en = (
        f"The {name} leaves the baseline by more than {limit} at step {step:,}; {beyond} of {errors.points:,} common "
        f"points are beyond. {size.en}"
    )
    zh = f"{name} 自第 {step:,} 步起与基线相差超过 {limit}；{errors.points:,} 个共同点中 {beyond} 超出。{size.zh}"
    if errors.not_finite:
        en += f" At {errors.not_finite:,} points only one of the two is a finite number."
        zh += f"有 {errors.not_finite:,} 个点仅一方为有限数值。"
    begins = comparison.constant
    if begins is not None:
        kind = Text(begins.kind, "比例" if begins.kind == "ratio" else "偏移")
        en += f" They begin with a constant {kind.en} of {_amount(begins)}. {_cause(begins).en}"
        zh += f"开始处存在恒定{kind.zh} {_amount(begins)}。{_cause(begins).zh}"
    return Text(en, zh)


def _explained(comparison: Comparison, found: Constant) -> Text:
    name, cause, within = ROLES[comparison.pairs.role].title, _cause(found), share(found.scatter)
    amount = _amount(found)
    if found.kind == "ratio":
        said = Text(f"is {amount} times the baseline's", f"是基线的 {amount} 倍")
    else:
        said = Text(f"is the baseline's {amount}", f"等于基线 {amount}")
    return Text(
        f"The {name} {said.en} all along ({found.points:,} common points, within {within}). {cause.en}",
        f"{name} 始终{said.zh}（{found.points:,} 个共同点，误差 {within} 以内）。{cause.zh}",
    )


def _size(comparison: Comparison) -> Text:
    errors = comparison.errors
    if errors.worst is None:
        return Text("No point is finite in both.", "没有两边都为有限数值的点。")
    mean, largest, step = share(errors.mean_relative), share(errors.max_relative), comparison.pairs.step[errors.worst]
    return Text(
        f"Relative error: mean {mean}, largest {largest} at step {step:,}.",
        f"相对误差：平均 {mean}，最大 {largest}（第 {step:,} 步）。",
    )


def _amount(found: Constant) -> str:
    return (
        number(found.amount) if found.kind == "ratio" else f"{'+' if found.amount > 0 else '-'} {abs(found.amount):.4g}"
    )


def _cause(found: Constant) -> Text:
    if found.kind == "offset":
        return Text(
            "One of the two may have a term that the other has not: an auxiliary or z-loss, weight decay, "
            "label smoothing.",
            "可能有一项只计入其中一方：辅助损失或 z-loss、权重衰减、标签平滑。",
        )
    if found.whole is not None:
        parts = abs(found.whole)
        which = Text("run", "该运行") if found.whole > 0 else Text("baseline", "基线")
        return Text(
            f"The {which.en} may sum over {parts} parts without dividing: look at gradient accumulation, "
            "micro batches, devices and sequence length.",
            f"{which.zh}可能累加了 {parts} 份而未取平均：请检查梯度累积、微批、设备数和序列长度。",
        )
    if any(abs(found.amount / bits - 1) < 0.01 for bits in (_BITS, 1 / _BITS)):
        return Text(
            "One may be in bits, the other in nats (1.4427 = 1 / ln 2).",
            "可能一方以比特、另一方以奈特为单位（1.4427 = 1 / ln 2）。",
        )
    return Text(
        "Look at what the loss is averaged over: tokens that count, the whole batch, devices.",
        "请检查损失按什么取平均：有效 token、整个批次还是设备。",
    )
