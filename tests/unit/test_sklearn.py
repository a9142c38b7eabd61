import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import scipy.stats
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import nescio
from nescio.errors import NescioError
from nescio.methods import METHODS
from nescio.sklearn import NescioClassifier

QUICK = ("softmax", "duq")


def quick(name="softmax", **settings):
    return NescioClassifier(name, **({"hidden": (16,), "epochs": 10, "random_state": 0} | settings))


@pytest.mark.slow
@parametrize_with_checks([NescioClassifier(name) for name in METHODS])
def test_scikit_learn_takes_every_method_for_one_of_its_own(estimator, check):
    check(estimator)


def test_with_reject_two_of_its_checks_cannot_hold_and_the_page_says_so():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "tables.md").read_text(encoding="utf-8")
    assert "Without `reject` it passes" in page
    for reject, failing in (
        (None, set()),
        (0.5, {"check_classifiers_classes", "check_classifiers_train"}),
    ):
        results = check_estimator(
            quick(hidden=(100, 100), reject=reject), on_fail=None, on_skip=None
        )
        assert {one["check_name"] for one in results if one["status"] == "failed"} == failing


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def blobs():
    """Two classes that overlap, so that scores have no ties and answers are sometimes wrong."""
    return draw_blobs(np.random.default_rng(0), 300)


def draw_blobs(rng, count):
    labels = rng.integers(2, size=count)
    return rng.normal(size=(count, 2)) + 2 * labels[:, None], labels


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name not in QUICK]


class TestQuality:
    @pytest.mark.parametrize("name", [*QUICK, *OTHERS])
    def test_learns_digits_and_tells_those_it_never_saw(self, name):
        x, y = load_digits(return_X_y=True)
        train, test, labels, right = train_test_split(x[y < 7], y[y < 7], random_state=0)
        classifier = NescioClassifier(name, random_state=0).fit(train, labels)
        assert classifier.score(test, right) > 0.97
        assert (
            nescio.metrics.auroc(classifier.uncertainty(test), classifier.uncertainty(x[y >= 7]))
            > 0.92
        )

    @pytest.mark.parametrize("name", QUICK)
    @pytest.mark.parametrize(("load", "least"), [(load_breast_cancer, 0.94), (load_iris, 0.93)])
    def test_is_accurate_on_small_tables(self, name, load, least):
        train, test, labels, right = train_test_split(*load(return_X_y=True), random_state=0)
        assert NescioClassifier(name, random_state=0).fit(train, labels).score(test, right) > least

    @pytest.mark.parametrize("name", QUICK)
    def test_accepts_the_fraction_that_it_promised(self, name):
        """The accepted fraction is Beta(k, n + 1 − k) over n = 99 calibration inputs, k = 90."""
        shares = []
        for seed in range(40):
            rng = np.random.default_rng(seed)
            new, _ = draw_blobs(rng, 2000)
            classifier = NescioClassifier(
                name, hidden=(8,), epochs=3, reject=0.9, calibration=0.33, random_state=seed
            )
            shares.append((classifier.fit(*draw_blobs(rng, 300)).predict(new) != -1).mean())
        spread = np.sqrt(0.9 * 0.1 / 101 + 0.9 * 0.1 / 2000)
        assert abs(np.mean(shares) - 0.9) < 3 * spread / np.sqrt(40)
        assert 0.5 * spread < np.std(shares) < 1.5 * spread


