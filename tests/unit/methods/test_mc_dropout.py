"""Dropout at prediction: each draw one function, with the mean and the spread that dropout has."""

import collections

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nescio
from nescio.errors import NescioError
from nescio.methods import MCDropout, stacked
from nescio.models import mlp

KINDS = [
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
]
SHAPES = {
    nn.Dropout1d: (6, 4),
    nn.Dropout2d: (6, 3, 4),
    nn.Dropout3d: (6, 2, 3, 2),
    nn.FeatureAlphaDropout: (6, 3, 4),
}


class Shared(collections.UserList):
    """A list that is none of the containers that each replica of a module has for itself."""


class Counted(nn.Identity):
    """Remembers the shapes it was run on."""

    def __init__(self):
        super().__init__()
        self.shapes = Shared()  # with its replicas

    def forward(self, x):
        self.shapes.append(tuple(x.shape))
        return x


class Looks(nn.Identity):
    """Looks at its values, which no vectorised network can."""

    def forward(self, x):
        return x if x.sum().item() < 1e9 else -x


class Broken(nn.Identity):
    def forward(self, x):
        raise KeyError("broken")


def thin(*more, p=0.5):
    """A small network in float64, with dropout before its last layer."""
    return nn.Sequential(
        nn.Linear(4, 12), nn.ReLU(), nn.Dropout(p), *more, nn.Linear(12, 3)
    ).double()


def ready(net, samples=20):
    return MCDropout(net, samples=samples).eval()


