"""Which experiments need which real data, and what to do where it is not."""

import pytest
from experiments.datasets import SOURCES
from experiments.datasets._finding import find

from ahop.errors import DataNotFoundError

# By the names of `SOURCES`. All others draw their patterns, or take those of scikit-learn.
NEEDED = {
    "broken_patches": ("cifar10",),
    "imputing": ("adult", "uji_indoorloc"),
    "label_free": ("uji_indoorloc", "sugarcane_nir"),
    "massbank": ("massbank_eawag",),
    "never_worse": ("sugarcane_nir",),
    "nir": ("sugarcane_nir",),
    "tab_images": ("cifar10", "tiny_imagenet"),
    "tab_mil": ("tiger",),
    "tab_tabular": ("purchase",),
    "tab_tabular_network": ("purchase",),
    "tab_tabular_parts": ("purchase",),
    "unseen_corruption": ("sugarcane_nir",),
    "watching": ("uji_indoorloc",),
    "wifi": ("uji_indoorloc",),
    "wifi_unlabelled": ("uji_indoorloc",),
}


def skip_without_data(experiment: str) -> None:
    """Skip a test whose experiment would not find its data, where any loader looks for it; nothing is fetched."""
    for name in NEEDED.get(experiment, ()):
        try:
            find(SOURCES[name], None, download=False, progress=False)
        except DataNotFoundError:
            folder = SOURCES[name].editions[0].folder
            pytest.skip(f"`{experiment}` needs real data: set AHOP_DATA to the folder that holds `{folder}`")
