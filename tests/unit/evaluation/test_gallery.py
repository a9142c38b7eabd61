"""Galleries: the same images under the same attack, for every model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import nescio
from nescio.core.attacks import ATTACKS
from nescio.data import Known, Samples
from nescio.errors import NescioError
from nescio.evaluation.gallery import attack_gallery
from nescio.methods import Softmax
from nescio.models import mlp
from nescio.records import Gallery


@pytest.fixture(scope="module")
def known():
    return nescio.data.load("digits")


@pytest.fixture
def models(seed):
    torch.manual_seed(seed)
    return {"one": Softmax(mlp(64, 10)), "other": mlp(64, 10)}


def pixels(images):
    return torch.tensor(images)


@pytest.mark.parametrize("start", ["noise", "samples"])
def test_rows_are_what_the_attack_made_of_the_same_images(known, models, seed, start):
    record = attack_gallery(models, known, start, images=5, steps=4, seed=seed)
    x = pixels(record.images)
    assert x.shape == (5, 1, 8, 8)
    assert [row.name for row in record.rows] == ["one", "other"]
    for row, model in zip(record.rows, models.values(), strict=True):
        found = pixels(row.images)
        assert found.shape == x.shape
        assert float((found - x).abs().max()) <= 0.3 + 1e-3  # both are rounded
        assert float(found.min()) >= 0
        assert float(found.max()) <= 1
        before, after = (model(images).softmax(-1) for images in (x, found))
        torch.testing.assert_close(torch.tensor(row.confidence), after.amax(-1), rtol=0, atol=0.01)
        torch.testing.assert_close(
            torch.tensor(row.confidence_before), before.amax(-1), rtol=0, atol=0.01
        )
        if start == "noise":
            assert all(a >= b for a, b in zip(row.confidence, row.confidence_before, strict=True))
            assert sum(row.confidence) > sum(row.confidence_before)
        else:
            truth = [known.classes.index(kind) for kind in record.kinds]
            assert after[range(5), truth].mean() < before[range(5), truth].mean()
    assert record.rows[0].images != record.rows[1].images


def test_noise_is_half_permuted_half_uniform(known, models, seed):
    record = attack_gallery(models, known, images=5, steps=1, seed=seed)
    assert record.kinds == ("permuted",) * 3 + ("uniform",) * 2
    assert record.start == "noise"
    assert record.data == "digits"


def test_samples_are_test_images_with_their_classes(known, models, seed):
    record = attack_gallery(models, known, "samples", images=6, steps=1, seed=seed)
    inputs, labels = known.test.take(slice(None))
    for image, kind in zip(pixels(record.images), record.kinds, strict=True):
        (at,) = np.flatnonzero((inputs - image).abs().flatten(1).amax(1) < 1e-3)[:1]
        assert known.classes[int(labels[at])] == kind
    assert set(record.rows[0].answers) <= set(known.classes)


def test_it_says_how_and_is_the_same_from_the_same_seed(known, models, seed):
    record = attack_gallery(models, known, images=2, steps=10, eps=0.2, seed=seed)
    how = record.provenance.settings["attack"]
    assert (how["eps"], how["steps"], how["objective"]) == (0.2, 10, "confidence")
    assert how["step_size"] == pytest.approx(0.02)  # ten of the paper's would end far from the edge
    assert Gallery.from_json(record.to_json()) == record
    again = attack_gallery(models, known, images=2, steps=10, eps=0.2, seed=seed)
    assert (again.images, again.rows) == (record.images, record.rows)
    assert attack_gallery(models, known, images=2, steps=10, seed=seed + 1).images != record.images
    assert record.provenance.seed == seed


def test_as_many_steps_as_the_papers_are_as_long(known, models):
    settings = attack_gallery(models, known, "samples", images=1, steps=80).provenance.settings[
        "attack"
    ]
    assert settings == {
        **settings,
        "eps": 0.3,
        "step_size": ATTACKS["adversarial_samples"].step_size,
    }


def test_images_in_colour_have_a_smaller_ball(seed):
    torch.manual_seed(seed)
    part = Samples(torch.rand(6, 3, 4, 4), torch.arange(6) % 2, name="spots")
    spots = Known("spots", part, part, ("a", "b"), None, "image")
    record = attack_gallery(
        {"net": nn.Sequential(nn.Flatten(), nn.Linear(48, 2))}, spots, "samples", images=2
    )
    assert record.provenance.settings["attack"]["eps"] == 0.1
    assert pixels(record.images).shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": "nose"}, "unknown start of an attack 'nose'; did you mean 'noise'"),
        ({"images": 0}, "images must be an int ≥ 1, got 0"),
        ({"images": 101}, "images must be an int ≥ 1 and < 101"),
        ({"steps": 0}, "steps must be an int ≥ 1"),
        ({"eps": -0.1}, "eps must be a number from 0"),
        ({"seed": -1}, "seed"),
        ({"models": {}}, "at least one model, got none"),
        ({"models": {"small": mlp(64, 7)}}, "small has 7 classes, but digits has 10"),
    ],
)
def test_bad_input_is_reported(known, models, change, message):
    models = change.pop("models", models)
    with pytest.raises(NescioError, match=message):
        attack_gallery(models, known, **change)


def test_more_images_than_there_are_and_tables_are_reported(known, models):
    few = replace(known, test=known.test.select(torch.arange(3)))
    with pytest.raises(NescioError, match="images=8, but digits has only 3 test images"):
        attack_gallery(models, few)
    with pytest.raises(
        NescioError, match=r"a gallery shows images.*; iris has inputs of shape \(4,\)"
    ):
        attack_gallery(models, nescio.data.load("iris"))
