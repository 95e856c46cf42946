"""The one table of facts: whose each dataset is, where it comes from, and how its files are known again.

The addresses are those that the publishers give, or, for MNIST, whose own page is closed, those of its usual mirror.
They were written down in a closed network and never tried from it. Digests are of three kinds. For what is fetched
whole (MNIST, Fashion-MNIST, CIFAR, Tiny ImageNet): the sums that other libraries publish for the official files. For
what comes in archives of UCI, which may be packed anew: the sums of the members, which are the published ones. Where
nobody published any (Heart, the bags): a digest of the numbers, taken from a copy that agrees with independent others.
Of MassBank and Sugarcane there is one copy alone: the sums are its own, and no page of theirs was at hand, so that the
license is to be read at the source. All other licenses and citations were written down from memory of those pages:
check them before you publish anything.
"""

from experiments.datasets._facts import Download, Edition, File, Source

UCI = "https://archive.ics.uci.edu"

ADULT = Source(
    name="adult",
    title="Adult (census income)",
    page=f"{UCI}/dataset/2/adult",
    license="CC BY 4.0",
    citation="B. Becker, R. Kohavi. Adult. UCI Machine Learning Repository, 1996. doi:10.24432/C5XW20",
    editions=(
        Edition(
            "adult",
            files=(
                File(
                    "adult.data",
                    3_974_305,
                    "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
                    inside=("adult.zip", "adult.data"),
                ),
                File(
                    "adult.test",
                    2_003_153,
                    "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
                    inside=("adult.zip", "adult.test"),
                ),
            ),
            downloads=(Download(f"{UCI}/static/public/2/adult.zip", limit=4_000_000),),
        ),
    ),
)

BANK = Source(
    name="bank",
    title="Bank Marketing (bank-additional-full)",
    page=f"{UCI}/dataset/222/bank+marketing",
    license="CC BY 4.0",
    citation="S. Moro, P. Cortez, P. Rita. A data-driven approach to predict the success of bank telemarketing. "
    "Decision Support Systems 62, 2014. doi:10.24432/C5K306",
    editions=(
        Edition(
            "bank",
            files=(
                File(
                    "bank-additional-full.csv",
                    5_834_924,
                    "sha256:74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
                    inside=("bank+marketing.zip", "bank-additional.zip", "bank-additional-full.csv"),
                ),
            ),
            downloads=(Download(f"{UCI}/static/public/222/bank+marketing.zip", limit=4_000_000),),
        ),
    ),
)

_VACCINE_LABELS = File(
    "training_set_labels.csv", 256_004, "sha256:0ad33a821b96666a0dbfafc4e6fe23969ded212c6b55eb8763bd8bd78b8cae40"
)
VACCINE = Source(
    name="vaccine",
    title="Flu Shot Learning (H1N1 and seasonal vaccines)",
    page="https://www.drivendata.org/competitions/66/flu-shot-learning/",
    license="Terms of the competition; the survey itself is a public-use file of the U.S. government",
    citation="P. Bull, I. Slavitt, G. Lipstein. Harnessing the Power of the Crowd to Increase Capacity for Data "
    "Science in the Social Sector. 2016. Data: National 2009 H1N1 Flu Survey, CDC and NCHS",
    editions=(
        Edition(
            "vaccine",
            # The publisher keeps this file in a repository of its tutorials; git's own sum of it is all that is known.
            files=(
                File("training_set_features.csv", 20_000_000, "git:29d6eebd7bbc7d8adfe68f4ecc90ad06aa381794"),
                _VACCINE_LABELS,
            ),
        ),
        Edition(
            "vaccine",
            files=(
                File(
                    "training_set_features_32of35.csv",
                    5_294_476,
                    "sha256:0f08d5198a2fa4676f07473b3fae18fdbcb9196e92b3a8411499dc46d4d73ca5",
                ),
                _VACCINE_LABELS,
            ),
            complete=False,
            notes=(
                "32 of the 35 official features: `hhs_geo_region`, `employment_industry` and `employment_occupation` "
                "are missing. Put the official `training_set_features.csv` beside this file to have them.",
            ),
        ),
    ),
    by_hand="The publisher asks for a free account: get both files at the competition's page, "
    "https://www.drivendata.org/competitions/66/flu-shot-learning/.",
)

