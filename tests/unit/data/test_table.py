import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nescio import data
from nescio.data import Encoding
from nescio.errors import NescioError

HEADER = "age,colour,member,label\n"
COLOURS = ("red", "blue", "green")
ROWS = "".join(
    f"{20 + i},{COLOURS[i % 3]},{('true', 'False')[i % 2]},{('no', 'yes')[i % 2]}\n"
    for i in range(30)
)


def csv_file(folder: Path, text: str = HEADER + ROWS, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_becomes_a_known_set(tmp_path: Path) -> None:
    known = data.load(csv_file(tmp_path))
    assert known.train is not None
    assert known.classes == ("no", "yes")
    assert known.features == ("age", "colour=blue", "colour=green", "colour=red", "member")
    assert (len(known.train), len(known.test), known.kind) == (24, 6, "tabular")
    for x, y in zip(known.test.inputs.tolist(), known.test.labels.tolist(), strict=True):
        i = round(x[0]) - 20
        assert x[1:4] == [float(i % 3 == 1), float(i % 3 == 2), float(i % 3 == 0)]
        assert x[4] == float(i % 2 == 0)
        assert y == i % 2


def test_the_label_may_be_any_column_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress((HEADER + ROWS).encode("utf-8-sig")))
    known = data.load(path, label="colour", unseen=["red"])
    assert known.classes == ("blue", "green")
    assert known.unseen is not None
    assert len(known.unseen) == 10
    assert "label=yes" in known.features
    with pytest.raises(NescioError, match="did you mean 'colour'"):
        data.load(path, label="color")


def test_whole_number_labels_are_in_order(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x,y\n" + "".join(f"{i},{(10, 9, 2)[i % 3]}\n" for i in range(12)))
    assert data.load(path).classes == ("2", "9", "10")


@pytest.mark.parametrize("unusual", ["--5", "7" * 5000, "-", "²", "1_0"])
def test_unusual_labels_leave_the_numbers_in_order(tmp_path: Path, unusual: str) -> None:
    path = csv_file(
        tmp_path, "x,y\n" + "".join(f"{i},{(10, unusual, 9, -2)[i % 4]}\n" for i in range(16))
    )
    assert data.load(path).classes == ("-2", "9", "10", unusual)


def test_new_rows_are_encoded_as_the_training_rows_were(tmp_path: Path) -> None:
    known = data.load(csv_file(tmp_path))
    assert known.encoding is not None
    plain = json.loads(json.dumps(known.encoding.to_dict()))
    encoding = Encoding.from_dict(plain)
    assert encoding == known.encoding
    new = csv_file(
        tmp_path, "note,member,colour,age\nhi,TRUE,green,3.5\nyo,0,violet,-1e3\n", "new.csv"
    )
    found = encoding.encode(new, unseen_category="zeros").tolist()
    assert found == [[3.5, 0, 1, 0, 1], [-1000, 0, 0, 0, 0]]  # violet was never seen
    assert data.read(new, encoding=encoding, unseen_category="zeros").inputs.tolist() == found
    assert encoding.encode({"age": [1], "colour": ["red"], "member": [False]}).tolist() == [
        [1, 0, 0, 1, 0]
    ]


def test_labels_of_new_rows_follow_the_given_classes(tmp_path: Path) -> None:
    known = data.load(csv_file(tmp_path))
    new = csv_file(
        tmp_path, HEADER + "1,red,true,yes\n2,red,true,maybe\n3,red,true,no\n", "new.csv"
    )
    samples = data.read(new, label="label", encoding=known.encoding, classes=known.classes)
    assert samples.labels.tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour,member\nred,true\n", "no column 'age'"),
        ("age,colour,member\n1,red,true\nold,red,true\n", "column 'age', line 3: 'old'"),
        ("age,colour,member\ninf,red,true\n", "column 'age', line 2: 'inf'"),
        ("age,colour,member\n1e39,red,true\n", "column 'age', line 2"),
        ("age,colour,member\n1_000,red,true\n", "column 'age', line 2"),
        ("age,colour,member\n1,,true\n", "column 'colour', line 2: the value is missing"),
        ("age,colour,member\n?,red,true\n", "column 'age', line 2: the value is missing"),
        ('age,colour,member\n1,"r\ned",true\n\nold,red,true\n', "column 'age', line 5: 'old'"),
        ('age,colour,member\n1,"r\ned",true\n\nred,true\n', "line 5: expected 3 cells .* got 2"),
    ],
)
def test_new_rows_that_do_not_fit(tmp_path: Path, text: str, said: str) -> None:
    known = data.load(csv_file(tmp_path))
    with pytest.raises(NescioError, match=said):
        data.read(csv_file(tmp_path, text, "new.csv"), encoding=known.encoding)


