"""The preprocessing that benchmarks on raw columns share."""

from __future__ import annotations

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from turnabout.datasets import Dataset


def columns(data: Dataset, onehot: bool) -> ColumnTransformer:
    """Numbers scaled and filled, levels one-hot (or as codes, for trees)."""
    numbers = [f.name for f in data.schema if f.kind == "number"]
    levels = [f.name for f in data.schema if f.kind != "number"]
    fill = SimpleImputer(strategy="constant", fill_value="absent")
    coded = (
        OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        if onehot
        else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    )
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()) if onehot else "passthrough"
    return ColumnTransformer([("numbers", scaled, numbers), ("levels", make_pipeline(fill, coded), levels)])
