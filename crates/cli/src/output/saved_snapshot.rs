//! The result of a command that saved files as a snapshot, and the losses.

use elevo_engine::{Loss, LossKind};
use elevo_objects::{Hash, SnapshotId, Tree};
use serde::Serialize;

use crate::local::session::Session;
use crate::output::IDENTITY;
use crate::output::format::{self, path_text};
use crate::output::json::PathShape;
use crate::output::snapshot::reference_name;

/// The result of a commit or import.
pub(crate) struct SavedSnapshot {
    pub(crate) id: SnapshotId,
    /// First line of the message.
    pub(crate) title: String,
    pub(crate) parents: Vec<SnapshotId>,
    pub(crate) tree: Tree,
    pub(crate) times: Option<Hash>,
    pub(crate) losses: Vec<Loss>,
    /// Whether a new snapshot was created.
    pub(crate) made: bool,
    /// The reference that was moved to the snapshot.
    pub(crate) reference: Option<String>,
}

#[derive(Serialize)]
struct SavedSnapshotShape {
    snapshot: String,
    changed: bool,
    tree: Option<String>,
    times: Option<String>,
    parents: Vec<String>,
    entries: u64,
    bytes: u64,
    reference: Option<String>,
    losses: Vec<LossShape>,
}

#[derive(Serialize)]
pub(crate) struct LossShape {
    kind: &'static str,
    count: u64,
    #[serde(flatten)]
    example: PathShape,
}

impl SavedSnapshot {
    pub(crate) fn print(&self, session: &mut Session) -> anyhow::Result<()> {
        if session.output.is_json() {
            session.output.value(&self.shape())?;
            return Ok(());
        }
        let id = session.output.styled(IDENTITY, format::short(self.id));
        let id = String::from_utf8_lossy(&id);
        let totals = format::totals(self.tree.count, self.tree.bytes);
        let title = match self.title.as_str() {
            "" => String::new(),
            title => format!(" {title}"),
        };
        let reference = match &self.reference {
            Some(reference) => format!("{} ", reference_name(reference)),
            None => String::new(),
        };
        if self.made {
            session.confirm(&format!("[{reference}{id}]{title}\n {totals}"))?;
        } else {
            session.confirm(&format!("Nothing changed since {id}"))?;
        }
        Ok(())
    }

    fn shape(&self) -> SavedSnapshotShape {
        SavedSnapshotShape {
            snapshot: self.id.to_string(),
            changed: self.made,
            tree: self.tree.root.map(|hash| hash.to_string()),
            times: self.times.map(|hash| hash.to_string()),
            parents: self.parents.iter().map(SnapshotId::to_string).collect(),
            entries: self.tree.count,
            bytes: self.tree.bytes,
            reference: self.reference.clone(),
            losses: self.losses.iter().map(loss_shape).collect(),
        }
    }
}

pub(crate) fn loss_shape(loss: &Loss) -> LossShape {
    LossShape {
        kind: match loss.kind {
            LossKind::Socket => "socket",
            LossKind::Pipe => "pipe",
            LossKind::Device => "device",
            LossKind::Vanished => "vanished",
            LossKind::HardLink => "hard_link",
            LossKind::SpecialBits => "special_bits",
            LossKind::ExtendedAttributes => "extended_attributes",
            LossKind::Owner => "owner",
            LossKind::Ignored => "ignored",
        },
        count: loss.count,
        example: PathShape::new(loss.example.as_bytes()),
    }
}

pub(crate) fn describe_loss(loss: &Loss) -> String {
    let (one, many, fate) = match loss.kind {
        LossKind::Socket => ("socket", "sockets", "left out"),
        LossKind::Pipe => ("named pipe", "named pipes", "left out"),
        LossKind::Device => ("device", "devices", "left out"),
        LossKind::Vanished => ("path", "paths", "left out, changing while read"),
        LossKind::HardLink => ("hard link", "hard links", "kept as separate files"),
        LossKind::SpecialBits => (
            "path with setuid, setgid or sticky bits",
            "paths with setuid, setgid or sticky bits",
            "kept without these",
        ),
        LossKind::ExtendedAttributes => (
            "path with extended attributes",
            "paths with extended attributes",
            "kept without these",
        ),
        LossKind::Ignored => ("ignored path", "ignored paths", "left out"),
        LossKind::Owner => (
            "path of another owner",
            "paths of other owners",
            "kept without owner",
        ),
    };
    let count = format::count(loss.count, one, many);
    let example = path_text(loss.example.as_bytes());
    format!("{count} {fate}, for instance {example}")
}