PURCHASE = Source(
    name="purchase",
    title="Online Shoppers Purchasing Intention",
    page=f"{UCI}/dataset/468/online+shoppers+purchasing+intention+dataset",
    license="CC BY 4.0",
    citation="C. O. Sakar, Y. Kastro. Online Shoppers Purchasing Intention Dataset. UCI Machine Learning Repository, "
    "2018. doi:10.24432/C5F88Q",
    editions=(
        Edition(
            "purchase",
            files=(
                File(
                    "online_shoppers_intention.csv",
                    1_072_063,
                    "sha256:b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9",
                    inside=(
                        "online+shoppers+purchasing+intention+dataset.zip",
                        "online_shoppers_intention.csv",
                    ),
                ),
            ),
            downloads=(
                Download(f"{UCI}/static/public/468/online+shoppers+purchasing+intention+dataset.zip", limit=2_000_000),
            ),
        ),
    ),
)

HEART = Source(
    name="heart",
    title="Cardiovascular Disease",
    page="https://www.kaggle.com/datasets/sulianova/cardiovascular-disease-dataset",
    license="Not stated by the author",
    citation="S. Ulianova. Cardiovascular Disease dataset. Kaggle, 2019",
    editions=(Edition("heart", files=(File("cardio_train.csv", 4_000_000),)),),
    by_hand="The publisher asks for a free account: get the file at "
    "https://www.kaggle.com/datasets/sulianova/cardiovascular-disease-dataset.",
    numbers="sha256:86d4d649994ca8d6d729149e7acb29bcc3c2ed57d7105c1645352d91650bfe78",
)

