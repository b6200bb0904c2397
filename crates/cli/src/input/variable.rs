//! Arguments of the forms `NAME=VALUE` and `KEY=VALUE`.

/// Parses `NAME=VALUE` for clap.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write it as NAME=VALUE".into()),
    }
}

/// Parses `KEY=VALUE` for clap.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    variable(text).map_err(|_| "write it as KEY=VALUE".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_a_name() {
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(variable("A="), Ok(("A".into(), String::new())));
        assert!(variable("=x").is_err() && variable("A").is_err());
    }
}
