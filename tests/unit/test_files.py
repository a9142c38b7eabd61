import errno
import os
import stat
import threading

import pytest

from nescio import files, records
from nescio.errors import NescioError
from nescio.files import atomic_folder, atomic_write, check_replaceable, force_overwrite, kind_of
from nescio.records import Record
from nescio.scores import SCORES


def test_the_file_is_there_only_when_the_block_ends_well(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with atomic_write(path, "w") as file:
        file.write("ä")
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "ä"

    def fail():
        with atomic_write(path, force=True) as file:
            file.write(b"half")
            raise RuntimeError("cut off")

    with pytest.raises(RuntimeError, match="cut off"):
        fail()
    assert path.read_text(encoding="utf-8") == "ä"
    assert os.listdir(path.parent) == ["a.txt"]


def test_permissions_are_the_usual_ones(tmp_path):
    (tmp_path / "plain").write_text("")
    with atomic_write(tmp_path / "ours") as file:
        file.write(b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link", "w", force=True) as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    with atomic_write(pipe, "w") as file:
        file.write("through")
    reader.join(10)
    assert got == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(NescioError, match="is a folder"), atomic_write(tmp_path):
        pass


def test_only_a_folder_of_ours_is_replaced(tmp_path):
    path, own = tmp_path / "made", ("mark", "big")

    def write(also=None):
        with atomic_folder(path, "mark", "Fitted record", own) as place:
            (place / "mark").write_text('{"record": "Fitted", "format": 1}')
            if also is not None:  # someone writes to the folder meanwhile
                (path / also).write_text("mine")

    write()
    (path / "big").write_text("old")
    write()
    assert os.listdir(path) == ["mark"]
    for name in ("notes.txt", ".hidden"):
        (path / name).write_text("mine")
        with pytest.raises(NescioError, match=rf"holds other things \({name}\)"):
            write()
        assert (path / name).read_text() == "mine"
        (path / name).unlink()
    (path / "big").mkdir()
    with pytest.raises(NescioError, match=r"holds other things \(big\)"):
        write()
    (path / "big").rmdir()
    with pytest.raises(NescioError, match=r"answers\.csv"):
        write(also="answers.csv")
    assert (path / "answers.csv").read_text() == "mine"
    (path / "answers.csv").unlink()
    (path / "mark").rename(path / "big")
    with pytest.raises(NescioError, match=r"holds other things \(big\)"):
        write()
    (path / "big").rename(path / "mark")
    (path / "mark").write_text("{}")  # called as ours is, but none of ours
    with pytest.raises(NescioError, match=r"holds other things \(mark\)"):
        write()
    with force_overwrite():
        write()
        (path / "notes.txt").write_text("mine")
        with pytest.raises(NescioError, match=r"holds other things \(notes\.txt\)"):
            write()
    assert os.listdir(tmp_path) == ["made"]


def test_errors_name_what_was_asked_for(tmp_path):
    path = tmp_path / ("a" * 300)  # longer than names may be
    for writing in (atomic_write(path), atomic_folder(path, "mark", "Fitted record", ["mark"])):
        with pytest.raises(OSError, match="File name too long") as caught, writing:
            pass
        assert caught.value.filename == str(path)


OURS = '{"record": "History", "format": 1}'
FOREIGN = [
    "print('my nets')\n",
    '{"accuracy": 0.9}',
    '{"record": "Abbey Road", "tracks": 17}',
    '["record"]',
    "\n",
]


def write(path, text, **how):
    with atomic_write(path, "w", **how) as file:
        file.write(text)


@pytest.mark.parametrize("text", FOREIGN)
def test_what_others_wrote_is_left_alone(tmp_path, text):
    path = tmp_path / "there"
    path.write_text(text)
    done = []

    def work():
        with atomic_write(path, "w") as file:
            done.append(file)

    with pytest.raises(NescioError, match=r"there' was not written by nescio.*--force"):
        work()
    assert (done, path.read_text(), os.listdir(tmp_path)) == ([], text, ["there"])
    write(path, "new", force=True)
    assert path.read_text() == "new"
    with force_overwrite():
        write(path, "newer")
    assert path.read_text() == "newer"
    with pytest.raises(NescioError, match="not written by nescio"):
        write(path, "last")


def test_ours_is_replaced_by_its_own_kind_alone(tmp_path):
    path = tmp_path / "there"
    path.write_text("")  # nothing to lose
    write(path, OURS)
    write(path, OURS.replace(": 1", ": 2"))
    for other in (OURS.replace("History", "Evaluation"), "<!-- made by nescio -->", "plain"):
        with pytest.raises(NescioError, match="is a History record that nescio wrote"):
            write(path, other)
    assert path.read_text() == OURS.replace(": 1", ": 2")


def test_what_comes_to_be_there_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "there"

    def slowly():
        with atomic_write(path, "w") as file:
            file.write(OURS)
            path.write_text("mine")

    with pytest.raises(NescioError, match="not written by nescio"):
        slowly()
    assert (path.read_text(), os.listdir(tmp_path)) == ("mine", ["there"])


def test_a_place_that_takes_no_file_is_reported_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as caught:
        check_replaceable(tmp_path / "file" / "deep" / "a.json")
    assert caught.value.filename == str(tmp_path / "file")
    monkeypatch.setattr("os.access", lambda *_: False)  # as in a file system that is only read
    with pytest.raises(PermissionError, match="cannot be written to") as caught:
        check_replaceable(tmp_path / "deep" / "a.json")
    assert caught.value.filename == str(tmp_path)
    check_replaceable("/dev/null")


@pytest.mark.parametrize("also_back", [False, True])
def test_a_folder_is_not_lost_when_its_rename_fails(also_back, command, tmp_path, monkeypatch):
    run, path = tmp_path / "run", tmp_path / "detector"
    assert command("train", "softmax", "--data", "three_blobs", "--epochs", 1, "-o", run)[0] == 0
    assert command("fit", run, "--detector", "threshold", "-o", path)[0] == 0
    before = {one.name: one.read_bytes() for one in path.iterdir()}
    rename = os.replace

    def failing(source, target):
        if str(target) == str(path) and (also_back or str(source).endswith(".partial")):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(source), None, str(target))
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    code, _, err = command("fit", run, "--detector", "threshold", "-o", path)
    assert (code, "Input/output error" in err, "detector" in err) == (2, True, True)
    kept = next(tmp_path.glob(".detector.*.old")) if also_back else path
    assert {one.name: one.read_bytes() for one in kept.iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == sorted(["run", kept.name])


def test_the_names_of_records_and_scores_are_those_there_are():
    found = {name for name in vars(records) if isinstance(vars(records)[name], type)}
    kinds = {name for name in found if issubclass(getattr(records, name), Record)} - {"Record"}
    assert kinds <= files.RECORDS == set(Record.KINDS)
    gradient = [name for name in SCORES if name.startswith("gradient_")]
    assert {name.decode() for name in files.SCORES[:-1]} == set(SCORES) - set(gradient)


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


@pytest.mark.parametrize(
    "rest", ["max_prob,entropy", "gradient_l2:conv1", "energy,unseen_category"]
)
def test_answers_are_known_by_their_columns(tmp_path, rest):
    (tmp_path / "file").write_text(f"input,class,confidence,{rest}\r\n")
    assert kind_of(tmp_path / "file") == files.ANSWERS
