//! Policies in files, JSON or TOML.

use std::path::Path;

use crate::errors::ProjectProblem;
use crate::input::file;

/// Maximum bytes of a policy file.
const LARGEST: u64 = 4 << 20;

/// Reads a policy from a file.
pub(crate) fn read_policy(path: &Path) -> anyhow::Result<elevo_policy::Policy> {
    let text = file::read_text(path, LARGEST)?;
    Ok(parse_policy(path, &text)?)
}

pub(crate) fn parse_policy(
    path: &Path,
    text: &str,
) -> Result<elevo_policy::Policy, ProjectProblem> {
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    let read: Result<_, Box<dyn std::error::Error + Send + Sync>> = match is_toml {
        true => toml::from_str(text).map_err(Into::into),
        false => serde_json::from_str(text).map_err(Into::into),
    };
    read.map_err(|source| ProjectProblem::PolicyUnreadable {
        path: path.into(),
        source,
    })
}

pub(crate) fn pretty_policy(policy: &elevo_policy::Policy) -> serde_json::Result<String> {
    serde_json::to_string_pretty(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_from_json_and_from_toml() {
        let json = r#"{"rules":[{"pattern":"src/**","access":"r"}],"default":"rw"}"#;
        let toml = "default = 'rw'\n[[rules]]\npattern = 'src/**'\naccess = 'r'\n";
        let one = parse_policy(Path::new("p.json"), json).unwrap();
        let other = parse_policy(Path::new("p.toml"), toml).unwrap();
        assert_eq!(one, other);
        assert!(parse_policy(Path::new("p"), "{\"rule\":[]}").is_err());
        let again = parse_policy(Path::new("-"), &pretty_policy(&one).unwrap()).unwrap();
        assert_eq!(again, one);
    }
}
