"""scikit-learn estimators: the same memories, in the interface that pipelines and searches expect.

They need scikit-learn: `pip install 'ahop[sklearn]'`.
"""

import ahop._core.with_torch  # noqa: F401
from ahop.errors import MissingPackageError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise MissingPackageError(
        "This needs scikit-learn, which is not installed. `pip install 'ahop[sklearn]'`."
    ) from error

from ahop.estimators.classifier import PrototypeClassifier
from ahop.estimators.corruption import CorruptionModel
from ahop.estimators.display import PrototypeDisplay
from ahop.estimators.imputer import AssociativeImputer
from ahop.estimators.retriever import AssociativeRetriever

__all__ = [
    "AssociativeImputer",
    "AssociativeRetriever",
    "CorruptionModel",
    "PrototypeClassifier",
    "PrototypeDisplay",
]
