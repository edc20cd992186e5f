"""Worker: DiCE's model-agnostic generators, one counterfactual per person, immutables out of features_to_vary."""

import warnings

import case as frame
import dice_ml
import numpy as np
import pandas as pd
from raiutils.exceptions import UserConfigValidationException

# How many counterfactuals are asked for. Of several the cheapest by the cost of the table is taken, as a user would who
# wants one cheap plan: "random" otherwise returns any of those it found. Everything else is left at its defaults.
VARIANTS = {
    "random": ("random", 1),
    "random, best of 10": ("random", 10),
    "kdtree": ("kdtree", 1),
    "genetic": ("genetic", 1),
}


class Classifier:
    """What DiCE's sklearn backend asks of a model: predict_proba and predict on a table in the person's units."""

    def __init__(self, case: frame.Case) -> None:
        self.ask = case.model()
        self.columns = [(c.name, pd.Index(c.levels) if c.levels else None) for c in case.columns]

    def coded(self, table: pd.DataFrame) -> np.ndarray:
        """A table in the person's units -> coded rows (n, F)."""
        return np.column_stack(
            [
                table[name].to_numpy().astype(float) if levels is None else levels.get_indexer(table[name].to_numpy())
                for name, levels in self.columns
            ]
        )

    def predict_proba(self, table: pd.DataFrame) -> np.ndarray:
        """(n, 2) as scikit-learn has it."""
        p = self.ask(self.coded(table))
        return np.column_stack([1.0 - p, p])

    def predict(self, table: pd.DataFrame) -> np.ndarray:
        """0 or 1 for each row."""
        return (self.ask(self.coded(table)) >= 0.5).astype(int)


def prepare(case: frame.Case, variant: str, seed: int) -> frame.Search:
    """DiCE with the training table and the generator asked for."""
    warnings.filterwarnings("ignore")
    method, count = VARIANTS[variant]

    classifier = Classifier(case)
    known = pd.DataFrame(case.table(case.train)).assign(outcome=case.labels)
    numbers = [case.names[j] for j in case.numbers]
    data = dice_ml.Data(dataframe=known, continuous_features=numbers, outcome_name="outcome")
    explainer = dice_ml.Dice(data, dice_ml.Model(model=classifier, backend="sklearn"), method=method)
    free = [c.name for c in case.columns if not c.fixed]
    options = {"random_seed": seed} if method == "random" else {}

    def search(coded: np.ndarray) -> list[np.ndarray | None]:
        try:
            answer = explainer.generate_counterfactuals(
                pd.DataFrame(case.table(coded)), total_CFs=count, desired_class=1, features_to_vary=free, **options
            ).cf_examples_list[0]
        except UserConfigValidationException:  # raised when no counterfactual was found for anybody
            return [None]
        found = answer.final_cfs_df if answer.final_cfs_df_sparse is None else answer.final_cfs_df_sparse
        if found is None or not len(found):
            return [None]
        plans = classifier.coded(found)
        return [plans[case.cost(coded, plans).argmin()]]

    return search


if __name__ == "__main__":
    frame.work(prepare, batch=False, needs=["dice-ml", "pandas", "scikit-learn", "numpy"])
