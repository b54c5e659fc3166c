//! Whose turn it is (pure): the line of a repository in, one step out.

use act_core::process::Life;
use act_records::store::TaskState;

/// One place in the line, as the one that waits sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) task_id: String,
    pub(super) state: TaskState,
    /// Of its owner.
    pub(super) life: Life,
}

/// What is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Behind {
    /// Among those that wait, from 1.
    pub(super) position: u32,
    /// The task that works, or the first that waits; none when it is not known who works.
    pub(super) holder: Option<String>,
    /// Its process has been stopped.
    pub(super) stalled: bool,
    /// False for one that waits itself.
    pub(super) works: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is ours, as soon as nobody else works in the repository.
    Ours,
    /// Taken out of the line.
    Gone,
    /// The process of this running task is dead.
    Bury(String),
    /// Nothing is known about the process of this running task; it is dead if the repository's lock is free.
    BuryIfUnlocked(String),
    /// This one is first, and its process is dead.
    Adopt(String),
    Wait(Behind),
}

/// Among those that wait, from 1; one behind the last for one that does not.
pub(super) fn position(line: &[Seat], me: &str) -> u32 {
    let waiting = line.iter().filter(|seat| seat.state == TaskState::Queued);
    let before = waiting.take_while(|seat| seat.task_id != me).count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

/// `line` is in order of acceptance.
pub(super) fn next(line: &[Seat], me: &str) -> Turn {
    let waiting = || line.iter().filter(|seat| seat.state == TaskState::Queued);
    if !waiting().any(|seat| seat.task_id == me) {
        return Turn::Gone;
    }
    let position = position(line, me);
    let behind = |seat: &Seat| {
        let stalled = seat.life == Life::Stalled;
        let works = seat.state == TaskState::Running;
        Turn::Wait(Behind { position, holder: Some(seat.task_id.clone()), stalled, works })
    };
    if let Some(running) = line.iter().find(|seat| seat.state == TaskState::Running) {
        return match running.life {
            Life::Dead => Turn::Bury(running.task_id.clone()),
            Life::Unknown => Turn::BuryIfUnlocked(running.task_id.clone()),
            Life::Runs | Life::Stalled => behind(running),
        };
    }
    match waiting().next() {
        Some(first) if first.task_id == me => Turn::Ours,
        Some(first) if first.life == Life::Dead => Turn::Adopt(first.task_id.clone()),
        Some(first) => behind(first),
        None => Turn::Gone,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seat(task_id: &str, state: TaskState, life: Life) -> Seat {
        Seat { task_id: task_id.into(), state, life }
    }

    fn queued(task_id: &str, life: Life) -> Seat {
        seat(task_id, TaskState::Queued, life)
    }

    fn running(life: Life) -> Seat {
        seat("t-r", TaskState::Running, life)
    }

    fn wait(position: u32, holder: &str, stalled: bool) -> Turn {
        let works = holder == "t-r";
        Turn::Wait(Behind { position, holder: Some(holder.into()), stalled, works })
    }

    #[test]
    fn the_first_has_its_turn_and_the_others_wait_for_it() {
        // TASK-21
        let line = [queued("t-1", Life::Runs), queued("t-2", Life::Runs)];
        assert_eq!(next(&line, "t-1"), Turn::Ours);
        assert_eq!(next(&line, "t-2"), wait(2, "t-1", false));
        assert_eq!(next(&line, "t-3"), Turn::Gone);
        assert_eq!(next(&[], "t-3"), Turn::Gone);
    }

    #[test]
    fn a_stopped_owner_is_waited_for_and_shown_a_dead_one_is_not() {
        // TASK-20, TASK-22, TASK-24
        let mine = queued("t-1", Life::Runs);
        let line = |life| [running(life), mine.clone()];
        assert_eq!(next(&line(Life::Runs), "t-1"), wait(1, "t-r", false));
        assert_eq!(next(&line(Life::Stalled), "t-1"), wait(1, "t-r", true));
        assert_eq!(next(&line(Life::Dead), "t-1"), Turn::Bury("t-r".into()));
        assert_eq!(next(&line(Life::Unknown), "t-1"), Turn::BuryIfUnlocked("t-r".into()));
    }

    #[test]
    fn a_dead_owners_task_is_adopted_when_it_is_first() {
        // TASK-23
        let line = [queued("t-1", Life::Dead), queued("t-2", Life::Runs)];
        assert_eq!(next(&line, "t-2"), Turn::Adopt("t-1".into()));
        let busy = [running(Life::Runs), line[0].clone(), line[1].clone()];
        assert_eq!(next(&busy, "t-2"), wait(2, "t-r", false));
        for life in [Life::Stalled, Life::Unknown] {
            let line = [queued("t-1", life), queued("t-2", Life::Runs)];
            assert_eq!(next(&line, "t-2"), wait(2, "t-1", life == Life::Stalled));
        }
    }

    fn lives() -> impl Strategy<Value = Life> {
        prop_oneof![Just(Life::Runs), Just(Life::Stalled), Just(Life::Dead), Just(Life::Unknown)]
    }

    proptest! {
        /// However many look at the same line, at most one of them has its turn, and never beside one that
        /// works or before one that was accepted earlier.
        #[test]
        fn at_most_one_has_its_turn(works in proptest::option::of(lives()), waits in proptest::collection::vec(lives(), 0..8)) {
            let mut line: Vec<_> = works.map(running).into_iter().collect();
            line.extend(waits.iter().enumerate().map(|(at, life)| queued(&format!("t-{at}"), *life)));
            let turns: Vec<_> = (0..waits.len()).map(|at| next(&line, &format!("t-{at}"))).collect();
            for (at, turn) in turns.iter().enumerate() {
                match turn {
                    Turn::Ours => prop_assert!(at == 0 && works.is_none()),
                    Turn::Adopt(first) => {
                        prop_assert!(at > 0 && works.is_none() && first == "t-0");
                        prop_assert_eq!(waits[0], Life::Dead);
                    }
                    Turn::Bury(_) => prop_assert_eq!(works, Some(Life::Dead)),
                    Turn::BuryIfUnlocked(_) => prop_assert_eq!(works, Some(Life::Unknown)),
                    Turn::Wait(behind) => prop_assert_eq!(behind.position as usize, at + 1),
                    Turn::Gone => prop_assert!(false, "it waits"),
                }
            }
        }
    }
}
