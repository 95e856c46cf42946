"""How much memory may still be taken: of the machine, and of the container with the tightest limit."""

from pathlib import Path

import pytest

from ahop._core.free_memory import check_free_memory, free_bytes
from ahop.errors import InsufficientMemoryError

MIB = 1 << 20
# What the first version of control groups says where there is no limit.
NONE_OF_V1 = 0x7FFFFFFFFFFFF000


def machine(root: Path, available: int, *groups: str) -> Path:
    """A tree of files such as the kernel shows them: MiB that are free, and the groups that a process is in."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available * 1024} kB\nHugePages_Total: 0\n")
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in groups))
    return root


def second(root: Path, path: str, limit: int | str, used: int, files: int = 0) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit * MIB if isinstance(limit, int) else limit}\n")
    (folder / "memory.current").write_text(f"{used * MIB}\n")
    (folder / "memory.stat").write_text(f"anon 5\nfile {files * MIB}\ninactive_file {files * MIB}\nactive_file 0\n")


def first(root: Path, path: str, limit: int, used: int, files: int = 0) -> None:
    folder = root / "sys/fs/cgroup/memory" / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used * MIB}\n")
    (folder / "memory.stat").write_text(f"cache 9\ninactive_file 0\ntotal_inactive_file {files * MIB}\n")


def test_without_a_container_all_that_the_machine_has_is_free(tmp_path: Path) -> None:
    assert free_bytes(machine(tmp_path, 700, "0::/")) == 700 * MIB
    (tmp_path / "proc/self/cgroup").unlink()
    assert free_bytes(tmp_path) == 700 * MIB


def test_a_container_leaves_what_its_limit_leaves(tmp_path: Path) -> None:
    root = machine(tmp_path, 700, "0::/")
    second(root, "", limit=300, used=120)
    assert free_bytes(root) == 180 * MIB
    second(root, "", limit="max", used=120)
    assert free_bytes(root) == 700 * MIB
    second(root, "", limit=5000, used=120)
    assert free_bytes(root) == 700 * MIB


def test_files_that_are_kept_in_memory_make_room(tmp_path: Path) -> None:
    root = machine(tmp_path, 700, "0::/")
    second(root, "", limit=300, used=290, files=200)
    assert free_bytes(root) == 210 * MIB


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, 700, "0::/shop/till/one")
    second(root, "shop/till/one", limit="max", used=50)
    second(root, "shop/till", limit=400, used=100)
    second(root, "shop", limit=500, used=460)
    second(root, "elsewhere", limit=1, used=1)
    assert free_bytes(root) == 40 * MIB


def test_a_group_that_is_above_what_can_be_seen_is_the_uppermost(tmp_path: Path) -> None:
    """A container without a name space of its own is shown names of the host, and files of its own."""
    for number, path in enumerate(("/docker/0f3c", "/../../pod")):
        root = machine(tmp_path / str(number), 700, f"0::{path}")
        second(root, "", limit=300, used=100)
        assert free_bytes(root) == 200 * MIB


def test_the_first_version_is_read_as_well(tmp_path: Path) -> None:
    root = machine(tmp_path, 700, "5:cpu,cpuacct:/a", "4:hugetlb,memory:/docker/0f3c", "0::/")
    first(root, "", limit=NONE_OF_V1, used=9000)
    assert free_bytes(root) == 700 * MIB
    first(root, "docker/0f3c", limit=256 * MIB, used=250, files=50)
    assert free_bytes(root) == 56 * MIB


def test_a_container_that_is_full_has_nothing_and_not_less(tmp_path: Path) -> None:
    root = machine(tmp_path, 700, "0::/")
    second(root, "", limit=100, used=101)
    assert free_bytes(root) == 0


@pytest.mark.parametrize("file", ["memory.max", "memory.current", "memory.stat"])
@pytest.mark.parametrize("words", ["", "many", None])
def test_a_file_that_says_nothing_is_no_limit(file: str, words: str | None, tmp_path: Path) -> None:
    root = machine(tmp_path, 700, "0::/", "nonsense")
    second(root, "", limit=300, used=100)
    path = root / "sys/fs/cgroup" / file
    path.unlink()
    if words is not None:
        path.write_text(words)
    assert free_bytes(root) == (200 if file == "memory.stat" else 700) * MIB


def test_on_this_machine_no_more_is_free_than_it_has() -> None:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        pytest.skip("needs /proc/meminfo")
    total = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemTotal"))
    free = free_bytes()
    assert free is not None
    assert 0 < free <= int(total.split()[1]) * 1024
    with pytest.raises(InsufficientMemoryError, match=r"numbers need 1048576\.0 GiB and"):
        check_free_memory(1 << 50, "numbers")
    check_free_memory(0, "numbers")
