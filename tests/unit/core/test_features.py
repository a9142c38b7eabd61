"""Features of the head's input or of any layer, from one forward pass, and clear errors."""

import pytest
import torch
from torch import nn

import nescio
from nescio.core.features import HEAD, forward_with_features
from nescio.errors import NescioError


class Residual(nn.Module):
    """Features of a functional call, which no module returns; a linear layer on the way."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.gate = nn.Linear(4, 4)
        self.fc = nn.Linear(4, 3)
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        h = self.stem(x)
        h = h * self.gate(h.mean((2, 3))).sigmoid()[:, :, None, None]
        return self.fc(nn.functional.adaptive_avg_pool2d(h, 1).flatten(1))

    def features(self, x):
        h = self.stem(x)
        return (h * self.gate(h.mean((2, 3))).sigmoid()[:, :, None, None]).mean((2, 3))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Residual().eval()


@pytest.fixture
def x():
    return torch.rand(5, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def test_finds_what_the_last_linear_layer_is_given(net, x):
    seen = forward_with_features(net, x, [HEAD])
    torch.testing.assert_close(seen.features[HEAD], net.features(x).detach())
    assert seen.head is net.fc
    assert torch.equal(seen.logits[0], net(x).detach())


def test_one_pass_serves_all_layers(net, x):
    seen = forward_with_features(net, x, [HEAD, "stem", "gate"])
    assert net.runs == 1
    torch.testing.assert_close(
        seen.features["stem"], net.stem(x).mean((2, 3)).detach()
    )  # the mean over places
    assert seen.features["gate"].shape == (5, 4)
    assert not net.stem._forward_hooks
    assert not net.fc._forward_hooks


def test_without_layers_there_are_no_features(net, x):
    seen = forward_with_features(net, x)
    assert seen.features == {}
    assert seen.head is None


def test_some_of_the_inputs(net, x):
    seen = forward_with_features(net, x, [HEAD]).select(
        torch.tensor([True, False, True, False, False])
    )
    torch.testing.assert_close(seen.features[HEAD], net.features(x[[0, 2]]).detach())
    assert seen.logits.shape == (1, 2, 3)


def test_words_and_series_are_averaged_over_their_places(x):
    words = nn.Sequential(
        nn.Flatten(2), nn.Linear(36, 7), nn.Flatten(), nn.Linear(7, 3)
    )  # (B, 1 word, 7)
    assert forward_with_features(words, x, ["1"]).features["1"].shape == (5, 7)
    series = nn.Sequential(nn.Flatten(2), nn.Conv1d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 34, 3))
    assert forward_with_features(series, x, ["1"]).features["1"].shape == (5, 4)


def test_a_method_on_features_has_them_from_its_network(x):
    duq = nescio.methods.DUQ(nescio.models.mlp(36, hidden=(8,)), 3)
    seen = forward_with_features(duq, x, [HEAD])
    torch.testing.assert_close(seen.features[HEAD], duq.net(x).detach())
    assert seen.head is None


def test_a_wrong_name_lists_the_modules_and_their_shapes(net, x):
    with pytest.raises(NescioError, match=r"'stm' .*stem \(4, 6, 6\), gate \(4,\), fc \(3,\)"):
        forward_with_features(net, x, ["stm"])


def test_a_module_that_is_not_run_is_reported(net, x):
    net.spare = nn.Linear(2, 2)
    with pytest.raises(NescioError, match=r"'spare' with features is run.*stem"):
        forward_with_features(net, x, ["spare"])


def test_no_linear_layer_or_one_that_is_not_the_last_is_reported(x):
    with pytest.raises(NescioError, match=r"no linear layer.* 0 \(3, 6, 6\)"):
        forward_with_features(
            nn.Sequential(nn.Conv2d(1, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), x, [HEAD]
        )
    with pytest.raises(
        NescioError, match=r"no linear layer that it runs gives the model's logits.* 3 \(3, 1\)"
    ):
        forward_with_features(
            nn.Sequential(
                nn.Flatten(),
                nn.Linear(36, 4),
                nn.Unflatten(1, (4, 1)),
                nn.Conv1d(4, 3, 1),
                nn.Flatten(),
            ),
            x,
            [HEAD],
        )


@pytest.mark.parametrize(
    "make",
    [
        lambda: nescio.methods.Ensemble(lambda: nescio.models.mlp(36, 3), members=2),
        lambda: nescio.methods.MCDropout(nescio.models.mlp(36, 3, dropout=0.5), samples=3),
        lambda: nescio.methods.MCDropout(nescio.models.mlp(36, 3, dropout=0.5), samples=1),
    ],
)
def test_models_with_draws_report_that_each_has_its_own(make, x):
    with pytest.raises(NescioError, match="draws"):
        forward_with_features(make().eval(), x, [HEAD])


def test_a_layer_without_a_batch_is_reported(net, x):
    class Whole(nn.Module):
        def forward(self, x):
            return x.mean()

    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    net.whole = Whole()
    net.forward = lambda x: (net.whole(x), net[1](net[0](x)))[1]
    with pytest.raises(
        NescioError, match=r"'whole' are \(\); expected a tensor \(B, …\) for 5 inputs"
    ):
        forward_with_features(net, x, ["whole"])


class TwoHeads(nn.Module):
    """A second head, of as many classes, that runs last; the first is called by keyword."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = nn.Linear(36, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x):
        h = self.body(x.flatten(1))
        logits = self.head(input=h)
        self.other(torch.zeros_like(h))
        return logits.log_softmax(1)


