"""A hidden owner's name appears nowhere, and the same owner keeps the same hash."""

from dataclasses import astuple
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_parsers.model import Process
from telemetry_parsers.owners.privacy import BY_NAME, Privacy
from telemetry_parsers.ownership import Claim, Owner, Task

KEY = b"a key of this node"
JOB = Owner("job", "1234", job_id="1234", job_name="train 7B", user="alice", account="physics", partition="gpu")
POD = Owner("pod", "ml/train-0/main", pod_namespace="ml", pod_name="train-0", container_name="main")
BOX = Owner("container", "lxc-of-alice")
USER = Owner("user", "alice", user="alice")
UNIT = Owner("service", "jupyter-alice.service")
OTHERS = Owner("others", "others")


def privacy(users="name", pods="name", jobs="name", key=KEY):
    return Privacy(users, pods, jobs, key)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (JOB, Owner("job", "", partition="gpu")),
        (POD, Owner("pod", "")),
        (BOX, Owner("container", "")),
        (USER, Owner("user", "")),
        (UNIT, Owner("service", "")),
        (OTHERS, OTHERS),
    ],
)
def test_hidden_owner_keeps_its_kind_and_a_number(owner, expected):
    shown = privacy("none", "none", "none").hide_owner(owner)
    assert (shown.kind, astuple(shown)[2:]) == (expected.kind, astuple(expected)[2:])
    assert shown.name.isdigit() or owner is OTHERS


def test_hash_of_a_name_is_the_same_everywhere():
    hashed = privacy(users="hash", jobs="hash")
    job = hashed.hide_owner(JOB)
    assert job.name == job.job_id != JOB.name
    assert job.job_name not in (JOB.job_name, job.name)
    assert job.user == hashed.hide_owner(USER).name == hashed.hide_owner(USER).user != "alice"
    assert job.account not in ("physics", job.user)
    assert hashed.hide_task(Task(7, 1, user="alice")).user == job.user
    assert hashed.hide_owner(POD) == POD


def test_a_hash_depends_on_the_key_and_on_whose_name_it_is():
    first, second = privacy("hash", "hash", "hash"), privacy("hash", "hash", "hash", b"another node's key")
    assert first.hide_owner(USER) != second.hide_owner(USER)
    assert first.hide_owner(Owner("container", "alice")).name != first.hide_owner(USER).name


@pytest.mark.parametrize("users", ["hash", "none"])
def test_only_the_chosen_names_are_hidden(users):
    shown = privacy(users=users).hide_owner(JOB)
    assert (shown.name, shown.job_id, shown.partition) == ("1234", "1234", "gpu")
    assert "alice" not in str(shown)


def test_names_in_the_clear_copy_nothing():
    claim, task = Claim(JOB), Task(7, 1, user="alice", owner=JOB)
    device = kit.shared_device()
    assert BY_NAME.hide_claim(claim) is claim
    assert BY_NAME.hide_task(task) is task
    assert BY_NAME.hide_folders(device) is device


def test_a_claim_is_joined_by_its_keys_as_before():
    claim = Claim(POD, keys=("pod:12-34", "podname:ml/train-0/main"))
    assert privacy(pods="none").hide_claim(claim).keys == claim.keys


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/home/alice/bin/python3 --token=secret", "python3"),
        ("python3", "python3"),
        (".../bin/worker", "worker"),
        ("", ""),
    ],
)
def test_where_users_are_hidden_a_program_has_no_folder(name, expected):
    device = kit.full_device(processes=(Process(0, 17, name, 5.0),))
    assert privacy(users="none").hide_folders(device).processes == (Process(0, 17, expected, 5.0),)
    assert privacy(pods="none").hide_folders(device) is device


NAMES = st.text(min_size=4, max_size=12).map(lambda text: f"secret{text}")
OWNERS = st.builds(Owner, st.sampled_from(("pod", "job", "container", "service", "user")), *([NAMES] * 7))


@given(owners=st.lists(OWNERS, min_size=2, max_size=5, unique_by=lambda owner: (owner.kind, owner.name)))
def test_no_name_is_left_and_different_owners_stay_different(owners):
    for shown in product(("hash", "none"), repeat=3):
        hidden = [privacy(*shown).hide_owner(owner) for owner in owners]
        assert "secret" not in str([astuple(owner) for owner in hidden])
        assert len({(owner.kind, owner.name) for owner in hidden}) == len(owners)
        assert hidden == [privacy(*shown).hide_owner(owner) for owner in owners]