def points(count=9, seed=0):
    return torch.randn(count, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "more", [(), (Looks(),), (nn.BatchNorm1d(12),)], ids=["plain", "in a loop", "BatchNorm"]
)
@pytest.mark.parametrize("together", [1, 7, 40, 10**6])
def test_a_draw_is_one_function(more, together, monkeypatch):
    model, x = ready(thin(*more)), points()
    want = nescio.predict(model, x)
    monkeypatch.setattr(stacked, "MAX_ROWS", together)
    torch.testing.assert_close(nescio.predict(model, x), want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(nescio.predict(model, x, batch_size=2), want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        nescio.predict(model, x.flip(0)), want.flip(1), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(nescio.predict(model, x[5:6]), want[:, 5:6], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_mean_and_variance_of_draws_are_those_of_dropout(p, seed):
    torch.manual_seed(seed)
    net, x, samples = thin(p=p), points(5), 40_000
    found = nescio.predict(ready(net, samples), x, seed=seed)
    hidden, last = net[1](net[0](x)), net[-1]
    want = p / (1 - p) * hidden.square() @ last.weight.square().T
    centred = found - net.eval()(x)
    assert (centred.mean(0).abs() < 5 * (want / samples).sqrt()).all()
    off = (
        (centred.pow(4).mean(0) - want.square()) / samples
    ).sqrt()  # the standard error of a variance
    assert ((centred.square().mean(0) - want).abs() < 5 * off).all()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_dropout_does_to_one_input_what_torch_does_in_training(kind, seed):
    x = torch.randn(1, *SHAPES.get(kind, (50,)), dtype=torch.float64)
    layer = kind(0.3)
    torch.manual_seed(seed)
    found = ready(nn.Sequential(layer), samples=64)(x)[:, 0].flatten(1)
    torchs = torch.stack([layer.train()(x)[0].flatten() for _ in range(64)])
    ends = torch.stack([torchs.amin(0), torchs.amax(0)])  # of each entry, dropped and kept
    off, which = (found - ends[:, None]).abs().min(0)
    assert off.max() < 1e-12
    assert (which.double().mean(0) > 0).all()
    assert (which.double().mean(0) < 1).all()


@pytest.mark.parametrize("kind", [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_whole_channels_are_silenced(kind):
    x = torch.rand(3, *SHAPES[kind]) + 1
    found = ready(nn.Sequential(kind(0.4)), samples=100)(x)
    silent = (found == 0).flatten(3)  # draws, inputs, channels, places
    assert (silent == silent[:, :1, :, :1]).all()
    assert 0.3 < silent.float().mean() < 0.5  # 600 coins
    torch.testing.assert_close((found / x)[found > 0].unique().mean(), torch.tensor(1 / 0.6))


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(kind, seed):
    x = torch.randn(400, 30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = (x - x.mean()) / x.std()
    torch.manual_seed(seed)
    found = ready(nn.Sequential(kind(0.25)), samples=300)(x)
    assert found.mean().item() == pytest.approx(0, abs=0.05)
    assert found.square().mean().item() == pytest.approx(1, abs=0.05)


def test_batch_norm_goes_by_its_statistics_and_keeps_them():
    net = thin(nn.BatchNorm1d(12), nn.Flatten())
    net.train()(points(30))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    model, far = ready(net), points() * 50 + 300
    alone, among = model(points()[:1]), model(torch.cat([points()[:1], far]))
    torch.testing.assert_close(alone, among[:, :1], rtol=1e-12, atol=1e-12)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("inplace", [False, True])
def test_what_stands_before_the_first_dropout_is_run_once(inplace):
    before, after = Counted(), Counted()
    net = nn.Sequential(nn.Linear(4, 12), before, nn.Dropout(0.5, inplace), after, nn.Linear(12, 3))
    model = ready(net)
    for _ in range(3):
        model(torch.randn(5, 4))
    # at first two and three inputs, to find their axis; then one vectorised run each time
    assert before.shapes == after.shapes == [(2, 12), (3, 12), (5, 12), (5, 12), (5, 12)]


def test_an_inplace_dropout_drops_the_same():
    plain, inplace = thin(), thin()
    inplace.load_state_dict(plain.state_dict())
    inplace[2].inplace = True
    torch.manual_seed(0)
    assert torch.equal(ready(plain)(points()), ready(inplace)(points()))


def test_a_network_that_looks_at_its_values_is_run_in_a_loop():
    counted = Counted()
    model = ready(thin(counted, Looks()), samples=200)
    found = model(points())
    assert len(counted.shapes) == 2 + 1 + 200  # two to find the axis of the inputs, and one attempt
    assert len(found.unique(dim=0)) > 150  # of 4096 masks
    hidden = model.net[1](model.net[0](points()))
    want = hidden.square() @ model.net[-1].weight.square().T
    assert found.var(0).mean().item() == pytest.approx(want.mean().item(), rel=0.3)


def test_a_branch_without_dropout_is_left_alone():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.25)

        def forward(self, x):
            return x + 10 * self.drop(x)

    x = torch.rand(3, 8, dtype=torch.float64) + 1
    factor = ((ready(Residual(), samples=50)(x) / x) - 1) / 10
    torch.testing.assert_close(
        factor.unique().round(decimals=6).unique(), torch.tensor([0, 1.333333]).double()
    )
    assert (factor - factor[:, :1]).abs().max() < 1e-9


def test_a_dropout_that_is_used_twice_draws_twice():
    drop = nn.Dropout(0.5)
    found = ready(nn.Sequential(drop, nn.Sequential(nn.Identity(), drop)), samples=50)(
        torch.ones(2, 400)
    )
    assert set(found.unique().tolist()) == {0.0, 4.0}
    assert (found == 4).float().mean().item() == pytest.approx(0.25, abs=0.02)


def test_dropouts_are_found_however_deep():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"a": nn.Sequential(nn.Dropout(0.5))})

        def forward(self, x):
            return self.parts["a"](x)

    assert set(ready(nn.Sequential(Inner()))(torch.ones(1, 50)).unique().tolist()) == {0.0, 2.0}


def test_every_draw_has_a_mask_of_its_own():
    found = ready(nn.Sequential(nn.Dropout(0.5)), samples=100)(torch.ones(2, 64))
    assert len(found.unique(dim=0)) == 100
    between = torch.corrcoef(found[:, 0])
    assert between.fill_diagonal_(0).abs().max() < 0.65  # 5 standard errors of 64 coins


def test_same_seed_same_draws_and_no_generator_moves():
    model, x = ready(thin()), points()
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = model(x)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(model(x), first)
    assert torch.equal(nescio.predict(model, x, seed=3), nescio.predict(model, x, seed=3))
    assert not torch.equal(nescio.predict(model, x, seed=3), nescio.predict(model, x, seed=4))


def test_in_train_mode_it_is_the_plain_network():
    model, x = ready(thin()).train(), points()
    torch.manual_seed(1)
    found = model(x)
    torch.manual_seed(1)
    assert torch.equal(found, model.net(x))
    assert found.shape == (9, 3)
    assert not torch.equal(model(x), found)


def test_the_loss_is_cross_entropy_with_dropout_on():
    model, x, y = ready(thin()).train(), points(), torch.arange(9) % 3
    torch.manual_seed(1)
    loss, logits = model.loss(x, y)
    torch.manual_seed(1)
    assert torch.equal(logits, model.net(x))
    torch.testing.assert_close(loss, -logits.log_softmax(1)[range(9), y].mean())


def test_slopes_reach_the_inputs():
    model = ready(
        nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2)).double(),
        samples=4,
    )
    assert torch.autograd.gradcheck(model, points(3).requires_grad_())


@pytest.mark.parametrize("more", [(), (Broken(),)], ids=["well", "with an error"])
def test_the_network_is_left_as_found(more):
    net = thin(*more)
    model = ready(net)
    hook = net[2].register_forward_hook(lambda *_: None)
    net[2].train()  # as those do who know no other way
    if more:
        with pytest.raises(KeyError):
            model(points())
    else:
        model(points())
    assert list(net[2]._forward_hooks) == [hook.id]
    assert [module.training for module in net.modules()] == [
        module is net[2] for module in net.modules()
    ]


def test_a_dropout_left_in_train_mode_drops_once():
    model, x = ready(nn.Sequential(nn.Dropout(0.5))), torch.ones(3, 200)
    model.net[0].train()
    assert set(model(x).unique().tolist()) == {0.0, 2.0}


class Functional(nn.Linear):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)