def test_missing_values_are_refused_or_filled_from_training_rows(tmp_path: Path) -> None:
    lines = [
        f"{i if i % 5 else ''},{('a', 'a', 'b')[i % 3] if i % 7 else 'NA'},{i % 2}\n"
        for i in range(60)
    ]
    path = csv_file(tmp_path, "x,c,y\n" + "".join(lines))
    lacks = r"people\.csv: column 'x' lacks 12 of its 60 values, the first in line 2; "
    with pytest.raises(NescioError, match=lacks + ".*impute=True, or --impute"):
        data.load(path)
    known = data.load(path, impute=True)
    assert known.train is not None
    assert known.encoding is not None
    fill = known.encoding.columns[0].fill
    seen = known.train.inputs[:, 0]
    rest = np.array([value for value in seen.tolist() if value != fill])
    assert isinstance(fill, float)
    assert abs((rest < fill).mean() - 0.5) < 0.05  # a median of what was there
    assert known.encoding.columns[1].fill == "a"
    assert known.encoding.encode({"x": ["?"], "c": [None]}).tolist() == [[fill, 1, 0]]


@pytest.mark.parametrize("row", range(1, 13))
def test_a_missing_value_is_found_in_whichever_part_it_is(tmp_path: Path, row: int) -> None:
    cells = ["" if i == row else str(i) for i in range(1, 13)]
    path = csv_file(
        tmp_path, "x,y\n" + "".join(f"{cell},{i % 3}\n" for i, cell in enumerate(cells))
    )
    for unseen in ((), ("1",)):
        with pytest.raises(
            NescioError, match=f"column 'x' lacks 1 of its 12 values, the first in line {row + 1};"
        ):
            data.load(path, unseen=unseen)
    with pytest.raises(
        NescioError, match=f"lacks 1 of its 12 values, the first in line {row + 1};"
    ):
        data.read(path, label="y")


def test_the_encoding_learns_from_kept_training_rows_only(tmp_path: Path) -> None:
    lines = [f"{'rare' if i % 3 == 2 else 'usual'},{i},{'abc'[i % 3]}\n" for i in range(30)]
    known = data.load(csv_file(tmp_path, "kind,x,y\n" + "".join(lines)), unseen=["c"])
    assert known.features == ("kind=usual", "x")
    assert known.unseen is not None
    assert known.unseen.inputs[:, 0].sum() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "csv: is empty; expected a header"),
        ("\n\n", "csv: is empty; expected a header"),
        ("\na,b\n1,2\n", "empty first line"),
        ("a,b\n", "no rows"),
        ("a;b\n1;2\n", "separated by semicolons; expected commas"),
        ('"a, x";"b"\r\n1,5;2\r\n', "separated by semicolons; expected commas"),
        ("a\tb\r1,5\t2\r", "separated by tabs; expected commas"),
        ("a,a\n1,2\n", "'a' twice"),
        ("a,,b\n1,2,3\n", "header"),
        ("a,b\n1,2\n3\n", "line 3: expected 2 cells .* got 1"),
        ('a,b\n1,"2\n', "line"),
        ("a,b\n1,x\n2,x\n", "at least 2 classes, got 1"),
        ("a,b\n1,x\n2,\n", "line 3 has no label"),
        ("b\nx\ny\n", "only column"),
        ("a,b\n" + "".join(f"1,{i / 7}\n" for i in range(400)), "is column .b. a class"),
        ("a,b\n" + "".join(f"name{i},{i % 2}\n" for i in range(2000)), "different texts"),
        ("a,b\n" + "".join(f"NA,{i % 2}\n" for i in range(20)), "no value"),
        (
            "a,b\n" + "".join(f"nan,{i % 2}\n" if i else "1,1\n" for i in range(20)),
            "column 'a' lacks",
        ),
        (
            "a,b\n" + "".join(f"{'inf' if i == 3 else i},{i % 2}\n" for i in range(20)),
            "column 'a', line 5: 'inf'",
        ),
    ],
)
def test_tables_that_make_no_data_set(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(NescioError, match=said) as error:
        data.load(csv_file(tmp_path, text))
    assert "people.csv" in str(error.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(NescioError, match="not UTF-8"):
        data.load(tmp_path / "a.csv")


NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=5
).filter(lambda word: word.lower() not in {"?", "na", "n/a", "nan", "null"})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(NUMBERS, WORDS), min_size=1, max_size=20))
def test_numbers_survive_and_words_are_one_hot(rows: list[tuple[float, str]]) -> None:
    table = {"n": [x for x, _ in rows], "w": [word for _, word in rows]}
    encoding = Encoding.fitted(table, categorical=["w"])
    x = encoding.encode(table).numpy()
    np.testing.assert_array_equal(x[:, 0], np.array(table["n"], dtype=np.float32))
    names = [feature.removeprefix("w=") for feature in encoding.features[1:]]
    assert [names[i] for i in x[:, 1:].argmax(1)] == table["w"]
    assert (x[:, 1:].sum(1) == 1).all()
    assert Encoding.from_dict(json.loads(json.dumps(encoding.to_dict()))) == encoding


