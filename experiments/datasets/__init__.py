"""Loaders of the real data that the experiments run on.

Every loader takes `folder`, the folder that holds a sub-folder for each dataset; without it, the folder that the
environment variable AHOP_DATA names. Every file is known by the SHA-256 of its unpacked bytes. `download=True` fetches
a file that is missing, where its source offers it without an account. `SOURCES` names licenses and citations.
"""

from experiments.datasets.bags import Bags, load_bags
from experiments.datasets.debian_text import Texts, load_debian_text
from experiments.datasets.files import File, find, read
from experiments.datasets.genotypes import Genotypes, load_genotypes
from experiments.datasets.images import Images, load_cifar10, load_mnist, load_tiny_imagenet
from experiments.datasets.massbank import SpectraLibrary, load_massbank_eawag
from experiments.datasets.sources import SOURCES, Source
from experiments.datasets.sugarcane import NirSpectra, NirSurvey, load_sugarcane_nir
from experiments.datasets.tables import Table, load_adult, load_bank, load_heart, load_purchase, load_vaccine
from experiments.datasets.uji_indoorloc import Fingerprints, WifiSurvey, load_uji_indoorloc

__all__ = [
    "SOURCES",
    "Bags",
    "File",
    "Fingerprints",
    "Genotypes",
    "Images",
    "NirSpectra",
    "NirSurvey",
    "Source",
    "SpectraLibrary",
    "Table",
    "Texts",
    "WifiSurvey",
    "find",
    "load_adult",
    "load_bags",
    "load_bank",
    "load_cifar10",
    "load_debian_text",
    "load_genotypes",
    "load_heart",
    "load_massbank_eawag",
    "load_mnist",
    "load_purchase",
    "load_sugarcane_nir",
    "load_tiny_imagenet",
    "load_uji_indoorloc",
    "load_vaccine",
    "read",
]
