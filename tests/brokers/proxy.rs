//! TLS in front of a server, as a load balancer has it.

use std::path::Path;

use outhaul_tests::tls::Authority;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::bus::Bus;

pub struct TlsProxy {
    pub port: u16,
    accepting: JoinHandle<()>,
}

impl TlsProxy {
    /// For `localhost`, in front of this port.
    pub async fn start(authority: &Authority, server: u16) -> Self {
        let acceptor = authority.acceptor(&authority.identity(&["localhost"]), None);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let accepting = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut inside = acceptor.accept(tcp).await?;
                    let mut outside = TcpStream::connect(("127.0.0.1", server)).await?;
                    tokio::io::copy_bidirectional(&mut inside, &mut outside).await
                });
            }
        });
        Self { port, accepting }
    }

    /// A destination behind it that trusts this authority, whose certificate goes to the folder.
    pub fn bus(&self, component: &'static str, settings: &str, folder: &Path, authority: &Authority) -> Bus {
        let roots = folder.join("roots.pem");
        std::fs::write(&roots, &authority.pem).expect("the folder can be written");
        let endpoint = format!("tls = true\nroots = \"{}\"\n", roots.display());
        Bus { endpoint, ..Bus::new(component, format!("localhost:{}", self.port), settings) }
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
