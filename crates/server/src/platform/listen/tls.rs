//! Certificates, which are reloaded when their files change.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// A certificate and its key.
pub(crate) struct Certificate {
    files: Tls,
    current: RwLock<Current>,
}

struct Current {
    acceptor: TlsAcceptor,
    stamp: Stamp,
}

/// Modification times and sizes of both files.
type Stamp = [(SystemTime, u64); 2];

impl Certificate {
    pub(crate) fn read(files: &Tls) -> anyhow::Result<Self> {
        // The stamp is read before the files, so that the next refresh finds a
        // change in between.
        let stamp = stamp(files).context("cannot read the files of the certificate")?;
        let acceptor = acceptor(files)?;
        Ok(Self {
            files: files.clone(),
            current: RwLock::new(Current { acceptor, stamp }),
        })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read();
        current.acceptor.clone()
    }

    /// Reloads the files if they have changed. Returns whether new connections
    /// use another certificate. If the new files are invalid, new connections
    /// keep using the old certificate.
    pub(crate) fn refresh(&self) -> anyhow::Result<bool> {
        let found = stamp(&self.files).context("cannot read the files of the certificate")?;
        let known = self.current.read().stamp;
        if found == known {
            return Ok(false);
        }
        let read = acceptor(&self.files);
        let mut current = self.current.write();
        // The stamp is set even if the files are invalid, so that they are read
        // again only when they change.
        current.stamp = found;
        current.acceptor = read?;
        Ok(true)
    }
}

fn stamp(files: &Tls) -> io::Result<Stamp> {
    let of = |path| {
        let stat = std::fs::metadata(path)?;
        io::Result::Ok((stat.modified()?, stat.len()))
    };
    Ok([of(&files.certificate)?, of(&files.key)?])
}

fn acceptor(tls: &Tls) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read {}", tls.certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .with_context(|| format!("cannot read {}", tls.key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and its key do not match")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
