"""What the user asks of the callback, checked when it is made."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import os
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from tb_mindformers_plugin.callback.actions import ReduceLr, checked_reduce_lr, checked_stop_on, exponent_hint
from tb_mindformers_plugin.health.parameters import ParameterError, Parameters, changed, changes_in, read_rules


@dataclasses.dataclass(frozen=True)
class Settings:
    """Checked arguments of `TrainingHealthCallback` (which documents them)."""

    log_dir: str
    log_every: int
    ema_decay: float
    flush_seconds: float
    tokens_per_step: Optional[int]
    total_steps: Optional[int]
    hparams: dict[str, Any]
    on_alert: Optional[Callable[..., Any]]
    reduce_lr: Optional[ReduceLr]
    stop_on: Optional[str]
    resume_from: Optional[int]
    all_ranks: bool
    mean_loss: bool
    histogram_every: Optional[int]
    histogram_tags: tuple[str, ...]
    layer_grad_norms: int
    log_memory: bool
    handle_sigterm: bool
    rules: Parameters

    @property
    def acts(self) -> bool:
        """Whether the training itself may be changed."""
        return self.reduce_lr is not None or self.stop_on is not None


def checked_settings(
    *,
    log_dir: Union[str, os.PathLike[str]],
    log_every: int,
    ema_decay: float,
    flush_seconds: float,
    tokens_per_step: Optional[int],
    total_steps: Optional[int],
    hparams: Optional[Mapping[str, Any]],
    on_alert: Optional[Callable[..., Any]],
    reduce_lr: Union[ReduceLr, Mapping[str, Any], bool, None],
    stop_on: Optional[str],
    resume_from: Optional[int],
    all_ranks: bool,
    mean_loss: bool,
    histogram_every: Optional[int],
    histogram_tags: Union[str, Sequence[str]],
    layer_grad_norms: int,
    log_memory: bool,
    handle_sigterm: bool,
    rules: Union[str, os.PathLike[str], Mapping[str, Any], None],
) -> Settings:
    """Returns the arguments as they are used.

    Raises:
      TypeError, ValueError: a wrong argument; the message names it, its value and what is allowed.
    """
    if on_alert is not None and not callable(on_alert):
        raise TypeError(f"on_alert must be callable or None, got {on_alert!r}")
    return Settings(
        log_dir=_path("log_dir", log_dir),
        log_every=_whole("log_every", log_every),
        ema_decay=_real("ema_decay", ema_decay, "in [0, 1)", lambda x: 0.0 <= x < 1.0),
        flush_seconds=_real("flush_seconds", flush_seconds, "a finite number > 0", lambda x: 0.0 < x < math.inf),
        tokens_per_step=None if tokens_per_step is None else _whole("tokens_per_step", tokens_per_step),
        total_steps=None if total_steps is None else _whole("total_steps", total_steps),
        hparams=_json_object("hparams", hparams),
        on_alert=on_alert,
        reduce_lr=checked_reduce_lr(reduce_lr),
        stop_on=checked_stop_on(stop_on),
        resume_from=None if resume_from is None else _whole("resume_from", resume_from, least=0),
        all_ranks=_flag("all_ranks", all_ranks),
        mean_loss=_flag("mean_loss", mean_loss),
        histogram_every=None if histogram_every is None else _whole("histogram_every", histogram_every),
        histogram_tags=_patterns("histogram_tags", histogram_tags),
        layer_grad_norms=_whole("layer_grad_norms", layer_grad_norms, least=0),
        log_memory=_flag("log_memory", log_memory),
        handle_sigterm=_flag("handle_sigterm", handle_sigterm),
        rules=_rules(rules),
    )


def _rules(value: Union[str, os.PathLike[str], Mapping[str, Any], None]) -> Parameters:
    try:
        if isinstance(value, Mapping):
            return changed(changes_in(value))
        return {} if value is None else changed(read_rules(_path("rules", value)))
    except ParameterError as error:
        raise ParameterError(f"rules={value!r}: {error}") from error


def _path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path (str or os.PathLike), got {value!r} ({type(value).__name__})")
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a text path, got {value!r}")
    if not path.strip():
        raise ValueError(f"{name} must be the path of a directory, got {value!r}")
    return path


def _whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number >= {least}, got {value!r} ({type(value).__name__})")
    whole = int(value)
    if whole < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    if whole >= 2**63:  # as far as event files count
        raise ValueError(f"{name} must be a whole number below 2**63, got {value!r}")
    return whole


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r} ({type(value).__name__})")
    return value


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(f"{name} must be a pattern of names or a list of them, got {value!r}")
    if not patterns or not all(patterns):
        raise ValueError(f"{name} must hold at least one pattern, none of them empty, got {value!r}")
    return tuple(patterns)


def _real(name: str, value: Any, allowed: str, holds: Callable[[float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be {allowed}, got {value!r} ({type(value).__name__}){exponent_hint(value)}")
    if not holds(float(value)):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return float(value)


def _json_object(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping of names to JSON values, got {value!r} ({type(value).__name__})")
    strange = [key for key in value if not isinstance(key, str)]
    if strange:
        raise TypeError(f"{name} must have names (str) as keys, got the key {strange[0]!r}")
    try:
        # A copy, so that what the user changes later does not change what the run says it began with.
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        bad = next((key for key, item in value.items() if not _is_json(item)), None)
        error_type = TypeError if isinstance(error, TypeError) else ValueError
        raise error_type(f"{name}[{bad!r}] must be a JSON value, got {value.get(bad)!r} ({error})") from error
    return copy


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
