//! Options of the commands that merge changes into a project.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use elevo_api as api;
use elevo_policy::Strategy;

/// Options of a merge.
#[derive(Debug, Args)]
pub(crate) struct MergeOptions {
    /// Show the result without changing the project
    #[arg(long)]
    dry_run: bool,

    /// All or nothing: if one change cannot land, none does
    #[arg(long)]
    atomic: bool,

    /// Message that explains the change
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,

    /// How to resolve conflicts, where the project's policy leaves the choice
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    strategy: Option<Strategy>,

    /// Detect files that were moved without a change
    #[arg(long)]
    renames: bool,
}

impl MergeOptions {
    pub(crate) fn wish(self) -> api::Merge {
        api::Merge {
            dry_run: self.dry_run,
            atomic: self.atomic,
            message: self.message,
            strategy: self.strategy,
            renames: self.renames,
        }
    }
}

pub(crate) const STRATEGIES: [Strategy; 9] = [
    Strategy::Auto,
    Strategy::Text,
    Strategy::Json,
    Strategy::Yaml,
    Strategy::Toml,
    Strategy::Crdt,
    Strategy::LastWriter,
    Strategy::Priority,
    Strategy::Review,
];

fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let names = PossibleValuesParser::new(STRATEGIES.map(Strategy::as_str));
    names.map(|name| {
        let is_it = |strategy: &&Strategy| strategy.as_str() == name;
        let found = STRATEGIES.iter().find(is_it);
        found.copied().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_can_be_named() {
        for strategy in STRATEGIES {
            let name = serde_json::to_value(strategy).unwrap();
            assert_eq!(name, strategy.as_str());
        }
    }
}