def test_a_median_and_the_most_frequent_word() -> None:
    encoding = Encoding.fitted(
        {"n": [1, 5, math.nan, 100], "w": ["b", "a", "b", None]}, impute=True
    )
    assert [column.fill for column in encoding.columns] == [5.0, "b"]


@pytest.mark.parametrize(
    "plain",
    [
        {},
        [],
        None,
        3,
        {"columns": []},
        {"columns": 3},
        {"columns": "ab"},
        {"columns": {"a": 1}},
        {"columns": [[]]},
    ],
    ids=repr,
)
def test_what_is_no_encoding(plain: Any) -> None:
    with pytest.raises(NescioError, match="not a table's encoding"):
        Encoding.from_dict(plain)


SOUND = [
    {"name": "a", "kind": "numeric", "categories": [], "fill": 1},
    {"name": "b", "kind": "categorical", "categories": ["x", "y"], "fill": "x"},
]


@pytest.mark.parametrize(
    "change",
    [
        {"name": 1},
        {"name": None},
        {"name": []},
        {"name": "b"},
        {"kind": "unusual"},
        {"kind": []},
        {"kind": None},
        {"categories": "x"},
        {"categories": None},
        {"categories": ["x"]},
        {"categories": [[1]]},
        {"fill": []},
        {"fill": "x"},
        {"fill": True},
        {"fill": math.nan},
        {"fill": math.inf},
        {"fill": 10**400},
        {"extra": 1},
    ],
    ids=lambda one: repr(one)[:30],
)
def test_a_numeric_column_that_was_tampered_with(change: dict[str, Any]) -> None:
    assert Encoding.from_dict({"columns": SOUND}).features == ("a", "b=x", "b=y")
    with pytest.raises(NescioError, match="not a table's encoding") as error:
        Encoding.from_dict({"columns": [SOUND[0] | change, SOUND[1]]})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    "change",
    [
        {"categories": [[1]]},
        {"categories": [1]},
        {"categories": ["x", None]},
        {"categories": ["x", "x"]},
        {"categories": []},
        {"categories": {"x": 1}},
        {"fill": []},
        {"fill": 1.0},
        {"kind": "numeric"},
    ],
    ids=repr,
)
def test_a_categorical_column_that_was_tampered_with(change: dict[str, Any]) -> None:
    with pytest.raises(NescioError, match="not a table's encoding"):
        Encoding.from_dict({"columns": [SOUND[0], SOUND[1] | change]})


@pytest.mark.parametrize("lacking", ["name", "kind", "categories"])
def test_a_column_that_lacks_something(lacking: str) -> None:
    with pytest.raises(NescioError, match="not a table's encoding"):
        Encoding.from_dict(
            {"columns": [{key: value for key, value in SOUND[0].items() if key != lacking}]}
        )


def test_cells_are_reported_by_their_line_in_every_batch_and_without_a_file_by_their_row(
    tmp_path: Path,
) -> None:
    path = csv_file(tmp_path, "a,b\n" + "1,2\n\n" * 7 + "1,two\n")
    with pytest.raises(NescioError, match="column 'b', line 16: 'two'"):
        list(data.Stream(path, (2,), None, 3))
    with pytest.raises(NescioError, match="column 'b', row 2: 'two'"):
        Encoding.numeric("ab").encode({"a": [1, 1], "b": [2, "two"]})


def test_columns_of_different_lengths_are_refused() -> None:
    encoding = Encoding.fitted({"a": [1, 2], "b": [3, 4]})
    with pytest.raises(NescioError, match=r"\[1, 2\] rows"):
        encoding.encode({"a": [1], "b": [3, 4]})
