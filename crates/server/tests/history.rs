//! The history checker accepts every history of a correct server, and rejects a
//! history with one planted error of each kind.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "history/checker.rs"]
mod checker;
#[path = "history/model.rs"]
mod model;

use checker::{Answer, Asks, Attempt, Effect, History, Read, Request, Thing, Violation, check};
use model::{Model, done, run};

#[test]
fn accepts_every_order_that_a_correct_server_can_show() {
    for seed in 0..300 {
        let history = run(seed);
        assert_eq!(check(&history), [], "seed {seed}");
        assert!(history.reads.len() > 10 && history.requests.len() > 100);
    }
}

/// Returns a history with three landings, the creation of a thing and a read,
/// one after the other; then a landing that deletes a second thing.
fn simple() -> History {
    let mut model = Model::new(0, 1);
    for tag in ["a", "b", "c"] {
        let effect = model.land(0, tag);
        add(&mut model, tag, land(), &effect);
    }
    let (sequence, head) = model.read(0);
    let (sent, ended) = (model.tick(), model.tick());
    model.history.reads.push(Read {
        project: 0,
        sent,
        ended,
        sequence,
        head,
    });
    for tag in ["thing", "ended"] {
        let effect = model.make(tag);
        add(&mut model, tag, Asks::Make, &effect);
    }
    let effect = model.land(0, "end");
    model.history.things.retain(|thing| thing.tag != "ended");
    let ends = Some("ended".to_owned());
    add(&mut model, "end", Asks::Land { project: 0, ends }, &effect);
    model.history
}

fn land() -> Asks {
    Asks::Land {
        project: 0,
        ends: None,
    }
}

fn add(model: &mut Model, tag: &str, asks: Asks, effect: &Effect) {
    let attempts = [false, true].map(|is_replayed| Attempt {
        sent: model.tick(),
        ended: model.tick(),
        answer: done(effect, is_replayed),
    });
    model.history.requests.push(Request {
        tag: tag.into(),
        asks,
        attempts: attempts.into(),
    });
}

fn planted(plant: impl FnOnce(&mut History)) -> Vec<Violation> {
    let mut history = simple();
    assert_eq!(check(&history), []);
    plant(&mut history);
    check(&history)
}

fn request<'a>(history: &'a mut History, tag: &str) -> &'a mut Request {
    let mut requests = history.requests.iter_mut();
    requests.find(|request| request.tag == tag).unwrap()
}

/// Removes a landing, as if it had never happened.
fn unland(history: &mut History, sequence: usize) {
    let entries = &mut history.logs[0].entries;
    entries.remove(sequence - 1);
    let mut parent = history.logs[0].first.clone();
    for (entry, number) in history.logs[0].entries.iter_mut().zip(1..) {
        (entry.sequence, entry.parent) = (number, parent);
        parent = entry.head.clone();
    }
}

fn has(found: &[Violation], violation: Violation) {
    assert!(found.contains(&violation), "{violation:?}: {found:?}");
}

#[test]
fn rejects_a_lost_landing() {
    let found = planted(|history| unland(history, 4));
    has(&found, Violation::Lost("end".into()));
}

#[test]
fn rejects_a_landing_that_was_lost_between_others() {
    let found = planted(|history| unland(history, 2));
    has(&found, Violation::Lost("b".into()));
    has(&found, Violation::Foreign("c".into()));
}

#[test]
fn rejects_a_stale_read() {
    let found = planted(|history| {
        let read = &mut history.reads[0];
        (read.sequence, read.head) = (2, "head 2 of 0".into());
    });
    assert_eq!(found, [Violation::Stale(0, 2)]);
}

#[test]
fn rejects_reads_that_go_back() {
    let found = planted(|history| {
        let mut back = history.reads[0].clone();
        (back.sent, back.ended) = (1000, 1001);
        history.reads.push(back);
    });
    assert_eq!(found, [Violation::Stale(0, 3)]);
}

#[test]
fn rejects_a_read_of_the_future() {
    let found = planted(|history| {
        let read = &mut history.reads[0];
        (read.sequence, read.head) = (4, "head 4 of 0".into());
    });
    // The landing that the read saw was requested after the read.
    assert_eq!(found, [Violation::OutOfOrder("end".into())]);
}

#[test]
fn rejects_a_read_of_a_head_that_never_was() {
    let found = planted(|history| history.reads[0].head = "another".into());
    assert_eq!(found, [Violation::NeverThere(0, 3)]);
    let found = planted(|history| history.reads[0].sequence = 9);
    has(&found, Violation::NeverThere(0, 9));
}

#[test]
fn rejects_landings_in_an_order_that_time_contradicts() {
    let found = planted(|history| {
        let entries = &mut history.logs[0].entries;
        let [first, second] = [0, 1].map(|n| entries[n].tag.clone());
        (entries[0].tag, entries[1].tag) = (second, first);
        for (tag, sequence) in [("a", 2), ("b", 1)] {
            let head = format!("head {sequence} of 0");
            let effect = Effect::Landed(sequence, head);
            for (attempt, is_replayed) in
                request(history, tag).attempts.iter_mut().zip([false, true])
            {
                attempt.answer = done(&effect, is_replayed);
            }
        }
    });
    assert_eq!(found, [Violation::OutOfOrder("b".into())]);
}

