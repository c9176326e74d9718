from __future__ import annotations

import json

import pytest

from tb_mindformers_plugin.http_api.request import BadRequestError, SeriesRequest, parse_series_request


def parse(**fields):
    return parse_series_request(json.dumps({"runs": ["a"], "roles": ["loss"], **fields}).encode())


def test_defaults():
    assert parse() == SeriesRequest(["a"], ["loss"], "step", None, None, 2000, 0.0, "binary")


def test_all_fields():
    asked = parse(**{"x": "wall", "from": 1, "to": 2.5, "buckets": 100, "smoothing": 0.9, "format": "json"})
    assert asked == SeriesRequest(["a"], ["loss"], "wall", 1.0, 2.5, 100, 0.9, "json")


def test_log_x():
    assert parse(log_x=True).log_x
    assert not parse().log_x


def test_twice_the_same_run_is_asked_once():
    assert parse(runs=["a", "b", "a"]).runs == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"runs": "a"}, "'runs' is 'a'"),
        ({"runs": [1]}, "'runs'"),
        ({"roles": None}, "'roles' is None"),
        ({"roles": ["losss"]}, "role 'losss' is unknown"),
        ({"x": "hours"}, "'x' is 'hours'"),
        ({"x": ["step"]}, "'x'"),
        ({"from": "3"}, "'from' is '3'"),
        ({"from": float("nan")}, "'from' is nan"),
        ({"to": True}, "'to' is True"),
        ({"to": 10**400}, "'to' is"),
        ({"from": 5, "to": 3}, r"from \(5\) is behind to \(3\)"),
        ({"buckets": 7}, "'buckets' is 7"),
        ({"buckets": 1e3}, "'buckets'"),
        ({"buckets": 10**9}, "'buckets'"),
        ({"smoothing": 1}, "'smoothing' is 1"),
        ({"smoothing": -0.1}, "'smoothing'"),
        ({"smoothing": "0"}, "'smoothing'"),
        ({"log_x": 1}, "'log_x' is 1"),
        ({"format": "csv"}, "'format' is 'csv'"),
        ({"form": "json"}, "'form' is unknown"),
        ({"runs": [str(i) for i in range(50_000)], "roles": ["loss", "lr", "kl"]}, "more than"),
    ],
)
def test_a_wrong_parameter_is_named(fields, words):
    with pytest.raises(BadRequestError, match=words) as caught:
        parse(**fields)
    assert caught.value.hint


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"3"])
def test_a_body_that_is_no_object(body):
    with pytest.raises(BadRequestError, match="body"):
        parse_series_request(body)
