//! TLS towards one granted target: which roots it trusts and which certificate it shows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::plugin::capability::secrets::Secret;
use crate::plugin::spec::ClientCert;

/// `protocols` are what ALPN offers, none to leave it out.
pub fn config(
    roots: Option<&PathBuf>,
    client_cert: Option<&ClientCert>,
    protocols: &[&str],
) -> Result<Arc<ClientConfig>, String> {
    let roots = match roots {
        Some(path) => roots_of(path)?,
        None => system_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up: {error}"))?
        .with_root_certificates(roots);
    let mut config = match client_cert {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let (chain, key) = identity(client)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                format!("the client certificate {} can't be used: {error}", client.cert.display())
            })?
        }
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

fn roots_of(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, "roots")? {
        roots.add(certificate).map_err(|error| format!("roots {}: {error}", path.display()))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unusable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!(
            "this machine has no root certificates{why}; install them (ca-certificates), or give it \
             its own with  roots = \"ca.pem\""
        ));
    }
    Ok(roots)
}

fn identity(client: &ClientCert) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = certificates(&client.cert, "client_cert.cert")?;
    let key = Secret::read(&client.key).map_err(|problem| format!("client_cert.key: {problem}"))?.get();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| "client_cert.key is not a private key in PEM".to_owned())?;
    Ok((chain, key))
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|found| found.collect::<Result<Vec<_>, _>>())
        .map_err(|error| format!("{what}: the file {} can't be read as PEM: {error}", path.display()))?;
    if certificates.is_empty() {
        return Err(format!("{what}: the file {} holds no certificate", path.display()));
    }
    Ok(certificates)
}

/// What TLS found wrong, wherever in the chain of causes it stands.
pub fn rustls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.map(|inner| inner as &(dyn std::error::Error + 'static));
        if let Some(found) = inner.unwrap_or(error).downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
