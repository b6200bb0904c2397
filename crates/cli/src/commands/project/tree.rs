use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::output::{ADDED, PLACE, format};

/// List a directory of a project, from the current or an earlier state.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project tree site
  elevo project tree site -l docs
  elevo project ls-files site -r --at 3         all files after step 3")]
pub(super) struct Tree {
    /// The project, by name or id
    name: String,

    /// The directory; the root of the project by default
    path: Option<String>,

    /// A state of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,

    /// Show permissions and sizes
    #[arg(short, long)]
    long: bool,

    /// List subdirectories too
    #[arg(short, long)]
    recursive: bool,
}

/// Entries per request.
const PAGE: u32 = 1000;

pub(super) fn run(call: &mut Call, args: &Tree) -> anyhow::Result<()> {
    // Resolved once, so that all pages are of one state even if the head moves.
    let at = args.at.as_deref().unwrap_or("head");
    let at = resolve(call, &args.name, at)?;
    let start = args.path.clone().unwrap_or_default();
    let mut open = vec![Open::Page(start, None)];
    while let Some(next) = open.pop() {
        match next {
            Open::Entry(entry) => {
                print_entry(call, &entry, args.long)?;
                if args.recursive && entry.version.kind == "directory" {
                    open.push(Open::Page(entry.path, None));
                }
            }
            Open::Page(path, after) => {
                let page = page(call, &args.name, &at, &path, after.as_deref())?;
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
    after: Option<&str>,
) -> anyhow::Result<api::TreePage> {
    let request = call
        .client
        .request(Method::GET, &project_path(name, &["tree"]));
    let request = request.query(&[("snapshot", at), ("path", path)]);
    let request = request.query(&[("limit", PAGE)]);
    let request = match after {
        Some(after) => request.query(&[("after", after)]),
        None => request,
    };
    Ok(call.wait(call.client.json(request))?)
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
