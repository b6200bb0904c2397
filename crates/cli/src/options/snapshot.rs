//! The description of a new snapshot: message, author and labels.

use std::collections::BTreeMap;

use clap::Args;
use elevo_engine::{CommitInfo, Expected};
use elevo_objects::SnapshotId;

use crate::errors::WorkspaceProblem;
use crate::local::session::Session;
use crate::output::format;

/// The description of a new snapshot.
#[derive(Debug, Default, Args)]
pub(crate) struct SnapshotOptions {
    /// Message that explains the snapshot
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,

    /// Author of the snapshot; by default user@host
    #[arg(
        long,
        value_name = "NAME",
        env = "ELEVO_AUTHOR",
        hide_env_values = true
    )]
    author: Option<String>,

    /// Label of the snapshot; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("a label is KEY=VALUE".into()),
    }
}

impl SnapshotOptions {
    pub(crate) fn into_info(
        self,
        session: &Session,
        parents: Vec<SnapshotId>,
        reference: Option<(String, Expected)>,
    ) -> CommitInfo {
        CommitInfo {
            parents,
            author: self.author.unwrap_or_else(|| session.author().to_owned()),
            message: self.message,
            created: format::now(),
            labels: self.labels.into_iter().collect::<BTreeMap<_, _>>(),
            reference,
        }
    }

    /// Whether a message or labels were given.
    pub(crate) fn is_given(&self) -> bool {
        !self.message.is_empty() || !self.labels.is_empty()
    }

    /// The message for a server, where snapshots have no labels.
    pub(crate) fn message_for_server(self) -> Result<String, WorkspaceProblem> {
        match self.labels.is_empty() {
            true => Ok(self.message),
            false => Err(WorkspaceProblem::OnlyInStore),
        }
    }

    /// The first line of the message.
    pub(crate) fn title(&self) -> String {
        format::first_line(&self.message).into_owned()
    }
}
