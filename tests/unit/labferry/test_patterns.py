"""Does a name match a profile's patterns as a shell would say?"""

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.profiles import load_profile
from labferry.profiles.patterns import NamePatterns

GENERIC = load_profile("generic", {})
SHIPPED = (*GENERIC.temporary, *GENERIC.litter, *GENERIC.litter_folders)
SHAPES = ("name", "*.tmp", "~$*", "*", "a*b", "?", ".*.??????", "[ab]*", "*.t[mn]p", "**", "*a*")


def slowly(patterns: tuple[str, ...], name: str) -> bool:
    return any(re.fullmatch(translate(one.lower()), name.lower()) for one in patterns)


names = st.text(st.sampled_from("abTMP.~$-_?*[]é#"), max_size=12)


@given(patterns=st.lists(st.sampled_from(SHAPES + SHIPPED), max_size=4).map(tuple), name=names)
def test_a_name_matches_exactly_where_a_shell_says_so(patterns: tuple[str, ...], name: str) -> None:
    assert NamePatterns(patterns).match(name) is slowly(patterns, name)


@pytest.mark.parametrize("pattern", SHIPPED)
def test_every_shipped_pattern_matches_a_name_of_its_shape(pattern: str) -> None:
    name = pattern.replace("*", "Run1").replace("?", "x").upper()
    assert NamePatterns((pattern,)).match(name)


def test_no_pattern_matches_nothing() -> None:
    assert not NamePatterns(()).match("anything")
    assert not NamePatterns(()).match("")
