//! The rule that says which versions of a project keep their content.

use elevo_api as api;

/// Parses a rule.
pub(crate) fn parse_retention(text: &str) -> Result<api::Retention, String> {
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

/// Formats a rule in the form that [`parse_retention`] reads.
pub(crate) fn retention_text(rule: api::Retention) -> String {
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
            assert_eq!(retention_text(parse_retention(text).unwrap()), text);
        }
        for bad in [
            "", "last", "last:0", "last:-1", "daily:x", "named:1", "all:2",
        ] {
            assert!(parse_retention(bad).is_err(), "{bad}");
        }
    }
}
