import threading

import pytest
import torch
from torch import nn

from nescio.core.random_streams import RandomStream, from_seed, new_generator, preserve_generators


@pytest.fixture
def untouched_generator():
    before = torch.default_generator.get_state()
    yield
    assert torch.equal(torch.default_generator.get_state(), before)


@pytest.mark.usefixtures("untouched_generator")
def test_a_stream_goes_on_from_block_to_block():
    stream = RandomStream(7)
    with stream:
        first = torch.rand(2)
    with stream:
        second = torch.rand(2)
    want = torch.rand(4, generator=torch.Generator().manual_seed(7))
    assert torch.equal(torch.cat([first, second]), want)


@pytest.mark.usefixtures("untouched_generator")
def test_streams_may_be_entered_within_each_other_and_left_by_errors():
    one, other = RandomStream(1), RandomStream(2)
    drawn = []

    def draw():
        with one:
            drawn.append(torch.rand(1))
            with other, one:
                torch.rand(1)
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        draw()
    assert torch.equal(drawn[0], torch.rand(1, generator=torch.Generator().manual_seed(1)))


@pytest.mark.usefixtures("untouched_generator")
def test_items_are_made_within_the_stream_and_used_outside():
    made = (torch.rand(1) for _ in range(3))
    outside = []
    found = []
    for item in RandomStream(5).over(made):
        found.append(item)
        outside.append(torch.default_generator.get_state())
    assert torch.equal(torch.cat(found), torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert all(torch.equal(one, outside[0]) for one in outside)


@pytest.mark.usefixtures("untouched_generator")
def test_from_seed_is_the_same_whatever_ran_before():
    class Model(nn.Module):
        draws = False

    model = Model()

    def run():
        return torch.rand(3) if model.draws else torch.zeros(3)

    for draws in (False, False, True, True, False, True):
        model.draws = draws
        want = (
            torch.rand(3, generator=torch.Generator().manual_seed(4)) if draws else torch.zeros(3)
        )
        assert torch.equal(from_seed(4, run, model), want)


def test_what_another_thread_draws_meanwhile_is_drawn():
    model, inside, drawn = nn.Module(), threading.Event(), threading.Event()
    from_seed(0, lambda: None, model)

    def run():
        inside.set()
        drawn.wait(10)

    torch.manual_seed(3)
    thread = threading.Thread(target=lambda: (inside.wait(10), torch.rand(5), drawn.set()))
    thread.start()
    from_seed(0, run, model)
    thread.join()
    assert torch.equal(torch.rand(1), torch.rand(6, generator=torch.Generator().manual_seed(3))[5:])


@pytest.mark.usefixtures("untouched_generator")
def test_a_generator_starts_at_the_seed_of_the_pass_or_where_torchs_stands():
    model = nn.Module()
    want = torch.rand(2, generator=torch.Generator().manual_seed(9))
    for _ in range(2):
        assert torch.equal(
            from_seed(9, lambda: torch.rand(2, generator=new_generator()), model), want
        )
    alone = torch.rand(2, generator=new_generator())
    with preserve_generators():
        assert torch.equal(torch.rand(2), alone)
