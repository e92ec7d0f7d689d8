//! SQLite keeps any bytes as text: what is no UTF-8 is refused where it would come in.

use outhaul::store::sqlite::{SqliteOptions, SqliteStore};
use outhaul::store::*;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use crate::scene::ids;
use crate::sqlite_only::{fresh, register};

const COLUMNS: [&str; 6] = ["event_id", "tenant_id", "topic", "partition_key", "content_type", "headers"];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Inserts an event with these bytes as the text of one column.
async fn insert(
    application: &mut SqliteConnection,
    id: &str,
    column: &str,
    bytes: &[u8],
) -> Result<(), String> {
    let given = format!("cast(x'{}' as text)", hex(bytes));
    let value =
        |name: &str, otherwise: &str| if name == column { given.clone() } else { otherwise.to_owned() };
    let id = value("event_id", &format!("'{id}'"));
    let topic = value("topic", "'order.created'");
    let (more, last) = match column {
        "event_id" | "topic" => (String::new(), String::new()),
        column => (format!(", {column}"), format!(", {given}")),
    };
    let sql = format!(
        "INSERT INTO outbox_event (event_id, topic, payload{more}) VALUES ({id}, {topic}, 'x'{last})"
    );
    application.execute(AssertSqlSafe(sql)).await.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn text_that_is_not_utf8_is_refused_by_the_insert_with_its_column() {
    let (_dir, store, mut application) = fresh().await;
    let request = register(&store).await;
    for column in COLUMNS {
        let (before, after): (&[u8], &[u8]) = match column {
            "headers" => (b"{\"a\":\"", b"\"}"),
            "topic" => (b"order.", b""),
            _ => (b"", b""),
        };
        for bad in [
            b"\xffA".as_slice(),
            b"\xfeA",
            b"a\x80",
            b"\xc3",
            b"\xe9",
            b"\xc0\xaf",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
        ] {
            let error = insert(&mut application, "bad", column, &[before, bad, after].concat())
                .await
                .expect_err(column);
            assert!(error.contains(column) && error.contains("not UTF-8"), "{column} {bad:?}: {error}");
        }
        let good = [before, format!("h\u{e9}-{column}").as_bytes(), after].concat();
        insert(&mut application, &format!("good-{column}"), column, &good).await.expect(column);
    }
    let claimed = store.claim(&request).await.expect("claim").claimed;
    let expected = [
        "h\u{e9}-event_id",
        "good-tenant_id",
        "good-topic",
        "good-partition_key",
        "good-content_type",
        "good-headers",
    ];
    assert_eq!(ids(&claimed), expected);
    assert_eq!(claimed[1].event.tenant, "h\u{e9}-tenant_id");
    assert_eq!(claimed[3].event.key.as_deref(), Some("h\u{e9}-partition_key"));
}

/// Every pair of bytes alone and behind the beginnings of longer characters, and every kind of
/// character up to the last, judged as the standard library judges them.
#[tokio::test]
async fn the_inserts_rule_is_that_of_utf8() {
    let (_dir, _store, mut application) = fresh().await;
    let edges = [
        0x01_u8, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xef,
        0xf0, 0xf4, 0xf5, 0xff,
    ];
    let beginnings: [&[u8]; 8] =
        [b"", b"\xe0", b"\xe1\x80", b"\xed", b"\xef\xbf", b"\xf0", b"\xf0\x90", b"\xf4"];
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for beginning in beginnings {
        for first in edges {
            texts.extend(edges.iter().map(|second| [beginning, &[first, *second]].concat()));
        }
    }
    for last in [
        '\u{80}',
        '\u{7ff}',
        '\u{800}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{fffd}',
        '\u{fffe}',
        '\u{ffff}',
        '\u{10000}',
        '\u{10ffff}',
    ] {
        texts.push(last.to_string().into_bytes());
    }
    application.execute("BEGIN").await.expect("begin");
    let (mut taken, mut refused) = (0, 0);
    for (n, text) in texts.iter().enumerate() {
        let is_utf8 = std::str::from_utf8(text).is_ok();
        let inserted = insert(&mut application, &format!("e{n}"), "partition_key", text).await;
        assert_eq!(inserted.is_ok(), is_utf8, "{text:x?}: {inserted:?}");
        *(if is_utf8 { &mut taken } else { &mut refused }) += 1;
    }
    application.execute("COMMIT").await.expect("commit");
    assert!(taken > 40 && refused > 1_000, "{taken} taken, {refused} refused");
}

#[tokio::test]
async fn long_headers_of_other_than_ascii_are_checked_to_their_end_or_refused_with_a_way_out() {
    let (_dir, store, mut application) = fresh().await;
    register(&store).await;
    let headers =
        |length: usize, end: &[u8]| [b"{\"a\":\"", "\u{e9}".repeat(length).as_bytes(), end, b"\"}"].concat();
    insert(&mut application, "e1", "headers", &headers(4_000, b"")).await.expect("4,000 characters");
    let report = store.show("", "e1").await.expect("show").expect("it is there");
    assert_eq!(report.headers[0].1, "\u{e9}".repeat(4_000));
    insert(&mut application, "e2", "headers", &headers(4_000, b"\xff")).await.expect_err("bad at its end");
    let error = insert(&mut application, "e2", "headers", &headers(65_536, b"")).await.expect_err("too long");
    assert!(error.contains("65536") && error.contains("\\u escapes"), "{error}");
    let ascii = [b"{\"a\":\"".as_slice(), "x".repeat(100_000).as_bytes(), b"\"}"].concat();
    insert(&mut application, "e2", "headers", &ascii).await.expect("ASCII of any length");
}

#[tokio::test]
async fn a_file_of_another_encoding_is_refused_with_the_fix() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("outbox.db");
    let mut application =
        SqliteConnectOptions::new().filename(&path).create_if_missing(true).connect().await.expect("connect");
    for sql in ["PRAGMA encoding = 'UTF-16le'", "CREATE TABLE orders (id INTEGER)"] {
        application.execute(sql).await.expect(sql);
    }
    let refused = SqliteStore::connect(&SqliteOptions::new(&format!("sqlite:{}", path.display()))).await;
    let Err(StoreError::Refused(text)) = refused.map(|_| ()) else { panic!("it opened") };
    assert!(text.contains("UTF-16le") && text.contains("PRAGMA encoding = 'UTF-8'"), "{text}");
}
