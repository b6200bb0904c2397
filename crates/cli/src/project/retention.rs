//! Prints and sets which versions of a project keep their content.

use clap::Args;
use elevo_api as api;
use reqwest::Method;

use super::project_path;
use crate::service::Call;

/// Print or set which versions of a project keep their content.
#[derive(Debug, Args)]
#[command(after_help = "\
RULE is one of:
  all        all versions; this is the default
  last:N     the last N versions
  daily:N    the last version of each day (UTC), for N days
  named      only the versions that every rule keeps, see below

The entry of a version in `log` stays forever; the next garbage collection
deletes its files, and they cannot be restored. Every rule keeps the head,
versions with a tag, versions that a workspace, a sandbox or an open review
needs, and versions younger than GC_KEEP_UNNAMED of the server (90 days if not
set).

Examples:
  elevo project retention site
  elevo project retention site last:100")]
pub(super) struct Retention {
    /// The project, by name or id
    name: String,

    /// The new rule
    #[arg(value_parser = parse)]
    rule: Option<api::Retention>,
}

pub(super) fn run(call: &mut Call, args: &Retention) -> anyhow::Result<()> {
    let path = project_path(&args.name, &[]);
    let found: api::Project = match args.rule {
        None => call.wait(call.client.get(&path))?,
        Some(rule) => {
            let wish = api::ChangeProject {
                retention: Some(rule),
                ..api::ChangeProject::default()
            };
            let request = call.client.request(Method::PATCH, &path).json(&wish);
            call.wait(call.client.json(request))?
        }
    };
    match call.output.is_json() {
        true => call.output.value(&found.retention)?,
        false => call.output.line(words(found.retention))?,
    }
    Ok(())
}

/// Parses a rule.
pub(super) fn parse(text: &str) -> Result<api::Retention, String> {
    let count = |text: &str| match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(format!("`{text}` is not a positive whole number")),
    };
    match text.split_once(':') {
        None if text == "all" => Ok(api::Retention::All {}),
        None if text == "named" => Ok(api::Retention::Named {}),
        Some(("last", text)) => Ok(api::Retention::Last {
            count: count(text)?,
        }),
        Some(("daily", text)) => Ok(api::Retention::Daily { days: count(text)? }),
        _ => Err("write `all`, `last:N`, `daily:N` or `named`".into()),
    }
}

/// Formats a rule in the form that [`parse`] reads.
pub(super) fn words(rule: api::Retention) -> String {
    match rule {
        api::Retention::All {} => "all".into(),
        api::Retention::Last { count } => format!("last:{count}"),
        api::Retention::Daily { days } => format!("daily:{days}"),
        api::Retention::Named {} => "named".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_printed() {
        for text in ["all", "last:20", "daily:1", "named"] {
            assert_eq!(words(parse(text).unwrap()), text);
        }
        for bad in [
            "", "last", "last:0", "last:-1", "daily:x", "named:1", "all:2",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
