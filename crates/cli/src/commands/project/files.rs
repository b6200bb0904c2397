use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::pages::{self, Page};
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::options::target::Target;
use crate::output::{ADDED, PLACE, format};

/// List files of a project, in the newest or an older state.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project files site
  elevo project files site:docs -l
  elevo project files site@3 -r                 all files after step 3")]
pub(super) struct Files {
    /// The project, with a state and a directory: by default the newest state and
    /// the root
    #[arg(value_name = "NAME[@REV][:PATH]")]
    target: Target,

    /// Show permissions and sizes
    #[arg(short, long)]
    long: bool,

    /// List subdirectories too
    #[arg(short, long)]
    recursive: bool,
}

/// Entries per request.
const PAGE: u32 = 1000;

pub(super) fn run(call: &mut Call, args: &Files) -> anyhow::Result<()> {
    // Resolved once, so that all pages are of one state even if the head moves.
    let target = &args.target;
    let at = target.revision.as_deref().unwrap_or("head");
    let project = find(call, Noun::Project, &target.project)?;
    let at = resolve(call, &project, at)?;
    let start = target.path.clone().unwrap_or_default();
    let mut open = vec![Open::Page(start, None)];
    while let Some(next) = open.pop() {
        match next {
            Open::Entry(entry) => {
                print_entry(call, &entry, args.long)?;
                if args.recursive && entry.version.kind == "directory" {
                    open.push(Open::Page(entry.path, None));
                }
            }
            Open::Page(path, cursor) => {
                let page = page(call, &project, &at, &path, cursor.as_deref())?;
                open.extend(page.next.map(|next| Open::Page(path, Some(next))));
                open.extend(page.items.into_iter().rev().map(Open::Entry));
            }
        }
    }
    Ok(())
}

/// Work that is still to do; at most one page of entries per directory level.
enum Open {
    Entry(api::TreeEntry),
    /// A directory, from the beginning or after a cursor.
    Page(String, Option<String>),
}

fn page(
    call: &Call,
    name: &str,
    at: &str,
    path: &str,
    cursor: Option<&str>,
) -> anyhow::Result<Page<api::TreeEntry>> {
    let tree = project_path(name, &["tree"]);
    let query = [("snapshot", at.to_owned()), ("path", path.to_owned())];
    let page = pages::page(&call.client, &tree, &query, cursor, PAGE);
    Ok(call.wait(page)?)
}

fn print_entry(call: &mut Call, entry: &api::TreeEntry, long: bool) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(entry)?);
    }
    let version = &entry.version;
    let mut path = format::first_line(&entry.path).into_owned();
    let style = match version.kind.as_str() {
        "directory" => {
            path.push('/');
            PLACE
        }
        "symlink" => ADDED,
        _ => anstyle::Style::new(),
    };
    let path = call.output.styled(style, path);
    if !long {
        return Ok(call.output.line(path)?);
    }
    let (kind, mode) = (&version.kind, &version.mode);
    let size = version.size.map(format::bytes).unwrap_or_default();
    let about = format!("{kind:<9}  {mode:>4}  {size:>12}  ");
    Ok(call.output.line([about.as_bytes(), &path].concat())?)
}
