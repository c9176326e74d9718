"""Each rule finds its fault at the right steps, and is quiet where it must be."""

from __future__ import annotations

import dataclasses
import re

import healthy
import numpy as np
import pytest

from tb_mindformers_plugin.health import diagnose_arrays
from tb_mindformers_plugin.health.registry import registry
from tb_mindformers_plugin.health.series import lr_changes, of_arrays, of_values
from tb_mindformers_plugin.metadata import HealthEvent, RunManifest

NAN = np.nan


def find(rule, run=None, manifest=None, restarts=(), now=None, **values):
    """What one rule finds in role=values, or in a run of arrays."""
    series = of_values(**values) if run is None else of_arrays(run, manifest, restarts, now)
    series = dataclasses.replace(series, restarts=tuple(restarts), now=now)
    if manifest is not None:
        series = dataclasses.replace(series, manifest=manifest, has_manifest=True)
    with np.errstate(all="ignore"):
        found = list(registry()[rule].function(series, registry()[rule].parameters()))
    for finding in found:
        assert finding.severity in registry()[rule].severities
        assert finding.rule == rule
        assert finding.first_step <= finding.peak_step <= finding.last_step
        assert re.search("[\u4e00-\u9fff]", finding.message_zh)
        assert re.search("[\u4e00-\u9fff]", finding.advice_zh)
        assert finding.message.endswith(".")
        assert not re.search(r"\b(nan|inf)\b", finding.message)
    return found


def worst(found):
    return [finding.severity for finding in found]


def test_a_healthy_run_has_no_finding():
    assert diagnose_arrays(healthy.run()) == []


# loss_spike


def spiked(at=1500, height=1.5, length=1, n=3000, **of):
    loss = healthy.loss(n, **of)
    loss[at : at + length] *= height
    return loss


@pytest.mark.parametrize("height", [1.25, 1.5, 3, 1e6])
@pytest.mark.parametrize("length", [1, 3, 12])
def test_spike(height, length):
    (found,) = find("loss_spike", loss=spiked(height=height, length=length))
    assert (found.severity, found.first_step) == ("warning", 1500)
    assert found.evidence["recovered"]


def test_spikes_that_are_close_are_one():
    loss = spiked()
    loss[1510] *= 1.6
    loss[1700] *= 1.6
    assert [f.first_step for f in find("loss_spike", loss=loss)] == [1500, 1700]


def test_spike_at_the_last_point_is_found_at_once():
    (found,) = find("loss_spike", loss=spiked()[:1501])
    assert (found.severity, found.first_step) == ("warning", 1500)


def test_spike_that_lingers():
    loss = spiked(n=3000, sigma=0.01)
    loss[1501:] *= 1.08
    (found,) = find("loss_spike", loss=loss)
    assert 1.05 < found.evidence["lingering"] < 1.12
    assert "lingering +" in found.message


@pytest.mark.parametrize("seen", [1501, 1505, 1530])
def test_the_peak_of_a_spike_is_that_of_its_stretch(seen):
    loss = spiked()
    loss[1500:1530] *= np.linspace(1, 3, 30)  # the first points are in the window of the later ones
    (found,) = find("loss_spike", loss=loss[:seen])
    assert found.severity == "warning"
    assert (found.evidence["recovered"], found.evidence["peak"]) == (False, pytest.approx(loss[1500:seen].max()))
    (found,) = find("loss_spike", loss=loss)
    assert (found.first_step, found.peak_step) == (1500, 1500 + int(np.argmax(loss[1500:1530])))
    assert found.evidence["recovered"]
    assert found.last_step > found.peak_step


def test_a_shift_that_goes_on_rising_is_told_with_its_peak():
    loss = healthy.level(sigma=0.01)
    loss[1000:1040] *= np.linspace(1.5, 4, 40)
    loss[1040:] *= 4
    (found,) = find("loss_spike", loss=loss)
    assert found.severity == "info"
    assert found.evidence["ratio"] == pytest.approx(4, rel=0.05)


def test_a_shift_of_level_is_no_warning():
    loss = healthy.level()
    loss[1000:] *= 1.5
    assert worst(find("loss_spike", loss=loss)) == ["info"]


