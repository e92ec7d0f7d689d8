//! TCP servers that do one thing with each connection, with TLS or without.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What a server does with a connection.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Sends back what comes.
    Echo,
    /// Sends this, and closes in good order.
    Say(&'static str),
    /// Sends this, and drops the connection, without TLS's own farewell.
    SayAndDrop(&'static str),
    /// Resets the connection once something was sent.
    Reset,
    /// Says what it heard once the other side has ended.
    LastWord,
    /// Reads for ever and says nothing.
    Silence,
    /// Does not even read.
    Deaf,
    /// Says this in the clear, hears one line, and then echoes inside of TLS.
    StartTls(&'static str),
    /// Says the first in the clear, hears one line, and says the second in the clear where TLS was to begin.
    NoTls(&'static str, &'static str),
}

/// Stops when dropped.
pub struct TcpServer {
    pub address: SocketAddr,
    /// Connections accepted, and ended.
    counts: watch::Receiver<(usize, usize)>,
    accepts: AbortHandle,
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl TcpServer {
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::start_with(behaviour, None).await
    }

    pub async fn start_with(behaviour: Behaviour, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (counter, counts) = watch::channel((0, 0));
        let accepts = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                counter.send_modify(|counts| counts.0 += 1);
                let (counter, behaviour, tls) = (counter.clone(), behaviour.clone(), tls.clone());
                tokio::spawn(async move {
                    serve(behaviour, tls, tcp).await;
                    counter.send_modify(|counts| counts.1 += 1);
                });
            }
        });
        Self { address, counts, accepts: accepts.abort_handle() }
    }

    pub fn accepted(&self) -> usize {
        self.counts.borrow().0
    }

    /// Waits until so many connections have ended.
    pub async fn ended(&self, connections: usize) {
        let mut counts = self.counts.clone();
        counts.wait_for(|counts| counts.1 >= connections).await.expect("the server runs");
    }
}

async fn serve(behaviour: Behaviour, tls: Option<TlsAcceptor>, mut tcp: TcpStream) {
    if matches!(behaviour, Behaviour::Reset) {
        // Not before the other side has its connection.
        let _ = tcp.read_u8().await;
        // Closing with unread bytes, or without lingering, resets.
        #[allow(deprecated)]
        let _ = tcp.set_linger(Some(std::time::Duration::ZERO));
        return;
    }
    if let Behaviour::StartTls(greeting) | Behaviour::NoTls(greeting, _) = behaviour {
        let heard = async {
            tcp.write_all(greeting.as_bytes()).await?;
            while tcp.read_u8().await? != b'\n' {}
            std::io::Result::Ok(())
        };
        if heard.await.is_err() {
            return;
        }
    }
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(tcp),
        Some(tls) => match tls.accept(tcp).await {
            Ok(stream) => Box::new(stream),
            Err(_) => return,
        },
    };
    // What the other side does to the connection is its own affair.
    let _ = behave(behaviour, stream).await;
}

async fn behave(behaviour: Behaviour, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
    match behaviour {
        Behaviour::Echo | Behaviour::StartTls(_) => {
            let (mut reads, mut writes) = tokio::io::split(stream);
            tokio::io::copy(&mut reads, &mut writes).await?;
            writes.shutdown().await
        }
        Behaviour::Say(words) => {
            stream.write_all(words.as_bytes()).await?;
            stream.shutdown().await?;
            read_to_end(&mut stream).await.map(drop)
        }
        Behaviour::SayAndDrop(words) => {
            stream.write_all(words.as_bytes()).await?;
            stream.flush().await
        }
        Behaviour::NoTls(_, words) => {
            // Not before the other side has begun.
            stream.read_u8().await?;
            stream.write_all(words.as_bytes()).await?;
            read_to_end(&mut stream).await.map(drop)
        }
        Behaviour::LastWord => {
            let heard = read_to_end(&mut stream).await?;
            stream.write_all(format!("heard {heard}").as_bytes()).await?;
            stream.shutdown().await
        }
        Behaviour::Silence => read_to_end(&mut stream).await.map(drop),
        Behaviour::Deaf => std::future::pending().await,
        Behaviour::Reset => Ok(()),
    }
}

async fn read_to_end(stream: &mut Box<dyn Stream>) -> std::io::Result<usize> {
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(bytes),
            more => bytes += more,
        }
    }
}
