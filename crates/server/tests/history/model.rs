//! Histories of a correct server.

use crate::checker::{Answer, Asks, Attempt, Effect, Entry, History, Log};
use crate::checker::{Read, Request, Thing, Tick};

/// A correct server with one register for each project, on a simulated clock.
pub(crate) struct Model {
    pub(crate) history: History,
    now: Tick,
    dice: u64,
}

impl Model {
    pub(crate) fn new(seed: u64, projects: usize) -> Self {
        let log = |project| Log {
            first: format!("head 0 of {project}"),
            entries: Vec::new(),
        };
        let history = History {
            logs: (0..projects).map(log).collect(),
            ..History::default()
        };
        let (now, dice) = (0, seed);
        Self { history, now, dice }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        (self.dice >> 33) % sides
    }

    pub(crate) fn tick(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    pub(crate) fn land(&mut self, project: usize, tag: &str) -> Effect {
        let log = &mut self.history.logs[project];
        let sequence = log.entries.len() as u64 + 1;
        let parent = log.entries.last().map_or(&log.first, |last| &last.head);
        let entry = Entry {
            sequence,
            head: format!("head {sequence} of {project}"),
            parent: parent.clone(),
            tag: tag.into(),
        };
        let effect = Effect::Landed(sequence, entry.head.clone());
        log.entries.push(entry);
        effect
    }

    pub(crate) fn make(&mut self, tag: &str) -> Effect {
        let id = format!("id of {tag}");
        self.history.things.push(Thing {
            tag: tag.into(),
            id: id.clone(),
        });
        Effect::Made(id)
    }

    pub(crate) fn read(&mut self, project: usize) -> (u64, String) {
        let log = &self.history.logs[project];
        let last = log.entries.last();
        last.map_or((0, log.first.clone()), |last| {
            (last.sequence, last.head.clone())
        })
    }
}

pub(crate) fn done(effect: &Effect, is_replayed: bool) -> Answer {
    Answer::Done {
        effect: effect.clone(),
        body: format!("{effect:?}"),
        is_replayed,
    }
}

/// A running call: it takes effect between its beginning and its end.
struct Call {
    tag: String,
    asks: Option<Asks>,
    project: usize,
    sent: Tick,
    effect: Option<Effect>,
    seen: Option<(u64, String)>,
}

/// Simulates overlapping calls of several clients, some without a response, some
/// with two.
pub(crate) fn run(seed: u64) -> History {
    let mut model = Model::new(seed, 2);
    let mut open: Vec<Call> = Vec::new();
    for number in 0..200 {
        while open.len() > 6 || (model.roll(3) == 0 && !open.is_empty()) {
            let which = model.roll(open.len() as u64) as usize;
            let call = open.swap_remove(which);
            end(&mut model, call);
        }
        let project = model.roll(2) as usize;
        let asks = match model.roll(4) {
            0 => None,
            1 => Some(Asks::Make),
            _ => Some(Asks::Land {
                project,
                ends: None,
            }),
        };
        let sent = model.tick();
        open.push(Call {
            tag: format!("call {number}"),
            asks,
            project,
            sent,
            effect: None,
            seen: None,
        });
        // One of the running calls takes effect now.
        let which = model.roll(open.len() as u64) as usize;
        take_effect(&mut model, &mut open[which]);
    }
    while let Some(call) = open.pop() {
        end(&mut model, call);
    }
    model.history
}

fn take_effect(model: &mut Model, call: &mut Call) {
    match &call.asks {
        None if call.seen.is_none() => call.seen = Some(model.read(call.project)),
        Some(Asks::Make) if call.effect.is_none() => call.effect = Some(model.make(&call.tag)),
        Some(Asks::Land { project, .. }) if call.effect.is_none() => {
            call.effect = Some(model.land(*project, &call.tag));
        }
        _ => {}
    }
}

fn end(model: &mut Model, mut call: Call) {
    let Some(asks) = call.asks.clone() else {
        take_effect(model, &mut call);
        let (sequence, head) = call.seen.unwrap();
        let ended = model.tick();
        return model.history.reads.push(Read {
            project: call.project,
            sent: call.sent,
            ended,
            sequence,
            head,
        });
    };
    let lost = |model: &mut Model, sent| Attempt {
        sent,
        ended: model.tick(),
        answer: Answer::Unknown,
    };
    let mut attempts = Vec::new();
    let has_answer = model.roll(8) > 0;
    if model.roll(4) == 0 || !has_answer {
        attempts.push(lost(model, call.sent));
        call.sent = model.tick();
    }
    if has_answer {
        take_effect(model, &mut call);
        let effect = call.effect.unwrap();
        for is_replayed in [false, true] {
            attempts.push(Attempt {
                sent: call.sent,
                ended: model.tick(),
                answer: done(&effect, is_replayed),
            });
            call.sent = model.tick();
        }
    }
    model.history.requests.push(Request {
        tag: call.tag,
        asks,
        attempts,
    });
}
