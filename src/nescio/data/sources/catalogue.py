"""Every data set by name: where it is read from, its classes, where it comes from and on what terms."""

from dataclasses import dataclass
from string import ascii_uppercase

from nescio.data.tabular import Layout

_DIGITS = tuple("0123456789")
_LETTERS = tuple(ascii_uppercase)
_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Source:
    """One form a set can be found in: a format of `formats.py`, and the files it needs under the root."""

    format: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Remote:
    """One file to download, with its published checksum."""

    file: str
    url: str
    checksum: str


@dataclass(frozen=True)
class Entry:
    """One set: the first source whose files are there is read; an embedded set has none."""

    kind: str
    about: str
    sources: tuple[Source, ...] = ()
    classes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    layout: Layout | None = None
    remotes: tuple[Remote, ...] = ()


def _idx(folder: str, base: str, checksums: str) -> tuple[Source, tuple[Remote, ...]]:
    """The four files of an MNIST-like set, as published."""
    remotes = zip(_IDX, checksums.split(), strict=True)
    return (
        Source("idx", tuple(f"{folder}/{file}" for file in _IDX)),
        tuple(
            Remote(f"{folder}/{file}.gz", f"{base}/{file}.gz", f"md5:{md5}")
            for file, md5 in remotes
        ),
    )


def _csv(about: str, file: str, layout: Layout) -> Entry:
    return Entry("tabular", about, (Source("csv", (file,)),), layout=layout)


def _npz(about: str, file: str, classes: tuple[str, ...], columns: tuple[str, ...] = ()) -> Entry:
    return Entry("image", about, (Source("npz", (file,)),), classes, columns)


