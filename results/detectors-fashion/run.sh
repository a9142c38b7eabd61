#!/usr/bin/env bash
# Every detector on a plain network that knows FashionMNIST, against other images.
#   NESCIO_DATA=folder-of-the-data results/detectors-fashion/run.sh runs
set -euo pipefail
runs=${1:?a folder for the run}
here=$(dirname "$0")
nescio train softmax --data fashion_mnist --network conv3 --epochs 6 -o "$runs/plain"
nescio recommend "$runs/plain"
cp "$runs/plain/recommendation.json" "$here"
nescio contest "$runs/plain" --unknown mnist notmnist cifar10 omniglot noise -o "$here" \
    --candidates max_prob entropy max_logit energy mahalanobis relative_mahalanobis gaussian_density knn vim react odin \
    meta combined
