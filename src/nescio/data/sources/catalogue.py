"""Every data set by name: files, classes, origin and licence, and where the files are."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase

import pooch


@dataclass(frozen=True)
class Source:
    """One form of a set: a format, and the files it needs under the root."""

    format: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Remote:
    """One file to download, with its published checksum."""

    file: str
    url: str
    checksum: str


@dataclass(frozen=True)
class Layout:
    """What the columns of a table mean.

    Attributes:
        label: the column of classes; None is the last one.
        names: the class of each text of the label column, in order; {} takes the texts.
        facts: columns kept beside the inputs and not fed to a network.
        split: the column that says "train" or "test"; None splits by seed.
        categorical: columns whose numbers are codes.
    """

    label: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    split: str | None = None
    categorical: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Status:
    """Whether a set can be loaded now, from where ("embedded" or a path), and be downloaded."""

    name: str
    kind: str
    present: bool
    where: Path | str | None
    about: str
    downloadable: bool


def folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders to look in: `root`, else `$NESCIO_DATA`, then the user's cache."""
    if root is not None:
        return [Path(root)]
    environment = os.environ.get("NESCIO_DATA")
    return [*([Path(environment)] if environment else []), Path(pooch.os_cache("nescio"))]


def find(name: str, root: str | os.PathLike[str] | None) -> tuple[Source, tuple[Path, ...]] | None:
    """Return the first source of a set whose files are all there, and their paths."""
    for folder in folders(root):
        for source in CATALOGUE[name].sources:
            paths = [_present(folder / file) for file in source.files]
            if all(paths):
                return source, tuple(path for path in paths if path is not None)
    return None


def _present(path: Path) -> Path | None:
    """The path, or its twin that is compressed where it is not, or the other way round."""
    packed = path.suffix in (".gz", ".bz2")
    twin = path.with_suffix("") if packed else path.with_name(path.name + ".gz")
    return next((one for one in (path, twin) if os.path.exists(one)), None)


def status(root: str | os.PathLike[str] | None = None) -> list[Status]:
    """Return the state of each set; files are looked for as `load` does, and not opened."""
    states = []
    for name, entry in CATALOGUE.items():
        where: Path | str | None = None if entry.sources else "embedded"
        if found := find(name, root):
            paths = found[1]
            where = paths[0] if len(paths) == 1 else paths[0].parent
        remote = bool(entry.remotes)
        states.append(Status(name, entry.kind, where is not None, where, entry.about, remote))
    return states


_DIGITS, _LETTERS = tuple("0123456789"), tuple(ascii_uppercase)
_FASHION = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_CIFAR = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
_IDX = tuple(
    f"{half}-{what}-ubyte" for half in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
)
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"
_FASHION_URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"


def _idx(name: str, about: str, classes: tuple[str, ...], url: str, md5s: str) -> Entry:
    """An MNIST-like set: one npz file, or four idx files as published."""
    idx = Source("idx", tuple(f"{name}/{file}" for file in _IDX))
    remotes = tuple(
        Remote(f"{name}/{file}.gz", f"{url}/{file}.gz", f"md5:{md5}")
        for file, md5 in zip(_IDX, md5s.split(), strict=True)
    )
    return Entry("image", about, (Source("npz", (f"{name}.npz",)), idx), classes, remotes=remotes)


def _npz(about: str, file: str, classes: tuple[str, ...], *columns: str) -> Entry:
    return Entry("image", about, (Source("npz", (file,)),), classes, columns)


def _csv(about: str, file: str, layout: Layout) -> Entry:
    return Entry("tabular", about, (Source("csv", (file,)),), layout=layout)


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
    "mnist": _idx(
        "mnist",
        "handwritten digits, 28×28; CC BY-SA 3.0 as commonly stated",
        _DIGITS,
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873 d53e105ee54ea40749a09fcbcd1e9432 "
        "9fb629c4189551a2d022fa330f9573f3 ec29112dd5afa0611ce80d1b7f02629c",
    ),
    "fashion_mnist": _idx(
        "fashion_mnist",
        "clothes, 28×28; MIT (Zalando SE)",
        tuple(_FASHION.split(",")),
        _FASHION_URL,
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d 25c81989df183df01b3e8a0aad5dffbe "
        "bef4ecab320f06d8554ea6380940ec79 bb300cfdad3c16e7a12a480ee83cd310",
    ),
    "kmnist": _idx(
        "kmnist",
        "cursive Japanese characters, 28×28; CC BY-SA 4.0 (ROIS-CODH)",
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        "https://codh.rois.ac.jp/kmnist/dataset/kmnist",
        "bdb82020997e1d708af4cf47b453dcf7 e144d726b3acfaa3e44228e80efcd344 "
        "5c965bf0a639b31b8f53240b1b52f4d7 7320c461ea6c1c855c0b718fb2a4b134",
    ),
    "emnist_letters": Entry(
        "image",
        "handwritten letters of both cases, 28×28; NIST SD 19, public domain",
        (
            Source(
                "emnist",
                tuple(f"emnist_letters/emnist-letters-{f.replace('t10k', 'test')}" for f in _IDX),
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
        "handwritten digits of other writers than MNIST's, 28×28, test part; NIST SD 19, "
        "public domain",
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
        "alphabet",
    ),
    "usps": Entry(
        "image",
        "digits from envelopes, 16×16; no licence stated, research use",
        (
            Source("usps", ("usps/zip.train.gz", "usps/zip.test.gz")),
            Source("libsvm", ("usps/usps.bz2", "usps/usps.t.bz2")),
        ),
        _DIGITS,
        remotes=tuple(
            Remote(f"usps/{file}", f"{_LIBSVM}/{file}", f"md5:{md5}")
            for file, md5 in (
                ("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
                ("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
            )
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
        tuple(_CIFAR.split(",")),
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
        "source_image",
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