_MNIST, _MNIST_REMOTES = _idx(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432 "
    "9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c",
)
_FASHION_MNIST, _FASHION_REMOTES = _idx(
    "fashion_mnist",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe "
    "bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310",
)
_KMNIST, _KMNIST_REMOTES = _idx(
    "kmnist",
    "https://codh.rois.ac.jp/kmnist/dataset/kmnist",
    "bdb82020997e1d708af4cf47b453dcf7 e144d726b3acfaa3e44228e80efcd344 "
    "5c965bf0a639b31b8f53240b1b52f4d7 7320c461ea6c1c855c0b718fb2a4b134",
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"

CATALOGUE: dict[str, Entry] = {
    "two_moons": Entry("tabular", "two half circles in the plane; drawn from the seed"),
    "two_gaussians": Entry(
        "tabular", "two overlapping Gaussians in the plane; drawn from the seed"
    ),
    "three_blobs": Entry("tabular", "three clusters in the plane; drawn from the seed"),
    "digits": Entry("image", "1797 handwritten digits, 8×8; UCI, CC BY 4.0"),
    "breast_cancer": Entry("tabular", "569 tumours, 30 features; UCI, CC BY 4.0"),
    "wine": Entry("tabular", "178 wines, 13 features; UCI, CC BY 4.0"),
    "iris": Entry("tabular", "150 flowers, 4 features; UCI, CC BY 4.0"),
    "mnist": Entry(
        "image",
        "handwritten digits, 28×28; CC BY-SA 3.0 as commonly stated",
        (Source("npz", ("mnist.npz",)), _MNIST),
        _DIGITS,
        remotes=_MNIST_REMOTES,
    ),
    "fashion_mnist": Entry(
        "image",
        "clothes, 28×28; MIT (Zalando SE)",
        (Source("npz", ("fashion_mnist.npz",)), _FASHION_MNIST),
        _FASHION,
        remotes=_FASHION_REMOTES,
    ),
    "kmnist": Entry(
        "image",
        "cursive Japanese characters, 28×28; CC BY-SA 4.0 (ROIS-CODH)",
        (Source("npz", ("kmnist.npz",)), _KMNIST),
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        remotes=_KMNIST_REMOTES,
    ),
    "emnist_letters": Entry(
        "image",
        "handwritten letters of both cases, 28×28; NIST SD 19, public domain",
        (
            Source(
                "emnist",
                tuple(
                    f"emnist_letters/emnist-letters-{file.replace('t10k', 'test')}" for file in _IDX
                ),
            ),
            Source("emnist_zip", ("emnist_letters/gzip.zip",)),
        ),
        _LETTERS,
        remotes=(
            Remote(
                "emnist_letters/gzip.zip",
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "md5:58c8d27c78d21e728a6bc7b3cc06412e",
            ),
        ),
    ),
    "emnist_digits": _npz(
        "handwritten digits of other writers than MNIST's, 28×28, test part; NIST SD 19, public domain",
        "emnist_mnist_test.npz",
        _DIGITS,
    ),
    "nist_letters": _npz(
        "handwritten capitals, 28×28, test part; NIST SD 19, CC0", "nist_az_letters.npz", _LETTERS
    ),
    "notmnist": _npz(
        "glyphs A to J of many fonts, 28×28, test part; MIT", "notmnist_test.npz", _LETTERS[:10]
    ),
    "omniglot": _npz(
        "characters of 8 alphabets, 28×28, test part, column `alphabet`; MIT",
        "omniglot_small.npz",
        (),
        ("alphabet",),
    ),
    "usps": Entry(
        "image",
        "digits from envelopes, 16×16; no licence stated, research use",
        (
            Source("usps", ("usps/zip.train.gz", "usps/zip.test.gz")),
            Source("libsvm", ("usps/usps.bz2", "usps/usps.t.bz2")),
        ),
        _DIGITS,
        remotes=(
            Remote("usps/usps.bz2", f"{_LIBSVM}/usps.bz2", "md5:ec16c51db3855ca6c91edd34d0e9b197"),
            Remote(
                "usps/usps.t.bz2", f"{_LIBSVM}/usps.t.bz2", "md5:8ea070ee2aca1ac39742fdd1ef5ed118"
            ),
        ),
    ),
    "cifar10": Entry(
        "image",
        "photographs of ten kinds, 32×32 colour; no licence stated, research use",
        (
            Source("npz", ("cifar10.npz",)),
            Source("cifar", ("cifar10/cifar-10-batches-bin",)),
            Source("cifar_tar", ("cifar10/cifar-10-binary.tar.gz",)),
        ),
        _CIFAR,
        remotes=(
            Remote(
                "cifar10/cifar-10-binary.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
    ),
    "svhn": _npz(
        "house numbers, 32×32 colour, test part, column `source_image`; non-commercial use only",
        "svhn_test_crops.npz",
        _DIGITS,
        ("source_image",),
    ),
    "heart_disease": _csv(
        "920 patients of four hospitals (column `site`), values missing; UCI, CC BY 4.0",
        "heart_disease_uci.csv.gz",
        Layout(
            "num",
            {"0": "healthy"} | dict.fromkeys("1234", "disease"),
            ("site",),
            categorical=("cp", "restecg", "slope", "thal"),
        ),
    ),
    "pima_diabetes": _csv(
        "768 women, 8 features, zeros stand for missing values in some; CC0 as commonly stated",
        "pima_diabetes.csv.gz",
        Layout("outcome", {"0": "healthy", "1": "diabetes"}),
    ),
    "german_credit": _csv(
        "1000 loans, 20 columns; UCI, CC BY 4.0",
        "german_credit.csv.gz",
        Layout("class", {"1": "good", "2": "bad"}),
    ),
    "credit_default": _csv(
        "30000 credit cards in Taiwan, 23 columns; UCI, CC BY 4.0",
        "credit_default_taiwan.csv.gz",
        Layout(
            "default.payment.next.month",
            {"0": "paid", "1": "default"},
            categorical=("SEX", "EDUCATION", "MARRIAGE"),
        ),
    ),
    "adult": _csv(
        "48842 people of the 1994 census, 14 columns, values missing; UCI, CC BY 4.0",
        "adult_income.csv.gz",
        Layout("income", {"<=50K": "<=50K", ">50K": ">50K"}, split="split"),
    ),
}
NAMES = tuple(CATALOGUE)
