use std::collections::VecDeque;
use std::ffi::OsString;

use clap::Args;
use elevo_core::{Name, TreePath};
use elevo_engine::{EntryKind, Error, Stat, StateTree};

use crate::local::revision::{self, HEAD};
use crate::local::session::Session;
use crate::local::tree_path::tree_path;
use crate::local::wait::wait;
use crate::output::json::ListedShape;
use crate::output::{Output, PLACE, format};

/// List the files of a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Paths start at the root of the snapshot, as in the arguments of `cat` and
`diff`. Directories end with a slash. With --json, one object per line.

Examples:
  elevo ls
  elevo ls v1:src -l
  elevo ls head -r --json | jq -r 'select(.kind == \"file\") | .path'")]
pub(crate) struct Ls {
    /// The snapshot, or a directory or file in it
    #[arg(value_name = "REV[:PATH]", default_value = HEAD)]
    source: OsString,

    /// Show permissions, sizes and times
    #[arg(short, long)]
    long: bool,

    /// List subdirectories too
    #[arg(short, long)]
    recursive: bool,
}

/// Entries read from a directory at a time.
const PAGE: usize = 1000;

pub(crate) fn run(session: &mut Session, args: &Ls) -> anyhow::Result<()> {
    let (revision, path) = revision::with_path(&args.source)?;
    let path = tree_path(path.unwrap_or_default())?;
    let view = session.view()?;
    let (_, snapshot) = view.resolve(revision)?;
    let tree = StateTree::at(&view.repository, &snapshot);
    let stat = wait(tree.stat(&path))?.ok_or_else(|| Error::NotFound(path.clone()))?;
    let mut printer = Printer {
        tree: &tree,
        output: &mut session.output,
        long: args.long,
    };
    if stat.kind != EntryKind::Directory {
        return printer.print(&path, &stat);
    }
    let mut open = vec![Listing::new(path)];
    while let Some(listing) = open.last_mut() {
        let Some((name, stat)) = listing.next(&tree)? else {
            open.pop();
            continue;
        };
        let path = listing.path.join(&name)?;
        printer.print(&path, &stat)?;
        if args.recursive && stat.kind == EntryKind::Directory {
            open.push(Listing::new(path));
        }
    }
    Ok(())
}

/// A directory, read a page at a time.
struct Listing {
    path: TreePath,
    page: VecDeque<(Name, Stat)>,
    after: Option<Name>,
    is_done: bool,
}

impl Listing {
    fn new(path: TreePath) -> Self {
        Self {
            path,
            page: VecDeque::new(),
            after: None,
            is_done: false,
        }
    }

    fn next(&mut self, tree: &StateTree) -> anyhow::Result<Option<(Name, Stat)>> {
        if self.page.is_empty() && !self.is_done {
            let page = wait(tree.list(&self.path, self.after.as_ref(), PAGE))?;
            self.is_done = page.len() < PAGE;
            self.after = page.last().map(|(name, _)| name.clone());
            self.page = page.into();
        }
        Ok(self.page.pop_front())
    }
}

struct Printer<'a> {
    tree: &'a StateTree,
    output: &'a mut Output,
    long: bool,
}

impl Printer<'_> {
    fn print(&mut self, path: &TreePath, stat: &Stat) -> anyhow::Result<()> {
        let detailed = self.long || self.output.is_json();
        let target = match stat.kind {
            EntryKind::Link if detailed => Some(wait(self.tree.read_link(path))?),
            _ => None,
        };
        if self.output.is_json() {
            let shape = ListedShape::new(path.as_bytes(), stat, target.as_deref());
            return Ok(self.output.value(&shape)?);
        }
        let mut line = Vec::new();
        if self.long {
            line.extend(details(stat).as_bytes());
        }
        let shown = format::path(path.as_bytes(), stat.kind);
        line.extend(match stat.kind {
            EntryKind::File => shown,
            _ => self.output.styled(PLACE, shown),
        });
        if let Some(target) = target {
            line.extend(b" -> ");
            line.extend(format::path(&target, EntryKind::Link));
        }
        Ok(self.output.line(line)?)
    }
}

fn details(stat: &Stat) -> String {
    let letters = format::mode_letters(stat.kind, stat.mode);
    let size = match stat.kind {
        EntryKind::Directory => "-".into(),
        _ => format::bytes(stat.size),
    };
    let time = stat.modified.map_or("-".into(), format::local_brief);
    format!("{letters}  {size:>12}  {time:<16}  ")
}
