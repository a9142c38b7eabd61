#!/usr/bin/env bash
# FashionMNIST against MNIST and not-MNIST (paper 4, table 2, figures 5 to 7): trains, judges, and puts side by side.
#   NESCIO_DATA=folder-of-the-data results/duq-fashion/run.sh runs [quick|paper|scale]
# Started again, it goes on where it was cut off. Set OMP_NUM_THREADS to the cores it may use.
set -euo pipefail
runs=${1:?a folder for the runs}
scale=${2:-quick}
mkdir -p "$runs"
how=(--data fashion_mnist --network conv3 --optimizer sgd --learning-rate 0.05 --schedule thirds)
unknown=(--unknown mnist notmnist)

train() { # folder, then the words of `nescio train`
    local folder=$runs/$1
    shift
    nescio train "$@" "${how[@]}" -o "$folder"
    nescio evaluate "$folder" "${unknown[@]}"
}

if [ "$scale" = paper ]; then # 30 epochs, as in the paper, without and with the penalty it chose
    train paper-0 duq --weight-decay 1e-4 --epochs 30
    train paper-penalty-0 duq --weight-decay 1e-4 --epochs 30 --gradient-penalty 0.05
    exit
fi
if [ "$scale" = scale ]; then # the paper's length scale
    for seed in 0 1 2; do
        train "scale-0.1-$seed" duq --weight-decay 1e-4 --epochs 12 --seed "$seed"
    done
    exit
fi
for seed in 0 1 2; do
    train "duq-$seed" duq --length-scale 0.2 --weight-decay 1e-4 --epochs 12 --seed "$seed"
done
train softmax-0 softmax --weight-decay 5e-4 --epochs 4
train ensemble-0 ensemble --members 5 --weight-decay 5e-4 --epochs 4
nescio compare "$runs"/duq-* "$runs"/softmax-0 "$runs"/ensemble-0 -o "$runs/figures"
