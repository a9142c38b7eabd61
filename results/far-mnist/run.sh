#!/usr/bin/env bash
# Table 2 of paper 2 on MNIST: audits the networks that results/confidence-mnist/run.sh trained.
#   NESCIO_DATA=folder-of-the-data results/far-mnist/run.sh runs
set -euo pipefail
runs=${1:?the folder of the runs}
here=$(dirname "$0")
for network in plain ceda acet; do
    nescio audit "$runs/$network" --no-scaling -o "$here/$network"
done

# the plain network without weight decay
nescio train softmax --data mnist --network lenet --schedule step --epochs 4 -o "$runs/free"
nescio audit "$runs/free" --no-scaling --trials 2000 -o "$here/free"
