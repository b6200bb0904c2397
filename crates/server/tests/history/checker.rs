//! Decides from the records of clients whether a server kept its promises.
//!
//! Clients record each call with the moments at which they sent it and received
//! its response. Two promises are checked:
//!
//! - *Heads are linearizable.* A project's head is a register, and every landing
//!   writes it. A landing returns its sequence number, so the order of all writes
//!   is known, and no search is needed: a read belongs directly after the
//!   landing whose head it saw. The order is right if it agrees with time: a call
//!   that ended before another began comes first.
//! - *A request takes effect once.* Every request has a tag that it writes into
//!   the log or gives to the thing that it creates. A request that was
//!   acknowledged has left its tag exactly once, one without a response at most
//!   once, a rejected one never; all responses to one request agree.
//!
//! `check` takes `n log n` steps for `n` calls.

use std::collections::{BTreeMap, HashMap};

/// A moment of the run, different for each event.
pub(crate) type Tick = u64;

/// Everything that was recorded in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Requests that change something.
    pub(crate) requests: Vec<Request>,
    /// Reads of heads.
    pub(crate) reads: Vec<Read>,
    /// The log of each project at the end of the run.
    pub(crate) logs: Vec<Log>,
    /// The things that existed at the end of the run.
    pub(crate) things: Vec<Thing>,
}

/// A request, which may have been sent several times under one key.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// A unique text.
    pub(crate) tag: String,
    /// The requested change.
    pub(crate) asks: Asks,
    /// Every attempt to send it, in order.
    pub(crate) attempts: Vec<Attempt>,
}

/// The change that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// A landing in a project, by its index in [`History::logs`].
    Land {
        /// The project.
        project: usize,
        /// The tag of a thing that is deleted once the landing is done.
        ends: Option<String>,
    },
    /// The creation of a thing, whose name is the tag of the request.
    Make,
}

/// An attempt to send a request.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The moment before it was sent.
    pub(crate) sent: Tick,
    /// The moment after its response came, or was known not to come.
    pub(crate) ended: Tick,
    /// The response.
    pub(crate) answer: Answer,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No response, or one that does not state whether the request took effect.
    Unknown,
    /// The request was rejected for good.
    Refused,
    /// The request took effect.
    Done {
        /// The effect that the response names.
        effect: Effect,
        /// The whole response.
        body: String,
        /// Whether the server states that it is a stored response.
        is_replayed: bool,
    },
}

/// The effect of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A landing, with its sequence number and the new head.
    Landed(u64, String),
    /// A thing, by its id.
    Made(String),
}

/// A read of a project's head.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// The project.
    pub(crate) project: usize,
    /// The moment before it was sent.
    pub(crate) sent: Tick,
    /// The moment after its response came.
    pub(crate) ended: Tick,
    /// The sequence number of the head.
    pub(crate) sequence: u64,
    /// The head.
    pub(crate) head: String,
}

/// The log of a project.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// The head before the first landing.
    pub(crate) first: String,
    /// The landings, oldest first.
    pub(crate) entries: Vec<Entry>,
}

/// A landing in the log of a project.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its sequence number.
    pub(crate) sequence: u64,
    /// The head after it.
    pub(crate) head: String,
    /// The head before it.
    pub(crate) parent: String,
    /// The tag of its request.
    pub(crate) tag: String,
}

/// A thing that a request created.
#[derive(Clone, Debug)]
pub(crate) struct Thing {
    /// The tag of its request.
    pub(crate) tag: String,
    /// Its id.
    pub(crate) id: String,
}

/// A broken promise. Strings are the tags of requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// The log of a project is not a chain at this sequence number.
    BrokenLog(usize, u64),
    /// An acknowledged request left no effect.
    Lost(String),
    /// A request took effect more than once.
    Twice(String),
    /// The response to a request names the effect of another request.
    Foreign(String),
    /// Two requests were acknowledged with one sequence number.
    SameSequence(String, String),
    /// Two responses to one request differ.
    Disagreeing(String),
    /// A rejected request took effect.
    RefusedButDone(String),
    /// A landing comes before one that had ended when it was requested.
    OutOfOrder(String),
    /// A read saw a head that had been replaced when the read began.
    Stale(usize, u64),
    /// A read saw a landing before it was requested, or a head that never
    /// existed.
    NeverThere(usize, u64),
    /// A thing was deleted, and the landing that should have deleted it does not
    /// exist.
    LostThing(String),
    /// A thing exists, and the landing that deletes it was acknowledged.
    LeftThing(String),
}

