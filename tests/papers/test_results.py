"""Pages are made from records alone: those in the repository are what their records say."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nescio.errors import NescioError
from papers.experiment import reproduce
from papers.experiments import EXPERIMENTS, not_made
from papers.reproduction import Reproduction
from papers.results import README, read_results, write_results
from papers.workspace import Workspace

ROOT = Path(__file__).parents[2]
COMMAND = "python -m papers page results -o docs/results.md"


@pytest.fixture
def copied(tmp_path):
    """Only the records of all results."""
    for path in (ROOT / "results").glob("*/reproduction.json"):
        (tmp_path / "results" / path.parent.name).mkdir(parents=True)
        shutil.copy(path, tmp_path / "results" / path.parent.name)
    return tmp_path


def test_the_pages_in_the_repository_are_those_of_their_records(copied):
    count = write_results(copied / "results", copied / "docs" / "results.md", COMMAND)
    hint = f"run `{COMMAND}`"
    assert count == len(read_results(ROOT / "results")) > 0
    assert (copied / "docs" / "results.md").read_text() == (
        ROOT / "docs" / "results.md"
    ).read_text(), hint
    for name in read_results(ROOT / "results"):
        assert (copied / "results" / name / README).read_text() == (
            ROOT / "results" / name / README
        ).read_text(), hint


def test_what_results_keep_is_there_and_small():
    for name, record in read_results(ROOT / "results").items():
        folder = ROOT / "results" / name
        assert f"-o results/{name}" in record.command
        assert all((folder / picture).stat().st_size < 300_000 for picture in record.pictures)
        assert all(path.stat().st_size < 500_000 for path in folder.iterdir())


def test_links_of_the_page_lead_to_its_folders_from_wherever_it_is(copied):
    page = copied / "deep" / "in" / "page.md"
    write_results(copied / "results", page, "a command")
    name = next(iter(read_results(copied / "results")))
    assert f"](../../results/{name}/README.md)" in page.read_text()
    assert (page.parent / f"../../results/{name}/README.md").exists()


def test_the_page_names_what_was_not_run_and_what_is_not_made(copied):
    name = next(iter(read_results(copied / "results")))
    shutil.rmtree(copied / "results" / name)
    write_results(copied / "results", copied / "page.md", "")
    tail = (copied / "page.md").read_text().partition("\n## Not run\n\n")[2]
    left, drawings = tail.strip().split("\n\n")
    assert f"`{name}`" in left
    assert drawings == not_made()


def test_if_all_was_run_only_what_is_not_made_is_named(copied, monkeypatch):
    ran = {one.name for one in read_results(copied / "results").values()}
    for name in set(EXPERIMENTS) - ran:
        monkeypatch.delitem(EXPERIMENTS, name)
    write_results(copied / "results", copied / "page.md", "")
    assert (copied / "page.md").read_text().endswith(f"\n\n## Not run\n\n{not_made()}\n")


def test_a_folder_without_results_is_an_error(tmp_path):
    assert read_results(tmp_path / "nowhere") == {}
    with pytest.raises(NescioError, match=r"no results in .*reproduction\.json"):
        write_results(tmp_path, tmp_path / "page.md", "")
    assert not (tmp_path / "page.md").exists()


def test_a_broken_record_is_an_error_that_names_it(copied):
    name = next(iter(read_results(copied / "results")))
    (copied / "results" / name / "reproduction.json").write_text("{}")
    with pytest.raises(NescioError, match=name):
        write_results(copied / "results", copied / "page.md", "")


def test_folders_go_by_their_own_names(copied, tmp_path):
    """So that two scales of one experiment can stand side by side."""
    name = next(iter(read_results(copied / "results")))
    shutil.copytree(copied / "results" / name, copied / "results" / f"{name}-paper")
    write_results(copied / "results", copied / "page.md", "")
    text = (copied / "page.md").read_text()
    assert f"results/{name}/README.md" in text
    assert f"results/{name}-paper/README.md" in text
    assert isinstance(read_results(copied / "results")[f"{name}-paper"], Reproduction)


@pytest.mark.slow
@pytest.mark.parametrize("name", read_results(ROOT / "results"))
def test_a_committed_record_follows_from_its_stages(name, tmp_path, monkeypatch):
    """With today's code too: a stage with other settings than its record is made again."""
    before = Reproduction.load(ROOT / "results" / name / "reproduction.json")
    experiment = EXPERIMENTS[before.name]
    if missing := experiment.missing(before.scale):
        pytest.skip(f"needs {', '.join(missing)} in $NESCIO_DATA")
    shutil.copytree(ROOT / "results" / name, tmp_path / name)
    kept = Workspace.stage
    monkeypatch.setattr(
        Workspace,
        "stage",
        lambda work, stage, kind, make, **how: kept(work, stage, kind, never, **how),
    )
    again = reproduce(
        experiment,
        Workspace(tmp_path / name, tmp_path / "runs", before.scale, before.seeds),
        before.command,
    )
    assert replace(again, provenance=before.provenance) == before
    assert again.provenance.seconds == pytest.approx(before.provenance.seconds, rel=0.05, abs=60)


def never():
    raise AssertionError("a stage is made again")
