"""The log that says which release readers get: moves are pure, records are a chain, undo brings back a whole state."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.errors import CorruptReleaseError, RefusedError, UsageError
from kbcore.store import layout, promotion
from kbcore.store.promotion import STACK, START, Promotion, Stamp

_numbers = itertools.count(1)


def stamp(reason: str = "why") -> Stamp:
    return Stamp(reason=reason, by="ada", at="2026-11-30T04:00:00Z", run="run", nonce=f"nonce-{next(_numbers)}")


def name(number: int) -> str:
    return layout.release_name(number)


def manifest_digest(release: str) -> str:
    return f"manifest-{release}"


def content(release: str) -> str:
    return f"content-{release}"


def promote(state: Promotion, number: int, *, lift: bool = False) -> Promotion:
    release = name(number)
    return promotion.promote(state, release, manifest_digest(release), stamp(), lift=lift, unblock=content(release))


def rollback(state: Promotion, number: int) -> Promotion:
    assert state.release is not None
    return promotion.rollback(state, name(number), manifest_digest(name(number)), content(state.release), stamp())


def promoted(*numbers: int) -> Promotion:
    state = START
    for number in numbers:
        state = promote(state, number)
    return state


def settings(state: Promotion) -> tuple[object, ...]:
    """What an undo brings back."""
    return (state.release, state.manifest_digest, state.hold, state.stack, state.pins, state.blocked)


def test_promote_makes_a_release_current_and_names_its_manifest() -> None:
    state = promoted(1, 2)
    assert (state.seq, state.kind, state.release, state.previous) == (2, "promote", name(2), name(1))
    assert state.manifest_digest == manifest_digest(name(2))
    assert (state.reason, state.by) == ("why", "ada")


def test_the_first_record_follows_nothing_and_each_later_one_the_record_before_it() -> None:
    first = promoted(1)
    second = promote(first, 2)
    assert first.previous_digest is None
    assert second.previous_digest == first.digest
    assert first.digest != replace(first, reason="another").digest


def test_what_is_current_is_not_promoted_again() -> None:
    with pytest.raises(UsageError, match="current already"):
        promote(promoted(1), 1)


def test_the_stack_keeps_the_newest_twenty() -> None:
    state = promoted(*range(1, 31))
    assert STACK == 20
    assert state.stack == tuple(name(number) for number in range(11, 31))


def test_rollback_goes_back_holds_and_blocks_the_content_it_leaves() -> None:
    state = rollback(promoted(1, 2, 3), 2)
    assert (state.kind, state.release, state.stack) == ("rollback", name(2), (name(1), name(2)))
    assert state.manifest_digest == manifest_digest(name(2))
    assert state.hold == {"reason": "why", "by": "ada", "since": "2026-11-30T04:00:00Z"}
    assert state.blocked == (content(name(3)),)
    assert state.previous == name(1)


def test_rollback_by_several_steps_drops_all_above_the_target() -> None:
    assert rollback(promoted(1, 2, 3, 4), 1).stack == (name(1),)


def test_rollback_goes_to_the_latest_time_its_target_was_current() -> None:
    state = promoted(1, 2, 1, 3)
    assert rollback(state, 1).stack == (name(1), name(2), name(1))


@pytest.mark.parametrize("target", [9, 3], ids=["never current", "current now"])
def test_rollback_to_what_was_not_current_before_is_refused(target: int) -> None:
    with pytest.raises(RefusedError, match="was not current before"):
        rollback(promoted(1, 2, 3), target)


def test_rollback_beyond_the_stack_is_refused() -> None:
    state = promoted(*range(1, STACK + 2))
    with pytest.raises(RefusedError, match="was not current before"):
        rollback(state, 1)
    assert rollback(state, 2).stack == (name(2),)


def test_blocked_contents_add_up_once_each_until_the_hold_is_lifted() -> None:
    state = rollback(rollback(promoted(1, 2, 3), 2), 1)
    assert state.blocked == (content(name(3)), content(name(2)))
    again = rollback(promote(rollback(promoted(1, 2), 1), 3), 1)
    assert again.blocked == (content(name(2)), content(name(3)))
    lifted = promotion.lift(state, stamp())
    assert (lifted.hold, lifted.blocked, lifted.release) == (None, (), name(1))


def test_a_person_who_promotes_what_is_blocked_unblocks_it_alone_and_keeps_the_hold() -> None:
    state = promote(rollback(rollback(promoted(1, 2, 3), 2), 1), 3)
    assert (state.release, state.blocked) == (name(3), (content(name(2)),))
    assert state.hold is not None


def test_promote_with_lift_ends_the_hold_and_unblocks_all() -> None:
    state = promote(rollback(rollback(promoted(1, 2, 3), 2), 1), 4, lift=True)
    assert (state.hold, state.blocked) == (None, ())


def test_hold_and_lift_move_nobody() -> None:
    before = promoted(1, 2)
    held = promotion.hold(before, stamp("careful"))
    assert held.hold == {"reason": "careful", "by": "ada", "since": "2026-11-30T04:00:00Z"}
    assert (held.release, held.stack) == (before.release, before.stack)
    assert settings(promotion.lift(held, stamp())) == settings(before)


def test_a_hold_that_is_not_there_is_not_lifted() -> None:
    with pytest.raises(UsageError, match="no hold"):
        promotion.lift(promoted(1), stamp())


def test_a_hold_before_the_first_release_is_possible() -> None:
    held = promotion.hold(START, stamp())
    assert (held.seq, held.release, held.previous_digest) == (1, None, None)


def test_pin_and_unpin() -> None:
    state = promotion.pin(promotion.pin(promoted(1, 2), name(1), stamp()), name(2), stamp())
    assert state.pins == (name(1), name(2))
    with pytest.raises(UsageError, match="pinned already"):
        promotion.pin(state, name(1), stamp())
    state = promotion.unpin(state, name(1), stamp())
    assert state.pins == (name(2),)
    with pytest.raises(UsageError, match="is not pinned"):
        promotion.unpin(state, name(1), stamp())


def test_undo_brings_back_the_state_before_and_says_which() -> None:
    before = promotion.pin(promoted(1, 2, 3), name(1), stamp())
    undone = promotion.undo(rollback(before, 1), before, stamp())
    assert (undone.kind, undone.restores) == ("undo", before.seq)
    assert settings(undone) == settings(before)


def test_an_undo_undone_brings_back_what_it_undid() -> None:
    before = promoted(1, 2)
    after = rollback(before, 1)
    undone = promotion.undo(after, before, stamp())
    again = promotion.undo(undone, after, stamp())
    assert settings(again) == settings(after)
    assert again.restores == after.seq


def test_undo_of_the_first_record_leaves_nothing_current() -> None:
    undone = promotion.undo(promoted(1), START, stamp())
    assert settings(undone) == settings(START)
    assert undone.seq == 2


def test_a_move_after_an_undo_does_not_carry_its_mark() -> None:
    state = promoted(1, 2)
    undone = promotion.undo(promote(state, 3), state, stamp())
    assert promote(undone, 4).restores is None


def test_a_record_is_read_back_as_it_was_written() -> None:
    state = promotion.pin(rollback(promoted(1, 2, 3), 2), name(1), stamp())
    assert Promotion.from_body(state.to_body(), file=layout.promotion_file(state.seq)) == state


@pytest.mark.parametrize(
    "change",
    [{"seq": 9}, {"format": 2}, {"release": "../x"}, {"stack": ["x"]}, {"pins": ["r1"]}, {"more": 1}, {"stack": None}],
    ids=str,
)
def test_a_record_that_does_not_fit_its_file_or_its_form_is_damage(change: dict[str, object]) -> None:
    state = promoted(1)
    with pytest.raises(CorruptReleaseError):
        Promotion.from_body({**state.to_body(), **change}, file=layout.promotion_file(state.seq))


Move = Callable[[list[Promotion], int], Promotion]


def undo(log: list[Promotion], number: int) -> Promotion:
    if len(log) < 2:
        raise UsageError("nothing to undo")
    return promotion.undo(log[-1], log[-2], stamp())


MOVES: dict[str, Move] = {
    "promote": lambda log, n: promote(log[-1], n),
    "promote and lift": lambda log, n: promote(log[-1], n, lift=True),
    "rollback": lambda log, n: rollback(log[-1], n) if log[-1].release else undo(log, n),
    "hold": lambda log, n: promotion.hold(log[-1], stamp()),
    "lift": lambda log, n: promotion.lift(log[-1], stamp()),
    "pin": lambda log, n: promotion.pin(log[-1], name(n), stamp()),
    "unpin": lambda log, n: promotion.unpin(log[-1], name(n), stamp()),
    "undo": undo,
}
SEQUENCES = st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.integers(1, 6)), max_size=60)


@given(SEQUENCES)
def test_any_sequence_of_moves_keeps_the_rules_of_the_log(moves: list[tuple[str, int]]) -> None:
    log = [START]
    for kind, number in moves:
        before = log[-1]
        try:
            after = MOVES[kind](log, number)
        except (UsageError, RefusedError):
            continue
        assert after.seq == before.seq + 1
        assert after.previous_digest == (before.digest if before.seq else None)
        assert after.nonce != before.nonce
        assert after.release == (after.stack[-1] if after.stack else None)
        assert len(after.stack) <= STACK
        assert len(set(after.pins)) == len(after.pins)
        assert len(set(after.blocked)) == len(after.blocked)
        assert after.manifest_digest == (manifest_digest(after.release) if after.release else None)
        assert all(one != next for one, next in itertools.pairwise(after.stack))
        if after.kind == "undo":
            assert settings(after) == settings(log[-2])
            assert after.restores == log[-2].seq
        else:
            assert after.restores is None
        if after.kind == "rollback":
            assert after.hold is not None
            assert before.release is not None
            assert content(before.release) in after.blocked
        if after.kind in ("hold", "lift", "pin", "unpin"):
            assert (after.release, after.stack) == (before.release, before.stack)
        assert Promotion.from_body(after.to_body(), file=layout.promotion_file(after.seq)) == after
        log.append(after)