def test_quiet_spikes():
    assert find("loss_spike", loss=healthy.noise(3000, 0.01)) == []  # the ratio gate
    heavy = healthy.level() * (1 + 0.3 * (np.random.default_rng(3).random(2000) < 0.12))
    assert find("loss_spike", loss=heavy) == []  # a tail that the run has always had
    loss, restart = spiked(), [1490]
    assert find("loss_spike", loss=loss, restarts=restart) == []
    assert find("loss_spike", loss=loss, restarts=[1400]) != []
    lr = np.where(np.arange(3000) < 1480, 1e-4, 1e-3)
    assert worst(find("loss_spike", loss=spiked(height=1.4), lr=lr)) == ["info"]
    assert worst(find("loss_spike", loss=spiked(height=2), lr=lr)) == ["warning"]


# loss_divergence


def test_divergence():
    loss = healthy.loss()
    loss[2000:] *= np.linspace(1, 3, 1000)
    (found,) = find("loss_divergence", loss=loss, lr=healthy.lr())
    assert found.severity == "critical"
    assert 2000 <= found.first_step <= 2150


def test_divergence_that_came_back():
    loss = healthy.loss()
    loss[1500:1900] *= 1.6
    (found,) = find("loss_divergence", loss=loss)
    assert found.severity == "warning"
    assert abs(found.first_step - 1500) <= 32
    assert abs(found.last_step - 1900) <= 32


def test_quiet_divergence():
    assert find("loss_divergence", loss=np.cumsum(healthy.noise(3000))) == []
    warm = healthy.loss(2000)
    warm[60:150] *= 2  # in the warm-up
    assert find("loss_divergence", loss=warm, lr=np.minimum(np.arange(2000) / 190, 1.0)) == []
    short = healthy.loss()
    short[1500:1560] *= 2
    assert find("loss_divergence", loss=short) == []
    restart = healthy.loss()
    restart[1500:2400] *= 1 + 0.4 * np.linspace(1, 0, 900)
    lr = np.concatenate([np.linspace(1e-3, 1e-4, 1500), np.linspace(1e-3, 1e-4, 1500)])
    assert worst(find("loss_divergence", loss=restart, lr=lr)) == ["info"]


# loss_rising


def test_rising():
    loss = healthy.level(4000)
    loss[2000:] *= np.linspace(1, 1.18, 2000)
    (found,) = find("loss_rising", loss=loss)
    assert found.severity == "warning"
    assert 1800 <= found.first_step <= 2400


def test_quiet_rising():
    loss = healthy.level(4000)
    rise = np.ones(4000)
    rise[1500:2500] = np.linspace(1, 1.15, 1000)
    assert worst(find("loss_rising", loss=loss * rise)) == ["info"]  # it came back
    rise = np.concatenate([np.ones(2000), np.linspace(1, 1.18, 2000)])
    assert (
        find("loss_rising", loss=loss * rise, lr=np.concatenate([np.full(2000, 1e-4), np.linspace(1e-4, 3e-4, 2000)]))
        == []
    )
    assert find("loss_rising", loss=healthy.noise(4000)) == []
    assert find("loss_rising", loss=np.concatenate([np.linspace(1, 2, 60), np.full(400, 2.0)])) == []  # warm-up


# loss_plateau


def test_plateau():
    loss = np.concatenate([np.linspace(4, 3, 1000), np.full(1000, 3.0)]) * np.exp(healthy.noise(2000, 0.02))
    (found,) = find("loss_plateau", loss=loss, lr=np.full(2000, 1e-3))
    assert found.severity == "warning"
    assert abs(found.first_step - 1000) < 300
    assert worst(find("loss_plateau", loss=loss)) == ["info"]
    assert "does not tell" in found.message


def test_quiet_plateau():
    flat = healthy.level(2000)
    assert find("loss_plateau", loss=flat, lr=healthy.lr(2000)) == []  # T11: the end of a cosine
    assert find("loss_plateau", loss=healthy.loss(2000)) == []  # it falls
    assert find("loss_plateau", loss=healthy.level(400)) == []
    learnt = np.concatenate([np.linspace(4, 0.05, 1000), np.full(1000, 0.05)])
    assert find("loss_plateau", loss=learnt) == []


# loss_oscillation


