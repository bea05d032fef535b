"""Values of a run file as Python and pandas have them."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np


def column(values: np.ndarray, dtype: np.dtype) -> Any:
    """A column of a table: enumerations as categories, strings as str."""
    import pandas as pd

    labels = h5py.check_enum_dtype(dtype)
    if labels:
        by_code = sorted(labels.items(), key=lambda item: item[1])
        codes = np.full(256, -1, dtype=np.int16)
        codes[[code for _, code in by_code]] = np.arange(len(by_code))
        return pd.Categorical.from_codes(codes[values], [label for label, _ in by_code])
    if dtype.kind == "S":
        return decode(values)
    return values


def is_time(column: str) -> bool:
    """Whether a column has points in time, by its name."""
    return column == "t_ns" or (column.startswith("t_") and column.endswith("_ns"))


def decode(values: np.ndarray) -> np.ndarray:
    """Strings of fixed length as str."""
    return np.array([text(value) for value in values.tolist()], dtype=object)


def text(value: Any) -> str:
    """A text that can be printed, whatever bytes the file has."""
    if not isinstance(value, bytes):  # h5py keeps those that are not UTF-8 as surrogates
        value = str(value).encode("utf-8", "surrogateescape")
    return value.decode("utf-8", "replace")


def plain(value: Any) -> Any:
    """A value of an attribute without types of numpy."""
    if isinstance(value, (bytes, str)):
        return text(value)
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return value
