"""One pass over batches of any size gives what all rows at once give, also far from zero."""

import pytest
import torch

from nescio.detectors.moments import Moments
from nescio.errors import NescioError


def drawn(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (200,), generator=generator)
    rows, mixed = (torch.randn(count, 5, generator=generator, dtype=dtype) for count in (200, 5))
    return rows @ mixed + labels[:, None], labels


def added(rows, labels, batch, each, classes=4):
    found = Moments(classes, rows.shape[1], each)
    for some, own in zip(rows.split(batch), labels.split(batch), strict=True):
        found.add(some, own)
    return found.close()


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("batch", [1, 17, 200])
def test_agrees_with_all_rows_at_once(each, batch, seed, monkeypatch):
    monkeypatch.setattr(
        "nescio.detectors.moments.PIECE", 40
    )  # so that batches wait, are merged and are divided
    monkeypatch.setattr("nescio.detectors.moments.NARROWEST", 2)  # several strips
    rows, labels = drawn(seed)
    found = added(rows, labels, batch, each)
    assert found.count.tolist() == labels.bincount(minlength=4).tolist()
    scatter = []
    for label in range(3):
        own = rows[labels == label]
        torch.testing.assert_close(found.mean[label], own.mean(0))
        scatter.append(own.T.cov(correction=0) * len(own))
    expected = torch.stack([*scatter, torch.zeros(5, 5).double()]) if each else sum(scatter)
    torch.testing.assert_close(found.scatter, expected)
    mean, whole = found.overall
    torch.testing.assert_close(mean, rows.mean(0))
    torch.testing.assert_close(whole, rows.T.cov(correction=0) * len(rows))


def test_a_large_mean_costs_no_digits(monkeypatch):
    monkeypatch.setattr("nescio.detectors.moments.PIECE", 20)
    rows, labels = drawn(0)
    near, far = added(rows, labels, 20, False), added(rows + 1e7, labels, 20, False)
    torch.testing.assert_close(far.scatter, near.scatter, rtol=1e-6, atol=1e-6)


def test_rows_that_wait_are_copies(seed):
    """A model may write its next features where the last were, or hand out a view of something large."""
    rows, labels = drawn(seed)
    found, room = Moments(4, 5), torch.empty(17, 5, dtype=rows.dtype)
    for some, own in zip(rows.split(17), labels.split(17), strict=True):
        found.add(room[: len(some)].copy_(some), own)
    torch.testing.assert_close(found.close().scatter, added(rows, labels, 200, False).scatter)


def test_a_large_batch_keeps_the_digits_of_its_mean(seed):
    generator = torch.Generator().manual_seed(seed)
    rows, labels = 10_000 + torch.randn(120_000, 3, generator=generator), torch.arange(120_000) % 3
    found = added(rows, labels, 120_000, False)
    expected = torch.stack([rows[labels == label].double().mean(0) for label in range(3)])
    torch.testing.assert_close(
        found.mean[:3], expected, rtol=1e-6, atol=0
    )  # 6e-8 is a single's last digit


def test_refuses_what_is_not_finite_and_too_little():
    rows, labels = drawn(0)
    rows[3, 2] = torch.inf
    with pytest.raises(NescioError, match="NaN or infinite"):
        added(rows, labels, 20, False)
    with pytest.raises(NescioError, match="1 input to learn from"):
        added(rows[:1], labels[:1], 1, False)
