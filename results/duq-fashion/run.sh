#!/usr/bin/env bash
# DUQ on FashionMNIST against MNIST and not-MNIST, at the paper's length, or shorter at two length scales.
#   NESCIO_DATA=folder-of-the-data results/duq-fashion/run.sh runs [paper|scale]
# Started again, it goes on where it was cut off. Set OMP_NUM_THREADS to the cores it may use.
set -euo pipefail
runs=${1:?a folder for the runs}
scale=${2:-paper}
mkdir -p "$runs"
how=(--data fashion_mnist --network conv3 --optimizer sgd --learning-rate 0.05 --schedule thirds --weight-decay 1e-4)

train() { # folder, then the words of `nescio train`
    local folder=$runs/$1
    shift
    nescio train duq "$@" "${how[@]}" -o "$folder"
    nescio evaluate "$folder" --unknown mnist notmnist
}

if [ "$scale" = paper ]; then
    train paper-0 --epochs 30
    exit
fi
for sigma in 0.1 0.2; do
    for seed in 0 1 2; do
        train "scale-$sigma-$seed" --epochs 12 --length-scale "$sigma" --seed "$seed"
    done
done
