use clap::Args;
use elevo_engine::{Commit, Expected, ReferenceUpdate, Repository};
use elevo_objects::SnapshotId;
use serde_json::json;

use crate::errors::TagProblem;
use crate::local::revision::{self, HEAD, TAGS};
use crate::local::session::Session;
use crate::local::tag_name::check_tag_name;
use crate::local::wait::wait;
use crate::output::snapshot::reference_name;
use crate::output::{IDENTITY, format};

/// Set, list, move and delete tags.
#[derive(Debug, Args)]
#[command(after_help = "\
Without NAME, lists all tags. With --json, one object per line.

Examples:
  elevo tag                  list
  elevo tag v1               name the head
  elevo tag good head~3
  elevo tag good @ --move
  elevo tag good --delete")]
pub(crate) struct Tag {
    /// Name of the tag; it cannot contain spaces, `~`, `:` or `..`, or look like a
    /// snapshot id
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Snapshot to name; by default `head`
    #[arg(value_name = "REV", conflicts_with = "delete")]
    revision: Option<String>,

    /// Delete the tag; the snapshot stays
    #[arg(short, long, requires = "name")]
    delete: bool,

    /// Move the tag if it exists
    #[arg(long = "move", requires = "name", conflicts_with = "delete")]
    moves: bool,
}

impl Tag {
    /// Whether the command changes a tag.
    pub(crate) fn writes(&self) -> bool {
        self.name.is_some()
    }
}

/// Tags per request to the store.
const PAGE: usize = 1000;

pub(crate) fn run(session: &mut Session, args: Tag) -> anyhow::Result<()> {
    match args.name {
        None => list(session),
        Some(name) if args.delete => delete(session, name),
        Some(name) => {
            check_tag_name(&name)?;
            let revision = args.revision.as_deref().unwrap_or(HEAD);
            set(session, name, revision, args.moves)
        }
    }
}

fn list(session: &mut Session) -> anyhow::Result<()> {
    let view = session.view()?;
    let (store, tenant) = (view.repository.store(), view.repository.tenant());
    let mut after: Option<String> = None;
    loop {
        let page = wait(store.list_references(tenant, TAGS, after.as_deref(), PAGE))?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = Some(last.clone());
        for (reference, id) in page {
            let output = &mut session.output;
            if output.is_json() {
                let tag = reference.strip_prefix(TAGS);
                output.value(&json!({ "tag": tag, "snapshot": id.to_string() }))?;
            } else {
                let id = output.styled(IDENTITY, format::short(id));
                let line = [&id[..], b"  ", reference_name(&reference).as_bytes()].concat();
                output.line(line)?;
            }
        }
    }
}

fn set(session: &mut Session, name: String, revision: &str, moves: bool) -> anyhow::Result<()> {
    let place = session.place(None)?;
    let repository = session.write(&place)?;
    let (id, _) = revision::resolve(&repository, place.here(), revision)?;
    let reference = format!("{TAGS}{name}");
    let current = revision::reference_at(&repository, &reference)?;
    match current {
        Some(at) if at != id && !moves => {
            return Err(TagProblem::TagExists { name, at }.into());
        }
        Some(at) if at == id => {}
        _ => update(&repository, reference, current, Some(id))?,
    }
    print(session, &name, current, Some(id))
}

fn delete(session: &mut Session, name: String) -> anyhow::Result<()> {
    let place = session.place(None)?;
    let repository = session.write(&place)?;
    let reference = format!("{TAGS}{name}");
    let found = match elevo_engine::store::check_reference_name(&reference) {
        Ok(()) => revision::reference_at(&repository, &reference)?,
        Err(_) => None,
    };
    let Some(current) = found else {
        let name = format::harmless(&name).into_owned();
        return Err(TagProblem::NoSuchTag(name).into());
    };
    update(&repository, reference, Some(current), None)?;
    print(session, &name, Some(current), None)
}

/// Moves a reference from `current` to `target`. Fails if another process has
/// moved it.
fn update(
    repository: &Repository,
    name: String,
    current: Option<SnapshotId>,
    target: Option<SnapshotId>,
) -> anyhow::Result<()> {
    let expected = current.map_or(Expected::Absent, Expected::At);
    let commit = Commit {
        references: vec![ReferenceUpdate {
            name,
            expected,
            target,
        }],
        ..Commit::default()
    };
    wait(repository.store().commit(repository.tenant(), commit))?;
    Ok(())
}

fn print(
    session: &mut Session,
    name: &str,
    previous: Option<SnapshotId>,
    now: Option<SnapshotId>,
) -> anyhow::Result<()> {
    if session.output.is_json() {
        session.output.value(&json!({
            "tag": name,
            "snapshot": now.map(|id| id.to_string()),
            "previous": previous.map(|id| id.to_string()),
        }))?;
        return Ok(());
    }
    let name = format::harmless(name);
    let line = match (previous, now) {
        (Some(previous), None) => format!("Deleted {name}, which was {}", format::short(previous)),
        (Some(previous), Some(now)) if previous != now => {
            let (previous, now) = (format::short(previous), format::short(now));
            format!("{name} is now {now}; it was {previous}")
        }
        (_, Some(now)) => format!("{name} is {}", format::short(now)),
        (None, None) => return Ok(()),
    };
    Ok(session.output.line(line)?)
}
