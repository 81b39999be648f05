"""Regular expressions of permissions and policies: the meaning of Erlang's re:run, the time of a straight walk."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.broker.rules.pattern import PATTERN_BYTES_MAX, Pattern
from warren.broker.rules.pattern_syntax import PatternError

# Read off Erlang's re:run, which is what RabbitMQ asks: pattern, what it matches, what it does not.
ERLANG = [
    ("", ["", "a"], []),
    (".*", ["", "a", "a\nb"], []),
    ("^$", ["", "\n"], ["a"]),
    ("b", ["abc", "b"], ["", "ac"]),
    ("^ok|amq\\.topic", ["okay", "my amq.topic"], ["not ok", "amqxtopic"]),
    ("^(?!amq\\.).*", ["orders", "", "xamq."], ["amq.gen-1"]),
    ("^.*(?<!\\.dlq)$", ["orders", "dlq"], ["orders.dlq"]),
    ("(?<=a|bc)d", ["ad", "xbcd"], ["cd", "d"]),
    ("^a{2}$", ["aa"], ["a", "aaa"]),
    ("^a{2,}$", ["aa", "aaaa"], ["a"]),
    ("^a{1,2}$", ["a", "aa"], ["", "aaa"]),
    ("^a{,2}$", ["a{,2}"], ["a", "aa"]),
    ("^{username}$", ["{username}"], ["username"]),
    ("^[a-c-]+$", ["a-b", "c"], ["d", ""]),
    ("^[]a]+$", ["]a"], ["b"]),
    ("^[^]a]$", ["b"], ["]", "a"]),
    ("^[[:alpha:]]+$", ["abc"], ["ab1"]),
    ("^[[:^digit:]]$", ["a"], ["1"]),
    ("^\\w+$", ["a_1"], ["a-1"]),
    ("^\\d\\D\\s\\S$", ["1a b"], ["aa b"]),
    ("^\\h\\H\\v\\V$", [" a\nb"], ["aa\nb"]),
    ("\\bword\\b", ["a word here"], ["swords"]),
    ("o\\Br", ["for"], ["o r"]),
    ("^.$", ["a"], ["é", "\n"]),
    ("^\\N$", ["a"], ["\n"]),
    ("^..$", ["é"], ["e"]),
    ("(?s)^.$", ["\n"], []),
    ("(?m)^b$", ["a\nb\nc"], ["ab"]),
    ("(?m)^$", ["a\n\nb"], ["a\n"]),
    ("a(?i)b", ["aB", "ab"], ["Ab"]),
    ("(?i:a)b", ["Ab"], ["aB"]),
    ("(?i)[^a]", ["b"], ["a", "A"]),
    ("(?i)^a(?-i)b$", ["Ab"], ["AB"]),
    ("a$", ["a", "a\n"], ["a\n\n", "ab"]),
    ("a\\Z", ["a\n"], ["ab"]),
    ("a\\z", ["a"], ["a\n"]),
    ("\\Aa", ["ab"], ["ba"]),
    ("^\\Qa.*\\E$", ["a.*"], ["abb"]),
    ("^[\\Q]^\\E]$", ["]", "^"], ["a"]),
    ("^a\\E*$", ["aaa"], ["b"]),
    ("^\\x41\\x{42}\\0\\t$", ["AB\0\t"], ["AB"]),
    ("^[\\b]$", ["\b"], ["b"]),
    ("^(?P<one>a)(?<two>b)(?'three'c)$", ["abc"], ["ab"]),
    ("a(?#a comment)b", ["ab"], ["a b"]),
    ("(a*)*b", ["b", "aab"], ["a"]),
    ("()+", [""], []),
    ("(^)*a", ["ba"], ["b"]),
    ("^a+?$", ["aa"], [""]),
    ("(?=a)*b", ["b"], ["a"]),
    ("^a\\|b$", ["a|b"], ["a"]),
    ("^a|b|c$", ["ax", "xbx", "xc"], ["cx"]),
    ("\\-\\/\\_", ["-/_"], ["-"]),
]

# Read off Erlang's re:compile.
REFUSED = [
    ("(", "missing )", 1),
    ("(?:a", "missing )", 4),
    (")", "unmatched parentheses", 0),
    ("a)", "unmatched parentheses", 1),
    ("*", "nothing to repeat", 0),
    ("a**", "nothing to repeat", 2),
    ("a|*", "nothing to repeat", 2),
    ("^*", "nothing to repeat", 1),
    ("{2}", "nothing to repeat", 2),
    ("a{2,1}", "numbers out of order in {} quantifier", 5),
    ("a{70000}", "number too big in {} quantifier", 7),
    ("[", "missing terminating ] for character class", 1),
    ("[]", "missing terminating ] for character class", 2),
    ("[a", "missing terminating ] for character class", 2),
    ("[z-a]", "range out of order in character class", 3),
    ("[a-\\d]", "invalid range in character class", 4),
    ("[[:nope:]]", "unknown POSIX class name", 3),
    ("[:alpha:]", "POSIX named classes are supported only within a class", 0),
    ("\\", "\\ at end of pattern", 1),
    ("(?z)", "unrecognized character after (? or (?-", 2),
    ("\\x{141}", "character value in \\x{} or \\o{} is too large", 6),
]

# PCRE answers these by backtracking, which is what this engine must not do.
NOT_SUPPORTED = ["(a)\\1", "a++", "(?>a)", "(?R)", "\\p{L}", "(?(1)a)", "\\k<n>", "\\G", "(?|a)", "(?x)a"]


@pytest.mark.parametrize(("pattern", "matched", "not_matched"), ERLANG, ids=lambda case: repr(case)[:40])
def test_matches_what_erlang_matches(pattern: str, matched: list[str], not_matched: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [subject for subject in matched if not compiled.matches(subject)] == []
    assert [subject for subject in not_matched if compiled.matches(subject)] == []


@pytest.mark.parametrize(("pattern", "reason", "position"), REFUSED)
def test_refuses_in_the_words_of_pcre(pattern: str, reason: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(pattern)
    assert (caught.value.reason, caught.value.position) == (reason, position)
    assert str(caught.value) == f"invalid regular expression '{pattern}': {reason} at position {position}"


@pytest.mark.parametrize("pattern", NOT_SUPPORTED)
def test_refuses_what_only_backtracking_can_answer(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(?<=a*)b", "(?<=(a|bc))d", "(?<!a?)b"])
def test_refuses_to_look_back_an_unknown_way(pattern: str) -> None:
    with pytest.raises(PatternError, match="lookbehind assertion is not fixed length"):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        ("^(a+)+$", "a" * 254 + "b"),
        ("(a|aa)+$", "a" * 254 + "b"),
        (".*.*.*.*.*.*.*.*=", "a" * 255),
        ("(?:a?){100}a{100}", "a" * 99),
        ("((a*)*)*b", "a" * 255),
    ],
)
def test_a_hostile_pattern_costs_no_more_than_a_walk(pattern: str, subject: str) -> None:
    # Backtracking would take longer than the universe has; the time limit of the suite would end this test.
    for _ in range(20):
        assert not Pattern(pattern).matches(subject)


def test_a_search_that_gives_up_does_not_match() -> None:
    nested = "(?!.*(?=.*(?=.*(?=.*(?=.*(?=.*(?=.*(?=.*(?=.*x)))))))))"
    endless = Pattern(nested + "(?=.*" * 40 + "x" + ")" * 40)
    assert not endless.matches("a" * 255)


def test_size_is_bounded() -> None:
    assert Pattern("a" * PATTERN_BYTES_MAX).matches("a" * PATTERN_BYTES_MAX)
    with pytest.raises(PatternError, match="longer than 1024 bytes"):
        Pattern("é" * (PATTERN_BYTES_MAX // 2 + 1))
    with pytest.raises(PatternError, match="regular expression is too large"):
        Pattern("(a{1000}){1000}")
    with pytest.raises(PatternError, match="parentheses are too deeply nested"):
        Pattern("(" * 60 + ")" * 60)


def test_names_that_are_not_utf8_can_be_matched() -> None:
    assert Pattern("^\\xff.$").matches(b"\xffa".decode(errors="surrogateescape"))


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\w", "\\.", "^", "$", "\\b"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        inner.map(lambda part: f"(?:{part})"),
        inner.map(lambda part: f"(?:{part})*"),
        inner.map(lambda part: f"(?:{part})+"),
        inner.map(lambda part: f"(?:{part})?"),
        inner.map(lambda part: f"(?:{part}){{1,2}}"),
        inner.map(lambda part: f"(?={part})"),
        inner.map(lambda part: f"(?!{part})"),
    ),
    max_leaves=6,
)


@given(_PATTERNS, st.text("ab.\n ", max_size=6))
def test_agrees_with_pythons_re_where_both_mean_the_same(pattern: str, subject: str) -> None:
    expected = re.search(pattern.encode(), subject.encode()) is not None
    assert Pattern(pattern).matches(subject) is expected
