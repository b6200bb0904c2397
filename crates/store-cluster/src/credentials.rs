//! The credentials of the bucket.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AwsCredential};
use parking_lot::Mutex;

/// Maximum size of a file with credentials.
const LARGEST: u64 = 1 << 20;

/// The source of the credentials of a bucket.
#[derive(Clone)]
pub enum Credentials {
    /// An access key and its secret.
    Keys {
        /// Access key.
        key: String,
        /// Secret of the access key.
        secret: String,
    },
    /// A file in the form of `~/.aws/credentials`. It is read again when it
    /// changes.
    File {
        /// The file.
        path: PathBuf,
        /// The section of the file.
        profile: String,
    },
    /// The role of the machine, from the metadata service of the cloud.
    Instance {
        /// URL of the service. `None` for that of AWS.
        endpoint: Option<String>,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys { .. } => f.write_str("Keys"),
            Self::File { path, profile } => write!(f, "File({} [{profile}])", path.display()),
            Self::Instance { .. } => f.write_str("Instance"),
        }
    }
}

impl Credentials {
    /// Adds the credentials to a client. Fails if they are in a file that is not
    /// valid.
    pub(crate) fn add_to(&self, client: AmazonS3Builder) -> object_store::Result<AmazonS3Builder> {
        Ok(match self {
            Self::Keys { key, secret } => client
                .with_access_key_id(key)
                .with_secret_access_key(secret),
            Self::File { path, profile } => {
                let file = CredentialsFile {
                    path: path.clone(),
                    profile: profile.clone(),
                    known: Mutex::default(),
                };
                file.read().map_err(failed)?;
                client.with_credentials(Arc::new(file))
            }
            Self::Instance { endpoint: None } => client,
            Self::Instance {
                endpoint: Some(endpoint),
            } => client.with_metadata_endpoint(endpoint),
        })
    }
}

/// The reason why a file with credentials cannot be used. Names none of its text.
#[derive(Debug, thiserror::Error)]
enum InvalidFile {
    #[error("cannot read the credentials in {}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{} has no section [{profile}] with `aws_access_key_id` and `aws_secret_access_key`",
        path.display()
    )]
    Incomplete { path: PathBuf, profile: String },
}

fn failed(error: InvalidFile) -> object_store::Error {
    object_store::Error::Generic {
        store: "S3",
        source: Box::new(error),
    }
}

#[derive(Debug)]
struct CredentialsFile {
    path: PathBuf,
    profile: String,
    /// The credentials, and the time at which the file was changed.
    known: Mutex<Option<(SystemTime, Arc<AwsCredential>)>>,
}

impl CredentialsFile {
    fn read(&self) -> Result<Arc<AwsCredential>, InvalidFile> {
        let io = |source| InvalidFile::Io {
            path: self.path.clone(),
            source,
        };
        let found = std::fs::metadata(&self.path).map_err(io)?;
        let changed = found.modified().map_err(io)?;
        let mut known = self.known.lock();
        if let Some((then, credential)) = &*known
            && *then == changed
        {
            return Ok(credential.clone());
        }
        if found.len() > LARGEST {
            return Err(self.incomplete());
        }
        let text = std::fs::read_to_string(&self.path).map_err(io)?;
        let credential = parse(&text, &self.profile).ok_or_else(|| self.incomplete())?;
        let credential = Arc::new(credential);
        *known = Some((changed, credential.clone()));
        Ok(credential)
    }

    fn incomplete(&self) -> InvalidFile {
        InvalidFile::Incomplete {
            path: Path::to_owned(&self.path),
            profile: self.profile.clone(),
        }
    }
}

#[async_trait]
impl CredentialProvider for CredentialsFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.read().map_err(failed)
    }
}

/// Reads a section of a file with credentials.
fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut is_inside, mut key, mut secret, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            is_inside = name.trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_inside) {
            let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            match name.trim() {
                "aws_access_key_id" => key = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential {
        key_id: key?,
        secret_key: secret?,
        token,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEXT: &str = "# a comment\n[other]\naws_access_key_id = no\n\n[ elevo ]\n\
        aws_access_key_id = key\naws_secret_access_key=se=cret\naws_session_token = token\n";

    #[test]
    fn reads_the_section_of_the_profile() {
        let found = parse(TEXT, "elevo").unwrap();
        assert_eq!(
            (found.key_id, found.secret_key),
            ("key".into(), "se=cret".into())
        );
        assert_eq!(found.token.as_deref(), Some("token"));
        // Its secret is missing.
        assert!(parse(TEXT, "other").is_none());
        assert!(parse(TEXT, "none").is_none());
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("credentials");
        std::fs::write(&path, TEXT).unwrap();
        let file = CredentialsFile {
            path: path.clone(),
            profile: "elevo".into(),
            known: Mutex::default(),
        };
        assert_eq!(file.read().unwrap().key_id, "key");
        std::fs::write(&path, TEXT.replace("= key", "= new")).unwrap();
        let later = std::fs::File::options().append(true).open(&path).unwrap();
        later
            .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))
            .unwrap();
        assert_eq!(file.read().unwrap().key_id, "new");
        std::fs::remove_file(&path).unwrap();
        let error = file.read().unwrap_err();
        assert!(error.to_string().contains("credentials"), "{error}");
    }

    #[test]
    fn credentials_are_not_shown() {
        let keys = Credentials::Keys {
            key: "marker".into(),
            secret: "marker".into(),
        };
        assert_eq!(format!("{keys:?}"), "Keys");
    }
}
