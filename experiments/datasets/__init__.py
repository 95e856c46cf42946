"""Real data: read from a folder, or fetched from its official source.

Every loader has the arguments `folder`, `download` and `progress`, and one rule. Files are looked for in `folder` if
it is passed; else in the folder that the environment variable AHOP_DATA names; else in a cache of your own, which
AHOP_CACHE can move. Each of these has a sub-folder for each dataset, such as `adult`. A file may lie there plain, as
`.gz` or `.xz`, or inside the archive that its publisher offers. Nothing is fetched unless `download=True` allows it;
then it goes into `folder`, or into the cache, with a bar on the screen unless `progress=False`.

Every file is compared with the checksum that was published for it, or, where none was, by its structure and its
numbers. The complete data are taken wherever they are found; where only a part is there, `notes` says what is missing.
`SOURCES` says of each dataset whose it is, under which license, and what to cite.
"""

from ahop.errors import DataNotFoundError, DownloadError
from experiments.datasets._sources import SOURCES
from experiments.datasets.adult import load_adult
from experiments.datasets.bags import Bags
from experiments.datasets.bank import load_bank
from experiments.datasets.cifar import load_cifar10, load_cifar100
from experiments.datasets.fingerprints import Fingerprints, WifiSurvey
from experiments.datasets.heart import load_heart
from experiments.datasets.images import Images
from experiments.datasets.massbank import load_massbank_eawag
from experiments.datasets.mil import load_elephant, load_fox, load_musk1, load_musk2, load_tiger, load_ucsb_breast
from experiments.datasets.mnist import load_fashion_mnist, load_mnist
from experiments.datasets.nir import NirSpectra, NirSurvey
from experiments.datasets.purchase import load_purchase
from experiments.datasets.spectra import SpectraLibrary
from experiments.datasets.sugarcane import load_sugarcane_nir
from experiments.datasets.table import Table
from experiments.datasets.tiny_imagenet import load_tiny_imagenet
from experiments.datasets.uji_indoorloc import load_uji_indoorloc
from experiments.datasets.vaccine import load_vaccine

__all__ = [
    "SOURCES",
    "Bags",
    "DataNotFoundError",
    "DownloadError",
    "Fingerprints",
    "Images",
    "NirSpectra",
    "NirSurvey",
    "SpectraLibrary",
    "Table",
    "WifiSurvey",
    "load_adult",
    "load_bank",
    "load_cifar10",
    "load_cifar100",
    "load_elephant",
    "load_fashion_mnist",
    "load_fox",
    "load_heart",
    "load_massbank_eawag",
    "load_mnist",
    "load_musk1",
    "load_musk2",
    "load_purchase",
    "load_sugarcane_nir",
    "load_tiger",
    "load_tiny_imagenet",
    "load_ucsb_breast",
    "load_uji_indoorloc",
    "load_vaccine",
]
