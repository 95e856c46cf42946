"""Real data that experiments need; a test is skipped where they are not."""

import pytest
from experiments.datasets import SOURCES, find

from ahop.errors import DataNotFoundError

# By the names of `SOURCES`. All others draw their patterns, or take those of scikit-learn.
NEEDED = {
    "attach": ("debian_text",),
    "broken_patches": ("cifar10",),
    "imputing": ("adult", "uji_indoorloc"),
    "label_free": ("uji_indoorloc", "sugarcane_nir"),
    "mixed_linkage": ("adult", "bank"),
    "massbank": ("massbank_eawag",),
    "never_worse": ("sugarcane_nir",),
    "nir": ("sugarcane_nir",),
    "error_bars": ("uji_indoorloc",),
    "sample_identity": ("genotypes",),
    "settings": ("uji_indoorloc", "sugarcane_nir"),
    "tab_images": ("cifar10", "tiny_imagenet"),
    "tab_mil": ("tiger",),
    "tab_tabular": ("purchase",),
    "tab_tabular_network": ("purchase",),
    "tab_tabular_parts": ("purchase",),
    "two_spaces": ("debian_text",),
    "unseen_corruption": ("sugarcane_nir",),
    "watching": ("uji_indoorloc",),
    "wifi": ("uji_indoorloc",),
    "wifi_unlabelled": ("uji_indoorloc",),
}


def skip_without_data(experiment: str) -> None:
    """Skip a test whose experiment would not find its data; nothing is fetched."""
    for name in NEEDED.get(experiment, ()):
        for file in SOURCES[name].files:
            try:
                find(file)
            except DataNotFoundError:
                folder = file.path.partition("/")[0]
                pytest.skip(f"`{experiment}` needs real data: set AHOP_DATA to the folder that holds `{folder}`")
