"""Remote logdirs against a server that speaks S3, on loopback."""

from __future__ import annotations

import pathlib
import socket

import event_bytes
import pytest
from test_discovery import tensorboards_names

from tb_mindformers_plugin.eventfile import EventFile, storage
from tb_mindformers_plugin.eventfile import reader as reader_module
from tb_mindformers_plugin.runs.discovery import discover, roots
from tb_mindformers_plugin.writer import HealthWriter

pytestmark = pytest.mark.remote

MISSING = "is not installed: pip install -e '.[dev]'"


@pytest.fixture(scope="module")
def endpoint():
    pytest.importorskip("s3fs", reason=f"s3fs {MISSING}")
    server_module = pytest.importorskip("moto.server", reason=f"moto[server] {MISSING}")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint, monkeypatch, request):
    """A client of S3, and the name of a bucket that is new."""
    boto3 = pytest.importorskip("boto3")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(storage, "_LISTING_SECONDS", 0.0)
    # fsspec would hand out the file system of an earlier test, with its server and credentials.
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    storage._remote.cache_clear()
    name = f"logs-{abs(hash(request.node.nodeid))}"
    client = boto3.client("s3")
    client.create_bucket(Bucket=name)
    return client, name


def put(bucket, key, body):
    client, name = bucket
    client.put_object(Bucket=name, Key=key, Body=body)


def events(first, stop, damaged=None):
    records = [event_bytes.scalars(step, loss=step) for step in range(first, stop)]
    if damaged is not None:
        record = bytearray(records[damaged])
        record[20] ^= 1
        records[damaged] = bytes(record)
    return event_bytes.version() + b"".join(records)


def steps(chunk):
    return chunk.columns["loss"].step.tolist() if chunk.columns else []


TREE = (
    "logs/events.out.tfevents.1",
    "logs/a/events.out.tfevents.1",
    "logs/a/events.out.tfevents.2",
    "logs/a/eval/events.out.tfevents.1",
    "logs/job/rank_0/tensorboard/events.out.tfevents.1",
    "logs/job/rank_1/tensorboard/events.out.tfevents.1",
    "logs2/other/events.out.tfevents.1",
)


@pytest.mark.parametrize("suffix", ["/logs", "/logs/", "/logs/a", "/logs/job"])
@pytest.mark.parametrize("reads_s3", ["boto3", "fsspec"])
def test_names_are_tensorboards(bucket, suffix, reads_s3, monkeypatch):
    from tensorboard.compat.tensorflow_stub.io import gfile

    if reads_s3 == "fsspec":  # as where boto3 is not installed
        monkeypatch.delitem(gfile._REGISTERED_FILESYSTEMS, "s3", raising=False)
    elif "s3" not in gfile._REGISTERED_FILESYSTEMS:
        pytest.skip("this TensorBoard reads S3 through fsspec alone")
    for key in TREE:
        put(bucket, key, events(0, 2))
    put(bucket, "logs/checkpoints/step_10.ckpt", b"x")
    put(bucket, "logs/empty/", b"")
    logdir = f"s3://{bucket[1]}{suffix}"
    found = discover(roots(logdir=logdir))
    assert found.problems == ()
    assert set(found.runs) == tensorboards_names(logdir=logdir) != set()
    spec = f"x:{logdir},s3://{bucket[1]}/logs2"
    assert set(discover(roots(logdir_spec=spec)).runs) == tensorboards_names(logdir_spec=spec)


def test_files_are_in_reading_order_and_read_whole(bucket):
    put(bucket, "logs/a/events.out.tfevents.2", events(5, 9))
    put(bucket, "logs/a/events.out.tfevents.1", events(0, 5))
    run = discover(roots(logdir=f"s3://{bucket[1]}")).runs["logs/a"]
    assert [steps(EventFile(path).read()) for path in run.files] == [list(range(5)), list(range(5, 9))]