class Unused(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.drop = nn.Dropout(0.5)


@pytest.mark.parametrize(
    "net",
    [nn.Linear(4, 3), mlp(4, 3, dropout=0.0), nn.Sequential(nn.Dropout(0.0)), Functional(4, 3)],
)
def test_a_network_without_dropout_modules_is_refused(net):
    with pytest.raises(NescioError, match="no dropout module with p > 0"):
        MCDropout(net)


@pytest.mark.parametrize(
    ("net", "name"),
    [
        (Unused(4, 3), "drop"),
        (thin(p=1e-12), "2"),
        (nn.Sequential(nn.Dropout(1.0), nn.Linear(4, 3)), "0"),
    ],
)
def test_draws_that_are_all_the_same_are_an_error(net, name):
    with pytest.raises(
        NescioError,
        match=rf"all 20 draws are the same for 9 inputs: the dropout modules \({name}\)",
    ):
        nescio.predict(ready(net.double()), points())


def test_inputs_that_silence_every_unit_themselves_are_no_error():
    net = thin()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.zero_()
    dead = -torch.ones(2, 4, dtype=torch.float64)
    found = ready(net)(dead)
    assert torch.equal(found, net[-1].bias.expand(20, 2, 3))
    assert torch.equal(ready(net)(torch.cat([dead, -dead]))[:, :2], found)


@pytest.mark.parametrize("samples", [0, -1, 2.5, "3", True, None, 10**9])
def test_impossible_numbers_of_draws_are_refused(samples):
    with pytest.raises(NescioError, match="samples must be an int"):
        MCDropout(thin(), samples=samples)


def test_the_number_of_draws_survives_saving(tmp_path):
    nescio.save(MCDropout(mlp(4, 3, dropout=0.1), samples=7), tmp_path / "m")
    assert len(nescio.predict(nescio.load(tmp_path / "m"), torch.zeros(2, 4))) == 7


class TimeFirst(nn.Module):
    """Dropout on tensors `(T, N, F)`."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop, self.out = nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.drop(self.layer(x.transpose(0, 1))).mean(0))


def test_inputs_on_another_axis_share_their_mask_too():
    model, x = MCDropout(TimeFirst(), samples=9), torch.randn(11, 4, 3)
    whole = nescio.predict(model, x)
    torch.testing.assert_close(nescio.predict(model, x, batch_size=7), whole)
    torch.testing.assert_close(nescio.predict(model, x[:5]), whole[:, :5])


def test_a_tensor_without_the_inputs_has_one_mask():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.out = nn.Dropout(0.5), nn.Linear(3, 2)

        def forward(self, x):
            return self.out(x) * self.drop(torch.ones(7, 3)).sum()

    x = torch.randn(5, 3)
    whole = nescio.predict(MCDropout(Odd(), samples=4), x)
    assert len(whole.sum((1, 2)).unique()) > 1
    model = MCDropout(Odd(), samples=4)
    torch.testing.assert_close(nescio.predict(model, x)[:, :2], nescio.predict(model, x[:2]))


def test_dropout_that_is_always_on_drops_once():
    class Always(nn.Dropout):
        def forward(self, x):
            return F.dropout(x, self.p, True)

    model = MCDropout(nn.Sequential(nn.Flatten(), Always(0.5)), samples=200)
    draws = nescio.predict(model, torch.ones(4, 50))
    assert (draws == 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert set(draws.unique().tolist()) == {0.0, 2.0}


def test_a_loop_over_draws_gives_each_a_fresh_input():
    class Writes(nn.Identity):
        def forward(self, x):
            return x.add_(1.0)

    model = MCDropout(
        nn.Sequential(Writes(), Looks(), nn.Linear(3, 3), nn.Dropout(0.5)), samples=40
    )
    x = torch.zeros(2, 3)
    want = 2 * model.net[2](x + 1)  # of what is kept
    draws = nescio.predict(model, x)
    torch.testing.assert_close(draws, torch.where(draws == 0, 0.0, want))
    assert 0.3 < (draws == 0).double().mean() < 0.7


def test_a_network_in_eval_mode_is_trained_with_dropout(blobs):
    torch.manual_seed(0)
    start = mlp(2, 3, hidden=(16,), dropout=0.5).state_dict()
    trained = []
    for mode in (True, False):
        net = mlp(2, 3, hidden=(16,), dropout=0.5).train(mode)
        net.load_state_dict(start)
        nescio.train(MCDropout(net), blobs, epochs=1, seed=3)
        trained.append(net.state_dict())
        assert net.training is mode
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in start)


def test_the_second_argument_is_no_number():
    with pytest.raises(NescioError, match="normalise must be a module"):
        MCDropout(mlp(2, 3, dropout=0.5), 20)
    with pytest.raises(NescioError, match="Module, got a NoneType"):
        MCDropout(None)


class Tokens(nn.Module):
    """Dropout on each of fifty tokens, which share an axis with the inputs or have their own."""

    def __init__(self, merged):
        super().__init__()
        torch.manual_seed(0)
        self.merged, self.layer, self.drop, self.out = (
            merged,
            nn.Linear(4, 16),
            nn.Dropout(0.5),
            nn.Linear(16, 2),
        )

    def forward(self, x):
        hidden = self.layer(x)
        hidden = (
            self.drop(hidden.flatten(0, 1)).reshape(hidden.shape)
            if self.merged
            else self.drop(hidden)
        )
        return self.out(hidden.mean(1))


def test_tokens_that_share_an_axis_with_the_inputs_have_masks_of_their_own():
    x = torch.randn(5, 50, 4)
    spreads = [
        nescio.predict(MCDropout(Tokens(merged), samples=2000), x).std(0).mean()
        for merged in (True, False)
    ]
    assert spreads[0].item() == pytest.approx(spreads[1].item(), rel=0.05)


class TwoLayouts(nn.Module):
    """One dropout, called with inputs first and with time first; a second for long inputs only."""

    def __init__(self):
        super().__init__()
        self.drop, self.more, self.out = nn.Dropout(0.5), nn.Dropout(0.5), nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.drop(self.drop(x).transpose(0, 1)).transpose(0, 1)
        return self.out((self.more(hidden) if x.shape[1] > 3 else hidden).mean(1))


def test_each_call_of_a_module_has_an_axis_of_its_own():
    model = MCDropout(TwoLayouts(), samples=20)
    for length in (3, 2, 5, 7):  # also of another length than before
        x = torch.randn(7, length, 4)
        whole = nescio.predict(model, x)
        for size in (1, 2, 3, 5):
            torch.testing.assert_close(nescio.predict(model, x, batch_size=size), whole)


def test_a_network_that_cannot_be_vectorised_keeps_its_axes_too():
    class Looking(TwoLayouts):
        def forward(self, x):
            hidden = self.drop(x)
            hidden = (
                hidden if hidden.sum().item() < 1e9 else -hidden
            )  # after the first of two calls
            return self.out(self.drop(hidden.transpose(0, 1)).mean(0))

    model, x = MCDropout(Looking(), samples=8), torch.randn(6, 5, 4)
    torch.testing.assert_close(nescio.predict(model, x, batch_size=1), nescio.predict(model, x))


def test_a_dropout_of_ones_own_that_minds_the_mode_is_on():
    class Locked(nn.Dropout):
        def forward(self, x):
            return F.dropout(x, self.p, self.training)

    net = nn.Sequential(nn.Flatten(), Locked(0.5))
    draws = nescio.predict(MCDropout(net, samples=200), torch.ones(4, 50))
    assert (draws == 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert net.training
