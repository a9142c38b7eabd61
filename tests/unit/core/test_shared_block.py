from contextlib import contextmanager

from nescio.core.shared_block import SharedBlock


def test_the_first_enters_and_the_last_leaves_in_whatever_order():
    done = []

    @contextmanager
    def setting():
        done.append("set")
        yield
        done.append("put back")

    block = SharedBlock(setting)
    block.__enter__()
    block.__enter__()
    block.__exit__()
    assert done == ["set"]
    block.__exit__()
    assert done == ["set", "put back"]
    with block:
        assert done == ["set", "put back", "set"]
    assert done == ["set", "put back"] * 2
