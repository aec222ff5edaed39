"""`cks-admission init`: nothing is overwritten, and names that no policy can have."""

from pathlib import Path

from support.service.commands import run


def test_nothing_is_overwritten() -> None:
    """A folder that exists is left alone."""
    Path("mine").mkdir()

    result = run("init", "policy", "mine")

    assert (result.exit_code, result.output) == (2, "Error: mine exists: choose another name, or remove it\n")
    assert list(Path("mine").iterdir()) == []


def test_a_name_that_no_policy_can_have() -> None:
    """What kube-apiserver would refuse as a name is refused here, before anything is written."""
    result = run("init", "policy", "My_Policy")

    assert (result.exit_code, list(Path().iterdir())) == (2, [])
    assert result.output.startswith("Error: 'My_Policy' is no name for a policy: a lowercase")
