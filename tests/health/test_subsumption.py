"""One fault, one finding."""

from __future__ import annotations

import healthy
import numpy as np

from tb_mindformers_plugin.health import diagnose_arrays


def rules(found):
    return [(finding.rule, finding.severity) for finding in found]


def test_a_spike_takes_up_the_explosion_before_it():
    loss, norm = healthy.loss(), healthy.grad_norm()
    norm[1494:1501] = [4, 9, 20, 60, 150, 300, 500]
    loss[1499:1501] *= [1.5, 2.5]
    (found,) = diagnose_arrays(healthy.run(loss=loss, grad_norm=norm))
    assert found.rule == "loss_spike"
    assert found.evidence["grad_norm_led_steps"] == 6
    assert "grad norm led its peak by 6 steps" in found.message
    assert "提前" in found.message_zh or "先于" in found.message_zh


def test_the_peak_of_a_long_divergence_is_not_led_by_the_jump_before_it():
    loss, norm = healthy.loss(), healthy.grad_norm()
    loss[2000:] *= np.linspace(1.5, 4, 1000)
    norm[1998:2000] *= 100
    (found,) = diagnose_arrays(healthy.run(loss=loss, grad_norm=norm))
    assert found.rule == "loss_divergence"
    assert found.peak_step > 2500
    assert "The grad norm jumped at step 1,999, to" in found.message
    assert found.evidence["grad_norm_jumped_at"] == 1999
    assert "grad_norm_led_steps" not in found.evidence


def test_divergence_hides_what_it_is_made_of():
    loss, norm = healthy.loss(), healthy.grad_norm()
    loss[2000:] *= np.linspace(1.5, 4, 1000)
    norm[2000:] *= 100
    assert rules(diagnose_arrays(healthy.run(loss=loss, grad_norm=norm))) == [("loss_divergence", "critical")]


def test_oscillation_hides_spikes():
    loss = healthy.loss()
    loss[2000:] *= 1 + 0.4 * (-1.0) ** np.arange(1000)
    assert rules(diagnose_arrays(healthy.run(loss=loss))) == [("loss_oscillation", "warning")]


def test_a_period_hides_oscillation():
    loss = healthy.loss(6000) * np.exp(0.25 * np.sin(2 * np.pi * np.arange(6000) / 150))
    assert rules(diagnose_arrays(healthy.run(6000, loss=loss))) == [("loss_periodic", "warning")]


def test_a_join_hides_the_divergence_behind_it():
    loss = healthy.loss()
    loss[1500:] *= 1.6
    found = diagnose_arrays(healthy.run(loss=loss), restarts=[1501])
    assert rules(found) == [("resume_discontinuity", "warning")]


def test_nan_hides_the_grad_norm_that_went_with_it():
    loss, norm = healthy.loss(), healthy.grad_norm()
    loss[2000:], norm[1999:] = np.nan, np.nan
    (found,) = diagnose_arrays(healthy.run(loss=loss, grad_norm=norm))
    assert (found.rule, found.role, found.severity) == ("non_finite", "loss", "critical")


def test_worst_first():
    loss = healthy.loss()
    loss[700] *= 2
    loss[2000:] *= 3
    found = diagnose_arrays(healthy.run(loss=loss))
    assert rules(found) == [("loss_divergence", "critical"), ("loss_spike", "warning")]