_MNIST_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
MNIST = Source(
    name="mnist",
    title="MNIST",
    page="http://yann.lecun.com/exdb/mnist/",
    license="Usually given as CC BY-SA 3.0",
    citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document recognition. "
    "Proceedings of the IEEE 86, 1998",
    editions=(
        Edition(
            "mnist",
            files=(
                File(
                    "train-images-idx3-ubyte",
                    47_040_016,
                    "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                File(
                    "train-labels-idx1-ubyte",
                    60_008,
                    "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
                File(
                    "t10k-images-idx3-ubyte",
                    7_840_016,
                    "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                File(
                    "t10k-labels-idx1-ubyte",
                    10_008,
                    "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            ),
            downloads=(
                Download(
                    f"{_MNIST_MIRROR}/train-images-idx3-ubyte.gz",
                    9_912_422,
                    "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                Download(
                    f"{_MNIST_MIRROR}/train-labels-idx1-ubyte.gz",
                    28_881,
                    "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                Download(
                    f"{_MNIST_MIRROR}/t10k-images-idx3-ubyte.gz",
                    1_648_877,
                    "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                Download(
                    f"{_MNIST_MIRROR}/t10k-labels-idx1-ubyte.gz",
                    4_542,
                    "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
        ),
    ),
)

_FASHION_HOME = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
_FASHION_TEST = (
    File(
        "t10k-images-idx3-ubyte",
        7_840_016,
        "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    File(
        "t10k-labels-idx1-ubyte",
        10_008,
        "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
FASHION_MNIST = Source(
    name="fashion_mnist",
    title="Fashion-MNIST",
    page="https://github.com/zalandoresearch/fashion-mnist",
    license="MIT",
    citation="H. Xiao, K. Rasul, R. Vollgraf. Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning "
    "Algorithms. arXiv:1708.07747, 2017",
    editions=(
        Edition(
            "fashion_mnist",
            files=(
                File("train-images-idx3-ubyte", 47_040_016, "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a"),
                File(
                    "train-labels-idx1-ubyte",
                    60_008,
                    "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                ),
                *_FASHION_TEST,
            ),
            downloads=(
                Download(
                    f"{_FASHION_HOME}/train-images-idx3-ubyte.gz",
                    26_421_880,
                    "sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                Download(
                    f"{_FASHION_HOME}/train-labels-idx1-ubyte.gz",
                    29_515,
                    "sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                Download(
                    f"{_FASHION_HOME}/t10k-images-idx3-ubyte.gz",
                    4_422_102,
                    "sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                Download(
                    f"{_FASHION_HOME}/t10k-labels-idx1-ubyte.gz",
                    5_148,
                    "sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            ),
        ),
        Edition(
            "fashion_mnist",
            files=_FASHION_TEST,
            complete=False,
            notes=("The test pictures alone: the 60000 training pictures were not found, and `train` is empty.",),
        ),
    ),
)

_CIFAR10_ARCHIVE = "cifar-10-binary.tar.gz"
_CIFAR10_BATCHES = tuple(
    File(f"data_batch_{number}.bin", 30_730_000, f"sha256:{digest}", (_CIFAR10_ARCHIVE, f"data_batch_{number}.bin"))
    for number, digest in enumerate(
        (
            "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        ),
        start=1,
    )
)
_CIFAR10_TEST = File(
    "test_batch.bin",
    30_730_000,
    "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    inside=(_CIFAR10_ARCHIVE, "test_batch.bin"),
)
_KRIZHEVSKY = "A. Krizhevsky. Learning Multiple Layers of Features from Tiny Images. University of Toronto, 2009"
CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    license="None stated; use with citation is customary",
    citation=_KRIZHEVSKY,
    # The binary version: the other one is a pickle, and opening a pickle runs what is in it.
    editions=(
        Edition(
            "cifar10",
            files=(*_CIFAR10_BATCHES, _CIFAR10_TEST),
            downloads=(
                Download(
                    f"https://www.cs.toronto.edu/~kriz/{_CIFAR10_ARCHIVE}",
                    170_052_171,
                    "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
        ),
        *(
            Edition(
                "cifar10",
                files=(*_CIFAR10_BATCHES[:batches], _CIFAR10_TEST),
                complete=False,
                notes=(f"{batches} of the 5 training batches: {batches}0000 of the 50000 training pictures.",),
            )
            for batches in (4, 3, 2, 1)
        ),
    ),
)

_CIFAR100_ARCHIVE = "cifar-100-binary.tar.gz"
CIFAR100 = Source(
    name="cifar100",
    title="CIFAR-100",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    license="None stated; use with citation is customary",
    citation=_KRIZHEVSKY,
    editions=(
        Edition(
            "cifar100",
            # Only the archive has a published sum; of loose members the size, the labels and their counts are checked.
            files=tuple(
                File(name, limit, inside=(_CIFAR100_ARCHIVE, name))
                for name, limit in (
                    ("train.bin", 153_700_000),
                    ("test.bin", 30_740_000),
                    ("fine_label_names.txt", 10_000),
                    ("coarse_label_names.txt", 10_000),
                )
            ),
            downloads=(
                Download(
                    f"https://www.cs.toronto.edu/~kriz/{_CIFAR100_ARCHIVE}",
                    168_513_733,
                    "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                ),
            ),
        ),
    ),
)

_TINY_ZIP, _TINY_BYTES = "tiny-imagenet-200.zip", 248_100_043
_TINY_DIGEST = "md5:90528d7ca1a48142e341f4ef8d21d0de"  # nobody was found to publish a better sum
TINY_IMAGENET = Source(
    name="tiny_imagenet",
    title="Tiny ImageNet",
    page="https://cs231n.stanford.edu/",
    license="Terms of ImageNet: research and education, not for commerce",
    citation="Stanford CS231n, from ImageNet: O. Russakovsky et al. ImageNet Large Scale Visual Recognition "
    "Challenge. International Journal of Computer Vision 115, 2015",
    editions=(
        Edition(
            "tiny_imagenet",
            files=(File(_TINY_ZIP, _TINY_BYTES, _TINY_DIGEST),),
            downloads=(Download(f"https://cs231n.stanford.edu/{_TINY_ZIP}", _TINY_BYTES, _TINY_DIGEST),),
        ),
        Edition(
            "tiny_imagenet_subset",
            files=(
                File(
                    "tiny-imagenet-200-subset.tar.xz",
                    8_132_932,
                    "sha256:9bb113533013967e82b815c04b6125c394065a49787606793bdb01219726d214",
                ),
            ),
            complete=False,
            notes=(
                "A subset: of each of the 200 classes the first 25 of 500 training pictures, and the first 5 of 50 "
                "validation pictures.",
            ),
        ),
    ),
)

UJI_INDOORLOC = Source(
    name="uji_indoorloc",
    title="UJIIndoorLoc",
    page=f"{UCI}/dataset/310/ujiindoorloc",
    license="CC BY 4.0",
    citation="J. Torres-Sospedra et al. UJIIndoorLoc: A new multi-building and multi-floor database for WLAN "
    "fingerprint-based indoor localization problems. IPIN 2014. doi:10.24432/C5MS59",
    editions=(
        Edition(
            "uji_indoorloc",
            files=(
                File(
                    "trainingData.csv",
                    42_725_381,
                    "sha256:45ca0128bd12019c976bb4793e407c979c82995d7a5940ab7288620247905168",
                    inside=("ujiindoorloc.zip", "trainingData.csv"),
                ),
                File(
                    "validationData.csv",
                    2_381_949,
                    "sha256:5f90c536648cd657b2c516d20c4e0968d4003279ea6bd5d5d5322d3f1e8905c0",
                    inside=("ujiindoorloc.zip", "validationData.csv"),
                ),
            ),
            downloads=(Download(f"{UCI}/static/public/310/ujiindoorloc.zip", limit=4_000_000),),
        ),
    ),
)

_EAWAG = "MassBank-data release 2025.05.1, the records of Eawag"
MASSBANK_EAWAG = Source(
    name="massbank_eawag",
    title="MassBank, the records of Eawag",
    page="",
    license=f"To be read at the source: {_EAWAG}. The column `license` repeats what each record says",
    citation=f"{_EAWAG}; the column `authors` names those of each",
    editions=(
        Edition(
            "massbank_eawag",
            files=(
                File(
                    "metadata.csv",
                    2_656_974,
                    "sha256:b438f2e1a71acc2c67fbbd6af6421e8b03263ca3f5ff1ba346f199ee586b576c",
                ),
                File("spectra.npz", 8_000_000),
            ),
            complete=False,
            notes=(
                "A selection: 7530 of the 16424 records of Eawag, those of precursor [M+H]+ and license CC BY; "
                "absolute intensities and the annotations of peaks are left out.",
                f"The license is to be read at the source, {_EAWAG}.",
                "The checksums are those of one copy: no published ones were at hand.",
            ),
        ),
    ),
    by_hand=f"There is nothing to fetch: both files were cut out of {_EAWAG}. `spectra.npz` has the peaks of all "
    "spectra, `numpy.savez('spectra.npz', mz=..., intensity=..., indptr=...)`; `metadata.csv` a row for each spectrum.",
    numbers="sha256:fd2f2d4cf6a5b7c578279b606b2b3c8ba9a7b827cd2ffa39d7904a297121dba6",
)

_SUGARCANE = "Mendeley Data rnvvftvmh7, version 1"
SUGARCANE_NIR = Source(
    name="sugarcane_nir",
    title="Sugarcane on several near-infrared spectrometers",
    page="",
    license=f"To be read at the source: {_SUGARCANE}",
    citation=_SUGARCANE,
    editions=(
        Edition(
            "sugarcane_nir",
            files=tuple(
                File(f"{name}.csv", size, f"sha256:{digest}")
                for name, size, digest in (
                    ("F750", 131_187, "2520d1a1da4599019fef7d0e4363b4664f3932a0f960da9c8321e5fcc438af9f"),
                    ("Micronir1700rep1", 68_308, "ea7e488e81ef620615957d272b42c73cdcdabf3cc52c6c496098dd4f820cdc6d"),
                    ("Micronir1700rep2", 68_213, "172a6652fca58c8c9fe054fd575eac510a51e6e64168fdd824d9a7faee11b3c5"),
                    ("Micronir1700rep3", 68_255, "ab4d575adfe15dc9cce2eadd0097ac10fa9245c2a4e2fae0827f82c034172222"),
                    ("Micronir2200", 67_956, "b816950be7cccb8fcfdb175a6316101dd959afc99cf6a6f0d2b71a235e6aff5c"),
                    ("Nirone22", 108_568, "92aa4d684e24862d99761cb872f9bf5e5fa20992dc909c7d0d944b9492d2606b"),
                    ("Nirscan_nano", 125_144, "79be7499bc5b6a183eecbc878f5d9579abdecb2df11cded481fea2f290818992"),
                    ("Scio", 178_752, "a053159dcddb29c9acd5a8bc9489c6348c0e23e5bbcc70708e21cbf43b729a47"),
                    ("Tellspec", 139_901, "dd5c77a3a44895ac2ea58c9ced28e6a2a008eb34bb466bdfc95bf3fb025192b0"),
                    ("References", 1_678, "212ac27cf01c44f1ec962e35243f108205b958e30f8fdd87bb15e564187cf7ec"),
                )
            ),
            complete=False,
            notes=(
                "Without the spectrometer LabSpec, which the official data have.",
                f"The license is to be read at the source, {_SUGARCANE}.",
                "The checksums are those of one copy: no published ones were at hand.",
            ),
        ),
    ),
    by_hand=f"No address to fetch it from is known here: it is {_SUGARCANE}.",
)


def _arrays(name: str) -> Edition:
    """Bags as the three arrays `X`, `bag_id` and `y`."""
    return Edition("mil", files=(File(f"{name}.npz", 20_000_000),))


def _corel(name: str, title: str, numbers: str) -> Source:
    page = "http://www.cs.columbia.edu/~andrews/mil/datasets.html"
    return Source(
        name=name,
        title=f"{title} (Corel images)",
        page=page,
        license="None stated; research use",
        citation="S. Andrews, I. Tsochantaridis, T. Hofmann. Support Vector Machines for Multiple-Instance Learning. "
        "NIPS 2002",
        editions=(_arrays(name),),
        by_hand=f"Its publisher has it behind no https address: take `{name}_100x100_matlab.mat` out of "
        f"`MIL-Data-2002-Musk-Corel-Trec9-MATLAB.tgz` of {page}, and save its numbers with "
        f"`numpy.savez('{name}.npz', X=instances, bag_id=bag_of_each_instance, y=label_of_each_bag)`.",
        numbers=numbers,
    )


def _musk(version: int, uci: int, limit: int, numbers: str) -> Source:
    archive, member = f"musk+version+{version}.zip", f"clean{version}.data.Z"
    return Source(
        name=f"musk{version}",
        title=f"Musk (Version {version})",
        page=f"{UCI}/dataset/{uci}/musk+version+{version}",
        license="CC BY 4.0",
        citation="T. G. Dietterich, R. H. Lathrop, T. Lozano-Perez. Solving the multiple instance problem with "
        "axis-parallel rectangles. Artificial Intelligence 89, 1997",
        editions=(
            Edition(
                "mil",
                files=(File(f"clean{version}.data", limit, inside=(archive, member)),),
                downloads=(Download(f"{UCI}/static/public/{uci}/{archive}", limit=8_000_000),),
            ),
            _arrays(f"musk{version}"),
        ),
        numbers=numbers,
    )


TIGER = _corel("tiger", "Tiger", "sha256:41f981c20e86017f6b35e9680f0989b1ef13b231cf5ab4822b1dc467c8147b7a")
FOX = _corel("fox", "Fox", "sha256:d0b490f2883082e43e5ad23501e1f54a22ad28244ae0ce75c47fdc48dc4c4e6c")
ELEPHANT = _corel("elephant", "Elephant", "sha256:a7dd4e4df2dd074d1c1adc3da555e8655024dfa141fa51cb09d45ec0c180afd5")
MUSK1 = _musk(1, 74, 2_000_000, "sha256:98d1db4179c99a0e1d8d2ceec165b8d682d8d8506a6e7081cfdc3ad8d9d20a45")
MUSK2 = _musk(2, 75, 20_000_000, "sha256:8dec940179726775adf8d069984e339f36414a08f4fbbb3fdadb96b26502046c")
UCSB_BREAST = Source(
    name="ucsb_breast_cancer",
    title="UCSB breast cancer",
    page="",
    license="None stated; research use",
    citation="M. Kandemir, C. Zhang, F. A. Hamprecht. Empowering multiple instance histopathology cancer diagnosis by "
    "cell graphs. MICCAI 2014. Images: E. D. Gelasca et al. ICIP 2008",
    editions=(_arrays("ucsb_breast_cancer"),),
    by_hand="Its 708 features were published with no lasting address: find the table of Kandemir et al. that "
    "benchmarks of multiple instance learning call `ucsb_breast_cancer.csv`, and save its numbers with "
    "`numpy.savez('ucsb_breast_cancer.npz', X=instances, bag_id=bag_of_each_instance, y=label_of_each_bag)`.",
    numbers="sha256:692ff52a959fd93209f54d34fb35231971ab78845118d22014c819c99246df76",
)

SOURCES = {
    source.name: source
    for source in (
        ADULT,
        BANK,
        VACCINE,
        PURCHASE,
        HEART,
        MNIST,
        FASHION_MNIST,
        CIFAR10,
        CIFAR100,
        TINY_IMAGENET,
        TIGER,
        FOX,
        ELEPHANT,
        UCSB_BREAST,
        MUSK1,
        MUSK2,
        UJI_INDOORLOC,
        MASSBANK_EAWAG,
        SUGARCANE_NIR,
    )
}
