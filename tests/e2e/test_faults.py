"""What the machine does to a run: full disks, missing rights, signals, a second command.

A limit on the size of files stands in for a disk without room (for metrics and answers /dev/full
does), since that needs no rights. The check before training is tried on a real small file system,
where namespaces are allowed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kills import lines
from shell import COMMAND, Shell, read, wait_for
from tiny_run import make_base as make_small_base
from tiny_run import make_job, put_job
from toys_model import make_base, make_run

from tunegate.errors import PlatformError, TrainerError, UsageError
from tunegate.store import Store
from tunegate.verbs.run import cache_dir

pytest.importorskip("torch", reason="torch is not installed")

MADE = {"by": "test", "at": "2026-01-01T00:00:00+00:00"}
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def small_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_base(tmp_path_factory.mktemp("base") / "small")


@contextmanager
def no_file_over(size_bytes: int) -> Iterator[None]:
    """In this process, writing beyond the size fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def error_of(attempt: Path) -> dict[str, Any]:
    return dict(json.loads((attempt / "error.json").read_text()))


def test_a_stage_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("report.json", {"rows": 1}, made=MADE)
    before = (tmp_path / "report.json").read_bytes()
    with no_file_over(2000), pytest.raises(PlatformError) as caught:
        store.write("report.json", {"rows": "x" * 5000}, made=MADE)
    assert caught.value.kind == "disk_full" and caught.value.exit_code == 7
    with no_file_over(2000), pytest.raises(PlatformError, match=r"report\.html"):
        store.write_text("report.html", "x" * 5000)
    assert (tmp_path / "report.json").read_bytes() == before
    assert not [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")]
    assert not (tmp_path / "report.html").exists()


def test_an_adapter_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    from tunegate.worker import checkpoint

    for name, content in (("old", b"1" * 100), ("new", b"2" * 5000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_model.safetensors").write_bytes(content)
        (tmp_path / name / "adapter_config.json").write_text("{}")
    checkpoint.place_adapter(tmp_path / "old", tmp_path / "adapter")
    with no_file_over(2000), pytest.raises(TrainerError) as caught:
        checkpoint.place_adapter(tmp_path / "new", tmp_path / "adapter")
    assert caught.value.kind == "disk_full"
    assert (tmp_path / "adapter/adapter_model.safetensors").read_bytes() == b"1" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "new", "old"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_metrics_and_answers_that_find_no_room(small_base: Path, tmp_path: Path) -> None:
    from tunegate.worker.main import main

    job = make_job(tmp_path, small_base)
    training = tmp_path / "training"
    put_job(job, training)
    (training / "metrics.jsonl").symlink_to("/dev/full")
    assert main(str(training / "job.json")) == 10
    assert error_of(training)["kind"] == "disk_full"
    (training / "metrics.jsonl").unlink()
    assert main(str(training / "job.json")) == 0
    requests = tmp_path / "requests.jsonl"
    turns = [{"role": "user", "content": "where is my order"}]
    requests.write_text(json.dumps({"id": "1", "turns": turns}) + "\n")
    task = {"requests": str(requests), "out": "/dev/full", "max_new_tokens": 4}
    answering = {**job, "kind": "generate", "tasks": [task]}
    assert main(str(put_job(answering, tmp_path / "answering"))) == 10
    assert error_of(tmp_path / "answering")["kind"] == "disk_full"
    answering["tasks"] = [{**task, "out": str(tmp_path / "answers.jsonl")}]
    assert main(str(put_job(answering, tmp_path / "answering"))) == 0
    assert [row["id"] for row in lines(tmp_path / "answers.jsonl")] == ["1"]


def test_a_training_that_would_fill_the_disk_does_not_begin(
    small_base: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    rights = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    if not shutil.which("unshare") or subprocess.run([*rights, "true"], check=False).returncode:
        pytest.skip("no namespaces here, so no small file system can be made")
    job = put_job(make_job(tmp_path, small_base), tmp_path / "job")
    text = json.dumps({**json.loads(job.read_text()), "attempt_dir": str(disk)})
    job.write_text(text)
    code = "import sys; from tunegate.worker.main import main; sys.exit(main(sys.argv[1]))"
    script = (
        'mount -t tmpfs -o size=100k none "$1" || exit 99; cp "$2" "$1/job.json"; '
        '"$3" -c "$4" "$1/job.json" >&2; code=$?; cat "$1/error.json"; '
        'test -e "$1/metrics.jsonl" && exit 98; exit $code'
    )
    command = [*rights, "sh", "-c", script, "sh", str(disk), str(job), sys.executable, code]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode == 99:
        pytest.skip("no file system may be mounted here")
    assert done.returncode == 10, done.stderr
    assert json.loads(done.stdout)["kind"] == "disk_full"
    assert "MiB are free" in json.loads(done.stdout)["message"]


def test_a_second_command_is_told_who_holds_the_run(
    shell: Shell, base: Path, tmp_path: Path
) -> None:
    make_run(tmp_path, base)
    with Store(tmp_path).lock("go", name=".go.lock"):
        body = shell.run("go", tmp_path, code=12)
    assert f"go, process {os.getpid()}" in body["error"]["message"]
    (tmp_path / ".lock").write_text("freeze, process 1\n")  # of one that died: nobody holds it
    shell.run("freeze", tmp_path)


def test_without_a_home_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def nobody(_: int) -> None:
        raise KeyError("no such user")

    for name in ("HOME", "TUNEGATE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(UsageError, match="home folder") as caught:
        cache_dir()
    assert "TUNEGATE_CACHE" in (caught.value.hint or "")


@pytest.fixture
def stranger() -> Iterator[tuple[Path, list[str]]]:
    """A folder that everyone may read, and what makes a command another user's."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv to become another user")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    check = [*prefix, sys.executable, "-c", "import tunegate, click, torch"]
    if subprocess.run(check, cwd=REPOSITORY, capture_output=True, check=False).returncode:
        pytest.skip("another user may not read this Python's packages")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name), prefix


def test_what_another_user_may_not_do(base: Path, stranger: tuple[Path, list[str]]) -> None:
    folder, prefix = stranger
    shutil.copytree(base, folder / "base")
    for file in (folder / "base").iterdir():
        file.chmod(0o644)
    run, cache, home = folder / "run", folder / "cache", folder / "home"
    run.mkdir()
    make_run(run, folder / "base")

    def call(verb: str, *, code: int) -> dict[str, Any]:
        done = subprocess.run(
            [*prefix, *COMMAND, verb, str(run), "--json"], capture_output=True, text=True,
            cwd=REPOSITORY, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "TUNEGATE_CACHE": str(cache), "TUNEGATE_HOME": str(home)},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return dict(json.loads(done.stdout))

    assert call("freeze", code=7)["error"]["kind"] == "not_writable"  # the folder is root's
    assert call("status", code=0)["data"]["stages"]["freeze"] == "missing"
    os.chown(run, 65534, 65534)
    (run / "train.jsonl").chmod(0o600)
    assert "may not read it, train.jsonl" in call("freeze", code=2)["error"]["problems"][0]
    (run / "train.jsonl").chmod(0o644)
    call("freeze", code=0)  # the base is root's and only read; no hash can be remembered
    found = call("wire", code=7)["error"]
    assert found["kind"] == "not_writable" and "TUNEGATE_CACHE" in found["hint"]
    cache.mkdir()
    os.chown(cache, 65534, 65534)
    call("check", code=0)


@pytest.mark.timeout(600)
def test_term_saves_the_training_and_hangup_leaves_it_alone(
    shell: Shell, base: Path, tmp_path: Path
) -> None:
    from tunegate.platforms import local

    # Under nohup a hangup is ignored, and whoever is started from there ignores it, too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    make_run(tmp_path, base, train_rows=640)
    attempt = tmp_path / "attempts/1"
    driver = shell.start("go", tmp_path)
    wait_for(lambda: (attempt / "metrics.jsonl").exists())
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=90) == 130
    assert not local.poll(attempt).running
    assert read(attempt, "error.json")["kind"] == "interrupted"
    steps = [row["step"] for row in lines(attempt / "metrics.jsonl") if "loss" in row]
    assert lines(attempt / "checkpoints.jsonl")[-1]["step"] == steps[-1] < 240
    driver = shell.start("train", tmp_path)
    wait_for(lambda: b'"resumed"' in (attempt / "metrics.jsonl").read_bytes())
    driver.send_signal(signal.SIGHUP)
    assert driver.wait(timeout=60) == -signal.SIGHUP
    assert local.poll(attempt).running
    assert shell.run("stop", tmp_path)["data"]["stopped"] is True
    assert not local.poll(attempt).running