class TestAnswers:
    def test_probabilities_and_classes_are_those_of_the_network(self, iris):
        x, y = iris
        classifier = quick().fit(x, y)
        logits = classifier.model_(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(
            classifier.predict_proba(x), scipy.special.softmax(logits, 1), rtol=1e-12
        )
        np.testing.assert_array_equal(classifier.predict(x), logits.argmax(1))

    def test_kernels_of_duq_become_fractions(self, iris):
        x, y = iris
        classifier = quick("duq").fit(x, y)
        kernels = np.exp(classifier.model_(torch.from_numpy(x)).detach().numpy())
        np.testing.assert_allclose(
            classifier.predict_proba(x), kernels / kernels.sum(1, keepdims=True), rtol=1e-9
        )
        np.testing.assert_allclose(
            classifier.uncertainty(x), -np.log(kernels.max(1)), rtol=1e-9, atol=1e-12
        )

    def test_the_uncertainty_may_be_another_score(self, iris):
        x, y = iris
        found = quick(uncertainty_score="entropy").fit(x, y)
        p = found.predict_proba(x)
        np.testing.assert_allclose(
            found.uncertainty(x), scipy.stats.entropy(p, axis=1), rtol=1e-9, atol=1e-12
        )

    def test_rejects_what_is_above_the_threshold(self, blobs):
        x, y = blobs
        classifier = quick(reject=0.8).fit(x, y)
        known = classifier.uncertainty(x) <= classifier.threshold_
        assert 0.6 < known.mean() < 1
        best = classifier.predict_proba(x).argmax(1)
        np.testing.assert_array_equal(classifier.predict(x), np.where(known, best, -1))

    def test_without_reject_there_is_always_a_class(self, blobs):
        x, y = blobs
        classifier = quick().fit(x, y)
        assert classifier.threshold_ is None
        assert set(classifier.predict(1000 * x)) <= {0, 1}

    @pytest.mark.parametrize(
        ("kinds", "unknown"),
        [
            (np.array(["a", "bc"]), "unknown"),
            (np.array(["a", "bc"], dtype=object), "unknown"),
            (np.array([3, 7], dtype=np.uint8), -1),
            (np.array([1.0, 2.0]), -1),
            (np.array([False, True]), -1),
        ],
        ids=lambda one: str(getattr(one, "dtype", one)),
    )
    def test_labels_of_any_kind(self, blobs, kinds, unknown):
        x, y = blobs
        predicted = quick(reject=0.8).fit(x, kinds[y]).predict(x)
        plain = quick(reject=0.8).fit(x, y).predict(x)
        assert set(predicted) == {*kinds, unknown}
        np.testing.assert_array_equal(predicted == unknown, plain == -1)
        np.testing.assert_array_equal(predicted == kinds[1], plain == 1)
        assert quick(reject=0.8).fit(x, kinds[y]).score(x, kinds[y]) == (plain == y).mean()

    def test_unknown_may_have_another_name(self, blobs):
        x, y = blobs
        found = quick(reject=0.8, unknown=99).fit(x, y - 1)
        assert set(found.predict(x)) == {-1, 0, 99}

    def test_numbers_far_from_zero_keep_their_digits(self, iris):
        x, y = iris
        near, far = (quick().fit(shift + x, y).predict_proba(shift + x) for shift in (0, 1e8))
        np.testing.assert_allclose(far, near, atol=1e-5)

    def test_a_column_that_never_varies(self, iris):
        x, y = iris
        assert (
            quick(epochs=30)
            .fit(np.c_[x, np.full(len(x), 5e5)], y)
            .score(np.c_[x, np.full(len(x), 5e5)], y)
            > 0.9
        )

    @pytest.mark.parametrize("seed", range(5))
    def test_a_class_too_rare_for_every_batch(self, blobs, seed):
        x, y = blobs[0], np.arange(300) < 2
        assert quick("duq", epochs=2, random_state=seed).fit(x, y).score(x, y) > 0.9


class TestTools:
    def test_pipeline_and_grid(self, blobs):
        pipeline = make_pipeline(StandardScaler(), quick(epochs=3))
        grid = {
            "nescioclassifier__method": ["softmax", "duq"],
            "nescioclassifier__hidden": [(4,), (8, 8)],
        }
        found = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(*blobs)
        assert len(found.cv_results_["mean_test_score"]) == 4
        assert found.best_score_ > 0.8
        assert found.score(*blobs) > 0.8

    @pytest.mark.slow  # each process loads torch anew
    def test_two_processes_find_what_one_finds(self, blobs):
        settings = {"scoring": "neg_log_loss", "error_score": "raise"}
        one, two = (
            cross_val_score(quick(), *blobs, cv=2, n_jobs=jobs, **settings) for jobs in (1, 2)
        )
        np.testing.assert_array_equal(one, two)

    def test_clone_and_set_params(self, blobs):
        first = quick("duq", method_settings={"length_scale": 0.3}, reject=0.9)
        second = clone(first).set_params(method_settings={"length_scale": 0.2})
        assert second.fit(*blobs).model_.length_scale == 0.2
        assert first.fit(*blobs).model_.length_scale == 0.3

    @pytest.mark.parametrize("name", METHODS)
    def test_survives_pickling(self, name, blobs):
        x, y = blobs
        classifier = quick(name, epochs=1, reject=0.9).fit(x, y)
        classifier.predict(x)  # what a method keeps from its last run goes along
        again = pickle.loads(pickle.dumps(classifier))
        np.testing.assert_array_equal(again.predict(x), classifier.predict(x))
        np.testing.assert_array_equal(again.uncertainty(x), classifier.uncertainty(x))

    def test_its_detector_is_saved_without_a_pickle(self, blobs, tmp_path):
        x, y = blobs
        classifier = quick(reject=0.8).fit(x, y)
        nescio.save(classifier.detector_, tmp_path / "d.nescio")
        np.testing.assert_array_equal(
            nescio.load(tmp_path / "d.nescio").predict(x).numpy(), classifier.predict(x)
        )

    def test_is_found_in_the_package(self):
        assert nescio.sklearn.NescioClassifier is NescioClassifier


class TestManners:
    @pytest.mark.parametrize("name", METHODS)
    def test_same_random_state_same_numbers(self, name, blobs):
        x, y = blobs
        first, again, other = (
            quick(name, epochs=1, reject=0.9, random_state=state).fit(x, y).predict_proba(x)
            for state in (3, np.random.RandomState(3), 4)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()

    @pytest.mark.parametrize("name", METHODS)
    def test_leaves_torch_as_it_was(self, name, blobs):
        x, y = blobs
        before, threads, default = (
            torch.get_rng_state(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
        )
        numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
        classifier = quick(name, epochs=1, reject=0.9).fit(x, y)
        classifier.predict(x), classifier.predict_proba(x), classifier.uncertainty(x)
        assert torch.equal(torch.get_rng_state(), before)
        assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002
        assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, default)

    @pytest.mark.parametrize("verbose", [False, True])
    def test_shows_bars_only_when_asked(self, verbose, blobs, monkeypatch, capsys):
        monkeypatch.setattr("nescio.progress.DELAY", -1.0)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        x, y = blobs
        classifier = quick(reject=0.9, verbose=verbose).fit(x, y)
        classifier.predict(x), classifier.predict_proba(x), classifier.uncertainty(x)
        assert bool(capsys.readouterr().err) == verbose

    def test_does_not_write_on_its_data(self, blobs):
        x, y = blobs[0].copy(), blobs[1].copy()
        quick(reject=0.9).fit(x, y).predict(x)
        np.testing.assert_array_equal(x, blobs[0])
        np.testing.assert_array_equal(y, blobs[1])


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"reject": 0.99},
                r"reject=0\.99 takes at least 99 calibration inputs, and some to train on, but "
                r"calibration=0\.2 of 300 is 60",
            ),
            (
                {"reject": 0.5, "calibration": 0.999},
                "and some to train on, but calibration=0.999 of 300 is 300",
            ),
            (
                {"reject": 1.0},
                "reject must be a number strictly between 0 and 1, got 1.0",
            ),
            (
                {"reject": 0.9, "calibration": 1.0},
                "calibration must be a number strictly between 0 and 1, got",
            ),
            ({"reject": "0.9"}, "reject must be a number"),
            ({"reject": 0.9, "calibration": 0}, "calibration must be a number"),
            ({"reject": 0.9, "unknown": 1}, "1 is a class of these data, and cannot also mean"),
            ({"unknown": "none"}, "unknown must be of the type of the classes, 0, got 'none'"),
            ({"method": "duk"}, "unknown method 'duk'; did you mean 'duq'"),
            (
                {"method": "duq", "method_settings": {"length": 1}},
                "unknown setting of duq 'length'; did you mean 'length_scale'",
            ),
            ({"method_settings": 3}, "method_settings must be a dict, got 3"),
            (
                {"method_settings": {"samples": 5}},
                "unknown setting of softmax 'samples'; there are none$",
            ),
            ({"uncertainty_score": "entropi"}, "unknown score 'entropi'"),
            (
                {"uncertainty_score": "mutual_information"},
                "compares draws, of which 'softmax' has none",
            ),
            ({"epochs": 0}, "epochs must be an int ≥ 1"),
            (
                {"hidden": -3},
                r"hidden must be at most 1000 widths, such as \(100, 100\), got -3",
            ),
            ({"learning_rate": -1}, "learning_rate must be a number"),
        ],
    )
    def test_settings_that_cannot_be(self, blobs, change, message):
        with pytest.raises(NescioError, match=message):
            quick().set_params(**change).fit(*blobs)

    @pytest.mark.parametrize("scale", [1e200, 1e307])
    def test_numbers_too_large_to_be_standardised(self, blobs, scale):
        x, y = blobs
        with pytest.raises(
            NescioError,
            match=r"feature 1 cannot be standardised in float64, as its values reach .*e\+",
        ):
            quick().fit(np.column_stack([x[:, 0], x[:, 1] * scale]), y)

    def test_minus_one_is_a_class_already(self, blobs):
        x, y = blobs
        with pytest.raises(NescioError, match="-1 is a class of these data"):
            quick(reject=0.8).fit(x, y - 1)
        assert set(quick().fit(x, y - 1).predict(x)) == {-1, 0}

    def test_one_class(self, blobs):
        with pytest.raises(
            NescioError, match="all 300 labels are of one class, 'a'; give at least two"
        ):
            quick().fit(blobs[0], ["a"] * 300)

    def test_a_class_that_is_set_aside_as_a_whole(self, blobs):
        with pytest.raises(
            NescioError,
            match="no input of class 'b' is left to train on, once 240 of 300 are set",
        ):
            quick(reject=0.9, calibration=0.8).fit(blobs[0], ["a"] * 299 + ["b"])

    def test_tables_as_scikit_learn_refuses_them(self, blobs):
        x, y = blobs
        classifier = quick().fit(x, y)
        for bad, kind, message in (
            (np.where(x == x[0], np.nan, x), ValueError, "Input X contains NaN"),
            (scipy.sparse.csr_array(x), TypeError, "Sparse data was passed"),
            (x[:, :1], ValueError, "X has 1 features, but NescioClassifier is expecting 2"),
        ):
            with pytest.raises(kind, match=message):
                classifier.predict(bad)
        with pytest.raises(ValueError, match="Input X contains NaN"):
            quick().fit(np.where(x == x[0], np.nan, x), y)
        with pytest.raises(ValueError, match="Unknown label type"):
            quick().fit(x, x[:, 0])
