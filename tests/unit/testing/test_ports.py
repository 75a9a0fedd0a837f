"""The ports that workers of pytest-xdist take."""

from plait.testing.ports import worker_ports

ALL = set(range(15_000, 32_000))


def test_no_two_workers_share_a_port_and_together_they_have_all():
    slices = [
        set(worker_ports({"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": "4"}))
        for number in range(4)
    ]

    assert sum(map(len, slices)) == len(set.union(*slices))
    assert set.union(*slices) == ALL


def test_a_process_alone_has_all_ports():
    assert set(worker_ports({})) == ALL


def test_a_worker_that_replaces_a_crashed_one_has_ports_too():
    replaced = worker_ports({"PYTEST_XDIST_WORKER": "gw9", "PYTEST_XDIST_WORKER_COUNT": "4"})

    assert len(replaced) > 1000


def test_a_worker_may_have_any_name():
    named = {"PYTEST_XDIST_WORKER": "remote", "PYTEST_XDIST_WORKER_COUNT": "4"}

    assert len(worker_ports(named)) > 1000