def test_oscillation():
    loss = healthy.loss()
    loss[2000:] *= 1 + 0.35 * (-1.0) ** np.arange(1000)
    (found,) = find("loss_oscillation", loss=loss)
    assert found.severity == "warning"
    assert abs(found.first_step - 2000) <= 75


def test_quiet_oscillation():
    assert find("loss_oscillation", loss=healthy.level(3000, sigma=0.3)) == []  # noisy from the start
    saw = (-1.0) ** np.arange(3000) * np.maximum(np.linspace(0.6, 0, 3000), 0)
    assert find("loss_oscillation", loss=healthy.loss() * (1 + saw)) == []  # falling
    assert find("loss_oscillation", loss=healthy.noise(3000)) == []


# loss_periodic


@pytest.mark.parametrize("period", [20, 100, 400])
@pytest.mark.parametrize("every", [1, 10])
def test_periodic(period, every):
    t = np.arange(6000)
    loss = healthy.loss(6000) * np.exp(0.08 * np.sin(2 * np.pi * t / period))
    (found,) = find("loss_periodic", {"loss": (t * every, None, loss)}, RunManifest(steps_per_epoch=period * every))
    assert found.severity == "warning"
    assert abs(found.evidence["period_steps"] - period * every) <= 0.03 * period * every
    assert "1 epoch" in found.message


@pytest.mark.parametrize("points", [1200, 2600])
@pytest.mark.parametrize("periods", [8, 9])
def test_few_periods(points, periods):
    period = points // periods
    loss = healthy.loss(points) * np.exp(0.08 * np.sin(2 * np.pi * np.arange(points) / period))
    (found,) = find("loss_periodic", loss=loss)
    assert abs(found.evidence["period_steps"] - period) <= 0.05 * period


def test_a_saw_tooth_of_samples_learnt_by_heart():
    t = np.arange(6000)
    loss = 4 * 0.01 ** (t / 6000) * np.exp(healthy.noise(6000, 0.02) + 0.3 * (t % 100 / 100))
    (found,) = find("loss_periodic", {"loss": (t, None, loss)}, RunManifest(steps_per_epoch=100))
    assert found.severity == "info"
    assert "by heart" in found.advice
    (found,) = find("loss_periodic", {"loss": (t, None, loss)}, RunManifest(steps_per_epoch=1700))
    assert found.severity == "warning"
    assert "not shuffled" in found.advice


