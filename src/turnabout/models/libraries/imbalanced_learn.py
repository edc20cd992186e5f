"""imbalanced-learn, whose steps resample training rows and do nothing when a model is asked."""

from __future__ import annotations

from turnabout.models.libraries.library import Library


class ImbalancedLearn(Library):
    """Its estimators derive from those of scikit-learn, and are read as such."""

    name = "imblearn"
