//! Certificates made for a test: an authority, and what it signs.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// An authority of its own for each test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate in PEM: what `roots` points to.
    pub pem: String,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    pub cert: String,
    pub key: String,
}

impl Default for Authority {
    fn default() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }
}

impl Authority {
    /// Signs a certificate for these names and addresses; the first is its common name.
    pub fn identity(&self, names: &[&str]) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let names = names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names.clone()).expect("names");
        // The authority's own would be taken for a certificate that signed itself.
        params.distinguished_name = DistinguishedName::new();
        names.first().into_iter().for_each(|name| params.distinguished_name.push(DnType::CommonName, name));
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { cert, key: key.serialize_pem() }
    }

    /// A server with this identity; with `clients`, it takes only clients of that authority.
    pub fn acceptor(&self, identity: &Identity, clients: Option<&Authority>) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider knows them");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(clients.pem.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let cert = CertificateDer::from_pem_slice(identity.cert.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![cert], key).unwrap()))
    }
}
