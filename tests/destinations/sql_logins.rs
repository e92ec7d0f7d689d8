//! What is wrong with a database's URL is told as that, and not as an outage that would pass.

use outhaul_tests::databases::{Database, grant};
use outhaul_tests::tls::Authority;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::lane::{kind, lane, sentence, steps};

/// What comes of a transaction there.
async fn begun(url: &str) -> Value {
    let lane = lane(grant(url)).await;
    steps(&lane, json!([["begin"]])).await.remove(0)
}

#[tokio::test]
async fn a_login_that_is_refused_is_denied() {
    let database = Database::postgres().await;
    database.run("do $$ begin create role sql_wrong_login login password 'right'; exception when duplicate_object then null; end $$").await;
    let mariadb = Database::mariadb().await;
    let wrong = mariadb.url().replace("outhaul:outhaul@", "outhaul:wrong@");
    let nobody = database.url().replace("postgres@", "nobody_of_this_name@");
    let nowhere = [format!("{}_gone", database.url()), format!("{}_gone", mariadb.url())];
    for url in [[wrong, nobody], nowhere].concat() {
        let found = begun(&url).await;
        assert_eq!(kind(&found), "denied", "{found}");
        assert!(!sentence(&found).contains("wrong@"), "{found}");
    }
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_unavailable_and_named() {
    for scheme in ["postgres", "mysql"] {
        let found = begun(&format!("{scheme}://user:secret@nowhere.invalid/shop")).await;
        assert_eq!(kind(&found), "unavailable", "{found}");
        let told = sentence(&found);
        assert!(told.contains("nowhere.invalid:") && !told.contains("secret"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_an_authority_nobody_knows_is_denied_with_the_parameter_to_add() {
    for (url, speak) in [
        ("postgres://user@localhost:PORT/shop?sslmode=verify-full&sslrootcert=ROOT", Dialogue::Postgres),
        ("mysql://user@localhost:PORT/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=ROOT", Dialogue::MySql),
    ] {
        let (authority, other) = (Authority::default(), Authority::default());
        let port = tls_server(&authority, speak).await;
        let folder = tempfile::tempdir().expect("a folder");
        let told = |name: &str, authority: &Authority| {
            let path = folder.path().join(name);
            std::fs::write(&path, &authority.pem).expect("a file");
            url.replace("PORT", &port.to_string()).replace("ROOT", &path.display().to_string())
        };
        let found = begun(&told("other.pem", &other)).await;
        assert_eq!(kind(&found), "denied", "{found}");
        let parameter = if url.starts_with("mysql") { "ssl-ca=FILE" } else { "sslrootcert=FILE" };
        assert!(sentence(&found).contains(parameter), "{found}");
        // With the right one the handshake succeeds, and the server then goes away.
        let found = begun(&told("right.pem", &authority)).await;
        assert_eq!(kind(&found), "unavailable", "{found}");
    }
}

#[derive(Clone, Copy)]
enum Dialogue {
    Postgres,
    MySql,
}

/// As far as the TLS handshake, and no further.
async fn tls_server(authority: &Authority, dialogue: Dialogue) -> u16 {
    let acceptor = authority.acceptor(&authority.identity(&["localhost"]), None);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            if until_tls(&mut client, dialogue).await.is_ok() {
                let _ = acceptor.accept(client).await;
            }
        }
    });
    port
}

/// What a server and its client say before TLS.
async fn until_tls(client: &mut TcpStream, dialogue: Dialogue) -> std::io::Result<()> {
    match dialogue {
        Dialogue::Postgres => {
            client.read_exact(&mut [0; 8]).await?;
            client.write_all(b"S").await
        }
        Dialogue::MySql => {
            // Protocol 10: version, connection, half of a salt, capabilities (with 4.1, SSL, secure
            // connection, authentication plugins), character set, status, the other half, the plugin.
            let (capabilities, charset, status) = (0x0008_aa08_u32.to_le_bytes(), 45, 2_u16.to_le_bytes());
            let mut greeting = [b"\x0a10.11.0-MariaDB\0".as_slice(), &[1, 0, 0, 0], b"12345678\0"].concat();
            greeting.extend([&capabilities[..2], &[charset], &status, &capabilities[2..], &[21]].concat());
            greeting.extend([[0; 10].as_slice(), b"123456789012\0mysql_native_password\0"].concat());
            let length = u32::try_from(greeting.len()).expect("short").to_le_bytes();
            client.write_all(&[&length[..3], &[0], &greeting].concat()).await?;
            client.read_exact(&mut [0; 36]).await.map(drop)
        }
    }
}
