import pytest

from nescio import file_kinds as marks
from nescio import records
from nescio.file_kinds import kind_of
from nescio.records import Record
from nescio.scores import SCORES


def test_the_names_of_records_and_scores_are_those_there_are():
    found = {name for name in vars(records) if isinstance(vars(records)[name], type)}
    kinds = {name for name in found if issubclass(getattr(records, name), Record)} - {"Record"}
    assert {name.decode() for name in marks.RECORDS} == kinds
    gradient = [name for name in SCORES if name.startswith("gradient_")]
    assert {name.decode() for name in marks.SCORES[:-1]} == set(SCORES) - set(gradient)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"record": "X", "format": 1, "a": 2}',
        '{"record": "Evaluation", "format": "mp3", "a": 2}',
        "input,class,confidence\nmine,1,2\n",
        "input,class,confidence,mine\na,b,c,d\n",
        "input,class,confidence,entropy,mine\n",
        "input,class,model_class,confidence,p_value,score,note\n",
    ],
)
def test_what_looks_like_ours_is_not(tmp_path, text):
    (tmp_path / "file").write_text(text)
    assert kind_of(tmp_path / "file") is None


@pytest.mark.parametrize("rest", ["max_prob,entropy", "gradient_l2:conv1", "energy,unseen"])
def test_answers_are_known_by_their_columns(tmp_path, rest):
    (tmp_path / "file").write_text(f"input,class,confidence,{rest}\r\n")
    assert kind_of(tmp_path / "file") == marks.ANSWERS