/// Finds every broken promise.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    for (project, log) in history.logs.iter().enumerate() {
        check_chain(project, log, &mut found);
        check_order(history, project, &mut found);
    }
    let effects = Effects::of(history);
    for request in &history.requests {
        check_answers(request, &mut found);
        check_effect(request, &effects, &mut found);
        check_end(request, &effects, &mut found);
    }
    check_sequences(history, &mut found);
    found.sort();
    found.dedup();
    found
}

/// Checks that sequence numbers start at 1 without a gap, and that each landing
/// follows the one before.
fn check_chain(project: usize, log: &Log, found: &mut Vec<Violation>) {
    let mut head = &log.first;
    for (entry, expected) in log.entries.iter().zip(1..) {
        if entry.sequence != expected || entry.parent != *head {
            found.push(Violation::BrokenLog(project, expected));
        }
        head = &entry.head;
    }
}

impl Request {
    fn first_sent(&self) -> Tick {
        self.attempts.first().map_or(Tick::MAX, |first| first.sent)
    }

    fn first_done(&self) -> Option<(Tick, &Effect)> {
        self.attempts
            .iter()
            .find_map(|attempt| match &attempt.answer {
                Answer::Done { effect, .. } => Some((attempt.ended, effect)),
                _ => None,
            })
    }

    fn is_refused(&self) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|attempt| attempt.answer == Answer::Refused)
    }

    fn lands_in(&self, project: usize) -> bool {
        matches!(&self.asks, Asks::Land { project: own, .. } if *own == project)
    }
}