def test_a_growing_object_costs_its_new_bytes(bucket, monkeypatch):
    import s3fs

    ranges = []
    real = s3fs.S3FileSystem._cat_file

    async def cat_file(self, path, version_id=None, start=None, end=None, **options):
        ranges.append((start, end))
        return await real(self, path, version_id, start, end, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_cat_file", cat_file)
    monkeypatch.setattr(s3fs.S3FileSystem, "cat_file", s3fs.core.sync_wrapper(cat_file))
    put(bucket, "logs/a/events.out.tfevents.1", events(0, 1000))
    size = len(events(0, 1000))
    searched = roots(logdir=f"s3://{bucket[1]}/logs")
    reader = EventFile(discover(searched).runs["a"].files[0])
    assert len(steps(reader.read())) == 1000
    assert reader.read().empty
    whole = events(0, 1100)
    put(bucket, "logs/a/events.out.tfevents.1", whole[:-5])
    assert steps(reader.read()) == list(range(1000, 1099))
    put(bucket, "logs/a/events.out.tfevents.1", whole)
    discover(searched)
    assert steps(reader.read()) == [1099]
    assert ranges[:2] == [(0, size), (size - reader_module._TAIL, len(whole) - 5)]
    assert ranges[2][1] - ranges[2][0] < 200
    assert len(ranges) == 3


def test_the_same_object_put_again_is_nothing_new(bucket):
    put(bucket, "a/events.out.tfevents.1", events(0, 10))
    reader = EventFile(f"s3://{bucket[1]}/a/events.out.tfevents.1")
    reader.read()
    put(bucket, "a/events.out.tfevents.1", events(0, 10))
    assert reader.read().empty


def test_an_object_that_was_replaced_or_shrank_is_read_anew(bucket):
    reader = EventFile(f"s3://{bucket[1]}/a/events.out.tfevents.1")
    for first, stop in ((0, 10), (50, 80), (0, 4), (20, 24)):
        put(bucket, "a/events.out.tfevents.1", events(first, stop))
        chunk = reader.read()
        assert chunk.anew
        assert steps(chunk) == list(range(first, stop))


def test_damage_in_an_object_is_said_and_costs_its_record(bucket):
    put(bucket, "a/events.out.tfevents.1", events(0, 10, damaged=4))
    chunk = EventFile(f"s3://{bucket[1]}/a/events.out.tfevents.1").read()
    assert steps(chunk) == [step for step in range(10) if step != 4]
    assert len(chunk.damage) == 1


def test_an_object_that_is_gone_is_an_error_and_then_no_run(bucket):
    client, name = bucket
    put(bucket, "logs/a/events.out.tfevents.1", events(0, 3))
    put(bucket, "logs/b/events.out.tfevents.1", events(0, 3))
    searched = roots(logdir=f"s3://{name}/logs")
    reader = EventFile(discover(searched).runs["a"].files[0])
    reader.read()
    client.delete_object(Bucket=name, Key="logs/a/events.out.tfevents.1")
    with pytest.raises(FileNotFoundError):
        reader.read()
    assert set(discover(searched).runs) == {"b"}


@pytest.mark.parametrize("logdir", ["s3://no-such-bucket/logs", "s3://{bucket}/nothing-here"])
def test_what_is_not_there_is_said(bucket, logdir):
    logdir = logdir.format(bucket=bucket[1])
    assert discover(roots(logdir=logdir)).problems == (f"{logdir} does not exist",)


def test_missing_credentials_are_said(bucket, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    found = discover(roots(logdir=f"s3://{bucket[1]}/logs"))
    assert "credentials" in found.problems[0]


def test_a_refused_connection_is_said(bucket, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{probe.getsockname()[1]}")
    found = discover(roots(logdir=f"s3://{bucket[1]}/logs"))
    assert "Could not connect" in found.problems[0]


def test_a_server_that_never_answers_is_said(bucket, monkeypatch):
    monkeypatch.setattr(storage, "_PATIENCE_SECONDS", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        found = discover(roots(logdir=f"s3://{bucket[1]}/logs"))
    assert "no answer within 1 seconds" in found.problems[0]


@pytest.mark.parametrize("writes_s3", ["boto3", "fsspec"])
def test_what_the_writer_writes_to_a_bucket_is_read(bucket, writes_s3, monkeypatch):
    from tensorboard.compat.tensorflow_stub.io import gfile

    if writes_s3 == "fsspec":
        monkeypatch.delitem(gfile._REGISTERED_FILESYSTEMS, "s3", raising=False)
    elif "s3" not in gfile._REGISTERED_FILESYSTEMS:
        pytest.skip("this TensorBoard writes S3 through fsspec alone")
    with HealthWriter(f"s3://{bucket[1]}/logs/run") as writer:
        writer.log(1, loss=1.0)
        writer.flush()
        reader = EventFile(discover(roots(logdir=f"s3://{bucket[1]}/logs")).runs["run"].files[0])
        first = reader.read()
        writer.log(2, loss=0.5)
    rest = reader.read()
    read = [step for chunk in (first, rest) if chunk.columns for step in chunk.columns["train/loss"].step.tolist()]
    assert read == [1, 2]
    assert not rest.anew
    assert not list(pathlib.Path().glob("s3:*"))
