//! Holds of snapshots that may become garbage meanwhile.

use elevo_engine::{Error, StateTree};
use elevo_objects::SnapshotId;
use elevo_testkit::crash::Victim;
use rand::RngExt;

use super::{Line, Process, read_whole};

/// Snapshots that are held at a time.
const HELD: usize = 6;

struct Holder {
    process: Process,
    held: Vec<(SnapshotId, StateTree)>,
}

pub(super) async fn work(process: Process) -> Victim {
    let mut holder = Holder {
        process,
        held: Vec::new(),
    };
    loop {
        let step = holder.step().await;
        if holder.process.is_lost(step).await {
            return holder.process.victim;
        }
    }
}

impl Holder {
    async fn step(&mut self) -> Result<(), Error> {
        if self.held.len() < HELD {
            self.hold().await?;
        }
        self.process.pause(300).await;
        if self.held.is_empty() {
            return Ok(());
        }
        let which = self.process.random.random_range(0..self.held.len());
        read_whole(&self.process.repository(), self.held[which].0).await?;
        if self.held.len() == HELD {
            let (id, tree) = self.held.swap_remove(which);
            self.process.say(&Line::Releases(id.to_string()));
            drop(tree);
        }
        Ok(())
    }

    async fn hold(&mut self) -> Result<(), Error> {
        let Some((_, id)) = self.process.any_ref().await? else {
            return Ok(());
        };
        if self.held.iter().any(|(held, _)| *held == id) {
            return Ok(());
        }
        let repository = self.process.repository();
        let tree = match StateTree::open(&repository, id).await {
            // The ref has moved.
            Err(Error::NoSuchSnapshot(_)) => return Ok(()),
            tree => tree?,
        };
        read_whole(&repository, id).await?;
        self.process.say(&Line::Holds(id.to_string()));
        self.held.push((id, tree));
        Ok(())
    }
}
