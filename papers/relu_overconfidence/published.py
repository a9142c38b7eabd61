"""The figures of paper 2's tables 1 and 2, on the data sets that we have; sets by the names they go by here."""

# table 1: MMC, AUROC and FPR at 95 % TPR of plain, CEDA and ACET; the first set of each is the known one
_KINDS = ("plain", "ceda", "acet")
_TABLE1 = {
    "mnist": (
        ("mnist", "0.991 - -", "0.987 - -", "0.986 - -"),
        ("fashion_mnist", "0.654 0.972 0.121", "0.373 0.994 0.027", "0.239 0.998 0.003"),
        ("letters", "0.821 0.883 0.374", "0.787 0.895 0.358", "0.752 0.912 0.313"),
        ("cifar10", "0.492 0.996 0.003", "0.105 1.000 0.000", "0.101 1.000 0.000"),
        ("noise", "0.463 0.998 0.000", "0.100 1.000 0.000", "0.100 1.000 0.000"),
        ("adversarial_noise", "1.000 0.031 1.000", "0.102 0.998 0.002", "0.162 0.992 0.042"),
        ("adversarial_samples", "0.999 0.358 0.992", "0.987 0.549 0.953", "0.854 0.692 0.782"),
    ),
    "cifar10": (
        ("cifar10", "0.949 - -", "0.946 - -", "0.948 - -"),
        ("svhn", "0.800 0.850 0.783", "0.327 0.978 0.146", "0.263 0.981 0.118"),
        ("noise", "0.825 0.827 0.818", "0.100 1.000 0.000", "0.100 1.000 0.000"),
        ("adversarial_noise", "1.000 0.035 1.000", "0.985 0.032 0.983", "0.112 0.999 0.008"),
        ("adversarial_samples", "1.000 0.034 1.000", "1.000 0.014 1.000", "0.633 0.512 0.590"),
    ),
}
TEST_ERROR = {  # table 1, in per cent
    ("mnist", "plain"): 0.51,
    ("mnist", "ceda"): 0.74,
    ("mnist", "acet"): 0.66,
    ("cifar10", "plain"): 8.87,
    ("cifar10", "ceda"): 8.87,
    ("cifar10", "acet"): 8.44,
}
TABLE1 = {
    (data, kind, name, measure): float(figure)
    for data, rows in _TABLE1.items()
    for name, *groups in rows
    for kind, group in zip(_KINDS, groups, strict=True)
    for measure, figure in zip(("mmc", "auroc", "fpr95"), group.split(), strict=True)
    if figure != "-"
}
# table 2: the median α, and the percentage above 95 % confidence when put back into the box. Of ACET on MNIST the paper
# has α > 10⁶, "so high that we ran into numerical problems".
MEDIAN_FACTOR = {("mnist", "plain"): 1.5, ("cifar10", "plain"): 8.1, ("cifar10", "acet"): 45.3}
OVERCONFIDENT = {
    ("mnist", "plain"): 98.7,
    ("mnist", "acet"): 0.0,
    ("cifar10", "plain"): 99.9,
    ("cifar10", "acet"): 3.4,
}