/// A moment that matters for the order of a project's heads.
enum Moment<'a> {
    /// A landing is requested.
    Asked(&'a Request, u64),
    /// A landing is acknowledged.
    Acknowledged(u64),
    /// A read begins.
    Begun(&'a Read),
    /// A read ends.
    Ended(&'a Read),
}

/// Compares the order of the sequence numbers with time.
///
/// One walk over all moments keeps `seen`, the highest sequence number that is
/// known to any call that has ended. A landing that is requested later must
/// have a higher number, and a read that begins later must see at least `seen`.
/// The first rule also finds a read that saw a landing before it was requested:
/// at the moment of the request, `seen` is then not below the number of the
/// landing.
fn check_order(history: &History, project: usize, found: &mut Vec<Violation>) {
    let log = &history.logs[project];
    let of_tag: HashMap<_, _> = log
        .entries
        .iter()
        .map(|it| (&*it.tag, it.sequence))
        .collect();
    let mut moments = BTreeMap::new();
    for request in history.requests.iter().filter(|it| it.lands_in(project)) {
        if let Some(sequence) = of_tag.get(&*request.tag) {
            let asked = Moment::Asked(request, *sequence);
            moments.insert(request.first_sent(), asked);
        }
        if let Some((ended, Effect::Landed(sequence, _))) = request.first_done() {
            moments.insert(ended, Moment::Acknowledged(*sequence));
        }
    }
    for read in history.reads.iter().filter(|it| it.project == project) {
        moments.insert(read.sent, Moment::Begun(read));
        moments.insert(read.ended, Moment::Ended(read));
        if head_at(log, read.sequence) != Some(&read.head) {
            found.push(Violation::NeverThere(project, read.sequence));
        }
    }
    let mut seen = 0;
    for moment in moments.values() {
        match moment {
            Moment::Asked(request, sequence) if *sequence <= seen => {
                found.push(Violation::OutOfOrder(request.tag.clone()));
            }
            Moment::Begun(read) if read.sequence < seen => {
                found.push(Violation::Stale(project, read.sequence));
            }
            Moment::Acknowledged(sequence) => seen = seen.max(*sequence),
            Moment::Ended(read) => seen = seen.max(read.sequence),
            Moment::Asked(..) | Moment::Begun(_) => {}
        }
    }
}

fn head_at(log: &Log, sequence: u64) -> Option<&String> {
    match sequence.checked_sub(1) {
        None => Some(&log.first),
        Some(before) => {
            let entry = log.entries.get(usize::try_from(before).ok()?)?;
            Some(&entry.head)
        }
    }
}

/// The effects that each tag has left, with the project of a landing.
struct Effects<'a>(HashMap<&'a str, Vec<(Option<usize>, Effect)>>);

impl<'a> Effects<'a> {
    fn of(history: &'a History) -> Self {
        let mut effects: HashMap<_, Vec<_>> = HashMap::new();
        for (project, log) in history.logs.iter().enumerate() {
            for entry in &log.entries {
                let effect = Effect::Landed(entry.sequence, entry.head.clone());
                let of_tag = effects.entry(&*entry.tag).or_default();
                of_tag.push((Some(project), effect));
            }
        }
        for thing in &history.things {
            let effect = Effect::Made(thing.id.clone());
            let of_tag = effects.entry(&*thing.tag).or_default();
            of_tag.push((None, effect));
        }
        // A thing that a landing has deleted has an entry without effects.
        for request in &history.requests {
            if let Asks::Land {
                ends: Some(thing), ..
            } = &request.asks
                && effects.contains_key(&*request.tag)
            {
                effects.entry(thing).or_default();
            }
        }
        Self(effects)
    }

    fn left_by(&self, tag: &str) -> &[(Option<usize>, Effect)] {
        self.0.get(tag).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a landing has deleted a thing.
    fn is_ended(&self, tag: &str) -> bool {
        self.0.get(tag).is_some_and(Vec::is_empty)
    }
}

/// Checks that all responses name one effect, and that stored ones are identical.
fn check_answers(request: &Request, found: &mut Vec<Violation>) {
    let mut effects = Vec::new();
    let mut stored = None;
    for attempt in &request.attempts {
        let Answer::Done {
            effect,
            body,
            is_replayed,
        } = &attempt.answer
        else {
            continue;
        };
        effects.push(effect);
        // The first response is the one that is stored.
        let differs = stored.is_some_and(|stored| stored != body);
        if *is_replayed && differs {
            found.push(Violation::Disagreeing(request.tag.clone()));
        }
        stored = Some(body);
    }
    if effects.windows(2).any(|pair| pair[0] != pair[1]) {
        found.push(Violation::Disagreeing(request.tag.clone()));
    }
}

/// Checks that the tag of a request was left as often as its responses state.
fn check_effect(request: &Request, effects: &Effects<'_>, found: &mut Vec<Violation>) {
    let tag = || request.tag.clone();
    let left = effects.left_by(&request.tag);
    let is_there = !left.is_empty() || effects.is_ended(&request.tag);
    if left.len() > 1 {
        found.push(Violation::Twice(tag()));
    }
    if is_there && request.is_refused() {
        found.push(Violation::RefusedButDone(tag()));
    }
    let Some((_, told)) = request.first_done() else {
        return;
    };
    if !is_there {
        found.push(Violation::Lost(tag()));
    } else if !left.is_empty() && !left.iter().any(|(_, effect)| effect == told) {
        found.push(Violation::Foreign(tag()));
    }
}

/// Checks that a thing is deleted by its landing, and only by that.
fn check_end(request: &Request, effects: &Effects<'_>, found: &mut Vec<Violation>) {
    let Asks::Land {
        ends: Some(thing), ..
    } = &request.asks
    else {
        return;
    };
    let is_there = !effects.left_by(thing).is_empty();
    let has_landed = !effects.left_by(&request.tag).is_empty();
    if !is_there && !has_landed {
        found.push(Violation::LostThing(thing.clone()));
    }
    if is_there && request.first_done().is_some() {
        found.push(Violation::LeftThing(thing.clone()));
    }
}

/// Checks that no two requests were acknowledged with one landing.
fn check_sequences(history: &History, found: &mut Vec<Violation>) {
    let mut known: HashMap<(usize, u64), &str> = HashMap::new();
    for request in &history.requests {
        let Asks::Land { project, .. } = &request.asks else {
            continue;
        };
        let Some((_, Effect::Landed(sequence, _))) = request.first_done() else {
            continue;
        };
        let before = known.insert((*project, *sequence), &request.tag);
        if let Some(before) = before {
            let mut pair = [before.to_owned(), request.tag.clone()];
            pair.sort();
            let [one, other] = pair;
            found.push(Violation::SameSequence(one, other));
        }
    }
}
