"""What evaluations during a training found.

``Model.fit`` tells its callbacks. mindformers' EvalCallBack (``do_eval: True``) tells nobody: its function is
wrapped for the time of the training.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, Mapping

from tb_mindformers_plugin.callback.device_values import as_float

_ROLES = {"loss": "eval_loss", "accuracy": "eval_accuracy", "acc": "eval_accuracy"}


def eval_metrics(cb_params: Mapping[str, Any]) -> dict[str, float]:
    """Returns the results of an evaluation as metrics for `HealthWriter.log`.

    ``loss`` becomes the eval loss, ``accuracy`` (or ``acc``) the eval accuracy, and any other metric
    with one value the tag ``eval/<name>``; of a metric that is a dict (mindformers' PerplexityMetric) so does
    each part. MindSpore's own ``eval_loss`` of ``Model.fit`` is the loss of the last batch alone (seen in
    2.9), so it only counts where the model has no ``loss`` metric.

    Args:
      cb_params: the callback's parameters at ``on_eval_end``: ``metrics``, and in ``Model.fit``
        ``eval_results``.
    """
    results = dict(_flat(cb_params.get("eval_results") or {}))
    results.update(_flat(cb_params.get("metrics") or {}))
    has_loss = any(name.lower() == "loss" for name in results)
    found: dict[str, float] = {}
    for name, value in results.items():
        number = as_float(value) if not isinstance(value, (dict, list, tuple)) else None
        if number is None or (name == "eval_loss" and has_loss):
            continue
        metric = "eval_loss" if name == "eval_loss" else _ROLES.get(name.lower(), f"eval/{name}")
        found[metric] = number
    return found


def listen_to_mindformers(
    cb_params: Mapping[str, Any], begin: Callable[[], None], end: Callable[[Mapping[str, Any]], None]
) -> Callable[[], None]:
    """Has mindformers' EvalCallBack call `begin`, and `end` with its results.

    Returns:
      A function that undoes it.
    """
    undo: list[Callable[[], None]] = []
    for callback in cb_params.get("list_callback") or ():
        function = getattr(callback, "eval_func", None)
        if any(kind.__name__ == "EvalCallBack" for kind in type(callback).__mro__) and callable(function):
            callback.eval_func = _heard(function, begin, end)
            undo.append(functools.partial(setattr, callback, "eval_func", function))

    def stop_listening() -> None:
        for step in undo:
            step()

    return stop_listening


def _heard(
    function: Callable[..., Any], begin: Callable[[], None], end: Callable[[Mapping[str, Any]], None]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        begin()
        output = function(*args, **kwargs)
        end({"metrics": output if isinstance(output, Mapping) else {}})
        return output

    return evaluate


def _flat(results: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in results.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield str(name), value
