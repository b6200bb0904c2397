use super::*;

fn at(began: u64, ended: u64, action: Action) -> Operation {
    Operation {
        began,
        ended,
        action,
    }
}

fn land(began: u64, ended: u64, number: u64, outcome: Outcome) -> Operation {
    let action = Action::Land {
        request: format!("key-{number}"),
        snapshot: format!("head-{number}"),
        outcome,
    };
    at(began, ended, action)
}

fn read(began: u64, ended: u64, sequence: u64) -> Operation {
    let head = format!("head-{sequence}");
    at(began, ended, Action::Read { sequence, head })
}

fn begin(began: u64, ended: u64, number: u64, process: &str, begun: KeyState) -> Operation {
    let action = Action::Begin {
        key: format!("key-{number}"),
        process: process.into(),
        begun,
    };
    at(began, ended, action)
}

fn finish(began: u64, ended: u64, number: u64, process: &str, sequence: u64) -> Operation {
    let action = Action::Finish {
        key: format!("key-{number}"),
        process: process.into(),
        sequence,
        is_acknowledged: true,
    };
    at(began, ended, action)
}

fn take(began: u64, ended: u64, session: u64, token: u64) -> Operation {
    let action = Action::Take {
        session,
        token,
        nanoseconds: 100,
    };
    at(began, ended, action)
}

/// A valid history of two landings by two processes; the answer to the second one was lost.
fn valid() -> History {
    let entry = |number: u64| Entry {
        sequence: number,
        snapshot: format!("head-{number}"),
        parent: format!("head-{}", number - 1),
        request: format!("key-{number}"),
    };
    History {
        first: "head-0".into(),
        log: vec![entry(1), entry(2)],
        operations: vec![
            begin(1, 2, 1, "a", KeyState::Taken),
            begin(3, 4, 1, "b", KeyState::Running),
            read(5, 6, 0),
            land(10, 20, 1, Outcome::Landed(1)),
            finish(21, 22, 1, "a", 1),
            begin(23, 24, 1, "b", KeyState::Done(1)),
            // Concurrent with the second landing: both numbers are possible.
            read(31, 33, 1),
            land(30, 40, 2, Outcome::Unknown),
            land(41, 42, 3, Outcome::Refused),
            read(43, 44, 2),
            take(50, 51, 1, 1),
            take(151, 152, 2, 2),
        ],
        followers: vec![vec![(4, 1), (9, 2)]; 2],
    }
}

/// Returns the only violation after a change of the valid history.
#[track_caller]
fn planted(change: impl FnOnce(&mut History)) -> String {
    let mut history = valid();
    change(&mut history);
    let found = history.violations();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[track_caller]
fn adds(operation: Operation, expected: &str) {
    let found = planted(|history| history.operations.push(operation));
    assert!(found.contains(expected), "{found}");
}

#[test]
fn a_valid_history_has_no_violation() {
    assert_eq!(valid().violations(), [""; 0]);
}

#[test]
fn an_unknown_landing_may_never_happen() {
    let mut history = valid();
    history.operations.push(land(60, 70, 9, Outcome::Unknown));
    assert_eq!(history.violations(), [""; 0]);
}

#[test]
fn finds_a_broken_chain() {
    let found = planted(|history| history.log[1].parent = "head-0".into());
    assert!(found.contains("not the head before it"), "{found}");
}

#[test]
fn finds_a_request_that_landed_twice() {
    let mut history = valid();
    history.log[1].request = "key-1".into();
    let found = history.violations();
    assert!(found.contains(&"1 and 2 have the same request".to_owned()));
}

#[test]
fn finds_a_lost_landing() {
    adds(land(60, 70, 3, Outcome::Landed(3)), "3 is lost");
}

#[test]
fn finds_a_landing_that_was_reported_as_refused() {
    let found = planted(|history| {
        history.operations[7] = land(30, 40, 2, Outcome::Refused);
    });
    assert!(found.contains("heard that nothing changed"), "{found}");
}

#[test]
fn finds_a_landing_that_nothing_attempted() {
    let found = planted(|history| drop(history.operations.remove(7)));
    assert!(found.contains("nothing attempted 2"), "{found}");
}

#[test]
fn finds_a_stale_read() {
    adds(read(25, 26, 0), "shows 0 after 1");
}

#[test]
fn finds_a_read_of_a_later_head() {
    let mut history = valid();
    history.operations.push(read(27, 28, 2));
    let found = history.violations();
    let expected = "2 was shown before it was attempted".to_owned();
    assert!(found.contains(&expected), "{found:?}");
}

#[test]
fn finds_a_read_of_a_head_that_is_not_in_the_log() {
    let head = "head-7".to_owned();
    let action = Action::Read { sequence: 2, head };
    adds(at(60, 61, action), "another head 2");
}

#[test]
fn finds_landings_against_their_order() {
    let mut history = valid();
    // Ends before the first landing begins, but has the greater number.
    history.operations[7] = land(7, 8, 2, Outcome::Landed(2));
    let found = history.violations();
    let expected = "1 was attempted when 2 was the head".to_owned();
    assert!(found.contains(&expected), "{found:?}");
}

#[test]
fn finds_a_repeated_landing_that_is_not_in_the_log() {
    let outcome = Outcome::Repeated {
        sequence: 1,
        head: "head-9".into(),
    };
    adds(land(60, 61, 8, outcome), "repeated landing 1");
}

#[test]
fn finds_a_key_that_two_processes_run() {
    adds(begin(5, 6, 1, "b", KeyState::Taken), "b took it while a");
}

#[test]
fn finds_a_finished_key_that_is_unfinished_again() {
    adds(begin(60, 61, 1, "b", KeyState::Running), "unfinished again");
}

#[test]
fn finds_a_wrong_result_of_a_key() {
    adds(begin(60, 61, 1, "b", KeyState::Done(2)), "with 2");
    adds(finish(60, 61, 1, "a", 2), "finished with 2");
}

#[test]
fn finds_a_lease_with_two_holders() {
    let found = planted(|history| {
        history.operations.retain(|one| one.began < 150);
        history.operations.push(take(60, 61, 2, 2));
    });
    assert!(found.contains("the lease that 1 held"), "{found}");
}

#[test]
fn finds_a_token_that_returns() {
    adds(take(300, 301, 3, 2), "two sessions");
    adds(take(300, 301, 1, 1), "came after");
}

#[test]
fn a_released_lease_can_be_taken() {
    let mut history = valid();
    history.operations.retain(|one| one.began < 150);
    let release = Action::Release {
        session: 1,
        token: 1,
    };
    history.operations.push(at(60, 61, release));
    history.operations.push(take(62, 63, 2, 2));
    assert_eq!(history.violations(), [""; 0]);
}

#[test]
fn finds_events_that_are_missed_doubled_or_out_of_order() {
    for seen in [
        vec![(4, 1)],
        vec![(4, 1), (5, 1), (6, 2)],
        vec![(4, 2), (5, 1)],
        vec![(4, 1), (4, 2)],
    ] {
        let found = planted(|history| history.followers[1] = seen);
        assert!(found.starts_with("follower 1"), "{found}");
    }
}
