use clap::Args;
use elevo_objects::Tree;

use crate::errors::Exit;
use crate::local::read_directory::{check_apart, read_silently};
use crate::local::revision;
use crate::local::session::Session;
use crate::local::working_tree::{WorkingTree, base_of};
use crate::output::tree_diff::{DiffOptions, print_tree_diff};

/// Show the uncommitted changes, or the changes between snapshots.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a snapshot, the changes since the last commit or checkout in this
directory; with one, the changes from it to this directory; with two, or A..B,
from the first to the second. `elevo show REV` shows the changes of one snapshot.
A letter stands for each change: A added, D removed, M content, P permissions,
T type, R renamed. With --json, one object per line.

If one side is this directory, --stat and -p write the contents of changed files
to the store, where nothing refers to them.

Examples:
  elevo diff -p                     the uncommitted changes, as a patch
  elevo diff v1                     from v1 to this directory
  elevo diff v1..head -- src docs   in two directories, since v1
  elevo diff --stat v1 v2           lines and bytes
  elevo diff --exit-code v1 v2 || echo \"they differ\"")]
pub(crate) struct Diff {
    /// One or two snapshots, or A..B
    #[arg(value_name = "REV", num_args = 0..=2)]
    revisions: Vec<String>,

    #[command(flatten)]
    shown: DiffOptions,
}

/// The sides of a diff.
enum Sides<'a> {
    Snapshots(&'a str, &'a str),
    /// From a snapshot, or the last commit or checkout, to the directory.
    Directory(Option<&'a str>),
}

impl Diff {
    fn sides(&self) -> Sides<'_> {
        match &self.revisions[..] {
            [first, second, ..] => Sides::Snapshots(first, second),
            [one] => match revision::range(one) {
                Some((from, to)) => Sides::Snapshots(from, to),
                None => Sides::Directory(Some(one)),
            },
            [] => Sides::Directory(None),
        }
    }

    /// Whether the command writes to the store: it stores the contents of the
    /// working directory in order to compare them.
    pub(crate) fn writes(&self) -> bool {
        self.shown.needs_contents() && matches!(self.sides(), Sides::Directory(_))
    }
}

pub(crate) fn run(session: &mut Session, args: Diff) -> anyhow::Result<Exit> {
    match args.sides() {
        Sides::Snapshots(from, to) => {
            let view = session.view()?;
            let (_, before) = view.resolve(from)?;
            let (_, after) = view.resolve(to)?;
            let (before, after) = (before.tree, after.tree);
            print_tree_diff(session, &view.repository, before, after, args.shown)
        }
        Sides::Directory(from) => {
            let (before, now) = directory_sides(session, from, args.writes())?;
            print_tree_diff(session, &now.repository, before, now.tree, args.shown)
        }
    }
}

/// Returns the tree of a snapshot, and the files of the working directory.
fn directory_sides(
    session: &Session,
    from: Option<&str>,
    with_contents: bool,
) -> anyhow::Result<(Tree, WorkingTree)> {
    let (place, directory) = session.working_place(None)?;
    check_apart(&place.store, &directory)?;
    let repository = match with_contents {
        true => session.write(&place)?,
        false => session.view_of(&place)?.repository,
    };
    let base = base_of(&repository, &directory)?;
    let base = base.map_or(Tree::EMPTY, |(_, snapshot)| snapshot.tree);
    let before = match from {
        Some(text) => revision::resolve(&repository, place.here(), text)?.1.tree,
        None => base,
    };
    let tracked = vec![base, before];
    let now = match with_contents {
        true => read_silently(session, &repository, &place.store, &directory, tracked)?
            .into_working_tree(&repository),
        false => WorkingTree::scan(session, &repository, &place.store, &directory, tracked)?,
    };
    Ok((before, now))
}
