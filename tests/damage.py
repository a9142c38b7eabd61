"""Bodies of records with something in them emptied, or something else."""


def places(value, place=()):
    """Where a record has a list or a dict that is not empty; of many alike the first."""
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = [(0, value[0])] if value else []
    else:
        return
    if value and place:
        yield place
    for name, item in inner:
        yield from places(item, (*place, name))


def emptied(value, place):
    """The same with nothing at the place."""
    if not place:
        return type(value)()
    copy, first = value.copy(), place[0]
    copy[first] = emptied(value[first], place[1:])
    return copy


def changed(value, place, new):
    """The same with something else at the place."""
    if not place:
        return new
    copy, first = value.copy(), place[0]
    copy[first] = changed(value[first], place[1:], new)
    return copy


def all_places(value, place=()):
    """Where a record has anything, each with what the place is of: the same of all items of a
    list.
    """
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, item in inner:
        yield (*place, name)
        yield from all_places(item, (*place, name))


def something_else(value, rng):
    """Another value that a file may well have there."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice(
            [0, -1, 1, value + 1, -value, 7.5, 1e-300, 1e300]
            if isinstance(value, float)
            else [0, -1, 1, value + 1, 10**6]
        )
    if isinstance(value, str):
        return rng.choice(["", "other", "\x00$"])
    if isinstance(value, list):
        return rng.choice([[], value[:-1], value + value[-1:], None])
    if isinstance(value, dict):
        return rng.choice([{}, None, dict(list(value.items())[:-1])])
    return rng.choice([0, 1.0, "x", [], {}])


def with_one_change(body, rng):
    """The same with another value somewhere; every field is as likely, however many numbers it
    holds.
    """
    by_field = {}
    for place in all_places(body):
        by_field.setdefault(tuple(part for part in place if isinstance(part, str)), []).append(
            place
        )
    field = rng.choice([name for name in by_field if name not in (("record",), ("format",))])
    place = rng.choice(by_field[field])
    value = body
    for part in place:
        value = value[part]
    return changed(body, place, something_else(value, rng))
