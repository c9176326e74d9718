"""Histograms, text, images and hyper-parameters as TensorBoard's own plugins read them."""

from __future__ import annotations

import io
import json
import numbers
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.text import metadata as text_metadata

#: Order of an image's axes: height, width, channel.
IMAGE_FORMATS = ("HWC", "CHW", "HW")


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Returns a numpy array of numbers.

    Args:
      name: what it is, for the error.
      values: an array, a list, or a tensor of MindSpore, PyTorch or TensorFlow, bfloat16 included.

    Raises:
      ValueError: it does not hold real numbers.
    """
    if hasattr(values, "asnumpy"):  # MindSpore
        values = values.asnumpy()
    elif hasattr(values, "detach"):  # PyTorch, which hands out neither what is on a device nor bfloat16
        values = values.detach().cpu()
        values = values.float().numpy() if "float" in str(values.dtype) else values.numpy()
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = np.array([float(value) for value in array.reshape(-1)]).reshape(array.shape)
        elif array.dtype.kind == "V":  # bfloat16, of the package ml_dtypes
            array = array.astype(np.float32)
        elif array.dtype.kind not in "biuf":
            raise TypeError(f"they are {array.dtype}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, got {type(values).__name__} ({error})") from error
    return array


def histogram_value(tag: str, values: Any, buckets: int = 30) -> summary_pb2.Summary.Value:
    """Returns a histogram: `buckets` rows of left edge, right edge and count, of equal width.

    Values that are not finite are left out. Without any finite value all counts are 0.

    Args:
      tag: its tag.
      values: numbers of any shape; see `as_array`.
      buckets: rows, >= 1.
    """
    data = as_array(f"the values of {tag!r}", values).reshape(-1)
    if data.dtype.kind == "f":
        if data.dtype.itemsize < 4:
            data = data.astype(np.float32)  # in float16 the width of a bucket may be 0
        finite = np.isfinite(data)
        data = data if finite.all() else data[finite]
    low, high = (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
    if low == high:
        beside = max(0.5, abs(low) * 2.0**-20)  # 0.5 is nothing beside 1e20
        low, high = low - beside, high + beside
    edges = 2.0 * np.linspace(0.5 * low, 0.5 * high, buckets + 1)  # high - low may be beyond float64
    counts = _counts(data, low, high, buckets)
    rows = np.stack([edges[:-1], edges[1:], counts], axis=1)
    return summary_pb2.Summary.Value(
        tag=tag,
        metadata=_metadata(histogram_metadata.create_summary_metadata(None, None), summary_pb2.DATA_CLASS_TENSOR),
        tensor=tensor_pb2.TensorProto(
            dtype=types_pb2.DT_DOUBLE, tensor_shape=_shape(rows.shape), tensor_content=rows.astype("<f8").tobytes()
        ),
    )


def _counts(data: npt.NDArray[Any], low: float, high: float, buckets: int) -> npt.NDArray[Any]:
    found = np.zeros(buckets, np.int64)
    first, width = 0.5 * low, (0.5 * high - 0.5 * low) or 1.0
    for start in range(0, data.size, 1 << 20):  # keeps the copies small
        share = (0.5 * data[start : start + (1 << 20)].astype(np.float64) - first) / width
        found += np.bincount(np.minimum((share * buckets).astype(np.int64), buckets - 1), minlength=buckets)
    return found


def text_value(tag: str, text: str) -> summary_pb2.Summary.Value:
    """Returns a text, which TensorBoard shows as Markdown.

    Raises:
      TypeError: `text` is no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {text!r} ({type(text).__name__})")
    content = text.encode("utf-8", "backslashreplace")
    return summary_pb2.Summary.Value(
        tag=tag,
        metadata=_metadata(text_metadata.create_summary_metadata(None, None), summary_pb2.DATA_CLASS_TENSOR),
        tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, tensor_shape=_shape(()), string_val=[content]),
    )


