//! Which server certificates a client trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::ClientBuilder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::client::error::ClientError;

/// The certificates that a client trusts.
#[derive(Clone, Debug, Default)]
pub(crate) enum Trust {
    /// Certificates of the system's authorities.
    #[default]
    System,
    /// Certificates of the system's authorities and of those in a PEM file.
    With(PathBuf),
    /// Certificates of the system's authorities and of those in a PEM text, which
    /// is stored in a file.
    Stored { pem: String, file: PathBuf },
    /// Only the first certificate in a PEM file, for every host name: that of
    /// the server on this machine.
    Only(PathBuf),
}

impl Trust {
    pub(super) fn apply(&self, builder: ClientBuilder) -> Result<ClientBuilder, ClientError> {
        match self {
            Self::System => Ok(builder),
            Self::With(path) => {
                let pem = std::fs::read(path).map_err(|error| ClientError::Authorities {
                    path: path.clone(),
                    why: error.to_string(),
                })?;
                with_authorities(builder, &pem, path)
            }
            Self::Stored { pem, file } => with_authorities(builder, pem.as_bytes(), file),
            Self::Only(path) => Ok(builder.tls_backend_preconfigured(pinned(path))),
        }
    }
}

/// Trusts the authorities in a PEM text of the file `path`.
fn with_authorities(
    builder: ClientBuilder,
    pem: &[u8],
    path: &Path,
) -> Result<ClientBuilder, ClientError> {
    let unusable = |why: String| ClientError::Authorities {
        path: path.into(),
        why,
    };
    let authorities = reqwest::Certificate::from_pem_bundle(pem);
    let authorities = authorities.map_err(|error| unusable(error.to_string()))?;
    if authorities.is_empty() {
        return Err(unusable("it does not contain a certificate".into()));
    }
    Ok(builder.tls_certs_merge(authorities))
}

fn pinned(path: &Path) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Pinned {
        path: path.into(),
        provider: provider.clone(),
    };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = match builder.with_safe_default_protocol_versions() {
        Ok(builder) => builder,
        Err(_) => unreachable!("the provider has ciphers of both versions"),
    };
    builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth()
}

/// Trusts the certificate in a file. Reads the file at each handshake, because
/// the server may have replaced it.
#[derive(Debug)]
struct Pinned {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let known = CertificateDer::pem_file_iter(&self.path).and_then(|mut all| {
            let first = all.next();
            first.unwrap_or(Err(rustls::pki_types::pem::Error::NoItemsFound))
        });
        match known {
            Ok(known) if known == *shown => Ok(ServerCertVerified::assertion()),
            Ok(_) => Err(CertificateError::UnknownIssuer.into()),
            Err(error) => {
                let path = self.path.display();
                Err(Error::General(format!("cannot read {path}: {error}")))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