def test_the_head_is_the_layer_that_gives_the_logits(x):
    net = TwoHeads()
    for some in (x, x[:1]):
        seen = forward_with_features(net, some, [HEAD])
        assert seen.head is net.head
        torch.testing.assert_close(seen.features[HEAD], net.body(some.flatten(1)).detach())
        torch.testing.assert_close(seen.head_output.log_softmax(1), seen.logits[0])


def test_what_comes_next_may_write_on_a_layers_output(x):
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    torch.testing.assert_close(
        forward_with_features(net, x, ["1"]).features["1"], net[1](x.flatten(1)).detach()
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_a_scripted_network_is_reported(x):
    net = torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)))
    for layer in (HEAD, "1"):
        with pytest.raises(NescioError, match="scripted or traced; give the network") as caught:
            forward_with_features(net, x, [layer])
        assert "by name" not in str(caught.value)


def test_a_network_without_modules_has_no_layers_to_name(x):
    class Plain(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :3]

    with pytest.raises(NescioError, match=r"runs no linear layer.* no module that has a name"):
        forward_with_features(Plain(), x, [HEAD])


class Bounded(nn.Module):
    """A network whose logits are kept within ±5."""

    def __init__(self, bound):
        super().__init__()
        self.fc, self.bound = nn.Linear(36, 3), bound

    def forward(self, x):
        return self.bound(self.fc(x.flatten(1)))


@pytest.mark.parametrize("bound", [lambda z: 5 * torch.tanh(z / 5), lambda z: z.clamp(-5, 5)])
def test_bounds_on_logits_hide_no_head_however_far_the_inputs(bound, x):
    net = Bounded(bound)
    far = torch.cat([x, 1e3 * x, 1e6 * x])
    torch.testing.assert_close(
        forward_with_features(net, far, [HEAD]).features[HEAD], far.flatten(1)
    )


def test_probabilities_are_no_function_of_one_logit(x):
    with pytest.raises(NescioError, match="no linear layer that it runs gives the model's logits"):
        forward_with_features(Bounded(lambda z: (9 * z).softmax(1)), x, [HEAD])


def test_a_compiled_model_is_looked_into_whenever_it_ran_before(net, x):
    """What torch.compile makes of a model passes over hooks that are added later."""
    by_wrapping, by_itself = torch.compile(net, backend="eager"), Residual().eval()
    by_itself.load_state_dict(net.state_dict())
    by_itself.compile(backend="eager")
    for model, name in ((by_wrapping, "_orig_mod.stem"), (by_itself, "stem")):
        with torch.no_grad():
            model(x)
        seen = forward_with_features(model, x, [HEAD, name])
        torch.testing.assert_close(seen.features[HEAD], net.features(x).detach())
        torch.testing.assert_close(seen.features[name], net.stem(x).mean((2, 3)).detach())
