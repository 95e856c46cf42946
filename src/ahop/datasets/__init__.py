"""Real data: read from a folder, or fetched from its official source; and a building for examples, from no file.

Every loader has the arguments `folder`, `download` and `progress`, and one rule. Files are looked for in `folder` if
it is passed; else in the folder that the environment variable AHOP_DATA names; else in a cache of your own, which
AHOP_CACHE can move. Each of these has a sub-folder for each dataset, such as `adult`. A file may lie there plain, as
`.gz` or `.xz`, or inside the archive that its publisher offers. Nothing is fetched unless `download=True` allows it;
then it goes into `folder`, or into the cache, with a bar on the screen unless `progress=False`.

Every file is compared with the checksum that was published for it, or, where none was, by its structure and its
numbers. The complete data are taken wherever they are found; where only a part is there, `notes` says what is missing.
`SOURCES` says of each dataset whose it is, under which license, and what to cite.
"""

from ahop.datasets._sources import SOURCES
from ahop.datasets.adult import load_adult
from ahop.datasets.bags import Bags
from ahop.datasets.bank import load_bank
from ahop.datasets.building import Building, Scans
from ahop.datasets.cifar import load_cifar10, load_cifar100
from ahop.datasets.fingerprints import Fingerprints, WifiSurvey
from ahop.datasets.heart import load_heart
from ahop.datasets.images import Images
from ahop.datasets.massbank import load_massbank_eawag
from ahop.datasets.mil import load_elephant, load_fox, load_musk1, load_musk2, load_tiger, load_ucsb_breast
from ahop.datasets.mnist import load_fashion_mnist, load_mnist
from ahop.datasets.nir import NirSpectra, NirSurvey
from ahop.datasets.purchase import load_purchase
from ahop.datasets.spectra import SpectraLibrary
from ahop.datasets.sugarcane import load_sugarcane_nir
from ahop.datasets.table import Table
from ahop.datasets.tiny_imagenet import load_tiny_imagenet
from ahop.datasets.uji_indoorloc import load_uji_indoorloc
from ahop.datasets.vaccine import load_vaccine
from ahop.errors import DataNotFoundError, DownloadError

__all__ = [
    "SOURCES",
    "Bags",
    "Building",
    "DataNotFoundError",
    "DownloadError",
    "Fingerprints",
    "Images",
    "NirSpectra",
    "NirSurvey",
    "Scans",
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