def test_quiet_periodic():
    t = np.arange(3000)
    assert find("loss_periodic", loss=healthy.loss()) == []
    stairs = 2 * 0.9 ** (t // 300) * np.exp(healthy.noise(3000, 0.02))
    assert find("loss_periodic", loss=stairs) == []
    assert find("loss_periodic", loss=np.sin(t / 10)) == []
    assert find("loss_periodic", loss=healthy.loss() * np.exp(0.01 * np.sin(2 * np.pi * t / 50))) == []  # below 3 %


# grad_explosion


def exploded(times=100.0, at=1500, length=1):
    norm = healthy.grad_norm()
    norm[at : at + length] = times
    return norm


def test_explosion():
    loss = healthy.loss()
    (found,) = find("grad_explosion", grad_norm=exploded(), loss=loss)
    assert (found.severity, found.first_step) == ("warning", 1500)
    assert worst(find("grad_explosion", grad_norm=exploded(20), loss=loss)) == ["info"]
    assert worst(find("grad_explosion", grad_norm=exploded(40, length=3), loss=loss)) == ["warning"]
    gone = np.where(np.arange(3000) > 1510, NAN, loss)
    assert worst(find("grad_explosion", grad_norm=exploded(20), loss=gone)) == ["critical"]
    up = np.where(np.arange(3000) > 1500, 2 * loss, loss)
    assert worst(find("grad_explosion", grad_norm=exploded(20), loss=up)) == ["critical"]


def climbing(steps, times, n=3000, at=1500, then=None, seed=1):
    """A norm that climbs to so many times its level within so many steps, and what it does then."""
    norm = healthy.grad_norm(n, seed=seed)
    norm[at : at + steps] *= times ** (np.arange(1, steps + 1) / steps)
    norm[at + steps :] *= 1 if then is None else then
    return norm


@pytest.mark.parametrize("steps", [5, 10, 20])
@pytest.mark.parametrize("times", [16, 40, 1000])
def test_a_climb_of_some_steps_is_an_explosion(steps, times):
    gone, loss = np.arange(3000) >= 1500 + steps, healthy.loss()
    lost = np.where(gone, NAN, loss)
    norm = climbing(steps, times, then=NAN)
    (found,) = find("grad_explosion", grad_norm=norm, loss=lost)
    assert found.severity == "critical"
    assert 1500 <= found.first_step < 1500 + steps
    assert found.evidence["ratio"] > 10
    assert re.search(r"(climbed|jumped) from .* and the loss became NaN or infinite", found.message)
    # As it is seen while it happens: told before the climb is over, and known by the same step ever after.
    for n in range(1500 + steps, 1700, 40):
        early = find("grad_explosion", grad_norm=norm[:n], loss=lost[:n])
        assert [f.first_step for f in early] == [found.first_step]
    (found,) = find("grad_explosion", grad_norm=climbing(steps, times, then=times), loss=np.where(gone, 2 * loss, loss))
    assert found.severity == "critical"
    (found,) = find("grad_explosion", grad_norm=climbing(steps, times, then=np.inf), loss=loss)
    assert found.severity in ("critical", "warning") or "jumped" in found.message
    # Without consequences it is as grave as a jump of that height.
    (found,) = find("grad_explosion", grad_norm=climbing(steps, times), loss=loss)
    assert found.severity == ("info" if times < 30 else "warning") or times == 40


def test_a_climb_is_told_from_where_it_began():
    (found,) = find("grad_explosion", grad_norm=climbing(20, 40), loss=healthy.loss())
    assert found.first_step in range(1500, 1507)
    assert found.message.startswith("Grad norm climbed from ")
    assert f"between steps {found.first_step:,} and {found.peak_step:,}" in found.message
    assert found.evidence["climbed_steps"] == found.peak_step - found.first_step


@pytest.mark.parametrize("n", [400, 3000])
def test_quiet_climbs(n):
    t, noise = np.arange(n), healthy.grad_norm(n)
    loss = healthy.loss(n)
    warming = noise * np.exp(np.minimum(t / 150, 1) * np.log(40))  # with the learning rate
    assert find("grad_explosion", grad_norm=warming, loss=loss, lr=np.minimum(t / 150, 1)) == []
    slow = noise * np.exp(np.minimum(np.maximum(t - n // 2, 0) / 200, 1) * np.log(100))
    assert find("grad_explosion", grad_norm=slow, loss=loss) == []
    assert find("grad_explosion", grad_norm=climbing(10, 5, n, n // 2, 5), loss=loss) == []
    # A restart of the schedule: the gradients and the loss go up with it.
    again = n // 2
    lr = 1e-3 * (1 - (t % again) / again)
    up = np.where(t >= again, 1.3, 1.0)
    assert worst(find("grad_explosion", grad_norm=climbing(8, 14, n, again, 14), loss=loss * up, lr=lr)) in (
        [],
        ["info"],
    )


def test_quiet_explosion():
    assert find("grad_explosion", grad_norm=exploded(8)) == []
    assert find("grad_explosion", grad_norm=np.zeros(300)) == []
    overflow = np.arange(3000) == 1500
    assert worst(find("grad_explosion", grad_norm=exploded(), overflow=overflow)) == ["info"]
    tail = healthy.grad_norm()
    tail[200::100] *= 25
    (found,) = find("grad_explosion", grad_norm=tail)
    assert found.severity == "info"
    assert found.evidence["groups"] == 28


# grad_vanishing


def test_vanishing():
    norm = healthy.grad_norm()
    norm[2000:] *= 1e-5
    (found,) = find("grad_vanishing", grad_norm=norm, loss=healthy.loss())
    assert (found.severity, found.first_step, found.last_step) == ("warning", 2000, 2999)


def test_quiet_vanishing():
    (found,) = find("grad_vanishing", grad_norm=np.zeros(500))
    assert found.severity == "info"
    assert "not logged" in found.message
    norm = healthy.grad_norm()
    norm[2000:] *= 1e-5
    assert worst(find("grad_vanishing", grad_norm=norm, loss=np.linspace(3, 0, 3000) ** 3)) == ["info"]
    norm = healthy.grad_norm()
    norm[1000:1040] = 0
    assert find("grad_vanishing", grad_norm=norm) == []


# clip_saturation, loss scale


def test_clip_saturation():
    clipped = RunManifest(grad_clip=0.2)
    norm = healthy.grad_norm(1000)
    assert worst(find("clip_saturation", {"grad_norm": (np.arange(1000), None, norm)}, clipped)) == ["warning"]
    assert worst(find("clip_saturation", grad_norm=norm, manifest=RunManifest(grad_clip=0.6))) == ["info"]
    assert find("clip_saturation", grad_norm=norm, manifest=RunManifest(grad_clip=1.0)) == []
    assert find("clip_saturation", grad_norm=norm) == []  # the threshold is unknown
    assert find("clip_saturation", grad_norm=norm[:400], manifest=clipped) == []


def test_scale_collapse():
    scale = np.full(500, 65536.0)
    scale[300:316] = 65536.0 / 2.0 ** np.arange(1, 17)
    scale[316:] = 1
    (found,) = find("loss_scale_collapse", loss_scale=scale)
    assert (found.severity, found.first_step) == ("critical", 300)
    assert found.evidence["halvings"] == 16
    assert worst(find("loss_scale_collapse", loss_scale=scale[:310])) == ["warning"]


@pytest.mark.parametrize(
    "scale", [np.ones(500), np.full(500, 128.0), 2.0 ** np.r_[32 - np.arange(20), np.full(400, 13)]]
)
def test_quiet_scale(scale):
    assert find("loss_scale_collapse", loss_scale=scale) == []
    assert find("frequent_overflow", loss_scale=scale) == []


def test_a_scale_that_falls_by_more_than_halves():
    """A step is skipped once, however far the scale falls with it."""
    scale = np.repeat(np.tile([2.0**14, 2.0**4], 40), 5)
    (found,) = find("frequent_overflow", loss_scale=scale)
    assert found.evidence["skipped"] == 40
    assert found.evidence["skipped"] <= found.evidence["of"]
    fell = np.full(300, 2.0**14)
    fell[200:] = 4
    (found,) = find("loss_scale_collapse", loss_scale=fell)
    assert "skipped" not in found.message
    assert "at step 200: 12 halvings." in found.message


def test_quiet_scale_that_looks_for_its_level():
    scale = np.concatenate([np.tile([2.0**14, 2.0**13], [1])] * 1)
    scale = np.repeat(np.tile([2.0**14, 2.0**13, 2.0**14], 10), 60)
    assert find("loss_scale_collapse", loss_scale=scale) == []


def test_frequent_overflow():
    overflow = np.zeros(2000)
    overflow[1000::8] = 1
    (found,) = find("frequent_overflow", overflow=overflow, loss_scale=np.full(2000, 1024.0))
    assert found.severity == "warning"
    assert found.first_step == 1000
    overflow = np.zeros(2000)
    overflow[:20] = 1
    overflow[1000::40] = 1
    assert find("frequent_overflow", overflow=overflow) == []
    scale = np.where(np.arange(2000) % 10 < 5, 512.0, 1024.0)
    (found,) = find("frequent_overflow", loss_scale=scale)
    assert found.evidence["lower_bound"]


# lr_schedule_mismatch


def test_lr_declared():
    schedule = {"kind": "cosine_warmup", "peak": 1e-3, "warmup_steps": 100, "warmup_init": 0.0, "end": 0.0}
    schedule.update(decay_steps=900, total_steps=1000, num_cycles=0.5)
    step = np.arange(1, 1001)
    warm = 1e-3 * (step - 1) / 100
    lr = np.where(step - 1 < 100, warm, 0.5e-3 * (1 + np.cos(np.pi * (step - 101) / 900)))
    manifest = RunManifest(schedule=schedule)
    assert find("lr_schedule_mismatch", {"lr": (step, None, lr)}, manifest) == []
    late = np.concatenate([np.zeros(7), lr[:-7]])  # 7 skipped steps
    overflow = (step, None, (step <= 7).astype(float))
    assert find("lr_schedule_mismatch", {"lr": (step, None, late), "overflow": overflow}, manifest) == []
    (found,) = find("lr_schedule_mismatch", {"lr": (step, None, np.where(step > 500, 2 * lr, lr))}, manifest)
    assert (found.severity, found.first_step) == ("warning", 501)
    other = RunManifest(schedule={"kind": "made up"})
    assert find("lr_schedule_mismatch", {"lr": (step, None, lr)}, other) == []


def actions(*changes):
    return [HealthEvent("action", step, 0.0, {"action": "reduce_lr", "factor": factor}) for step, factor in changes]


@pytest.mark.parametrize("declared", [True, False])
def test_recorded_changes_of_the_lr_are_no_fault(declared):
    step = np.arange(1, 2001)
    schedule = {"kind": "cosine", "peak": 1e-3, "end": 0.0, "decay_steps": 2000}
    planned = 0.5e-3 * (1 + np.cos(np.pi * (step - 1) / 2000))
    lr = planned * np.where(step > 600, 0.25, 1) * np.where(step > 900, 0.5, 1)
    manifest = RunManifest(schedule=schedule if declared else None)
    run = of_arrays({"lr": (step, None, lr)}, manifest)
    rule = registry()["lr_schedule_mismatch"].function
    assert rule(run) or not declared  # undeclared, it looks like a step decay
    known = dataclasses.replace(run, lr_changes=lr_changes(actions((600, 0.25), (900, 0.5))))
    assert rule(known) == []
    # What else happens to it is one all the same.
    lr = np.where(step > 1300, 8 * lr, lr)
    broken = dataclasses.replace(of_arrays({"lr": (step, None, lr)}, manifest), lr_changes=known.lr_changes)
    assert rule(broken)[0].first_step == 1301


def test_a_restart_from_before_a_change_takes_it_back():
    resume = HealthEvent("resume", 500, 0.0, {"resumed_from": 500})
    assert lr_changes([*actions((400, 0.5), (600, 0.5)), resume, *actions((700, 0.1))]) == ((400, 0.5), (700, 0.1))
    odd = [HealthEvent("action", 1, 0.0, {"action": "reduce_lr", "factor": f}) for f in ("x", None, -1, 0, 1e999)]
    assert lr_changes([*odd, HealthEvent("action", 1, 0.0, {"action": "stop"})]) == ()


def test_lr_declared_by_the_newest_start():
    step = np.arange(1, 1001)
    lr = np.where(step <= 500, 1e-3, 2.5e-4)
    schedule = {"kind": "constant", "peak": 2.5e-4}
    run = {"lr": (step, None, lr)}
    assert find("lr_schedule_mismatch", run, RunManifest(schedule=schedule, resumed_from=500)) == []
    assert find("lr_schedule_mismatch", run, RunManifest(schedule=schedule, resumed_from=400))[0].first_step == 401


def test_lr_jumps():
    lr = healthy.lr()
    lr[1500:] *= 10
    (found,) = find("lr_schedule_mismatch", lr=lr)
    assert (found.severity, found.first_step) == ("warning", 1500)
    blip = healthy.lr()
    blip[1500:1520] /= 4
    assert worst(find("lr_schedule_mismatch", lr=blip)) == ["warning", "warning"]
    zero = np.full(1000, 1e-3)
    zero[500:600] = 0
    assert "warning" in worst(find("lr_schedule_mismatch", lr=zero))


@pytest.mark.parametrize("every", [1, 10, 100])
def test_quiet_lr(every):
    t = np.arange(0, 10_000, every)
    cosine = 1e-3 * 0.5 * (1 + np.cos(np.pi * t / 10_000))
    restarts = 1e-3 * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * (t % 2500) / 2500)))
    for lr in (
        np.minimum(t / 300, 1) * cosine,
        1e-3 * (1 - t / 10_000),
        1e-3 * 0.1 ** (t // 3000),  # step decay
        np.where(t < 8000, 1e-3, 1e-3 * (1 - (t - 8000) / 2001)),  # WSD
        1e-3 * np.exp(-t / 1000),
        restarts,
        np.full(len(t), 1e-3),
    ):
        assert worst(find("lr_schedule_mismatch", {"lr": (t, None, lr)})) in ([], ["info"])


def test_quiet_lr_at_a_restart_of_the_run():
    lr = np.where(np.arange(1000) < 500, 1e-4, 1e-3)
    assert find("lr_schedule_mismatch", lr=lr, restarts=[500]) == []
    assert worst(find("resume_discontinuity", lr=lr, restarts=[500])) == ["warning"]


# throughput_drop, stalled, epoch_step_mismatch


def test_throughput():
    speed = 1000 * np.exp(healthy.noise(2000, 0.05))
    speed[1200:] *= 0.6
    (found,) = find("throughput_drop", throughput=speed)
    assert found.severity == "warning"
    assert abs(found.first_step - 1200) <= 20
    (found,) = find("throughput_drop", step_time=1 / speed)
    assert "Steps take" in found.message
    speed[1300:] /= 0.6
    assert worst(find("throughput_drop", throughput=speed)) == ["info"]


def test_quiet_throughput():
    speed = 1000 * np.exp(healthy.noise(2000, 0.05))
    speed[::100] /= 60
    assert find("throughput_drop", throughput=speed) == []
    regimes = 1000 * np.repeat(np.exp(healthy.noise(40, 0.3)), 50)
    assert "warning" not in worst(find("throughput_drop", throughput=regimes))
    assert find("throughput_drop", throughput=np.full(60, 5.0)) == []


def test_a_run_that_is_silent_for_long_and_says_odd_times():
    step = np.arange(100)
    for began in (-1e300, 0.0, 1e9, 1e15):
        loss = {"loss": (step, began + step, np.ones(100))}
        for now in (0.0, 1e9, 1e12, 1e18):
            find("stalled", loss, RunManifest(), now=now)
    (found,) = find("stalled", {"loss": (step, 1e9 + step, np.ones(100))}, RunManifest(), now=1e9 + 10_000)
    assert "since step 99 (2001-09-09 01:48 UTC)" in found.message


def test_stalled():
    step = np.arange(100)
    loss = {"loss": (step, 1e9 + step * 10.0, np.ones(100))}
    manifest = RunManifest()
    assert worst(find("stalled", loss, manifest, now=1e9 + 10_000)) == ["warning"]
    assert worst(find("stalled", loss, manifest, now=1e9 + 1e6)) == ["info"]
    assert find("stalled", loss, manifest, now=1e9 + 2000) == []
    assert find("stalled", loss, manifest) == []
    slow = {"loss": (step, 1e9 + step * 1000.0, np.ones(100))}
    assert find("stalled", slow, manifest, now=1e9 + 99_000 + 9_000) == []
    ended = dataclasses.replace(of_arrays(loss, manifest, now=1e9 + 10_000), ended=True)
    assert registry()["stalled"].function(ended, registry()["stalled"].parameters()) == []


def test_epochs():
    step = np.arange(1, 1001)
    manifest = RunManifest(steps_per_epoch=100)
    for epoch in (step / 100, step // 100, step // 100 + 1):
        assert find("epoch_step_mismatch", {"epoch": (step, None, epoch)}, manifest) == []
    (found,) = find("epoch_step_mismatch", {"epoch": (step, None, step / 50)}, manifest)
    assert found.severity == "warning"
    back = np.where(step < 500, step / 100, step / 100 - 2)
    assert worst(find("epoch_step_mismatch", {"epoch": (step, None, back)})) == ["warning"]
    assert find("epoch_step_mismatch", {"epoch": (step, None, back)}, restarts=[500]) == []


# overfitting


def evals(values, train, every=100):
    step = np.arange(1, len(values) + 1) * every
    steps = np.arange(1, len(values) * every + 1)
    return {"eval_loss": (step, None, np.array(values)), "loss": (steps, None, train(steps / steps[-1]))}


TURNS = [3, 2.6, 2.3, 2.1, 2.0, 2.05, 2.2, 2.4, 2.6, 2.8]


def test_overfitting():
    (found,) = find("overfitting", evals(TURNS, lambda t: 3 - 2.5 * t))
    assert found.severity == "warning"
    assert found.evidence["best_step"] == 500
    assert found.first_step == 500


def test_overfitting_with_a_train_point_an_eval():
    run = evals(TURNS, lambda t: 3 - 2.5 * t)
    run["loss"] = tuple(None if part is None else part[99::100] for part in run["loss"])
    assert worst(find("overfitting", run)) == ["warning"]


def test_overfitting_by_accuracy():
    t = np.arange(20)
    run = {"accuracy": (t, None, 0.5 + 0.025 * t), "eval_accuracy": (t, None, np.minimum(0.5 + 0.02 * t, 0.62))}
    assert worst(find("overfitting", run)) == ["warning"]
    run["eval_accuracy"] = (t, None, 0.48 + 0.025 * t)
    assert find("overfitting", run) == []


def test_quiet_overfitting():
    assert find("overfitting", evals(TURNS[:3], lambda t: 3 - t)) == []
    assert find("overfitting", evals(TURNS, lambda t: 3 + t)) == []  # train does not improve
    noisy = [3, 2.1, 2.6, 2.0, 2.5, 2.1, 2.4, 1.9, 2.5, 2.0]
    assert find("overfitting", evals(noisy, lambda t: 3 - 2 * t)) == []
    assert find("overfitting", evals([5.7, *([2.0] * 9)], lambda t: 3 - 2 * t)) == []


# resume_discontinuity, two_writers, zero_loss


def test_resume():
    loss = healthy.loss()
    loss[1500:] *= 1.15
    assert [(f.severity, f.first_step) for f in find("resume_discontinuity", loss=loss, restarts=[1500])] == [
        ("warning", 1500)
    ]
    assert find("resume_discontinuity", loss=healthy.loss(), restarts=[1500]) == []
    assert find("resume_discontinuity", loss=loss[:1504], restarts=[1500]) == []
    fell = healthy.loss()
    fell[1500:] *= 0.5
    assert worst(find("resume_discontinuity", loss=fell, restarts=[1500])) == ["info"]
    scale = np.where(np.arange(3000) < 1500, 1024.0, 65536.0)
    assert worst(find("resume_discontinuity", loss_scale=scale, restarts=[1500])) == ["info"]


def test_resume_where_steps_overlap():
    loss = healthy.level(1000, sigma=0.1)
    series = of_values(loss=np.concatenate([loss[:500], loss[500:] * 1.05]))
    old = dataclasses.replace(series.curves["loss"], stored=loss).picked(slice(500, 700))
    series = dataclasses.replace(series, restarts=(500,), superseded={"loss": (old,)})
    rule = registry()["resume_discontinuity"]
    (found,) = rule.function(series, rule.parameters())
    assert found.severity == "warning"
    assert found.evidence["ratio"] == pytest.approx(1.05, abs=0.01)


def test_zero_loss():
    loss, norm = np.full(100, 0.2), np.ones(100)
    loss[60:], norm[60:] = 0, NAN
    (found,) = find("zero_loss", loss=loss, grad_norm=norm)
    assert (found.severity, found.first_step) == ("critical", 60)
    assert find("zero_loss", loss=loss, grad_norm=norm, reward=np.ones(100)) == []
    assert find("zero_loss", loss=loss, grad_norm=np.ones(100)) == []
    assert find("zero_loss", loss=loss) == []


# reinforcement learning


def test_reinforcement_learning():
    kl = np.full(500, 0.02) * np.exp(healthy.noise(500, 0.2))
    assert find("kl_blowup", kl=kl) == []
    kl[300:] *= 20
    (found,) = find("kl_blowup", kl=kl)
    assert (found.severity, found.first_step) == ("warning", 300)
    rising = np.full(500, 0.02) * np.where(np.arange(500) < 350, 1, np.exp(np.linspace(0, 2, 500)))
    assert worst(find("kl_blowup", kl=rising)) == ["warning"]
    clipped = np.full(300, 0.1)
    assert find("clip_fraction_high", clip_fraction=clipped) == []
    clipped[200:] = 0.5
    assert worst(find("clip_fraction_high", clip_fraction=clipped)) == ["warning"]
    reward = np.linspace(0, 1, 500) + healthy.noise(500, 0.1)
    assert find("reward_collapse", reward=reward) == []
    reward[300:] -= np.linspace(0, 0.9, 200)
    assert worst(find("reward_collapse", reward=reward)) == ["warning"]
