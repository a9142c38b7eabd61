import io

from nescio import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_shown_on_a_terminal_once_work_is_long(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    with progress.bar(10, "train") as shown:
        shown.advance(4, "loss 0.5")
        shown.advance(5)
    assert "9/10" in screen.getvalue()
    assert "loss 0.5" in screen.getvalue()


def test_short_work_and_no_terminal_are_silent(monkeypatch):
    for screen, patience in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr(progress, "_PATIENCE", patience)
        monkeypatch.setattr("sys.stderr", screen)
        with progress.bar(10, "train") as shown:
            shown.advance(10)
        assert screen.getvalue() == ""


def test_each_thing_in_a_row_has_a_total_of_its_own(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    with progress.bar(None, "get") as shown:
        shown.at(3, 7, "first")
        shown.at(5, 5, "second")
    assert "5/5" in screen.getvalue()
    assert "second" in screen.getvalue()