def image_value(tag: str, image: Any, dataformats: str = "HWC") -> summary_pb2.Summary.Value:
    """Returns an image, as PNG.

    Args:
      tag: its tag.
      image: (H, W, C), (C, H, W) or (H, W) as `dataformats` says; C is 1 (grey), 3 (RGB) or 4 (RGBA).
        uint8 as it is, or floats in [0, 1]: beyond them they are cut off, NaN is black.
      dataformats: one of `IMAGE_FORMATS`.

    Raises:
      ValueError: another format, shape or type.
      ImportError: Pillow is not installed (TensorBoard brings it from 2.14 on).
    """
    pixels = _pixels(tag, image, dataformats)
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("add_image writes PNG with Pillow: `pip install pillow`") from error
    encoded = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(encoded, "PNG")
    height, width = pixels.shape[:2]
    strings = [str(width).encode(), str(height).encode(), encoded.getvalue()]
    return summary_pb2.Summary.Value(
        tag=tag,
        metadata=_metadata(image_metadata.create_summary_metadata(None, None), summary_pb2.DATA_CLASS_BLOB_SEQUENCE),
        tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, tensor_shape=_shape((3,)), string_val=strings),
    )


def _pixels(tag: str, image: Any, dataformats: str) -> npt.NDArray[np.uint8]:
    if dataformats not in IMAGE_FORMATS:
        raise ValueError(f"dataformats must be one of {', '.join(IMAGE_FORMATS)}, got {dataformats!r}")
    array = as_array(f"the image {tag!r}", image)
    shape = array.shape
    if dataformats == "CHW" and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    elif dataformats == "HW" and array.ndim == 2:
        array = array[:, :, None]
    elif dataformats != "HWC":
        raise ValueError(f"an image {dataformats} has {len(dataformats)} axes, got the shape {shape}")
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise ValueError(f"an image {dataformats} has 1, 3 or 4 channels, got the shape {shape}")
    if array.dtype != np.uint8:
        if array.dtype.kind != "f":
            raise ValueError(f"an image is uint8, or floats in [0, 1]; got {array.dtype}")
        array = (np.clip(np.nan_to_num(array.astype(np.float32)), 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return np.ascontiguousarray(array)


def hparams_values(hparams: Mapping[str, Any], start_time: float) -> Sequence[summary_pb2.Summary.Value]:
    """Returns what makes a run appear in the HParams tab.

    Nested mappings are flattened, ``{"optimizer": {"lr": 0.1}}`` to ``optimizer.lr``; lists and None become
    JSON text.

    Args:
      hparams: name -> bool, number, string, list, mapping or None.
      start_time: seconds since the Unix epoch.

    Raises:
      TypeError: a value of another kind.
    """
    from tensorboard.plugins.hparams import summary_v2

    return list(summary_v2.hparams_pb(_flat(hparams), start_time_secs=start_time).value)


def hparams_end_values(succeeded: bool, end_time: float) -> Sequence[summary_pb2.Summary.Value]:
    """Returns what tells the HParams tab how the run ended."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    end = plugin_data_pb2.SessionEndInfo(
        status=api_pb2.STATUS_SUCCESS if succeeded else api_pb2.STATUS_FAILURE, end_time_secs=end_time
    )
    content = plugin_data_pb2.HParamsPluginData(session_end_info=end)
    return [
        summary_pb2.Summary.Value(
            tag=metadata.SESSION_END_INFO_TAG,
            metadata=metadata.create_summary_metadata(content),
            tensor=metadata.NULL_TENSOR,
        )
    ]


def _flat(hparams: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in hparams.items():
        name = f"{prefix}{key}"
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{name}."))
        elif isinstance(value, (bool, str)):
            found[name] = value
        elif isinstance(value, numbers.Real):
            found[name] = float(value)
        else:
            found[name] = json.dumps(value)
    return found


def _metadata(metadata: summary_pb2.SummaryMetadata, data_class: int) -> summary_pb2.SummaryMetadata:
    metadata.data_class = data_class
    return metadata


def _shape(sizes: Sequence[int]) -> tensor_shape_pb2.TensorShapeProto:
    return tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in sizes])
