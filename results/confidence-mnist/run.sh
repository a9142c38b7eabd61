#!/usr/bin/env bash
# MNIST with LeNet: plain, CEDA and ACET, against other images, noise and attacks (paper 2, table 1, figures 2 and 4).
#   NESCIO_DATA=folder-of-the-data results/confidence-mnist/run.sh runs [quick|paper]
# Started again, it goes on where it was cut off. Set OMP_NUM_THREADS to the cores it may use.
set -euo pipefail
runs=${1:?a folder for the runs}
scale=${2:-quick}
mkdir -p "$runs"
how=(--data mnist --network lenet --schedule step)
search=(--steps 10 --first-steps 2)
epochs=4
if [ "$scale" = paper ]; then
    how+=(--augment crop)
    search=(--steps 40)
    epochs=100
fi

train() { # folder, then the words of `nescio train`
    local folder=$runs/$1
    shift
    nescio train "$@" "${how[@]}" --epochs "$epochs" -o "$folder"
}

# the authors halve both losses but not the weight decay, 5e-4 ‖w‖²: as a gradient beside whole ones that is twice as much
train plain softmax --weight-decay 1e-3
train ceda ceda --weight-decay 2e-3
train acet acet "${search[@]}" --weight-decay 2e-3 --checkpoint-every 100
for name in plain ceda acet; do
    nescio evaluate "$runs/$name" --scores max_prob --attacked 2000 \
        --unknown fashion_mnist nist_letters omniglot notmnist cifar10 noise adversarial_noise adversarial_samples
done
nescio compare plain="$runs/plain" ceda="$runs/ceda" acet="$runs/acet" -o "$runs/figures"
nescio attack "$runs/plain" "$runs/ceda" "$runs/acet" -o "$runs/figures/attack.svg"
