import os
import stat
from pathlib import Path

from loraplex.adapters_registry.scratch import LEFT_OVER_SECONDS, scratch_folder


def test_a_folder_is_the_jobs_own_and_gone_afterwards(tmp_path: Path) -> None:
    parent = tmp_path / "scratch"
    with scratch_folder(parent) as one, scratch_folder(parent) as other:
        assert one != other
        (one / "file").write_bytes(b"x")
        for folder in (parent, one):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(parent.iterdir())


def test_what_a_killed_job_left_goes_and_what_runs_stays(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as running:
        left = tmp_path / "left"
        left.mkdir()
        (left / "file").write_bytes(b"x")
        long_ago = left.stat().st_mtime - LEFT_OVER_SECONDS - 60
        os.utime(left, (long_ago, long_ago))
        with scratch_folder(tmp_path):
            assert running.exists()
            assert not left.exists()
