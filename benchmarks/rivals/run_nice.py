"""Worker: NICE, nearest unlike neighbour made sparser or nearer. It has no way to say what may not change."""

import case as frame
import numpy as np
from nice import NICE


def prepare(case: frame.Case, variant: str, seed: int) -> frame.Search:
    """NICE with its defaults (HEOM distance on min-max ranges, justified) and the reward asked for."""
    ask = case.model()

    def predict(coded: np.ndarray) -> np.ndarray:
        p = ask(coded)
        return np.column_stack([1.0 - p, p])

    explainer = NICE(
        predict_fn=predict,
        X_train=case.train.copy(),
        cat_feat=case.categories,
        num_feat=case.numbers,
        y_train=case.labels,
        optimization=variant,
    )
    return lambda coded: [explainer.explain(coded, target_class=[1])[0]]


if __name__ == "__main__":
    frame.work(prepare, batch=False, needs=["NICEx", "pandas", "numpy"])
