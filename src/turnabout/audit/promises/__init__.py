"""Whether answers given today will be honoured: by retrained models, shifted and newer data."""

from turnabout.audit.promises.lasting import Lasting, lasting
from turnabout.audit.promises.retrain import Retrained, Retraining, after_retraining
from turnabout.audit.promises.training_sets import Bootstrap, DatasetShift, Dropped, Jittered, LeaveOut, Newer
from turnabout.audit.promises.validity import validity_of_counts

__all__ = [
    "Bootstrap",
    "DatasetShift",
    "Dropped",
    "Jittered",
    "Lasting",
    "LeaveOut",
    "Newer",
    "Retrained",
    "Retraining",
    "after_retraining",
    "lasting",
    "validity_of_counts",
]


def __dir__() -> list[str]:
    return __all__
