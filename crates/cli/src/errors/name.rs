use serde_json::json;

use super::described::{Described, describe};
use super::exit::Exit;
use crate::output::format::count;

/// Maximum number of candidates in the advice.
const LISTED: usize = 10;

/// Errors of names of resources on a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NameProblem {
    #[error("there is no {noun} `{text}`")]
    Unknown { noun: &'static str, text: String },
    #[error(
        "`{text}` is ambiguous: it names {}",
        count(.candidates.len() as u64, noun, &plural(noun))
    )]
    Ambiguous {
        noun: &'static str,
        text: String,
        /// The ids, with the names.
        candidates: Vec<(String, Option<String>)>,
    },
}

fn plural(noun: &str) -> String {
    match noun {
        "sandbox" => "sandboxes".into(),
        _ => format!("{noun}s"),
    }
}

impl NameProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Unknown { noun, text } => describe(
                Exit::NotFound,
                format!("{noun}_not_found"),
                json!({ (*noun): text }),
                format!("`elevo {noun} ls` lists the {}", plural(noun)),
            ),
            Self::Ambiguous {
                noun,
                text,
                candidates,
            } => {
                let ids: Vec<_> = candidates.iter().map(|(id, _)| id).collect();
                let listed = candidates.iter().take(LISTED).map(|(id, name)| match name {
                    Some(name) => format!("{id} ({name})"),
                    None => id.clone(),
                });
                let mut listed = listed.collect::<Vec<_>>().join(", ");
                if let more @ 1.. = candidates.len().saturating_sub(LISTED) {
                    listed += &format!(" and {more} more");
                }
                describe(
                    Exit::NotFound,
                    "name_ambiguous",
                    json!({ "name": text, "candidates": ids }),
                    format!("name one {noun} by its id: {listed}"),
                )
            }
        }
    }
}
