use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};

use super::exit::Exit;

/// The description of an error, except for its message.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) exit: Exit,
    /// Stable name of the kind of error, for programs.
    pub(super) name: Cow<'static, str>,
    /// A JSON object, or null.
    pub(super) details: Value,
    pub(super) advice: Advice,
}

/// The next step for the user.
#[derive(Debug)]
pub(super) enum Advice {
    /// The message says all that is known.
    None,
    Text(Cow<'static, str>),
}

impl From<&'static str> for Advice {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// Describes an error. All parts are required, so that no error lacks advice by
/// accident.
pub(super) fn describe(
    exit: Exit,
    name: impl Into<Cow<'static, str>>,
    details: Value,
    advice: impl Into<Advice>,
) -> Described {
    Described {
        exit,
        name: name.into(),
        details,
        advice: advice.into(),
    }
}

/// Describes an error without a special kind.
pub(super) fn plain_failure() -> Described {
    describe(Exit::Failed, "failed", Value::Null, Advice::None)
}

/// Details with one path.
pub(super) fn path_details(key: &str, path: &Path) -> Value {
    json!({ key: lossy(path) })
}

pub(super) fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
