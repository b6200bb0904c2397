use std::path::PathBuf;

use clap::Args;
use elevo_engine::Expected;

use super::about::About;
use super::keep::{self, Kept};
use super::tag;
use crate::errors::Problem;
use crate::revision::{self, TAGS};
use crate::session::{Session, wait};

/// Keep any directory as a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
The snapshot stands by itself: `head` does not move, and the directory need
not belong to the store. Symbolic links are kept as links. What a snapshot
cannot hold (sockets, owners and the like) is reported.

Examples:
  elevo state import ~/photos -m \"before sorting\" --tag photos
  elevo state import build --parent head --label job=42
  elevo state import . --json")]
pub(crate) struct Import {
    /// The directory
    directory: PathBuf,

    #[command(flatten)]
    about: About,

    /// Name the snapshot, by a tag that is not there yet
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,

    /// The snapshot it was made from, if any
    #[arg(long, value_name = "REV")]
    parent: Option<String>,
}

pub(crate) fn run(session: &mut Session, args: Import) -> anyhow::Result<()> {
    let directory = session.directory(&args.directory)?;
    let place = session.place(None)?;
    keep::check_apart(&place.store, &directory)?;
    if let Some(name) = &args.tag {
        tag::check_name(name)?;
    }
    let repository = session.write(&place)?;
    let parents = match &args.parent {
        Some(text) => vec![revision::resolve(&repository, place.here(), text)?.0],
        None => Vec::new(),
    };
    let reference = args.tag.as_ref().map(|name| format!("{TAGS}{name}"));
    if let (Some(name), Some(reference)) = (&args.tag, &reference)
        && let Some(at) = revision::reference_at(&repository, reference)?
    {
        let name = name.clone();
        return Err(Problem::TagExists { name, at }.into());
    }
    let imported = keep::read_directory(session, &repository, &directory)?;
    let title = args.about.title();
    let expected = reference.clone().map(|name| (name, Expected::Absent));
    let info = args.about.into_info(session, parents.clone(), expected);
    let (tree, times, losses) = (imported.tree, imported.times, imported.losses.clone());
    let id = wait(imported.commit(&repository, info))?;
    let kept = Kept {
        id,
        title,
        parents,
        tree,
        times,
        losses,
        made: true,
        reference,
    };
    kept.print(session)
}