#[test]
fn rejects_a_landing_that_took_effect_twice() {
    let found = planted(|history| {
        let log = &mut history.logs[0];
        let mut again = log.entries[3].clone();
        (again.sequence, again.parent) = (5, again.head);
        again.head = "head 5 of 0".into();
        log.entries.push(again);
    });
    assert_eq!(found, [Violation::Twice("end".into())]);
}

#[test]
fn rejects_a_landing_without_an_answer_that_took_effect_twice() {
    let found = planted(|history| {
        request(history, "b")
            .attempts
            .iter_mut()
            .for_each(|attempt| {
                attempt.answer = Answer::Unknown;
            });
        history.logs[0].entries[2].tag = "b".into();
    });
    has(&found, Violation::Twice("b".into()));
}

#[test]
fn accepts_a_landing_without_an_answer_that_took_effect_or_did_not() {
    let unknown = |history: &mut History| {
        request(history, "end")
            .attempts
            .iter_mut()
            .for_each(|attempt| {
                attempt.answer = Answer::Unknown;
            });
    };
    assert_eq!(planted(unknown), []);
    let found = planted(|history| {
        unknown(history);
        unland(history, 4);
        history.things.push(Thing {
            tag: "ended".into(),
            id: "id of ended".into(),
        });
    });
    assert_eq!(found, []);
}

#[test]
fn rejects_a_thing_that_was_made_twice() {
    let found = planted(|history| {
        history.things.push(Thing {
            tag: "thing".into(),
            id: "another".into(),
        });
    });
    assert_eq!(found, [Violation::Twice("thing".into())]);
}

#[test]
fn rejects_a_lost_thing() {
    let found = planted(|history| history.things.clear());
    assert_eq!(found, [Violation::Lost("thing".into())]);
}

#[test]
fn rejects_a_log_that_is_not_a_chain() {
    let found = planted(|history| history.logs[0].entries[1].parent = "another".into());
    assert_eq!(found, [Violation::BrokenLog(0, 2)]);
    let found = planted(|history| history.logs[0].entries[1].sequence = 3);
    has(&found, Violation::BrokenLog(0, 2));
}

#[test]
fn rejects_two_landings_with_one_sequence_number() {
    let found = planted(|history| {
        let answer = request(history, "a").attempts[0].answer.clone();
        let attempts = &mut request(history, "b").attempts;
        attempts.truncate(1);
        attempts[0].answer = answer;
    });
    has(&found, Violation::SameSequence("a".into(), "b".into()));
}

#[test]
fn rejects_the_answer_of_another_request() {
    let other = |history: &mut History, tag: &str, answer: Answer| {
        let attempts = &mut request(history, tag).attempts;
        attempts.truncate(1);
        attempts[0].answer = answer;
    };
    let found = planted(|history| {
        let answer = request(history, "a").attempts[0].answer.clone();
        other(history, "c", answer);
    });
    has(&found, Violation::Foreign("c".into()));
    let found = planted(|history| {
        other(
            history,
            "thing",
            done(&Effect::Made("id of ended".into()), false),
        );
    });
    assert_eq!(found, [Violation::Foreign("thing".into())]);
}

#[test]
fn rejects_answers_to_one_request_that_differ() {
    let found = planted(|history| {
        let answer = request(history, "a").attempts[0].answer.clone();
        request(history, "b").attempts[1].answer = answer;
    });
    assert_eq!(found, [Violation::Disagreeing("b".into())]);
    let found = planted(|history| {
        if let Answer::Done { body, .. } = &mut request(history, "b").attempts[1].answer {
            *body = "the same effect in other words".into();
        }
    });
    assert_eq!(found, [Violation::Disagreeing("b".into())]);
}

#[test]
fn rejects_a_refused_request_that_took_effect() {
    for tag in ["a", "thing", "ended"] {
        let found = planted(|history| {
            request(history, tag)
                .attempts
                .iter_mut()
                .for_each(|attempt| {
                    attempt.answer = Answer::Refused;
                });
        });
        assert_eq!(found, [Violation::RefusedButDone(tag.into())]);
    }
}

#[test]
fn rejects_a_thing_that_goes_though_its_work_has_not_landed() {
    let found = planted(|history| {
        unland(history, 4);
        request(history, "end")
            .attempts
            .iter_mut()
            .for_each(|attempt| {
                attempt.answer = Answer::Unknown;
            });
    });
    has(&found, Violation::LostThing("ended".into()));
}

#[test]
fn rejects_a_thing_that_stays_though_its_end_was_acknowledged() {
    let found = planted(|history| {
        history.things.push(Thing {
            tag: "ended".into(),
            id: "id of ended".into(),
        });
    });
    assert_eq!(found, [Violation::LeftThing("ended".into())]);
}
